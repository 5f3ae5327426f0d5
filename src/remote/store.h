/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that the workers of one server have received, named by their SHA-256. So a library crosses
 * the network once for all processes of a program. The server makes one memfd that its workers
 * inherit. The memfd only grows, and ends with the last worker.
 */
#ifndef REMOTE_STORE_H
#define REMOTE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/sha256.h"

/* Environment variable with the descriptor, for workers. */
#define STORE_ENV "DIVVY_REMOTE_STORE"
#define STORE_BYTES (1ull << 30)
/* For smaller images a round trip costs more than it saves. */
#define STORE_LEAST (64u << 10)

/* Makes an empty store. Returns its descriptor, which the caller owns, or -errno. */
int store_new(void);

/* Uses this store from now on, once in a process. The caller keeps fd. 0 or -errno. */
int store_open(int fd);

/*
 * Finds the image of that name; the memory is never freed. NULL: there is no such image, or no
 * store.
 */
const uint8_t *store_find(const uint8_t hash[SHA256_BYTES], size_t *ret_bytes);

/*
 * Keeps an image if there is room. The caller has verified that the hash is the image's. Any
 * thread.
 */
void store_add(const uint8_t hash[SHA256_BYTES], const void *p, size_t n);

#endif
