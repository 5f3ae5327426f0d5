/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook's own authority and certificate, and how they change without anybody being refused:
 *  1. a new authority joins the old one: clients are told to trust both;
 *  2. after CERTIFICATE_OVERLAP_NS, when all have heard of it, it signs the server's certificate;
 *  3. after as long again, when all servers show that one, the old authority goes.
 * What is there says how far that has come: no other state is needed, whoever does the next step.
 *
 * Does no I/O and has no clock: times are CLOCK_REALTIME's. One thread.
 */
#ifndef CONTROLLER_CERTIFICATE_H
#define CONTROLLER_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "identity/crt.h"

#define CERTIFICATE_DAY_NS (UINT64_C(86400) * 1000000000)
#define CERTIFICATE_AUTHORITY_NS (365 * CERTIFICATE_DAY_NS)
#define CERTIFICATE_SERVER_NS (90 * CERTIFICATE_DAY_NS)
#define CERTIFICATE_OVERLAP_NS (UINT64_C(3600) * 1000000000)
#define CERTIFICATE_EARLY_NS CRT_EARLY_NS
#define CERTIFICATE_AUTHORITIES_MAX CRT_LIST_MAX
#define CERTIFICATE_PEM_MAX CRT_PEM_MAX

/* PEM, as the Secret has it; NULL where there is nothing. */
struct certificate_store {
	char *ca_crt; /* what clients trust: the newest authority first, that of ca_key */
	char *ca_key;
	char *tls_crt, *tls_key;
};

void certificate_store_done(struct certificate_store *store);
#define _cleanup_certificate_store_ __attribute__((cleanup(certificate_store_done)))

/*
 * The next step that is due at that time: 1 when the store has changed, 0 when it is as it should
 * be. What cannot be read is made anew. -EIO when none can be made. Call it again every now and
 * then; CERTIFICATE_OVERLAP_NS is soon enough.
 */
int certificate_step(
	struct certificate_store *store, const char *host, uint64_t real_ns, struct error *err);

/* Would a client that trusts the bundle believe the store's certificate at that time? */
bool certificate_is_trusted(const struct certificate_store *store, const char *bundle_pem,
	const char *host, uint64_t real_ns);

/* When the store's certificate ends; 0: there is none. */
uint64_t certificate_ends_ns(const struct certificate_store *store);

#endif
