/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of the OpenB trace (Alibaba cluster-trace-gpu-v2023): nodes and pods as CSV with a
 * title line. The reader finds columns by title and ignores other columns and a byte order mark. A
 * node has one model. A pod can list several acceptable models: "V100M16|V100M32". Every row needs
 * a name. Pods may have equal names: an enlarged trace repeats tasks, and nothing looks a pod up by
 * its name. Quotes have no meaning: a cell that begins with a quote but does not end with one is an
 * error. A control character other than a tab is an error too. Pure.
 */
#ifndef REPLAY_OPENB_H
#define REPLAY_OPENB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define OPENB_ROWS_MAX (1u << 22)
#define OPENB_DEVICES_MAX 64u

struct openb_node {
	struct str name, model; /* borrowed from the text */
	uint32_t line;          /* line of the text, from 1 */
	uint32_t cpu_milli, n_devices;
	uint64_t memory_bytes;
};

struct openb_pod {
	struct str name, models; /* models: "A|B"; "": any model */
	uint32_t line;
	uint32_t cpu_milli, share, count;
	uint64_t memory_bytes;
	/* 0 if the file has no times; deleted_s is not below created_s */
	uint64_t created_s, deleted_s;
	bool has_times; /* the row has both times */
};

/*
 * The caller frees *ret with free(). Returns the number of rows; -EINVAL with line, column and
 * value; -ENOMEM.
 */
int openb_nodes(struct str text, struct openb_node **ret, struct error *err);
int openb_pods(struct str text, struct openb_pod **ret, struct error *err);
/*
 * Reads one row index, below n_rows, from each line. *ret is the order of arrivals, or the ranks of
 * nodes.
 */
int openb_order(struct str text, uint32_t n_rows, uint32_t **ret, struct error *err);

#endif
