/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for a certificate (PKCS #10): a public key, one name, and the proof that who asks has
 * the key. Nothing else may be in it, so that nothing else can be signed. Any thread.
 */
#ifndef IDENTITY_REQUEST_H
#define IDENTITY_REQUEST_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "base/error.h"
#include "identity/name.h"

#define REQUEST_PEM_MAX (8u << 10)

/* A new key on P-256 and its request, both PEM and the caller's. -EINVAL: the name; -EIO. */
int request_make(
	const struct identity_name *name, char **ret_request, char **ret_key, struct error *err);

struct request {
	struct identity_name name;
	gnutls_pubkey_t key; /* NULL: none was read */
};

/*
 * What somebody else has written. -EINVAL with a sentence: no request, not signed by its key, a
 * key that is neither P-256 nor Ed25519, a subject, an attribute or an extension too many, a name
 * that is none.
 */
int request_read(struct str pem, struct request *ret_request, struct error *err);
void request_done(struct request *request);
#define _cleanup_request_ __attribute__((cleanup(request_done)))

#endif
