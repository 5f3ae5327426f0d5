/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy serve: a tenant for a program on another machine. It becomes `divvy run` of the link, so
 * that the tenant is made as any other and lives as long as the link.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/remote.h"
#include "cli/wish.h"

#define KEY_BYTES 32u
#define WAITING 64
#define PORT "7007"

static const struct cli_option options[] = {
	{"listen", 0, CLI_VALUE, "HOST:PORT", NULL,
		"where the other machine reaches this one; port 0: any that is free (default: all "
		"addresses, port " PORT ")"},
	{"invite", 0, CLI_MAYBE, "FILE", NULL,
		"write the invitation to a new file that nobody else may read (default: to "
		"stdout)"},
	WISH_OPTIONS_LIVE,
	WISH_OPTIONS_PLACE,
	{"name", 0, CLI_VALUE, "NAME", NULL, "name shown and used by the other commands"},
	CLI_SOCKET_OPTION,
	{0},
};

static int split(const char *listen_at, char *ret_host, size_t size, const char **ret_port,
	struct error *err)
{
	const char *colon = strrchr(listen_at, ':');

	if (!colon || colon == listen_at || !colon[1] || (size_t)(colon - listen_at) >= size ||
		strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return fail(err, EINVAL, "--listen '%s': expected HOST:PORT", listen_at);
	memcpy(ret_host, listen_at, (size_t)(colon - listen_at));
	ret_host[colon - listen_at] = '\0';
	*ret_port = colon + 1;
	return 0;
}

/* Listens; the port is the one that it became. */
static int listen_on(const char *host, const char *port, uint16_t *ret_port, struct error *err)
{
	const struct addrinfo hints = {
		.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	_cleanup_close_ int sock = -1;
	struct sockaddr_in address;
	socklen_t n = sizeof(address);
	struct addrinfo *found = NULL;
	const int one = 1;
	int r = getaddrinfo(host, port, &hints, &found);

	if (r != 0)
		return fail(err, EINVAL, "--listen '%s:%s': %s", host, port, gai_strerror(r));
	/* It stays open in the link. */
	sock = socket(AF_INET, SOCK_STREAM, 0);
	if (sock >= 0)
		setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	r = sock < 0 || bind(sock, found->ai_addr, found->ai_addrlen) < 0 ||
			listen(sock, WAITING) < 0 ||
			getsockname(sock, (struct sockaddr *)&address, &n) < 0
		? -errno
		: 0;
	freeaddrinfo(found);
	if (r < 0)
		return fail_errno(err, -r, "listen on %s:%s", host, port);
	*ret_port = ntohs(address.sin_port);
	return TAKE_FD(sock);
}

/* A file of that name that is there already may be open elsewhere: it has to be new. */
static int write_invitation(const char *path, const char *text, struct error *err)
{
	_cleanup_close_ int fd = -1;

	if (!path || !path[0]) {
		printf("%s\n", text);
		return fflush(stdout) < 0 ? fail_errno(err, errno, "say the invitation") : 0;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%s\n", text) < 0)
		return fail_errno(err, errno, "--invite '%s'", path);
	return 0;
}

static int invite(const char *host, uint16_t port, const char *path, struct error *err)
{
	char text[REMOTE_INVITATION];
	uint8_t key[KEY_BYTES];
	int n;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return fail_errno(err, errno, "make a key");
	n = snprintf(text, sizeof(text) - 2 * KEY_BYTES, "%s:%u/", host, port);
	for (size_t i = 0; i < sizeof(key); i++)
		n += snprintf(text + n, 3, "%02x", key[i]);
	if (setenv(REMOTE_ENV, text, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	return write_invitation(path, text, err);
}

#define GIVEN_MAX 64

static int run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf given = BUF_INIT(64u << 10);
	char host[256], link[PLACES_PATH], number[16];
	const char *argv[GIVEN_MAX + 8], *port = NULL;
	size_t at[GIVEN_MAX], n = 0, n_given = 0;
	uint16_t bound = 0;
	const char *listen_at = cli_get(args, "listen");
	int r = beside_find_program("divvy-remote-link", link, sizeof(link), err);

	if (r >= 0 && listen_at)
		r = split(listen_at, host, sizeof(host), &port, err);
	else if (r >= 0 && gethostname(host, sizeof(host)) < 0)
		r = fail_errno(err, errno, "this machine's name");
	r = r < 0 ? r
		  : listen_on(listen_at ? host : "0.0.0.0", listen_at ? port : PORT, &bound, err);
	if (r < 0)
		return r;
	snprintf(number, sizeof(number), "%d", r);
	for (const struct cli_option *o = options; o->name; o++)
		if (cli_has(args, o->name) && strcmp(o->name, "listen") != 0 &&
			strcmp(o->name, "invite") != 0 && n_given < GIVEN_MAX) {
			at[n_given++] = given.n;
			buf_addf(&given, "--%s=%s", o->name, cli_get(args, o->name));
			buf_add_byte(&given, '\0');
		}
	if (buf_error(&given) < 0)
		return fail(err, E2BIG, "the options are too long");
	r = invite(host, bound, cli_get(args, "invite"), err);
	if (r < 0)
		return r;
	argv[n++] = "divvy";
	argv[n++] = "run";
	for (size_t i = 0; i < n_given; i++)
		argv[n++] = given.p + at[i];
	argv[n++] = "--quiet";
	argv[n++] = "--";
	argv[n++] = link;
	argv[n++] = "serve";
	argv[n++] = number;
	argv[n] = NULL;
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	return fail_errno(err, errno, "start divvy run");
}

static int check(const struct cli_args *args, struct error *err)
{
	const char *listen_at = cli_get(args, "listen"), *port;
	char host[256];
	int r = listen_at ? split(listen_at, host, sizeof(host), &port, err) : 0;

	return r < 0 ? r : wish_check(args, err);
}

const struct cli_command cmd_serve = {
	.name = "serve",
	.operands = "",
	.summary = "Let a program on another machine use a share of a GPU of this one",
	.text = "Makes a tenant with the wished share and memory, prints an invitation "
		"(HOST:PORT/KEY) and waits for whoever has it: `divvy run --remote HOST "
		"--invitation FILE -- PROGRAM` on the other machine. The invitation is good once. "
		"What the program gets is what was wished here, and is held here, whatever the "
		"program does; `divvy ps` and the other commands show and change it as any "
		"tenant.\n\n"
		"Both prove to each other by TLS 1.3 with a pre-shared key that they know the "
		"invitation; the first to do so is given another key, which alone counts from then "
		"on. Give the invitation to nobody else, and by a way that others do not see: "
		"--invite=FILE writes it to a file that is yours alone, for scp.\n\n"
		"It ends when the program has ended, or when it is itself ended.",
	.examples = "divvy serve --listen 192.0.2.7:7007 --request 0.3 --memory 4Gi\n"
		    "divvy serve --invite=guest --request 0.3 --memory 4Gi",
	.options = options,
	.operands_max = 0,
	.failed = CLI_EXIT_RUN_FAILED,
	.check = check,
	.run = run,
};
