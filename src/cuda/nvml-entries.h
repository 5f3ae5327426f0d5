/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes: n entries of equal size in the caller's array. One variable passes the
 * array's length in and the number of entries out. Any thread; nothing blocks except the caller's
 * own function.
 */
#ifndef CUDA_NVML_ENTRIES_H
#define CUDA_NVML_ENTRIES_H

#include <stddef.h>

#include "cuda/nvml-types.h"

/* An entry; its pid is an unsigned int at offset pid_at. */
struct nvml_entry {
	size_t size, pid_at;
};

/*
 * Sets *count to n. On entry *count is the length of the caller's array (entries NULL: no array).
 * NVML_SUCCESS: the array has room, and the caller may write n entries.
 * NVML_ERROR_INSUFFICIENT_SIZE: the caller must write none.
 */
nvmlReturn_t nvml_entries_fit(unsigned int n, const void *entries, unsigned int *count);

/* For samples of usage: returns NVML_ERROR_NOT_FOUND instead of success for an empty list. */
nvmlReturn_t nvml_entries_or_none(nvmlReturn_t result, unsigned int n);

/* Maps an entry's pid to the pid that the list shows; 0: leaves the entry out. */
typedef unsigned int nvml_entries_pid_fn(const void *context, unsigned int pid);

/*
 * Replaces the pids in the list and removes entries, in place and in order. Returns the number of
 * entries left.
 */
unsigned int nvml_entries_keep(const struct nvml_entry *entry, void *entries, unsigned int n,
	nvml_entries_pid_fn *pid_of, const void *context);

#endif
