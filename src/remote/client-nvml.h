/* SPDX-License-Identifier: Apache-2.0 */
/* Internal header of libdivvy-remote-nvml.so. Any thread. */
#ifndef REMOTE_CLIENT_NVML_H
#define REMOTE_CLIENT_NVML_H

#include "cuda/nvml-answer.h"
#include "remote/remote-nvml.h"

/*
 * Gets the list of the program's own processes, from its first entry on. nvml_entries_fit()
 * explains `count`; remote_nvml_entry_size() is the size of an entry.
 */
nvmlReturn_t nvml_ask_list(
	nvmlDevice_t device, struct remote_nvml_ask *with, void *entries, unsigned int *count);

#endif
