/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy sim` on the OpenB traces in the folder that DIVVY_OPENB names:
 * openb_node_list_gpu_node.csv and openb_pod_list_<trace>.csv. One thread.
 */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include <stdio.h>

#include <jansson.h>

#define TRACES 7
extern const char *const traces[TRACES];

/* NULL where there is none, which is said: nothing is measured then. */
const char *traces_folder(void);

struct traces_run {
	char command[4096];
	FILE *out;
};

/* Begins a run, which goes on by itself; "options" are of divvy sim. */
struct traces_run traces_start(const char *trace, const char *options);
/* The same with that file of pods. */
struct traces_run traces_start_file(const char *pods, const char *options);
/* What came of it, the caller's; a run that failed ends the program. */
json_t *traces_finish(struct traces_run *run);

#endif
