/* SPDX-License-Identifier: Apache-2.0 */
/* What page.c and page-serve.c share; nobody else includes it. */
#ifndef CONTROLLER_PAGE_INTERNAL_H
#define CONTROLLER_PAGE_INTERNAL_H

#include <sys/queue.h>

#include "controller/page-history.h"
#include "controller/page-state.h"
#include "controller/page.h"
#include "http/stream.h"
#include "kube/json.h"

struct page_node;

/* Somebody who looks at it. */
struct viewer {
	LIST_ENTRY(viewer) link;
	struct page *page;
	struct http_stream *stream;
	uint64_t since_ns;
};

struct page {
	struct loop *loop;
	struct page_state *state;
	struct page_history *history;
	struct page_node *nodes; /* by name */
	struct loop_timer push, beat;
	uint64_t epoch;  /* of this process: numbers of another one say nothing here */
	uint64_t told;   /* all viewers know up to this number */
	uint64_t n_told; /* events */
	uint64_t n_waiting;
	json_t *waiting; /* "NAMESPACE/NAME" of the pods that wait and are not shown: {} */
	bool is_ready;
	uint32_t n_viewers;
	LIST_HEAD(viewers, viewer) viewers;
};

/* ---- page-serve.c ---- */

/* To all viewers what has changed since the last time. */
void page_tell(struct page *page);
/* To all that it lives, and to those who were let in long ago, to come again. */
void page_beat(struct page *page, uint64_t now);

#endif
