/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces derived from the OpenB traces, in which another resource is scarce: CPU, host memory, some
 * models, or nodes for a few large tasks. The derived traces are the same on every machine. One
 * thread.
 */
#ifndef BENCH_DERIVE_H
#define BENCH_DERIVE_H

#include <stddef.h>
#include <stdint.h>

struct derived {
	const char *name, *from; /* from: one of the OpenB traces */
	/*
	 * CPU and memory of each task, in percent of its request in the OpenB trace. A request that
	 * would exceed the largest node stays unchanged.
	 */
	uint32_t cpu_percent, mib_percent;
	uint32_t model_permille; /* how many of 1000 tasks with devices request a model */
	/*
	 * large tasks added for each 1000 tasks; they replace all tasks that request several
	 * devices
	 */
	uint32_t large_permille;
};

#define DERIVED 8u
extern const struct derived derived[DERIVED];

/* Writes the file of pods; a failure ends the program. */
void derive(const struct derived *of, const char *folder, const char *path);

#endif
