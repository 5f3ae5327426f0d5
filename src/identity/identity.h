/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one shows, with its key, and whom one believes of others: three texts in PEM. It lives in
 * memory, and goes to another process behind a descriptor: never by a path, for whoever can open
 * one of the key's could be us. Any thread.
 */
#ifndef IDENTITY_IDENTITY_H
#define IDENTITY_IDENTITY_H

#include <stdint.h>

#include "base/error.h"
#include "identity/name.h"

/* Of requests in the cluster, and of the ConfigMap and the Secret with the authorities. */
#define IDENTITY_SIGNER "divvy.gpu/remote"
#define IDENTITY_AUTHORITY "divvy-remote-authority"

struct identity {
	char *crt;       /* signed by one of the authorities */
	char *key;       /* of crt */
	char *authority; /* one or more, whoever of them is newest first */
};

/* The key does not stay in memory. A zeroed one is fine. */
void identity_done(struct identity *identity);
#define _cleanup_identity_ __attribute__((cleanup(identity_done)))

/* -ENOMEM. */
int identity_copy(const struct identity *identity, struct identity *ret_identity);

/* Sealed memory that has all of it, for a process that is to show it; the caller's. -errno. */
int identity_to_fd(const struct identity *identity);
/* Wherever it was read to before; the descriptor stays the caller's. -EINVAL, -errno. */
int identity_from_fd(int fd, struct identity *ret_identity, struct error *err);

struct identity_facts {
	struct identity_name name;
	uint64_t from_ns, to_ns; /* CLOCK_REALTIME's: its certificate holds */
};

/*
 * Would others who believe the same authorities believe it at that time? -EINVAL with a sentence:
 * no certificate, no key or not that one's, a name that is none. -EKEYEXPIRED: not at that time.
 * -EKEYREJECTED: none of the authorities has signed it.
 */
int identity_check(const struct identity *identity, uint64_t real_ns,
	struct identity_facts *ret_facts, struct error *err);

#endif
