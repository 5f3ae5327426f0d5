/* SPDX-License-Identifier: Apache-2.0 */
/* What web.c and web-serve.c share; nobody else includes it. */
#ifndef CONTROLLER_WEB_INTERNAL_H
#define CONTROLLER_WEB_INTERNAL_H

#include <sys/queue.h>

#include "controller/web-history.h"
#include "controller/web-state.h"
#include "controller/web.h"
#include "http/stream.h"
#include "kube/json.h"

struct web_node;

/* Somebody who looks at it. */
struct viewer {
	LIST_ENTRY(viewer) link;
	struct web *web;
	struct http_stream *stream;
	uint64_t since_ns;
};

struct web {
	struct loop *loop;
	struct web_state *state;
	struct web_history *history;
	struct web_node *nodes; /* by name */
	struct loop_timer push, beat;
	uint64_t epoch;  /* of this process: numbers of another one say nothing here */
	uint64_t told;   /* all viewers know up to this number */
	uint64_t n_told; /* events */
	uint64_t n_waiting;
	json_t *waiting; /* "NAMESPACE/NAME" of the pods that wait and are not shown: {} */
	bool is_ready;
	web_silence_fn *silence;
	void *silence_data;
	uint32_t n_viewers;
	LIST_HEAD(viewers, viewer) viewers;
};

/* ---- web-serve.c ---- */

/* For how long the cluster has said nothing; 0 where that is not long. */
uint64_t web_silence_ns(const struct web *web);

/* To all viewers what has changed since the last time. */
void web_tell(struct web *web);
/* To all that it lives, and to those who were let in long ago, to come again. */
void web_beat(struct web *web, uint64_t now);

#endif
