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
#define KEY_DIGITS 64u

bool remote_is_invitation(const char *place)
{
	const char *key = strrchr(place, '/');

	return key && strlen(key + 1) == KEY_DIGITS &&
		strspn(key + 1, "0123456789abcdef") == KEY_DIGITS && strchr(place, ':') < key &&
		strlen(place) < REMOTE_INVITATION;
}

int remote_check(const char *place, struct error *err)
{
	if (strcmp(place, "local") == 0 || remote_is_invitation(place))
		return 0;
	return fail(err, EINVAL,
		"--remote '%s': expected 'local', or HOST:PORT/KEY as divvy serve prints it",
		place);
}

static int listen_at(struct sockaddr_un *ret_address, struct error *err)
{
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct sockaddr_un *a = ret_address;
	char folder[PLACES_PATH];
	mode_t before;
	int r = places_runtime(folder, sizeof(folder), err);

	r = r < 0 ? r : folder_make(folder, 0700, err);
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

/*
 * Of nobody's children: the program shall not find one that it has not made. Its stdout is ours to
 * read, the other two are nobody's.
 */
static void become_helper(const char *path, const char *verb, int sock, pid_t program, int out)
{
	char listener[16], follow[16];
	const int null = open("/dev/null", O_RDWR);

	if (setsid() < 0 || fork() != 0)
		_exit(0);
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	snprintf(listener, sizeof(listener), "%d", sock);
	snprintf(follow, sizeof(follow), "%d", (int)program);
	unsetenv("LD_PRELOAD");
	if (verb)
		execl(path, path, verb, listener, follow, NULL);
	else
		execl(path, path, listener, follow, NULL);
	_exit(1);
}

static int start_helper(const char *name, const char *verb, struct sockaddr_un *ret_address,
	int *ret_out, struct error *err)
{
	_cleanup_close_ int sock = -1;
	const pid_t program = getpid();
	char path[PLACES_PATH];
	int out[2], r;
	pid_t pid;

	r = places_helper(name, path, sizeof(path), err);
	r = r < 0 ? r : listen_at(ret_address, err);
	if (r < 0)
		return r;
	sock = r;
	if (pipe2(out, O_CLOEXEC) < 0)
		return fail_errno(err, errno, "start %s", path);
	pid = fork();
	if (pid == 0)
		become_helper(path, verb, sock, program, out[1]);
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return fail_errno(err, errno, "start %s", path);
	}
	waitpid(pid, NULL, 0);
	*ret_out = out[0];
	return 0;
}

/* What the program finds: where to ask, and whom it takes for the driver. */
static int set_program(const struct sockaddr_un *address, struct error *err)
{
	static const char *const kept[] = {"DIVVY_TENANT", "DIVVY_SOCKET", "DIVVY_SIM",
		"DIVVY_DRIVER", "DIVVY_ABSENT", "DIVVY_REMOTE_HOOKS", "DIVVY_INVITATION"};
	char library[PLACES_PATH];
	int r = places_hook("libdivvy-remote.so", library, sizeof(library), err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		unsetenv(kept[i]);
	if (setenv("DIVVY_REMOTE", address->sun_path, 1) < 0 ||
		setenv("LD_PRELOAD", library, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	return 0;
}

int remote_begin(const char *hooks, struct error *err)
{
	_cleanup_close_ int out = -1;
	struct sockaddr_un address;
	int r;

	if (setenv("DIVVY_REMOTE_HOOKS", hooks, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	r = start_helper("divvy-remote-server", NULL, &address, &out, err);
	return r < 0 ? r : set_program(&address, err);
}

int remote_join(const char *invitation, struct error *err)
{
	_cleanup_close_ int out = -1;
	struct sockaddr_un address;
	char said[128] = "";
	size_t n = 0;
	int r;

	if (setenv("DIVVY_INVITATION", invitation, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	r = start_helper("divvy-remote-link", "join", &address, &out, err);
	if (r < 0)
		return r;
	for (ssize_t got; n < sizeof(said) - 1; n += (size_t)got) {
		got = read(out, said + n, sizeof(said) - 1 - n);
		if (got <= 0)
			break;
	}
	said[strcspn(said, "\n")] = '\0';
	if (strcmp(said, "ok") == 0)
		return set_program(&address, err);
	unlink(address.sun_path);
	/* Without the key, which is nobody else's business. */
	return fail(err, EACCES, "--remote %.*s: %s%s", (int)strcspn(invitation, "/"), invitation,
		said[0] ? said : "no answer",
		strcmp(said, strerror(EACCES)) ? ""
					       : ": an invitation is good once, for who has it");
}
