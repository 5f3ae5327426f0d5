/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that a server listens on: "127.0.0.1:9443", "[::1]:9443", ":9443" (all addresses, IPv4
 * and IPv6), "unix:/run/x.sock". Port 0 is any free port. Any thread.
 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/error.h"

/* Returns 0, or -EINVAL with the expected forms in the message. */
int http_address_check(const char *address, struct error *err);

/*
 * Returns a listening socket that the caller owns, or -errno. Replaces a file at a unix socket's
 * path.
 */
int http_listen(const char *address, struct error *err);

/* The path of a unix socket's address; NULL for other addresses. */
const char *http_address_path(const char *address);

#endif
