/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A minimal library of another project: writes the text of TRIVIAL_TOLD to TRIVIAL_LOG.
 */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TRIVIAL_LOG"), *told = getenv("TRIVIAL_TOLD");
	FILE *f = path ? fopen(path, "ae") : NULL;

	if (!f)
		return;
	fprintf(f, "%s\n", told ? told : "");
	fclose(f);
}
