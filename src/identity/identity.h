/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate and key that divvy shows to peers, and the authorities that it trusts: three PEM
 * texts. An identity lives in memory and reaches another process through a descriptor. An identity
 * is never a file, because any program that could open the key's path could impersonate its owner.
 * Any thread.
 */
#ifndef IDENTITY_IDENTITY_H
#define IDENTITY_IDENTITY_H

#include <stdint.h>

#include "base/error.h"
#include "identity/name.h"

/*
 * Signer name of requests in the cluster; name of the ConfigMap and the Secret of the authorities.
 */
#define IDENTITY_SIGNER "divvy.gpu/remote"
#define IDENTITY_AUTHORITY "divvy-remote-authority"

struct identity {
	char *crt;       /* signed by one of the authorities */
	char *key;       /* the key of crt */
	char *authority; /* one or more certificates, the newest first */
};

/* Wipes the key from memory. Accepts a zeroed identity. */
void identity_done(struct identity *identity);
#define _cleanup_identity_ __attribute__((cleanup(identity_done)))

/* Returns 0 or -ENOMEM. */
int identity_copy(const struct identity *identity, struct identity *ret_identity);

/*
 * Returns sealed memory with the whole identity, for the process that will show it; the caller owns
 * the descriptor. Returns -errno on failure.
 */
int identity_to_fd(const struct identity *identity);
/*
 * Reads from offset 0, whatever the file offset is; the descriptor stays the caller's. -EINVAL or
 * -errno.
 */
int identity_from_fd(int fd, struct identity *ret_identity, struct error *err);

struct identity_facts {
	struct identity_name name;
	uint64_t from_ns, to_ns; /* validity period of the certificate, CLOCK_REALTIME */
};

/*
 * Checks whether peers with the same authorities would accept the identity at real_ns. Returns 0;
 * -EINVAL: the certificate, its key or its name is missing or faulty; -EKEYEXPIRED: outside the
 * validity period; -EKEYREJECTED: no valid authority has signed it.
 */
int identity_check(const struct identity *identity, uint64_t real_ns,
	struct identity_facts *ret_facts, struct error *err);

#endif
