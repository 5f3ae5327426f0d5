/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that the workers of one server have received, by their SHA-256: so that a library goes
 * over the network once for all processes of a program. One memfd that the server makes and its
 * workers inherit; it only grows, and is gone with the last of them.
 */
#ifndef REMOTE_STORE_H
#define REMOTE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/sha256.h"

/* The environment variable in which a worker finds the descriptor. */
#define STORE_ENV "DIVVY_REMOTE_STORE"
#define STORE_BYTES (1ull << 30)
/* Of smaller images the round trip costs more than it saves. */
#define STORE_LEAST (64u << 10)

/* An empty one: its descriptor, the caller's, or -errno. */
int store_new(void);

/* Uses this one from now on, once in a process; the descriptor stays the caller's. 0 or -errno. */
int store_open(int fd);

/* The image of that name, in memory that stays; NULL when it is not there, or there is no store. */
const uint8_t *store_find(const uint8_t hash[SHA256_BYTES], size_t *ret_bytes);

/* Keeps it where there is room; the caller has made sure that the name is its. Any thread. */
void store_add(const uint8_t hash[SHA256_BYTES], const void *p, size_t n);

#endif
