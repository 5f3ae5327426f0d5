/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda-min.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda cuda;

static const char *program_name = "?";

void cuda_open(const char *program)
{
	static const struct {
		size_t offset;
		const char *symbol;
	} entry[] = {
#define X(field, symbol, params) {offsetof(struct cuda, field), symbol},
		CUDA_ENTRIES(X)
#undef X
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	program_name = program;
	if (!lib) {
		fprintf(stderr, "%s: no CUDA driver: %s\n", program, dlerror());
		exit(1);
	}
	for (size_t i = 0; i < sizeof(entry) / sizeof(entry[0]); i++) {
		void *p = dlsym(lib, entry[i].symbol);

		if (!p) {
			fprintf(stderr, "%s: the driver has no %s\n", program, entry[i].symbol);
			exit(1);
		}
		memcpy((char *)&cuda + entry[i].offset, &p, sizeof(p));
	}
}

void cuda_check(cu_result result, const char *what)
{
	const char *name = NULL, *text = NULL;

	if (!result)
		return;
	cuda.error_name(result, &name);
	cuda.error_string(result, &text);
	fprintf(stderr, "%s: %s: %s (%d): %s\n", program_name, what, name ? name : "unknown",
		result, text ? text : "no text");
	exit(1);
}
