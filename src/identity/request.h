/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificate requests (PKCS #10): a public key, one name, and a signature that proves that the
 * requester has the private key. A request may contain nothing else, so that an authority cannot
 * sign anything else. Any thread.
 */
#ifndef IDENTITY_REQUEST_H
#define IDENTITY_REQUEST_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "base/error.h"
#include "identity/name.h"

#define REQUEST_PEM_MAX (8u << 10)

/*
 * Makes a P-256 key and its request, both in PEM and the caller's. -EINVAL: faulty name; -EIO:
 * GnuTLS failed.
 */
int request_make(
	const struct identity_name *name, char **ret_request, char **ret_key, struct error *err);

struct request {
	struct identity_name name;
	gnutls_pubkey_t key; /* NULL: none was read */
};

/*
 * Reads another party's request. Returns 0; -ENOMEM; -EINVAL: not a request, not signed by its own
 * key, a key other than P-256 or Ed25519, a subject, an additional attribute or extension, or a
 * faulty name. End the result with request_done().
 */
int request_read(struct str pem, struct request *ret_request, struct error *err);
void request_done(struct request *request);
#define _cleanup_request_ __attribute__((cleanup(request_done)))

#endif
