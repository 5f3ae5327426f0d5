/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The authority that signs certificates between nodes (src/identity), and its rotation without
 * refused connections. The webhook has another authority (certificate.h), because API servers trust
 * that one and must not trust certificates of tenants. Steps:
 * 1. When a third of an authority's validity is left, a new authority is made; the old one stays
 *    with its key. Both are published: AUTHORITY_OVERLAP_NS later all nodes know the new one.
 * 2. Until then the old authority signs, afterwards the new one.
 * 3. The old authority is dropped when the last certificate that it signed has expired.
 * The stored certificates alone determine the next step, so any controller can make it.
 *
 * No I/O, no clock: times are CLOCK_REALTIME. One thread.
 */
#ifndef CONTROLLER_AUTHORITY_H
#define CONTROLLER_AUTHORITY_H

#include <stdint.h>

#include "base/error.h"
#include "controller/certificate.h"
#include "identity/request.h"

#define AUTHORITY_OVERLAP_NS CERTIFICATE_OVERLAP_NS
/* Validity of signed certificates. A node's daemon requests a new one when a third is left. */
#define AUTHORITY_SIGNED_NS CERTIFICATE_DAY_NS

/* PEM, as in the Secret; NULL: absent. */
struct authority_store {
	char *ca_crt, *ca_key; /* the newest authority */
	/* the previous authority, while certificates that it signed are valid */
	char *old_crt, *old_key;
};

void authority_store_done(struct authority_store *store);
#define _cleanup_authority_store_ __attribute__((cleanup(authority_store_done)))

/*
 * Makes the step that is due at that time. Returns 1 if the store has changed, 0 if no step is due.
 * An unreadable authority is replaced, and nodes then trust none of its certificates. -EIO.
 */
int authority_step(struct authority_store *store, uint64_t real_ns, struct error *err);

/*
 * Returns the authorities that nodes trust, newest first, as PEM owned by the caller. NULL: none,
 * or no memory.
 */
char *authority_bundle(const struct authority_store *store, uint64_t real_ns);

/*
 * Signs a certificate for that key and name: for a node as server and client, for a tenant as
 * client. *ret_crt is PEM owned by the caller. -EIO; -ENOKEY: no authority is valid now; -EINVAL:
 * no name.
 */
int authority_sign(const struct authority_store *store, const struct request *request,
	uint64_t real_ns, char **ret_crt, struct error *err);

#endif
