/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See nvml-entries.h. Needs only libc's string functions, because it runs in tenants' programs. Any
 * thread.
 */
#include "cuda/nvml-entries.h"

#include <string.h>

nvmlReturn_t nvml_entries_fit(unsigned int n, const void *entries, unsigned int *count)
{
	const unsigned int room = entries ? *count : 0;

	*count = n;
	return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvml_entries_or_none(nvmlReturn_t result, unsigned int n)
{
	return result == NVML_SUCCESS && !n ? NVML_ERROR_NOT_FOUND : result;
}

unsigned int nvml_entries_keep(const struct nvml_entry *entry, void *entries, unsigned int n,
	nvml_entries_pid_fn *pid_of, const void *context)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++) {
		char *from = (char *)entries + i * entry->size;
		unsigned int pid;

		memcpy(&pid, from + entry->pid_at, sizeof(pid));
		pid = pid_of(context, pid);
		if (!pid)
			continue;
		memcpy(from + entry->pid_at, &pid, sizeof(pid));
		memmove((char *)entries + kept * entry->size, from, entry->size);
		kept++;
	}
	return kept;
}
