/* SPDX-License-Identifier: Apache-2.0 */
/* Configures libcurl for one request. */
#ifndef KUBE_TRANSFER_H
#define KUBE_TRANSFER_H

#include <curl/curl.h>

#include "kube/kube-client.h"
#include "kube/credential.h"

extern const char *const kube_method_names[];

struct transfer {
	CURL *easy; /* owned by the caller; NULL: none */
	struct curl_slist *headers, *connect_to;
};

/*
 * Sets all options but callbacks on t->easy, which is new or reset. With tls_server_name, the
 * request and the certificate check use that name, and the connection goes to the server's address.
 * All pointers of `request` must outlive the transfer. Returns 0 or -ENOMEM.
 */
int transfer_prepare(struct transfer *t, const struct kube_config *config,
	const struct credential_view *view, const struct kube_request *request, const char *url);

/* Frees everything but easy, and leaves an empty struct. */
void transfer_done(struct transfer *t);

#endif
