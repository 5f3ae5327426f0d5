/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of an HTTP server's routes (http/server.h): a request shows a bearer token, and the API
 * server is asked who that is (TokenReview) and whether he may use the method on the path
 * (SubjectAccessReview; HEAD being get; a route may name another path, see http_right()). A path
 * below /apis/GROUP/VERSION is of a resource there, as API servers read it, others are non-resource
 * URLs. Where an API server in front is known, it may say who asks instead (front.h). 401: no
 * token, or one of nobody; 403: he may not; 503: the API server does not say. The loop's thread;
 * nothing blocks.
 *
 * An answer, of either kind, counts for ACCESS_AGE_NS: rights that are given or taken away show
 * after that. Of a token only its SHA-256 is kept. Answers about tokens of nobody have a cache of
 * their own: made-up tokens push out no answer about a real one.
 *
 * Each token that is not in the cache is a question to the API server. An address with
 * ACCESS_OPEN_MAX open questions, or with ACCESS_FAILURES_MAX visits without success more than run
 * off at one in ACCESS_FAILURE_NS, gets 429, and so does everybody at ACCESS_VISITS_MAX open
 * questions. What an API server in front passes on is not limited.
 */
#ifndef ACCESS_ACCESS_H
#define ACCESS_ACCESS_H

#include "access/front.h"
#include "http/server.h"
#include "kube/client.h"

#define ACCESS_AGE_NS (UINT64_C(10) * 1000000000)
#define ACCESS_ANSWERS_MAX 64u /* that are remembered; the oldest goes first */
#define ACCESS_OPEN_MAX 16u    /* of an address */
#define ACCESS_VISITS_MAX 64u
#define ACCESS_FAILURES_MAX 100u
#define ACCESS_FAILURE_NS (UINT64_C(500) * 1000000)
#define ACCESS_ADDRESSES_MAX 256u /* that are remembered for this */
#define ACCESS_TOKEN_MAX (16u << 10)

struct access;

/* The client is borrowed. -ENOMEM. */
int access_new(struct kube_client *client, struct access **ret_access, struct error *err);
/* Before the client and before the server. Who waits is answered with 503. NULL is fine. */
void access_free(struct access *access);

/* Where there is no Authorization, the token may be in this cookie. The name is borrowed. */
void access_accept_cookie(struct access *access, const char *name);

/* Whom else to believe; borrowed until another is set. NULL: nobody. */
void access_set_front(struct access *access, const struct front *front);

/* For http_options.guard; its data is the access. */
void access_guard(void *access, struct http_request *request);

#endif
