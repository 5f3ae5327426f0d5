/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file turns the text of an address into a listening socket, non-blocking and close-on-exec.
 * http_address_check() and http_listen() parse with the same functions, so both accept the same
 * texts. An IP address has to be numeric, so no name lookup can block. listen_unix() unlinks the
 * path first, since a killed server leaves its socket there. Where the kernel can, a unix socket
 * refuses file descriptors from its peers.
 */
#include "http/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define UNIX_PREFIX "unix:"

#define FORMS (ADDRESS_ANY_HOST | ADDRESS_ANY_PORT | ADDRESS_BARE | ADDRESS_IS_NUMERIC)

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
	struct sockaddr_un un;
	struct address at;

	return path ? make_unix(path, &un, err) : address_parse(str_from(address), FORMS, &at, err);
}

static int listen_unix(const char *path, struct error *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = -1;
	int r = make_unix(path, &address, err);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_errno(err, errno, "create a socket");
	socket_refuse_rights(fd);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, SOMAXCONN) < 0)
		return fail_errno(err, errno, "listen on '%s'", path);
	return TAKE_FD(fd);
}

int http_listen(const char *address, struct error *err)
{
	const char *path = http_address_path(address);
	struct address at;
	int r;

	if (path)
		return listen_unix(path, err);
	r = address_parse(str_from(address), FORMS, &at, err);
	return r < 0 ? r : address_listen(&at, SOCK_CLOEXEC | SOCK_NONBLOCK, SOMAXCONN, err);
}
