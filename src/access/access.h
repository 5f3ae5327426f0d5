/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of an HTTP server's routes (http/server.h). A request shows a bearer token. The guard
 * asks the API server whose token it is (TokenReview). It then asks whether that user may use the
 * method on the path (SubjectAccessReview). HEAD counts as get, and a route may name another path
 * (http_right()). A path below /apis/GROUP/VERSION is checked as a resource, as API servers read
 * it, any other path as a non-resource URL. If an API server in front is known, it may identify the
 * user instead (front.h). Answers: 401: no token, or an invalid token; 403: not allowed; 503: the
 * API server gives no answer. The loop's thread; nothing blocks.
 *
 * The guard keeps an answer, positive or negative, for ACCESS_AGE_NS; a change of rights takes
 * effect after that. Of a token it keeps only the SHA-256. Invalid tokens have a cache of their
 * own, so made-up tokens cannot displace the answers about valid ones.
 *
 * Each token that is not in the cache costs a question to the API server. A client address gets 429
 * with ACCESS_OPEN_MAX open questions, or with ACCESS_FAILURES_MAX failed visits, of which one
 * expires every ACCESS_FAILURE_NS. With ACCESS_VISITS_MAX open questions every address gets 429.
 * Requests from an API server in front are not limited.
 */
#ifndef ACCESS_ACCESS_H
#define ACCESS_ACCESS_H

#include "access/front.h"
#include "http/server.h"
#include "kube/kube-client.h"

#define ACCESS_AGE_NS (UINT64_C(10) * 1000000000)
#define ACCESS_ANSWERS_MAX 64u /* number of remembered answers; a new one replaces the oldest */
#define ACCESS_OPEN_MAX 16u    /* open questions of one address */
#define ACCESS_VISITS_MAX 64u
#define ACCESS_FAILURES_MAX 100u
#define ACCESS_FAILURE_NS (UINT64_C(500) * 1000000)
#define ACCESS_ADDRESSES_MAX 256u /* number of addresses that are remembered for the limits */
#define ACCESS_TOKEN_MAX (16u << 10)

struct access;

/* Borrows the client. Returns 0 or -ENOMEM. */
int access_new(struct kube_client *client, struct access **ret_access, struct error *err);
/*
 * Call it before the client and the server are freed. Answers waiting requests with 503. Accepts
 * NULL.
 */
void access_free(struct access *access);

/* Accepts the token in this cookie if a request has no Authorization header. Borrows the name. */
void access_accept_cookie(struct access *access, const char *name);

/* Sets the API server in front that is trusted; borrowed until the next call. NULL: none. */
void access_set_front(struct access *access, const struct front *front);

/* The value of http_options.guard; http_options.guard_data is the access. */
void access_guard(void *access, struct http_request *request);

#endif
