/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to one API server. Everything runs on the loop; nothing blocks. One thread.
 *
 * A call belongs to the client from kube_call_start() until its `done` has been called. `done` is
 * called exactly once, from the loop, never within kube_call_start(); then the handle is invalid.
 * kube_call_cancel() prevents all further callbacks and invalidates the handle at once. A callback
 * may start calls, and cancel any but the call whose `done` it is; it must not free the client.
 * kube_client_free() cancels the remaining calls.
 *
 * A failed call is tried again until its deadline, if its policy allows that after this failure. A
 * failed connection, 429, and 503 with Retry-After allow another try. A lost connection and other
 * 5xx allow one only if the call is idempotent. The pause grows, and is at least what Retry-After
 * says. After 401 the credential is refreshed, once. A call with on_body receives 2xx bodies in
 * pieces, and is not tried again after the first piece.
 *
 * Uses HTTP/2 if the server offers it. Watches have connections of their own, so that their frames
 * do not wait behind the pages of a list. At most KUBE_STREAMS_MAX requests share a connection.
 */
#ifndef KUBE_KUBE_CLIENT_H
#define KUBE_KUBE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/rand.h"
#include "kube/backoff.h"
#include "kube/kube-config.h"
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
	 * 0 for 2xx, else kube_status_errno(). Without an answer: -ECONNREFUSED, -ECONNRESET,
	 * -EHOSTUNREACH, -ETIMEDOUT, -EPROTO (TLS), -EKEYREJECTED (a certificate), -EMSGSIZE,
	 * -ECANCELED (may_send), or the result of on_body.
	 */
	int result;
	struct str body;           /* valid during the callback; empty if on_body received it */
	struct kube_status status; /* http is 0 without an answer */
	struct error error;        /* message for result: "GET /api/v1/pods: 403 Forbidden: ..." */
	/*
	 * The server accepted the request (2xx), but then sent no byte for idle_ns: the connection
	 * is lost, or the server had nothing to send.
	 */
	bool is_idle;
};

/*
 * The server's reason for a failure, without its text about a webhook. If the server gave none, a
 * description of the failure, written to `room`. "" for 2xx. Borrowed from the answer or from
 * `room`.
 */
const char *kube_answer_sentence(const struct kube_answer *answer, struct error *room);

/*
 * Describes a failure for conditions and Events: "WHAT: 403 Forbidden: ...", without method and
 * path. Returns the answer's result.
 */
int kube_answer_explain(const struct kube_answer *answer, const char *what, struct error *err);

typedef void kube_done_fn(void *data, const struct kube_answer *answer);
/* A negative result ends the call with that result. */
typedef int kube_body_fn(void *data, struct str bytes);

typedef bool kube_may_send_fn(void *data);

struct kube_request {
	enum kube_method method;
	const char *path;  /* "/api/v1/pods" */
	const char *query; /* "limit=500", escaped; NULL or "": none */
	struct str body;
	const char *content_type; /* NULL: application/json */
	uint64_t timeout_ns;      /* for all tries together; 0: KUBE_TIMEOUT_DEFAULT_NS */
	uint64_t idle_ns;         /* a try ends if no byte arrives for this time; 0: no limit */
	enum retry_policy retry;
	bool is_table; /* ask for columns for people to read, and not for the objects */
	bool is_watch; /* no timeout; max_in_flight does not include it */
	kube_body_fn *on_body;
	/*
	 * Called before each try, and again when the try has a connection, right before the first
	 * byte, which may be long after kube_call_start(). False ends the call with -ECANCELED.
	 * NULL: always allowed.
	 */
	kube_may_send_fn *may_send;
	kube_done_fn *done;
	void *data;
};

struct kube_client_options {
	const char *user_agent;   /* NULL: divvy/VERSION */
	uint32_t max_in_flight;   /* 0: KUBE_IN_FLIGHT_DEFAULT; further calls wait in order */
	uint32_t max_connections; /* connections for calls other than watches; 0: no limit */
	uint64_t seed;            /* for jitter; 0: from the kernel */
	bool is_http1;            /* disables HTTP/2 */
};

/*
 * Borrows config until kube_client_free(); copies options, NULL: defaults. Returns 0, -ENOMEM or
 * another -errno.
 */
int kube_client_new(struct loop *loop, const struct kube_config *config,
	const struct kube_client_options *options, struct kube_client **ret_client,
	struct error *err);
void kube_client_free(struct kube_client *client);
DEFINE_CLEANUP(struct kube_client *, kube_client_free)
#define _cleanup_kube_client_ _cleanup_(kube_client_free_p)

struct loop *kube_client_loop(const struct kube_client *client);
/* The client's random numbers, for jitter in code that uses the client. */
struct rand *kube_client_rand(struct kube_client *client);

/* Copies the request's texts. ret_call may be NULL. Returns 0, -EINVAL or -ENOMEM. */
int kube_call_start(struct kube_client *client, const struct kube_request *request,
	struct kube_call **ret_call, struct error *err);

/* Accepts NULL. */
void kube_call_cancel(struct kube_call *call);

/*
 * Real time by the server's clock, from the Date of its last answer, to the second. Before the
 * first answer: real time by this machine's clock. For ages of objects in the cluster.
 */
uint64_t kube_client_real_ns(const struct kube_client *client);

/*
 * Time since the oldest request that the server has not answered, watches excluded. 0 if the server
 * has answered since. 5xx does not count as an answer.
 */
uint64_t kube_client_silence_ns(const struct kube_client *client);

/* Counters since the start, for metrics. */
struct kube_client_counts {
	uint64_t n_tries, n_retries, n_failures;
	uint32_t n_running, n_waiting;
};
struct kube_client_counts kube_client_counts(const struct kube_client *client);

/* Appends text, escaped for a path or a query value. */
int kube_url_escape(struct buf *b, struct str text);

#endif
