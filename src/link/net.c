/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries the addresses of a host in the resolver's order until one accepts the connection.
 * SO_SNDTIMEO limits each connect(), and the limit applies to every address anew. net_dial() clears
 * the timeout before it returns, so later writes have no limit.
 */
#include "link/net.h"

#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/fd.h"
#include "link/secure.h"

int net_dial(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const struct timeval most = {.tv_sec = SECURE_HANDSHAKE_MS / 1000}, none = {0};
	struct addrinfo *all = NULL;
	int fd = -1, failed = EHOSTUNREACH;

	if (getaddrinfo(host, port, &hints, &all) != 0)
		return -ENOENT;
	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
		if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			failed = errno == EINPROGRESS ? ETIMEDOUT : errno;
			fd = fd_close(fd);
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	}
	freeaddrinfo(all);
	return fd < 0 ? -failed : fd;
}
