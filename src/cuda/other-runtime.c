/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for NVIDIA's runtime among the libraries that the process has loaded. Any thread. */
#include "cuda/other-runtime.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

bool other_runtime_asks(const CUuuid *table_id)
{
	static const unsigned char id[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89,
		0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};

	return memcmp(table_id, id, sizeof(id)) == 0;
}

struct found {
	char path[256];
};

static int see_library(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	struct found *found = user;

	if (!slash || strncmp(slash, "/libcudart.so", strlen("/libcudart.so")) != 0)
		return 0;
	snprintf(found->path, sizeof(found->path), "%s", info->dlpi_name);
	return 1;
}

void other_runtime_explain(char *ret_text, size_t size)
{
	struct found found = {""};

	dl_iterate_phdr(see_library, &found);
	if (found.path[0])
		snprintf(ret_text, size,
			"'%s' is NVIDIA's CUDA runtime, which works with NVIDIA's driver alone, and "
			"the program opened it by its path; open it by its name, such as "
			"libcudart.so.13, so that divvy's runtime takes its place",
			found.path);
	else
		snprintf(ret_text, size,
			"the program or one of its libraries contains NVIDIA's CUDA runtime, which "
			"works with NVIDIA's driver alone; nvcc -cudart shared builds a program "
			"without it, but cuBLAS, cuDNN and other libraries of NVIDIA's do not work "
			"here");
}
