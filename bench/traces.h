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

/* Returns the folder. Without it, prints a note and returns NULL: the bench measures nothing. */
const char *traces_folder(void);

struct traces_run {
	char command[4096];
	FILE *out;
};

/* Starts a run in the background; "options" are those of divvy sim. */
struct traces_run traces_start(const char *trace, const char *options);
/* As traces_start(), with another file of pods. */
struct traces_run traces_start_file(const char *pods, const char *options);
/* Waits for the run; the caller owns the result. A failed run ends the program. */
json_t *traces_finish(struct traces_run *run);

#endif
