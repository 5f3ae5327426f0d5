/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acts as a program that sends any frames to a worker, whose driver calls all succeed. The worker
 * reads nothing outside a frame, passes no unknown handle or address to the driver, and its answer
 * stays within its bounds. Input: frames of {u16 op, u16 flags, u16 length, bytes}.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "fuzz.h"
#include "remote/worker.h"

static struct remote_session *session;

static CUresult yes(void)
{
	return CUDA_SUCCESS;
}

/* Driver calls with one address range, which are checked: fills and linear copies. */

static CUresult fill(CUdeviceptr to, unsigned char value, size_t n)
{
	FUZZ_CHECK(address_reaches(to, n));
	return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	FUZZ_CHECK(address_reaches(to, n) && address_reaches(from, n));
	return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t n)
{
	FUZZ_CHECK(address_reaches(to, n));
	return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t n)
{
	FUZZ_CHECK(address_reaches(from, n));
	return CUDA_SUCCESS;
}

static bool is_reached(CUmemorytype type, CUdeviceptr first, uint64_t x, uint64_t y, uint64_t pitch,
	const CUDA_MEMCPY3D *c)
{
	return type != CU_MEMORYTYPE_DEVICE || c->Depth != 1 ||
		address_reaches(first + x + y * (pitch ? pitch : x + c->WidthInBytes),
			reach_rows(
				pitch ? pitch : x + c->WidthInBytes, c->WidthInBytes, c->Height));
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c)
{
	FUZZ_CHECK(is_reached(
		c->srcMemoryType, c->srcDevice, c->srcXInBytes, c->srcY, c->srcPitch, c));
	FUZZ_CHECK(is_reached(
		c->dstMemoryType, c->dstDevice, c->dstXInBytes, c->dstY, c->dstPitch, c));
	return CUDA_SUCCESS;
}

static CUresult no(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void begin(struct serve *s)
{
	int window;

#define CU(abi, since, variant, action, stream, params, args, ...) \
	driver.abi = (PFN_##abi *)(uintptr_t)yes;
#include "cuda/cuda.def"
#undef CU
	driver.cuMemsetD8_v2 = fill;
	driver.cuMemcpyDtoD_v2 = copy;
	driver.cuMemcpyHtoD_v2 = copy_in;
	driver.cuMemcpyDtoH_v2 = copy_out;
	driver.cuMemcpy3D_v2 = copy_3d;
	/* The worker must never pass a host function to the driver: `no` fails the check. */
	driver.cuLaunchHostFunc = (PFN_cuLaunchHostFunc *)(uintptr_t)no;
	driver.cuStreamAddCallback = (PFN_cuStreamAddCallback *)(uintptr_t)no;
	driver.cuGraphAddHostNode = (PFN_cuGraphAddHostNode *)(uintptr_t)no;
	driver.cuGraphHostNodeSetParams = (PFN_cuGraphHostNodeSetParams *)(uintptr_t)no;
	driver.cuGraphExecHostNodeSetParams = (PFN_cuGraphExecHostNodeSetParams *)(uintptr_t)no;
	session = mmap(NULL, REMOTE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	FUZZ_CHECK(session != MAP_FAILED && serve_init(s) == 0 && reverse_start(session) == 0);
	munmap(s->request, REMOTE_FRAME_MAX);
	ring_attach_producer(&s->down, session, 1, RING_DOWN);
	window = memfd_new("window", 1u << 16);
	FUZZ_CHECK(memfd_seal(window, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	FUZZ_CHECK(window_arrived(1, 1u << 16, window) == 0);
	FUZZ_CHECK(window_arrived(1, 1u << 16, window) < 0);
	FUZZ_CHECK(window_arrived(2, 1u << 17, window) < 0);
	/* One object of each kind, whose handle is handle_make(kind, kind - 1). */
	for (int kind = 1; kind < KINDS; kind++)
		handle_name(s, (enum kind)kind, 0x1000 + (uint64_t)kind);
	address_given(0x10000, 0x10000, RANGE_PLAIN);
}

static void read_all(unsigned lane)
{
	struct remote_ring *down = &session->lane[lane].down;

	atomic_store(&down->head, atomic_load(&down->tail));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct serve s;

	if (!session)
		begin(&s);
	while (n >= 6) {
		struct remote_frame head = {0};
		uint16_t field[3];
		uint8_t *frame;
		size_t bytes;

		memcpy(field, data, sizeof(field));
		data += 6;
		n -= 6;
		bytes = field[2] < n ? field[2] : n;
		bytes &= ~(size_t)15;
		head.op = field[0];
		head.flags = field[1] & 7;
		head.size = (uint32_t)(sizeof(head) + bytes);
		/*
		 * Both have exactly their size, so that AddressSanitizer reports an access beyond
		 * the end.
		 */
		frame = malloc(head.size);
		s.request = malloc(bytes ? bytes : 1);
		memcpy(frame, &head, sizeof(head));
		memcpy(frame + sizeof(head), data, bytes);
		worker_dispatch(&s, &head, frame);
		FUZZ_CHECK(s.in <= s.in_end && s.n <= REMOTE_FRAME_MAX && s.room <= s.room_end);
		free(frame);
		free(s.request);
		read_all(0);
		read_all(1);
		data += bytes;
		n -= bytes;
	}
	serve_blob_done(&s);
	serve_copy_done(&s);
	return 0;
}
