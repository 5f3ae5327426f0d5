/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server says when it does not do what was asked: metav1.Status, or only an HTTP status.
 * Pure.
 */
#ifndef KUBE_STATUS_H
#define KUBE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/json.h"

struct kube_status {
	int http;        /* 200 and so on; 0: none */
	char reason[48]; /* "AlreadyExists", "Expired", ...; "" unknown */
	char message[512];
	char name[256]; /* details.name: of which object */
	uint64_t retry_after_ns;
};

/* A body that is no Status leaves what the HTTP status alone says. */
void kube_status_parse(int http, struct str body, struct kube_status *ret_status);
void kube_status_from_json(const json_t *json, struct kube_status *ret_status);

/* "403 Forbidden: ...": what the server said, without what it was asked. */
int kube_status_format(const struct kube_status *status, struct buf *out);

/*
 * The reason alone, for conditions and Events: what the server says, without its words about the
 * webhook that said it. "" where the server said nothing. Borrowed from the status.
 */
const char *kube_status_sentence(const struct kube_status *status);

/*
 * The server, or an admission webhook, is against the request itself: the same request is likely to
 * fail again. Not so a server that is busy, a webhook that does not answer, expired credentials, or
 * an object that has changed or is gone.
 */
bool kube_status_is_refusal(const struct kube_status *status);

/*
 * As -errno: 400 EINVAL, 401 EACCES, 403 EPERM, 404 ENOENT, AlreadyExists EEXIST, other 409 EBUSY,
 * 410 ESTALE, 413 EMSGSIZE, 415 and 405 ENOTSUP, 422 EINVAL, 429 EAGAIN, 504 ETIMEDOUT, others EIO.
 */
int kube_status_errno(const struct kube_status *status);

#endif
