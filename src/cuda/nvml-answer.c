/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that programs pass to NVML and get from it: see nvml-answer.h. Any thread. */
#include "cuda/nvml-answer.h"

#include <stdio.h>
#include <string.h>

nvmlReturn_t nvml_text_give(const char *text, char *ret_text, unsigned int room)
{
	const size_t n = strlen(text);

	NVML_CHECK(ret_text, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK(n < room, NVML_ERROR_INSUFFICIENT_SIZE);
	memcpy(ret_text, text, n + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_bus_id_parse(const char *text, struct nvml_bus_id *ret_id)
{
	struct nvml_bus_id id = {0};

	if (sscanf(text, "%x:%x:%x", &id.domain, &id.bus, &id.slot) != 3) {
		id.domain = 0;
		NVML_CHECK(
			sscanf(text, "%x:%x", &id.bus, &id.slot) == 2, NVML_ERROR_INVALID_ARGUMENT);
	}
	*ret_id = id;
	return NVML_SUCCESS;
}
