/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's reply to a request that it does not fulfil: a metav1.Status, or only an HTTP status.
 * Pure.
 */
#ifndef KUBE_STATUS_H
#define KUBE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/kube-json.h"

struct kube_status {
	int http;        /* 200 and so on; 0: no answer */
	char reason[48]; /* "AlreadyExists", "Expired", ...; "": unknown */
	char message[512];
	char name[256]; /* details.name: the object */
	uint64_t retry_after_ns;
};

/* If the body is no Status, only the HTTP status and the body's text are used. */
void kube_status_parse(int http, struct str body, struct kube_status *ret_status);
void kube_status_from_json(const json_t *json, struct kube_status *ret_status);

/* Appends "403 Forbidden: ...", without the request's method and path. */
int kube_status_format(const struct kube_status *status, struct buf *out);

/*
 * The server's message, for conditions and Events, without its text about the webhook that refused.
 * "" if the server gave none. Borrowed from the status.
 */
const char *kube_status_sentence(const struct kube_status *status);

/*
 * Whether the server or an admission webhook objects to the request itself, so that the same
 * request is likely to fail again. False for a busy server, a webhook that does not answer, expired
 * credentials, and an object that has changed or does not exist.
 */
bool kube_status_is_refusal(const struct kube_status *status);

/*
 * The status as -errno: 400 EINVAL, 401 EACCES, 403 EPERM, 404 ENOENT, 408 ETIMEDOUT, AlreadyExists
 * EEXIST, other 409 EBUSY, 410 ESTALE, 413 EMSGSIZE, 405 and 415 ENOTSUP, 422 EINVAL, 429 EAGAIN,
 * 504 ETIMEDOUT, others EIO. 0 for 2xx.
 */
int kube_status_errno(const struct kube_status *status);

#endif
