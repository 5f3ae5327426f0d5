/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server in front of us: it serves a group that we answer (an APIService), has found out
 * who asks, and says so in headers. Who that is and which headers these are stands in the ConfigMap
 * kube-system/extension-apiserver-authentication, as its --requestheader-* options have it.
 * The loop's thread.
 */
#ifndef ACCESS_FRONT_H
#define ACCESS_FRONT_H

#include "http/server.h"
#include "kube/json.h"

struct front;

/* -ENOENT: that API server passes nothing on. -EINVAL names the key. */
int front_new(const json_t *config_map, struct front **ret_front, struct error *err);
void front_free(struct front *front); /* NULL is fine */

/* PEM, for http_server_set_client_ca(). */
const char *front_authorities(const struct front *front);

/*
 * Who asks, as SubjectAccessReview.spec has it ("user", "uid", "groups", "extra"), where the peer
 * has shown the front's certificate; the caller's. NULL: it has not, and what it says counts for
 * nothing.
 */
json_t *front_user(const struct front *front, struct http_request *request);

#endif
