/* SPDX-License-Identifier: Apache-2.0 */
/* Issues certificates: ECDSA on P-256, with a new key unless the caller has one. Any thread. */
#ifndef HTTP_ISSUE_H
#define HTTP_ISSUE_H

#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/error.h"
#include "http/server.h"

struct http_issue {
	const char *name; /* common name */
	const char *host; /* DNS name of a server */
	/* URI of a client, which has no host; without host and uri: an authority */
	const char *uri;
	bool is_server;           /* with uri: also for a server */
	gnutls_pubkey_t of;       /* public key of the certificate; NULL: a new key */
	uint64_t from_ns, to_ns;  /* validity, CLOCK_REALTIME */
	gnutls_x509_crt_t issuer; /* the authority, with its key; NULL: self-signed */
	gnutls_x509_privkey_t issuer_key;
};

/*
 * Returns the certificate and its key in PEM, both owned by the caller. ret_key may be NULL if `of`
 * is set. Returns 0 or -EIO.
 */
int http_issue(const struct http_issue *issue, char **ret_crt, char **ret_key, struct error *err);

/* Makes a self-signed certificate, valid for ten years, for the server. */
int http_server_issue(
	struct http_server *server, const char *name, const char *host, struct error *err);

/*
 * Loads the server's certificate from the files, in PEM, the leaf first. Later changes of the files
 * have no effect.
 */
int http_server_read(
	struct http_server *server, const char *cert_file, const char *key_file, struct error *err);

#endif
