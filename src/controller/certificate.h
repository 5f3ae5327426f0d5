/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook's authority and certificate, and their rotation without refused connections:
 * 1. A new authority is added to the bundle; clients trust it and the old one.
 * 2. After CERTIFICATE_OVERLAP_NS all clients know the new authority, and it signs the server's
 *    certificate.
 * 3. After another CERTIFICATE_OVERLAP_NS all servers show that certificate, and the old authority
 *    is dropped.
 * The stored certificates alone determine the next step, so any controller can make it.
 *
 * No I/O, no clock: times are CLOCK_REALTIME. One thread.
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

/* PEM, as in the Secret; NULL: absent. */
struct certificate_store {
	char *ca_crt; /* trusted authorities; the first is the newest, and ca_key is its key */
	char *ca_key;
	char *tls_crt, *tls_key;
};

void certificate_store_done(struct certificate_store *store);
#define _cleanup_certificate_store_ __attribute__((cleanup(certificate_store_done)))

/*
 * Makes the step that is due at that time. Returns 1 if the store has changed, 0 if no step is due.
 * Unreadable texts are replaced. -EIO: no certificate could be made. Call at least every
 * CERTIFICATE_OVERLAP_NS.
 */
int certificate_step(
	struct certificate_store *store, const char *host, uint64_t real_ns, struct error *err);

/* Whether a client that trusts the bundle accepts the store's certificate at that time. */
bool certificate_is_trusted(const struct certificate_store *store, const char *bundle_pem,
	const char *host, uint64_t real_ns);

#endif
