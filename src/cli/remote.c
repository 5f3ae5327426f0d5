/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/places.h"

#define WAITING 64 /* processes of the program that connect at once */

static int listen_at(struct sockaddr_un *ret_address, struct error *err)
{
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct sockaddr_un *a = ret_address;
	char folder[PLACES_PATH];
	mode_t before;
	int r = places_runtime(folder, sizeof(folder), err);

	if (r < 0)
		return r;
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(a->sun_path, sizeof(a->sun_path), "%s/remote-%d.sock", folder,
		    (int)getpid()) >= (int)sizeof(a->sun_path))
		return fail(
			err, ENAMETOOLONG, "runtime folder '%s': too long for a socket", folder);
	unlink(a->sun_path);
	before = umask(0077);
	r = sock < 0 || bind(sock, (struct sockaddr *)a, sizeof(*a)) < 0 ||
			listen(sock, WAITING) < 0
		? -errno
		: 0;
	umask(before);
	if (r < 0)
		return fail_errno(err, -r, "listen at '%s'", a->sun_path);
	return TAKE_FD(sock);
}

/* Of nobody's children: the program shall not find one that it has not made. */
static void become_server(const char *path, int sock, pid_t program, const char *hooks)
{
	char listener[16], follow[16];
	int null;

	if (setsid() < 0 || fork() != 0)
		_exit(0);
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	snprintf(listener, sizeof(listener), "%d", sock);
	snprintf(follow, sizeof(follow), "%d", (int)program);
	setenv("DIVVY_REMOTE_HOOKS", hooks, 1);
	unsetenv("LD_PRELOAD");
	execl(path, path, listener, follow, NULL);
	_exit(1);
}

int remote_begin(const char *hooks, struct error *err)
{
	static const char *const kept[] = {
		"DIVVY_TENANT", "DIVVY_SOCKET", "DIVVY_SIM", "DIVVY_DRIVER", "DIVVY_ABSENT"};
	char server[PLACES_PATH], library[PLACES_PATH];
	struct sockaddr_un address;
	_cleanup_close_ int sock = -1;
	const pid_t program = getpid();
	pid_t pid;
	int r = places_helper("divvy-remote-server", server, sizeof(server), err);

	r = r < 0 ? r : places_hook("libdivvy-remote.so", library, sizeof(library), err);
	r = r < 0 ? r : listen_at(&address, err);
	if (r < 0)
		return r;
	sock = r;
	pid = fork();
	if (pid == 0)
		become_server(server, sock, program, hooks);
	if (pid < 0)
		return fail_errno(err, errno, "start %s", server);
	waitpid(pid, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		unsetenv(kept[i]);
	if (setenv("DIVVY_REMOTE", address.sun_path, 1) < 0 || setenv("LD_PRELOAD", library, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	return 0;
}
