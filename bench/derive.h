/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces made of the OpenB ones, in which something else is scarce: CPU, host memory, some models,
 * or the nodes that can take a few large tasks. The same on every machine. One thread.
 */
#ifndef BENCH_DERIVE_H
#define BENCH_DERIVE_H

#include <stddef.h>
#include <stdint.h>

struct derived {
	const char *name, *from;           /* from: one of the OpenB traces */
	uint32_t cpu_percent, mib_percent; /* of each task's own; what no node has stays as it is */
	uint32_t model_permille; /* of the tasks with devices ask for a model of their own */
	uint32_t large_permille; /* so many large tasks instead of those of several devices */
};

#define DERIVED 8u
extern const struct derived derived[DERIVED];

/* Writes the file of pods; a failure ends the program. */
void derive(const struct derived *of, const char *folder, const char *path);

#endif
