/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenB trace's files (Alibaba cluster-trace-gpu-v2023): nodes and pods as CSV with a line of
 * titles; columns are found by title, others are skipped, and so is a byte order mark. A node has
 * one model, and a pod may name several, any of which it takes: "V100M16|V100M32". Every row has a
 * name; two pods may have one, as where tasks of a trace are repeated, for nothing refers to them.
 * Quotes mean nothing, and a cell that begins with one and does not end with one is refused, as are
 * control characters but tabs. Pure: from text into arrays.
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
	struct str name, model; /* within the text that was read */
	uint32_t line;          /* of the text, from 1 */
	uint32_t cpu_milli, n_devices;
	uint64_t memory_bytes;
};

struct openb_pod {
	struct str name, models; /* models: "A|B", "" is any */
	uint32_t line;
	uint32_t cpu_milli, share, count;
	uint64_t memory_bytes;
	uint64_t created_s, deleted_s; /* 0 where the file has none; else deleted is not before */
	bool has_times;                /* the file has both */
};

/*
 * The caller frees *ret with free(). -EINVAL with line, column and value; -ENOMEM. Returns the
 * number of rows.
 */
int openb_nodes(struct str text, struct openb_node **ret, struct error *err);
int openb_pods(struct str text, struct openb_pod **ret, struct error *err);
/* One row index a line, each below n_rows: the order of arrival, or of the nodes' ranks. */
int openb_order(struct str text, uint32_t n_rows, uint32_t **ret, struct error *err);

#endif
