/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads any text as PTX and runs its kernels on a few bytes of memory, with a bound on
 * instructions. The text is refused with a message, or its kernels end with a known fault and touch
 * no other memory.
 */
#include <errno.h>
#include <string.h>

#include "ptx/ptx.h"
#include "fuzz.h"

enum { MEMORY = 4096, STEPS = 3000, KERNELS = 4 };

/* A guard behind the memory: no kernel may change it. */
static struct {
	_Alignas(64) uint8_t bytes[MEMORY];
	uint8_t guard[64];
} memory;

static int range(void *user, uint64_t address, struct ptx_range *ret_range)
{
	const uint64_t lo = (uint64_t)(uintptr_t)memory.bytes;

	if (address < lo || address >= lo + MEMORY)
		return -EFAULT;
	*ret_range = (struct ptx_range){lo, lo + MEMORY, true};
	return 0;
}

static bool address_of(void *user, struct str name, uint64_t *ret_address)
{
	*ret_address = (uint64_t)(uintptr_t)memory.bytes;
	return true;
}

static void run(const struct ptx *ptx, uint32_t kernel)
{
	static const struct ptx_device device = {
		.range = range, .steps_max = STEPS, .sm_count = 1, .stack_bytes = 4096};
	static uint64_t params[PTX_PARAM_BYTES_MAX / 8 + 1];
	struct ptx_launch launch = {
		.ptx = ptx,
		.kernel = kernel,
		.grid = {2, 1, 1},
		.block = {40, 1, 1},
		.shared_bytes = 256,
		.params = params,
		.param_bytes = ptx_kernel_param_bytes(ptx, kernel),
		.device = &device,
	};
	struct ptx_job *job;

	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		params[i] = (uint64_t)(uintptr_t)memory.bytes;
	if (ptx_job_new(&launch, &job) < 0)
		return;
	ptx_job_work(job);
	FUZZ_CHECK(strcmp(ptx_fault_name(ptx_job_result(job).fault), "canceled") != 0);
	ptx_job_free(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str text = {(const char *)data, n};
	struct error err = {0};
	struct ptx *ptx = NULL;
	int r = ptx_load(text, &(struct ptx_loading){.address = address_of}, &ptx, &err);

	FUZZ_CHECK(r == 0 || r == -EINVAL || r == -ENOTSUP || r == -ENOMEM);
	FUZZ_CHECK((r == 0) == (ptx != NULL) && (r == 0 || err.msg[0]));
	if (!ptx)
		return 0;
	for (uint32_t i = 0; i < ptx_kernel_count(ptx) && i < KERNELS; i++)
		run(ptx, i);
	for (size_t i = 0; i < sizeof(memory.guard); i++)
		FUZZ_CHECK(memory.guard[i] == 0);
	ptx_free(ptx);
	return 0;
}
