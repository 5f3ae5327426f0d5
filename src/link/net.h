/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching another machine. Any thread; blocks. */
#ifndef LINK_NET_H
#define LINK_NET_H

/* Connected, SECURE_HANDSHAKE_MS at most; -errno of the last address, -ENOENT: no such host. */
int net_dial(const char *host, const char *port);

#endif
