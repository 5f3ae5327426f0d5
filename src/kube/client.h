/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to one API server. Everything happens on the loop; nothing blocks. One thread.
 *
 * A call belongs to the client from kube_call_start() until its `done` has been called, which is
 * exactly once, from the loop, never from within kube_call_start(); then the handle is gone.
 * kube_call_cancel() before that: no callback comes any more, and the handle is gone at once. A
 * callback may start calls and cancel any other than its own `done`'s; it may not free the client.
 * kube_client_free() cancels what is left.
 *
 * A call is tried again until its deadline where its policy allows: a connection that could not be
 * made, 429, for idempotent ones also a lost connection and 5xx; with a pause that grows, at least
 * what Retry-After says. After 401 the credential is read anew, once. What has on_body gets
 * 2xx bodies piece by piece and is not tried again once the first has come.
 *
 * HTTP/2 where the server offers it. Watches have connections of their own, so that the frames of
 * one do not queue behind the pages of a list; at most KUBE_STREAMS_MAX requests share one.
 */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/rand.h"
#include "kube/backoff.h"
#include "kube/config.h"
#include "kube/status.h"

#define KUBE_STREAMS_MAX 100u
#define KUBE_IN_FLIGHT_DEFAULT 64u
#define KUBE_TIMEOUT_DEFAULT_NS (UINT64_C(30) * 1000000000)
#define KUBE_ANSWER_MAX (32u << 20)
#define KUBE_URL_MAX (16u << 10)

struct kube_client;
struct kube_call;

enum kube_method { KUBE_GET, KUBE_POST, KUBE_PATCH, KUBE_DELETE };

struct kube_answer {
	/*
	 * 0 for 2xx, else kube_status_errno(), or why there is no answer: -ECONNREFUSED,
	 * -ECONNRESET, -EHOSTUNREACH, -ETIMEDOUT, -EPROTO (TLS), -EKEYREJECTED (a certificate),
	 * -EMSGSIZE, what on_body has returned.
	 */
	int result;
	struct str body;           /* valid during the call; empty when on_body took it */
	struct kube_status status; /* http is 0 when there is no answer */
	struct error error; /* result as a sentence: "GET /api/v1/pods: 403 Forbidden: ..." */
	/*
	 * The request ended because no byte came for idle_ns after the server had accepted it
	 * (2xx): the connection is lost, or there was nothing to send.
	 */
	bool is_idle;
};

/*
 * The server's reason alone, without its words about a webhook. Without a reason, what the server
 * answered or that it did not answer, in `room`. Borrowed from the answer or `room`; "" of a 2xx.
 */
const char *kube_answer_sentence(const struct kube_answer *answer, struct error *room);

/*
 * Why an answer is none, for conditions and Events: "WHAT: 403 Forbidden: ..." of what the server
 * said, without the request's method and path. Returns the result.
 */
int kube_answer_explain(const struct kube_answer *answer, const char *what, struct error *err);

typedef void kube_done_fn(void *data, const struct kube_answer *answer);
/* A negative result ends the call with it. */
typedef int kube_body_fn(void *data, struct str bytes);

typedef bool kube_may_send_fn(void *data);

struct kube_request {
	enum kube_method method;
	const char *path;  /* "/api/v1/pods" */
	const char *query; /* "limit=500", already escaped; NULL or "": none */
	struct str body;
	const char *content_type; /* NULL: application/json */
	uint64_t timeout_ns;      /* of all tries together; 0: KUBE_TIMEOUT_DEFAULT_NS */
	uint64_t idle_ns;         /* a try ends when no byte comes for that long; 0: no matter */
	enum retry_policy retry;
	bool is_table; /* a list's columns, as people see them, instead of its objects */
	bool is_watch; /* no timeout, and does not count as in flight */
	kube_body_fn *on_body;
	/*
	 * Asked at each try, and again once that has a connection, right before the first byte goes
	 * out, which may be long after kube_call_start(). False: -ECANCELED. NULL: it may.
	 */
	kube_may_send_fn *may_send;
	kube_done_fn *done;
	void *data;
};

struct kube_client_options {
	const char *user_agent; /* NULL: divvy/VERSION */
	uint32_t
		max_in_flight; /* 0: KUBE_IN_FLIGHT_DEFAULT; others wait, first come first served */
	uint32_t max_connections; /* without watches'; 0: as many as it takes */
	uint64_t seed;            /* of jitter; 0: from the kernel */
	bool is_http1;            /* no HTTP/2 */
};

/* config is borrowed until kube_client_free(); options are copied, NULL: defaults. */
int kube_client_new(struct loop *loop, const struct kube_config *config,
	const struct kube_client_options *options, struct kube_client **ret_client,
	struct error *err);
void kube_client_free(struct kube_client *client);
DEFINE_CLEANUP(struct kube_client *, kube_client_free)
#define _cleanup_kube_client_ _cleanup_(kube_client_free_p)

struct loop *kube_client_loop(const struct kube_client *client);
const struct kube_config *kube_client_config(const struct kube_client *client);
/* The client's own, for jitter of what is built on it. */
struct rand *kube_client_rand(struct kube_client *client);

/* What the request names is copied. ret_call may be NULL. -EINVAL, -ENOMEM. */
int kube_call_start(struct kube_client *client, const struct kube_request *request,
	struct kube_call **ret_call, struct error *err);

/* NULL is fine. */
void kube_call_cancel(struct kube_call *call);

/*
 * Real time by the server's clock, to the second, as its last answer said: this machine's may be
 * another. This machine's where no answer has said. For the age of what is in the cluster.
 */
uint64_t kube_client_real_ns(const struct kube_client *client);

/*
 * For how long the server has not answered what it was asked; 0: it has since, or nothing was. An
 * answer of 5xx is none.
 */
uint64_t kube_client_silence_ns(const struct kube_client *client);

/* Counters since the start, for metrics. */
struct kube_client_counts {
	uint64_t n_tries, n_retries, n_failures;
	uint32_t n_running, n_waiting;
};
struct kube_client_counts kube_client_counts(const struct kube_client *client);

/* Appends text as it may stand in a path or as a value in a query. */
int kube_url_escape(struct buf *b, struct str text);

#endif
