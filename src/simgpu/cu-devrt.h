/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of CUDA's device runtime that kernels call, as PTX text. The driver appends a text to a
 * module that declares one of its functions without a body. So these functions run like any other
 * code of the tenant's kernels, and can harm no more than these.
 *
 * The functions of cooperative groups wait for all blocks of a grid. The engine has malloc() and
 * free(), which are not here.
 */
#ifndef SIMGPU_CU_DEVRT_H
#define SIMGPU_CU_DEVRT_H

enum { CU_DEVRT_TEXTS = 1 };

struct cu_devrt {
	const char *functions[2];
	const char *text;
};

extern const struct cu_devrt cu_devrt[CU_DEVRT_TEXTS];

#endif
