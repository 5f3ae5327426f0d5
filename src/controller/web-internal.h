/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that only web.c and web-serve.c use. */
#ifndef CONTROLLER_WEB_INTERNAL_H
#define CONTROLLER_WEB_INTERNAL_H

#include <sys/queue.h>

#include "controller/web-history.h"
#include "controller/web-state.h"
#include "controller/web.h"
#include "http/http-stream.h"
#include "kube/kube-json.h"

struct web_node;

/* A browser with an open event stream. */
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
	struct web_node *nodes; /* hash of the nodes by name */
	struct loop_timer push, beat;
	/* random number of this process: change numbers of another process are invalid */
	uint64_t epoch;
	uint64_t sent;   /* number of the last change that all viewers got */
	uint64_t n_sent; /* events sent */
	size_t n_devices;
	uint64_t n_waiting;
	json_t *waiting; /* waiting pods beyond WEB_WAITING_MAX: {"NAMESPACE/NAME": text} */
	bool is_ready;
	web_silence_fn *silence;
	void *silence_data;
	uint32_t n_viewers;
	LIST_HEAD(viewers, viewer) viewers;
};

/* Bit mask of the kinds of items that viewers get by themselves (web-state.h). */
uint32_t web_kinds(const struct web *web);

/* ---- web-serve.c ---- */

/* Returns how long the API server has not answered; 0 below 10 s. */
uint64_t web_silence_ns(const struct web *web);

/* Sends all viewers the changes since the last call. */
void web_send(struct web *web);
/*
 * Sends a heartbeat to all viewers. Asks a viewer to connect again after VISIT_NS (web-serve.c), so
 * that its rights are checked again.
 */
void web_beat(struct web *web, uint64_t now);

#endif
