/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a helper program and learns of its end when the control connection closes. helper_start()
 * forks twice and waits only for the first child, which exits at once. So the daemon is not the
 * parent of the helper and never has to reap it. Between fork and exec, helper_exec_program() calls
 * only async-signal-safe functions. helper_exec_program() first copies all descriptors to HIGH or
 * above, so that moving them to 3, 4, ... overwrites none.
 */
#include "node/helper.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/install-path.h"
#include "base/fd.h"
#include "base/inherit.h"

#define FIRST 3
#define HIGH 64 /* first of the temporary descriptors, above those that a helper gets */
#define PACKET_MAX 4096u

struct helper {
	struct helper_options options;
	int control;
	struct loop_io io;
};

/* Runs between fork and exec: allocates nothing and takes no lock. */
static void helper_exec_program(const char *path, char *const *argv, char *const *env,
	const struct helper_options *o, const int *fds)
{
	int high[HELPER_FDS_MAX];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < o->n_fds; i++)
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, HIGH);
	for (size_t i = 0; i < o->n_fds; i++)
		if (dup2(high[i], FIRST + (int)i) < 0)
			_exit(127);
	execve(path, argv, env);
	_exit(127);
}

static void on_control(struct loop_io *io, uint32_t events)
{
	struct helper *h = io->data;
	_Alignas(8) char packet[PACKET_MAX];
	const ssize_t n = recv(h->control, packet, sizeof(packet), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		if (h->options.said)
			h->options.said(h->options.data, packet, (size_t)n);
		return;
	}
	loop_remove_io(&h->io);
	h->control = fd_close(h->control);
	h->options.ended(h->options.data);
}

int helper_start(struct loop *loop, const struct helper_options *o, struct helper **ret_helper,
	struct error *err)
{
	struct helper *h = calloc(1, sizeof(*h));
	const char *argv[32], *env[INHERIT_MAX + 1];
	int fds[HELPER_FDS_MAX], pair[2] = {-1, -1}, r;
	char path[PATH_MAX];
	size_t n = 0;
	pid_t pid;

	if (!h)
		return fail(err, ENOMEM, "no memory");
	r = install_path_find_program(o->name, path, sizeof(path), err);
	if (r >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = fail_errno(err, errno, "start %s", o->name);
	h->options = *o;
	h->control = pair[0];
	h->io.data = h;
	r = r < 0 ? r : loop_add_io(loop, &h->io, h->control, EPOLLIN, on_control);
	if (r < 0) {
		fd_close(pair[1]);
		helper_free(h);
		return r;
	}
	argv[n++] = o->name;
	for (size_t i = 0; o->argv[i] && n < ARRAY_SIZE(argv) - 1; i++)
		argv[n++] = o->argv[i];
	argv[n] = NULL;
	inherit_fill(INHERIT_BY_LINK, o->env, env);
	for (size_t i = 0; i < o->n_fds; i++)
		fds[i] = i == (size_t)o->control_at ? pair[1] : o->fds[i];
	/*
	 * The daemon waits only for the child, which ends at once. The helper is the child's child.
	 */
	pid = fork();
	if (pid == 0) {
		if (fork() == 0)
			helper_exec_program(path, (char *const *)(uintptr_t)argv,
				(char *const *)(uintptr_t)env, o, fds);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0) {
		r = fail_errno(err, errno, "start %s", o->name);
		helper_free(h);
		return r;
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret_helper = h;
	return 0;
}

void helper_free(struct helper *h)
{
	if (!h)
		return;
	loop_remove_io(&h->io);
	fd_close(h->control);
	free(h);
}
