/* SPDX-License-Identifier: Apache-2.0 */
/* Authorities and identities for tests, good and bad ones. A failure to make one fails the test. */
#ifndef TESTS_UNIT_IDENTITY_MADE_H
#define TESTS_UNIT_IDENTITY_MADE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "identity/identity.h"

#define MADE_HOUR_NS (3600 * NSEC_PER_SEC)
#define MADE_UID "5f0c8c1e-7d0e-4a55-9a53-0c4f2e1b6d10"

struct made_authority {
	char *crt, *key;
};

/* Valid from an hour ago, for ten hours. */
struct made_authority made_authority(void);
void made_authority_done(struct made_authority *authority);
#define _cleanup_made_authority_ __attribute__((cleanup(made_authority_done)))

/* Differences from a usual certificate. */
struct made_wish {
	const char *uri;
	const char *host;                /* a DNS name instead of `uri`, as web servers have */
	const struct made_authority *by; /* NULL: self-signed */
	const struct made_authority *trusts;
	bool is_client_only;
	int64_t from_h, to_h; /* validity, in hours from now; both 0: from -1 to 1 */
};
struct identity made_identity(const struct made_wish *wish);

/* `authority` signs the certificate and is the authority that the identity trusts. */
struct identity made_node(const struct made_authority *authority, const char *node);
struct identity made_tenant(const struct made_authority *authority);

#endif
