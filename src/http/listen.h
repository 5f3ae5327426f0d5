/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a server listens: "127.0.0.1:9443", "[::1]:9443", ":9443" (all addresses of IPv4 and IPv6),
 * "unix:/run/x.sock". Port 0 is any that is free. Any thread.
 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/error.h"

/* Is it an address? -EINVAL says what would be one. */
int http_address_check(const char *address, struct error *err);

/* A socket that listens, the caller's; what was at a unix socket's path is replaced. -errno. */
int http_listen(const char *address, struct error *err);

/* The path of a unix socket's address; NULL: it is none. */
const char *http_address_path(const char *address);

#endif
