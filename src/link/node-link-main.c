/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   divvy-remote-far serve
 *   divvy-remote-far reach HOST PORT NODE UID CONTAINER SPACE POD CGROUP-ROOT
 *   divvy-remote-far probe HOST PORT NODE TRANSFER-MS
 *
 * Links between a cluster's nodes: node-link.h. divvyd starts this program with the descriptors
 * that wire/serve.h describes. The process has one thread; its children have threads of their own.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "link/node-link.h"
#include "remote/confine.h"

/* ---- both sides ---- */

void node_link_reply_init(struct serve_reply *reply, int status, const char *text)
{
	*reply = (struct serve_reply){.magic = SERVE_MAGIC, .status = status};
	snprintf(reply->text, sizeof(reply->text), "%s", text);
}

int node_link_ask(const struct serve_ask *ask, struct serve_answer *ret_answer, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const char *path = getenv(SERVE_ENV);
	struct serve_answer answer;

	if (fd < 0 || !path ||
		str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)) < 0 ||
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		send(fd, ask, sizeof(*ask), MSG_NOSIGNAL) != sizeof(*ask) ||
		fd_recv(fd, &answer, sizeof(answer), NULL, 0) != sizeof(answer) ||
		answer.magic != SERVE_MAGIC)
		return fail(err, EAGAIN, "divvyd does not answer; start it and try again");
	answer.reason[sizeof(answer.reason) - 1] = '\0';
	if (answer.status < 0)
		return fail(err, -answer.status, "%s", answer.reason);
	*ret_answer = answer;
	return TAKE_FD(fd);
}

int node_link_become(const struct serve_answer *answer, struct error *err)
{
	char minors[24];
	int r = 0;

	if (setgroups(0, NULL) < 0 || setresgid(answer->user, answer->user, answer->user) < 0 ||
		setresuid(answer->user, answer->user, answer->user) < 0)
		return fail_errno(err, errno,
			"the worker cannot become user %u; give divvyd the capabilities SETUID "
			"and SETGID",
			answer->user);
	snprintf(minors, sizeof(minors), "%llu", (unsigned long long)answer->minors);
	r = setenv("DIVVY_TENANT", answer->secret, 1);
	r = r < 0 ? r : setenv(CONFINE_MINORS_ENV, minors, 1);
	return r < 0 ? fail(err, E2BIG, "the environment is too large") : 0;
}

/* ---- the program ---- */

static int node_link_print_usage(void)
{
	fprintf(stderr,
		"usage: divvy-remote-far serve | reach HOST PORT NODE UID CONTAINER SPACE "
		"POD CGROUP-ROOT | probe HOST PORT NODE TRANSFER-MS (started by divvyd)\n");
	return 2;
}

static int do_serve(struct identity_tls *tls, char *const *argv)
{
	return node_link_serve(tls);
}

static int do_reach(struct identity_tls *tls, char *const *argv)
{
	return node_link_reach(tls,
		&(struct node_link_target){.host = argv[0],
			.port = argv[1],
			.node = argv[2],
			.uid = argv[3],
			.container = argv[4],
			.space = argv[5],
			.pod = argv[6],
			.cgroup_root = argv[7]});
}

static int do_probe(struct identity_tls *tls, char *const *argv)
{
	uint64_t ms;

	if (parse_uint(str_from(argv[3]), 0, SERVE_TRANSFER_MS_MAX, &ms, NULL) < 0)
		return -EINVAL;
	return node_link_probe(tls,
		&(struct node_link_target){
			.host = argv[0], .port = argv[1], .node = argv[2], .space = "", .pod = ""},
		(unsigned)ms);
}

static const struct part {
	const char *name;
	int n_words;
	int (*run)(struct identity_tls *tls, char *const *argv);
} parts[] = {{"serve", 0, do_serve}, {"reach", 8, do_reach}, {"probe", 4, do_probe}};

static const struct part *find_part(int argc, char **argv)
{
	for (size_t i = 0; argc >= 2 && i < ARRAY_SIZE(parts); i++)
		if (!strcmp(argv[1], parts[i].name) && argc == 2 + parts[i].n_words)
			return &parts[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct part *part = find_part(argc, argv);
	_cleanup_identity_ struct identity identity = {0};
	struct identity_tls *tls = NULL;
	struct error err = {0};
	int r;

	if (!part)
		return node_link_print_usage();
	log_init("divvy-remote-far");
	process_await_children();
	for (int fd = SERVE_FD_LISTEN; fd <= SERVE_FD_IDENTITY; fd++)
		fd_set_cloexec(fd, true);
	/* This process's memory contains a key, so no other process may read it. */
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	r = identity_from_fd(SERVE_FD_IDENTITY, &identity, &err);
	r = r < 0 ? r : identity_tls_new(&identity, &tls, &err);
	close(SERVE_FD_IDENTITY);
	identity_done(&identity);
	if (r < 0)
		fprintf(stderr, "divvy-remote-far: %s\n", err.msg);
	else
		r = part->run(tls, argv + 2);
	_exit(r < 0);
}
