/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to another machine. Any thread; blocks. */
#ifndef LINK_NET_H
#define LINK_NET_H

/*
 * Returns a connected socket, after at most SECURE_HANDSHAKE_MS for each address. -errno of the
 * last address; -ENOENT: no such host.
 */
int net_dial(const char *host, const char *port);

#endif
