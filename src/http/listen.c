/* SPDX-License-Identifier: Apache-2.0 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

#define UNIX_PREFIX "unix:"

static int split_address(
	const char *address, char host[static NI_MAXHOST], char port[static 8], struct error *err)
{
	struct str rest = str_from(address), name;
	size_t colon = rest.n;
	uint64_t number;

	while (colon && rest.p[colon - 1] != ':')
		colon--;
	name = (struct str){rest.p, colon ? colon - 1 : 0};
	rest = (struct str){rest.p + colon, rest.n - colon};
	if (!colon || parse_uint(rest, 0, 65535, &number, NULL) < 0)
		return fail(
			err, EINVAL, "'%s': expected HOST:PORT or :PORT, such as :9443", address);
	if (str_skip_prefix(&name, STR("[")) && !str_skip_suffix(&name, STR("]")))
		return fail(err, EINVAL, "'%s': a ] is missing", address);
	if (str_copy(host, NI_MAXHOST, name) < 0 || str_copy(port, 8, rest) < 0)
		return fail(err, EINVAL, "'%s': too long", address);
	return 0;
}

const char *http_address_path(const char *address)
{
	return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) ? NULL
								  : address + strlen(UNIX_PREFIX);
}

static int make_unix(const char *path, struct sockaddr_un *ret, struct error *err)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (path[0] && str_copy(ret->sun_path, sizeof(ret->sun_path), str_from(path)) >= 0)
		return 0;
	return fail(err, EINVAL, "'" UNIX_PREFIX "%s': expected a path of 1 to %zu characters",
		path, sizeof(ret->sun_path) - 1);
}

int http_address_check(const char *address, struct error *err)
{
	const char *path = http_address_path(address);
	char host[NI_MAXHOST], port[8];
	struct sockaddr_un un;

	return path ? make_unix(path, &un, err) : split_address(address, host, port, err);
}

static int listen_unix(const char *path, struct error *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = -1;
	int r = make_unix(path, &address, err);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, SOMAXCONN) < 0)
		return fail_errno(err, errno, "listening on '%s'", path);
	return TAKE_FD(fd);
}

static int listen_at(const struct addrinfo *a)
{
	_cleanup_close_ int fd = socket(
		a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int one = 1, zero = 0;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* All addresses are those of IPv6, which take IPv4's in, where there is IPv6. */
int http_listen(const char *address, struct error *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
	char host[NI_MAXHOST], port[8];
	const char *path = http_address_path(address);
	struct addrinfo *all = NULL;
	int fd;

	if (path)
		return listen_unix(path, err);
	fd = split_address(address, host, port, err);
	if (fd < 0)
		return fd;
	if (getaddrinfo(host[0] ? host : NULL, port, &hints, &all) != 0)
		return fail(err, EINVAL, "'%s': the host has to be an address", address);
	fd = -EADDRNOTAVAIL;
	for (int round = 0; round < 2 && fd < 0; round++)
		for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
			if ((a->ai_family == AF_INET6) == (round == 0))
				fd = listen_at(a);
	freeaddrinfo(all);
	return fd < 0 ? fail_errno(err, -fd, "listening on '%s'", address) : fd;
}

uint16_t http_port_of(int fd)
{
	struct sockaddr_storage address = {0};
	socklen_t n = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &n) < 0 || address.ss_family == AF_UNIX)
		return 0;
	return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
						   : ((struct sockaddr_in *)&address)->sin_port);
}
