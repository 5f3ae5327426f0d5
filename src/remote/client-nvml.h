/* SPDX-License-Identifier: Apache-2.0 */
/* Inside libdivvy-remote-nvml.so. Any thread. */
#pragma once

#include "cuda/nvml-answer.h"
#include "remote/nvml.h"

/* The caller's; an entry's first bytes are taken where it is smaller than what is asked for. */
struct nvml_array {
	void *entries;
	unsigned int room;
	size_t size; /* of an entry */
};

/*
 * A list of the program's own processes, from its first entry on. ret_n is how many there are, also
 * with NVML_ERROR_INSUFFICIENT_SIZE: then nothing is written.
 */
nvmlReturn_t nvml_list(nvmlDevice_t device, struct remote_nvml_ask *with, struct nvml_array *to,
	unsigned int *ret_n);
