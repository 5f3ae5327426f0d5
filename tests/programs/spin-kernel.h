/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start of the small programs: a device, a context on it that is current in the thread, and the
 * kernel spin_ns, which runs for a given time. A failure ends the program with a message.
 */
#ifndef TESTS_PROGRAMS_SPIN_KERNEL_H
#define TESTS_PROGRAMS_SPIN_KERNEL_H

#include "cuda-min.h"
#include "kernels.h"

struct spin_kernel {
	cu_handle function;
	unsigned int blocks; /* one for each multiprocessor */
};

static inline void spin_kernel_open(const char *program, int ordinal, struct spin_kernel *ret)
{
	cu_handle context, module;
	cu_device device;
	char *text = kernels_read();
	int sms = 1;

	cuda_open(program);
	cuda_check(cuda.init(0), "cuInit");
	cuda_check(cuda.device_get(&device, ordinal), "device");
	cuda_check(cuda.device_attribute(&sms, CU_ATTRIBUTE_SM_COUNT, device), "attribute");
	cuda_check(cuda.ctx_create(&context, 0, device), "context");
	cuda_check(cuda.module_load(&module, text), "kernels");
	cuda_check(cuda.module_function(&ret->function, module, "spin_ns"), "spin_ns");
	ret->blocks = (unsigned int)sms;
	free(text);
}

/* One block on each multiprocessor. */
static inline void spin_kernel_launch(const struct spin_kernel *k, uint64_t ns, cu_handle stream)
{
	void *params[] = {&ns};

	cuda_check(cuda.launch(k->function, k->blocks, 1, 1, 32, 1, 1, 0, stream, params, NULL),
		"launch");
}

#endif
