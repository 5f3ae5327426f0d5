/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells divvy's own drivers, the simulated and the remote one, from any other libcuda.so.1.
 * cuGetExportTable() of an own driver returns an own_driver_table for OWN_DRIVER_ID, also before
 * cuInit(). Every other driver knows no such id and returns CUDA_ERROR_INVALID_VALUE.
 */
#ifndef CUDA_OWN_DRIVER_H
#define CUDA_OWN_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cuda/types.h"

#define OWN_DRIVER_ID ((const CUuuid *)"divvy own driver") /* 16 bytes */

struct own_driver_table {
	size_t size;      /* of this struct */
	const char *kind; /* "simulated" or "remote" */
};

static inline bool own_driver_is_asked(const CUuuid *id)
{
	return memcmp(id, OWN_DRIVER_ID, sizeof(*id)) == 0;
}

#endif
