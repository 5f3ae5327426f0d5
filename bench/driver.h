/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver entries by their exported names, for bench programs that use many of them:
 * DRIVER(cuMemAlloc_v2)(&p, n). Each use looks the name up in libcuda.so.1 (a hash look-up: these
 * programs do not time single calls). A missing entry ends the program.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/proto.h"
#include "tests/programs/kernels.h"

#define DRIVER(name) ((PFN_##name *)driver_entry(#name))
#define DRIVER_CHECK(call) \
	do { \
		CUresult driver_result_ = (call); \
		if (driver_result_ != CUDA_SUCCESS) { \
			fprintf(stderr, "%s: error %d\n", #call, (int)driver_result_); \
			exit(1); \
		} \
	} while (0)

static inline void *driver_entry(const char *name)
{
	static void *library;
	void *entry;

	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	entry = library ? dlsym(library, name) : NULL;
	if (!entry) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(1);
	}
	return entry;
}

/* Loads the kernels as a module of the current context. */
static inline CUmodule driver_module(void)
{
	char *text = kernels_read();
	CUmodule module;

	DRIVER_CHECK(DRIVER(cuModuleLoadData)(&module, text));
	free(text);
	return module;
}

#endif
