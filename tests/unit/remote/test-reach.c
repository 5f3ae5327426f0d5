/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the driver may reach for a program: never beyond the program's allocations,
 * whatever offset, pitch or size a request has.
 */
#include "unit.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "remote/ranges.h"
#include "remote/worker.h"

#define BASE 0x10000ull
#define SIZE 0x1000ull
#define END (BASE + SIZE)

/* ---- ranges ---- */

static void adjacent_ranges_cover_a_reach(void **state)
{
	struct ranges r = RANGES_INIT;

	assert_int_equal(ranges_add(&r, BASE, SIZE, 0), 0);
	assert_int_equal(ranges_add(&r, END, SIZE, 0), 0);
	assert_int_equal(ranges_add(&r, END + SIZE + 1, SIZE, 0), 0);
	assert_true(ranges_cover(&r, BASE, SIZE));
	assert_true(ranges_cover(&r, BASE + 1, 2 * SIZE - 1));
	assert_true(ranges_cover(&r, END - 1, 2));
	assert_false(ranges_cover(&r, BASE, 2 * SIZE + 1));
	assert_false(ranges_cover(&r, BASE, 3 * SIZE));
	assert_false(ranges_cover(&r, BASE - 1, 2));
	assert_false(ranges_cover(&r, END + SIZE, 1));
	assert_false(ranges_cover(&r, BASE, UINT64_MAX - BASE));
	assert_false(ranges_cover(&r, BASE, UINT64_MAX));
	assert_true(ranges_cover(&r, 7, 0));
	free(r.range);
}

static bool is_not_at(const struct range *range, void *argument)
{
	return range->base != *(const uint64_t *)argument;
}

static void freed_ranges_are_sifted_out(void **state)
{
	struct ranges r = RANGES_INIT;
	uint64_t gone = END;

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(ranges_add(&r, BASE + i * SIZE, SIZE, 0), 0);
	ranges_sift(&r, is_not_at, &gone);
	assert_true(ranges_cover(&r, BASE, SIZE) && ranges_cover(&r, END + SIZE, SIZE));
	assert_false(ranges_find(&r, END, NULL));
	free(r.range);
}

static void any_common_byte_is_an_overlap(void **state)
{
	struct ranges r = RANGES_INIT;

	assert_int_equal(ranges_add(&r, BASE, SIZE, 0), 0);
	assert_false(ranges_overlap(&r, BASE - 2, 2));
	assert_true(ranges_overlap(&r, BASE - 2, 3));
	assert_true(ranges_overlap(&r, BASE, 1));
	assert_true(ranges_overlap(&r, END - 1, SIZE));
	assert_false(ranges_overlap(&r, END, SIZE));
	assert_true(ranges_overlap(&r, BASE - 2, UINT64_MAX));
	assert_int_equal(ranges_add(&r, BASE, UINT64_MAX, 0), -EINVAL);
	assert_int_equal(ranges_add(&r, BASE, 0, 0), -EINVAL);
	free(r.range);
}

/* ---- requests ---- */

static unsigned calls;

static CUresult called(void)
{
	calls++;
	return CUDA_SUCCESS;
}

static struct serve serve;

static int begin(void **state)
{
	struct remote_session *session = mmap(NULL, REMOTE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

#define CU(abi, since, variant, action, stream, params, args, ...) \
	driver.abi = (PFN_##abi *)(uintptr_t)called;
#include "cuda/cuda.def"
#undef CU
	assert_true(session != MAP_FAILED);
	assert_int_equal(serve_init(&serve), 0);
	ring_attach_producer(&serve.down, session, 1, RING_DOWN);
	address_given(BASE, SIZE, RANGE_PLAIN);
	return 0;
}

/* Whether the worker passes the request to the driver. */
static bool reaches_driver(unsigned op, const void *fields, size_t n)
{
	static uint8_t frame[8192];
	struct remote_frame head = {.size = (uint32_t)((sizeof(head) + n + 15) & ~(size_t)15),
		.op = (uint16_t)op,
		.flags = REMOTE_ANSWER};
	CUresult r;

	memset(frame, 0, sizeof(frame));
	memcpy(frame + sizeof(head), fields, n);
	calls = 0;
	r = worker_dispatch(&serve, &head, frame);
	assert_int_equal(r, calls ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	return calls;
}

static bool words_reach(unsigned op, const uint64_t *words, size_t n)
{
	return reaches_driver(op, words, n * sizeof(*words));
}

#define REACHES(op, ...) \
	words_reach(op, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8)

static void lines_must_end_within_the_memory(void **state)
{
	assert_true(REACHES(REMOTE_OP_cuMemsetD8_v2, BASE, 0, SIZE));
	assert_true(REACHES(REMOTE_OP_cuMemsetD8_v2, BASE, 0, 0));
	assert_false(REACHES(REMOTE_OP_cuMemsetD8_v2, BASE, 0, SIZE + 1));
	assert_false(REACHES(REMOTE_OP_cuMemsetD8_v2, 0, 0, 1));
	assert_true(REACHES(REMOTE_OP_cuMemsetD16_v2, BASE, 0, SIZE / 2));
	assert_false(REACHES(REMOTE_OP_cuMemsetD16_v2, BASE, 0, SIZE / 2 + 1));
	assert_true(REACHES(REMOTE_OP_cuMemsetD32Async, BASE, 0, SIZE / 4, 0));
	assert_false(REACHES(REMOTE_OP_cuMemsetD32Async, BASE, 0, SIZE / 4 + 1, 0));
	assert_false(REACHES(REMOTE_OP_cuMemsetD32Async, BASE, 0, 1ull << 62, 0));
	assert_true(REACHES(REMOTE_OP_cuMemcpyDtoD_v2, BASE, BASE + SIZE / 2, SIZE / 2));
	assert_false(REACHES(REMOTE_OP_cuMemcpyDtoD_v2, BASE + 1, BASE, SIZE));
	assert_false(REACHES(REMOTE_OP_cuMemcpyDtoD_v2, BASE, BASE + 1, SIZE));
	assert_true(REACHES(REMOTE_OP_cuStreamWriteValue64_v2, 0, END - 8, 1, 0));
	assert_false(REACHES(REMOTE_OP_cuStreamWriteValue64_v2, 0, END - 4, 1, 0));
	assert_true(REACHES(REMOTE_OP_cuStreamWriteValue32_v2, 0, END - 4, 1, 0));
}

static void rows_must_end_within_the_memory(void **state)
{
	assert_true(REACHES(REMOTE_OP_cuMemsetD2D8_v2, BASE, SIZE / 2, 0, 16, 2));
	assert_true(REACHES(REMOTE_OP_cuMemsetD2D8_v2, BASE, SIZE - 16, 0, 16, 2));
	assert_false(REACHES(REMOTE_OP_cuMemsetD2D8_v2, BASE, SIZE - 15, 0, 16, 2));
	assert_false(REACHES(REMOTE_OP_cuMemsetD2D8_v2, BASE, UINT64_MAX / 2, 0, 16, 3));
	assert_true(REACHES(REMOTE_OP_cuMemsetD2D32_v2, BASE, SIZE - 16, 0, 4, 2));
	assert_false(REACHES(REMOTE_OP_cuMemsetD2D32_v2, BASE, SIZE - 16, 0, 5, 2));
}

static bool out_reaches(struct remote_copy c)
{
	c.address = c.address ? c.address : BASE;
	c.width = c.width ? c.width : 16;
	c.height = c.height ? c.height : 1;
	c.depth = c.depth ? c.depth : 1;
	return reaches_driver(REMOTE_COPY_OUT, &c, sizeof(c));
}

static void a_copy_is_checked_as_a_whole(void **state)
{
	assert_true(out_reaches((struct remote_copy){.width = SIZE}));
	assert_true(out_reaches((struct remote_copy){.x = SIZE - 16}));
	assert_false(out_reaches((struct remote_copy){.x = SIZE - 15}));
	assert_false(out_reaches((struct remote_copy){.address = END}));
	assert_false(out_reaches((struct remote_copy){.x = UINT64_MAX - 8}));
	assert_false(out_reaches((struct remote_copy){.x = 0 - BASE}));
	assert_true(out_reaches((struct remote_copy){.y = 1, .pitch = SIZE - 16}));
	assert_false(out_reaches((struct remote_copy){.y = 1, .pitch = SIZE - 15}));
	assert_false(out_reaches((struct remote_copy){.y = UINT64_MAX, .pitch = 2}));
	assert_true(out_reaches((struct remote_copy){.height = 2, .pitch = SIZE - 16}));
	assert_false(out_reaches((struct remote_copy){.height = 2, .pitch = SIZE - 15}));
	assert_true(out_reaches((struct remote_copy){.z = 1, .pitch = 64, .slice = 2048}));
	assert_false(out_reaches((struct remote_copy){.z = 2, .pitch = 64, .slice = 2048}));
	assert_true(out_reaches((struct remote_copy){.depth = 2, .pitch = 64, .slice = 2048}));
	assert_false(out_reaches((struct remote_copy){.depth = 3, .pitch = 64, .slice = 2048}));
	assert_false(out_reaches((struct remote_copy){.z = 1ull << 60, .pitch = 64, .slice = 64}));
}

static bool between_reaches(CUDA_MEMCPY3D copy)
{
	uint8_t fields[sizeof(copy) + 16] = {0};

	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.srcDevice = copy.dstDevice = BASE;
	copy.WidthInBytes = copy.WidthInBytes ? copy.WidthInBytes : 16;
	copy.Height = copy.Height ? copy.Height : 1;
	copy.Depth = copy.Depth ? copy.Depth : 1;
	memcpy(fields, &copy, sizeof(copy));
	return reaches_driver(REMOTE_COPY_DEVICE, fields, sizeof(fields));
}

static void both_ends_of_a_device_copy_are_checked(void **state)
{
	assert_true(between_reaches((CUDA_MEMCPY3D){.WidthInBytes = SIZE}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.WidthInBytes = SIZE + 1}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.srcXInBytes = SIZE}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.dstXInBytes = SIZE}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.srcXInBytes = 0 - BASE}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.srcY = 1, .srcPitch = SIZE}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.dstZ = 1, .dstPitch = 64, .dstHeight = 64}));
	assert_true(between_reaches((CUDA_MEMCPY3D){.dstZ = 1, .dstPitch = 64, .dstHeight = 63}));
	/* A pitch or height of 0 stands for the value that the copy needs. */
	assert_true(between_reaches((CUDA_MEMCPY3D){.WidthInBytes = 64, .Height = 8, .Depth = 8}));
	assert_false(between_reaches((CUDA_MEMCPY3D){.WidthInBytes = 64, .Height = 8, .Depth = 9}));
}

static CUmemorytype type_now = CU_MEMORYTYPE_DEVICE;
static CUresult known_now;

static CUresult tell_type(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	memcpy(data, &type_now, sizeof(type_now));
	return known_now;
}

/* After a context has ended, memory of the worker itself may get the same addresses. */
static void memory_of_an_ended_context_is_out_of_reach(void **state)
{
	driver.cuPointerGetAttribute = tell_type;
	address_given(2 * END, SIZE, RANGE_RESERVED);
	address_given(3 * END, SIZE, RANGE_OF_MODULE);
	addresses_settle(true);
	assert_true(address_reaches(BASE, SIZE) && address_reaches(2 * END, SIZE) &&
		address_reaches(3 * END, SIZE));
	known_now = CUDA_ERROR_INVALID_VALUE;
	addresses_settle(false);
	assert_true(address_reaches(BASE, SIZE) && !address_is_ours(3 * END));
	known_now = CUDA_SUCCESS;
	type_now = CU_MEMORYTYPE_HOST;
	addresses_settle(true);
	assert_false(address_is_ours(BASE));
	assert_true(address_reaches(2 * END, SIZE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adjacent_ranges_cover_a_reach),
		cmocka_unit_test(freed_ranges_are_sifted_out),
		cmocka_unit_test(any_common_byte_is_an_overlap),
		cmocka_unit_test(lines_must_end_within_the_memory),
		cmocka_unit_test(rows_must_end_within_the_memory),
		cmocka_unit_test(a_copy_is_checked_as_a_whole),
		cmocka_unit_test(both_ends_of_a_device_copy_are_checked),
		cmocka_unit_test(memory_of_an_ended_context_is_out_of_reach),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
