/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The authority that signs what nodes show one another (src/identity), and how it changes without
 * anybody being refused. It is not the webhook's (certificate.h): who has a tenant's certificate
 * shall not be believed by an API server.
 *  1. A third of its time before it ends a new one is made; the old one stays, with its key. Both
 *     are published: AUTHORITY_OVERLAP_NS later all nodes have heard of the new one.
 *  2. Until then the old one signs, afterwards the new one.
 *  3. When the last certificate by the old one has ended, it goes.
 * What is there says how far that has come: no other state is needed, whoever does the next step.
 *
 * No I/O, no clock: times are CLOCK_REALTIME's. One thread.
 */
#ifndef CONTROLLER_AUTHORITY_H
#define CONTROLLER_AUTHORITY_H

#include <stdint.h>

#include "base/error.h"
#include "controller/certificate.h"
#include "identity/request.h"

#define AUTHORITY_OVERLAP_NS CERTIFICATE_OVERLAP_NS
/* Of what it signs: a node's daemon asks for another when a third of that is left. */
#define AUTHORITY_SIGNED_NS CERTIFICATE_DAY_NS

/* PEM, as the Secret has it; NULL where there is nothing. */
struct authority_store {
	char *ca_crt, *ca_key;   /* the newest */
	char *old_crt, *old_key; /* the one before, while certificates by it hold */
};

void authority_store_done(struct authority_store *store);
#define _cleanup_authority_store_ __attribute__((cleanup(authority_store_done)))

/*
 * The next step that is due at that time: 1 when the store has changed, 0 when it is as it should
 * be. What cannot be read is made anew; then nothing that it has signed is believed any more. -EIO.
 */
int authority_step(struct authority_store *store, uint64_t real_ns, struct error *err);

/* What nodes are to believe, the newest first; the caller's. NULL: nothing, or no memory. */
char *authority_bundle(const struct authority_store *store, uint64_t real_ns);

/*
 * A certificate for that key and name alone: a node's for both sides, a tenant's for a client; PEM,
 * the caller's. -EIO; -ENOKEY: no authority holds now.
 */
int authority_sign(const struct authority_store *store, const struct request *request,
	uint64_t real_ns, char **ret_crt, struct error *err);

#endif
