/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why NVIDIA's CUDA runtime does not work with divvy's own drivers: NVIDIA's runtime asks
 * the driver for undocumented tables and a check, which only NVIDIA's driver has (ADR 37). divvy's
 * own runtime asks for neither. Any thread.
 */
#ifndef CUDA_OTHER_RUNTIME_H
#define CUDA_OTHER_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

/* Whether every version of NVIDIA's runtime asks for this table, and fails without it. */
bool other_runtime_asks(const CUuuid *table_id);

/* One sentence for the program's user, which names the runtime's file if there is one. */
void other_runtime_explain(char *ret_text, size_t size);

#endif
