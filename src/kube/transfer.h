/* SPDX-License-Identifier: Apache-2.0 */
/* A request as libcurl is told it. */
#ifndef KUBE_TRANSFER_H
#define KUBE_TRANSFER_H

#include <curl/curl.h>

#include "kube/client.h"
#include "kube/credential.h"

extern const char *const kube_method_names[];

struct transfer {
	CURL *easy; /* the caller's; NULL: none */
	struct curl_slist *headers, *connect_to;
};

/*
 * Sets all of it but callbacks on t->easy, which is new or reset. With a server name of its own,
 * that name is asked for and verified, and the connection is made to where the server is. What
 * request names must live as long as the transfer. -ENOMEM.
 */
int transfer_prepare(struct transfer *t, const struct kube_config *config,
	const struct credential_view *view, const struct kube_request *request, const char *url);

/* Frees what was made, easy aside, and leaves an empty one. */
void transfer_done(struct transfer *t);

#endif
