/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching another machine. Any thread; blocks. */
#pragma once

/* Connected, SECURE_PEER_MS at most; -errno of the last address, -ENOENT: no such host. */
int net_dial(const char *host, const char *port);
