/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the PTX text of the small programs' kernels, src/simgpu/kernels.ptx. Its path is in the
 * environment variable KERNELS_PTX, or else in the macro KERNELS_PTX, which the build defines.
 */
#ifndef TESTS_PROGRAMS_KERNELS_H
#define TESTS_PROGRAMS_KERNELS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_MAX_BYTES (1u << 20)

/* The caller frees the text. Ends the program with a message if the file cannot be read. */
static inline char *kernels_read(void)
{
	const char *given = getenv("KERNELS_PTX"), *path = given ? given : KERNELS_PTX;
	char *text = calloc(1, KERNELS_MAX_BYTES);
	FILE *f = fopen(path, "re");

	if (!text || !f || fread(text, 1, KERNELS_MAX_BYTES - 1, f) == 0) {
		fprintf(stderr, "%s: read '%s': %s; KERNELS_PTX names the kernels' text\n",
			program_invocation_short_name, path, strerror(errno));
		exit(1);
	}
	fclose(f);
	return text;
}

#endif
