/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a program as execvp(3) does, and tells which CUDA runtime the program contains. NVIDIA's
 * runtime accepts no driver but NVIDIA's, so that its programs find no simulated or remote device.
 * One thread.
 */
#ifndef CLI_CUDA_PROGRAM_H
#define CLI_CUDA_PROGRAM_H

#include "base/error.h"
#include "cli/cli-path.h"

enum cuda_runtime {
	CUDA_RUNTIME_NONE,   /* no CUDA, the driver API alone, or a script */
	CUDA_RUNTIME_STATIC, /* in the program itself: nvcc's default */
	CUDA_RUNTIME_SHARED,
};

struct cuda_program {
	char path[PLACES_PATH];
	enum cuda_runtime runtime;
	char library[32]; /* of a shared runtime, such as libcudart.so.13 */
};

/* -ENOENT, -EACCES: no such program, with a message. */
int cuda_program_find(const char *name, struct cuda_program *ret, struct error *err);

#endif
