/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server in front of a daemon that serves an API group (APIService). That API server
 * authenticates the user and passes the user on in headers. The ConfigMap
 * kube-system/extension-apiserver-authentication, from its --requestheader-* options, has the
 * authorities and the names of these headers. The loop's thread.
 */
#ifndef ACCESS_FRONT_H
#define ACCESS_FRONT_H

#include "http/server.h"
#include "kube/kube-json.h"

struct front;

/*
 * Returns 0; -ENOENT: the ConfigMap has no authority, so this API server does not pass users on in
 * headers; -EINVAL, with the key in the message; -ENOMEM.
 */
int front_new(const json_t *config_map, struct front **ret_front, struct error *err);
void front_free(struct front *front); /* accepts NULL */

/* The authorities in PEM, for http_server_set_client_ca(). */
const char *front_authorities(const struct front *front);

/*
 * The user of a request in the form of SubjectAccessReview.spec ("user", "uid", "groups", "extra");
 * the caller owns it. NULL if the peer has not shown the certificate of the API server in front;
 * the peer's headers then count for nothing.
 */
json_t *front_user(const struct front *front, struct http_request *request);

#endif
