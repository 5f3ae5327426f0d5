/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes: n entries of one size in an array of the caller's, whose length comes
 * in and whose count goes out by the same variable. Any thread; nothing blocks but a caller's own
 * function.
 */
#ifndef CUDA_NVML_ENTRIES_H
#define CUDA_NVML_ENTRIES_H

#include <stddef.h>

#include "cuda/nvml-types.h"

/* An entry: its pid is an unsigned int at that offset. */
struct nvml_entry {
	size_t size, pid_at;
};

/*
 * Sets *count, the room in the caller's entries (NULL: none), to n. NVML_SUCCESS: the caller of
 * this function writes n entries; NVML_ERROR_INSUFFICIENT_SIZE: it writes none.
 */
nvmlReturn_t nvml_entries_fit(unsigned int n, const void *entries, unsigned int *count);

/* Of samples of use: no entry means that no process has used the device since. */
nvmlReturn_t nvml_entries_or_none(nvmlReturn_t result, unsigned int n);

/* The pid that the entry of that pid shows; 0: the entry is left out. */
typedef unsigned int nvml_entries_pid_fn(const void *context, unsigned int pid);

/* Keeps entries in place and in their order, with the pids of the function. Returns how many. */
unsigned int nvml_entries_keep(const struct nvml_entry *entry, void *entries, unsigned int n,
	nvml_entries_pid_fn *pid_of, const void *context);

#endif
