/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that are made here: ECDSA on P-256, a new key for each that has none. Any thread. */
#ifndef HTTP_ISSUE_H
#define HTTP_ISSUE_H

#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/error.h"
#include "http/server.h"

struct http_issue {
	const char *name;         /* the common name */
	const char *host;         /* a server's DNS name */
	const char *uri;          /* instead: the only name of a client; neither: an authority */
	bool is_server;           /* with uri: of a server, too */
	gnutls_pubkey_t of;       /* whose key it is for; NULL: a new one's */
	uint64_t from_ns, to_ns;  /* CLOCK_REALTIME's */
	gnutls_x509_crt_t issuer; /* with its key; NULL: it signs itself */
	gnutls_x509_privkey_t issuer_key;
};

/* PEM, the caller's; ret_key may be NULL where `of` says whose key it is. -EIO. */
int http_issue(const struct http_issue *issue, char **ret_crt, char **ret_key, struct error *err);

/* The server shows a certificate of its own making, good for ten years. */
int http_server_issue(
	struct http_server *server, const char *name, const char *host, struct error *err);

/* It shows that of the files, PEM, the leaf first; they are read once. */
int http_server_read(
	struct http_server *server, const char *cert_file, const char *key_file, struct error *err);

#endif
