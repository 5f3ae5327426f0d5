/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy serve: a tenant for a program on another machine. It goes on as `divvy run` of the link, so
 * that the tenant is made as any other and lives as long as the link, which tells the invitation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/beside.h"
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/places.h"
#include "cli/remote.h"
#include "cli/wish.h"
#include "cmdline/output.h"

#define KEY_BYTES 32u
#define WAITING 64
#define PORT "7007"

static const struct option_row options[] = {
	{"listen", "HOST:PORT",
		"where the other machine reaches this one, an address of IPv6 as [ADDRESS]:PORT; "
		"port 0: any that is free (default: all addresses, port " PORT "); of all, as with "
		"[::]:PORT, the invitation names this machine"},
	{"invite", "FILE",
		"write the invitation to a new file that nobody else may read, and remove it at "
		"the end (default: to stdout)",
		.is_maybe = true},
	{"allow-host-access", NULL,
		"serve the program also with devices that reach ordinary memory of their process "
		"(HMM, ATS): its kernels can then read and change all of the worker, the tenant's "
		"secret included"},
	WISH_OPTIONS_LIVE,
	WISH_OPTIONS_PLACE,
	{"name", "NAME", "name shown and used by the other commands; guest where none is given"},
	CLI_SOCKET_OPTION,
	{0},
};

static int parse(const char *listen_at, struct address *ret_address, struct error *err)
{
	int r = address_parse(str_from(listen_at), ADDRESS_ANY_PORT, ret_address, err);

	return r < 0 ? fail_within(err, r, "--listen") : 0;
}

/* Listens there; the address is then the one that an invitation names. */
static int listen_on(struct address *at, struct error *err)
{
	/* It stays open in the link. */
	_cleanup_close_ int sock = address_listen(at, 0, WAITING, err);

	if (sock == -EADDRINUSE)
		return fail(err, EADDRINUSE,
			"--listen: another program listens to port %s: name another one, or "
			"HOST:0 for one that is free",
			at->port);
	if (sock < 0)
		return fail_within(err, sock, "--listen");
	snprintf(at->port, sizeof(at->port), "%u", address_port_of(sock));
	if (address_is_all(at) && gethostname(at->host, sizeof(at->host)) < 0)
		return fail_errno(err, errno, "this machine's name");
	return TAKE_FD(sock);
}

/* The link has it from the environment, and tells it once the tenant is there. */
static int invite(const struct address *at, struct error *err)
{
	char text[REMOTE_INVITATION];
	uint8_t key[KEY_BYTES];
	size_t n;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return fail_errno(err, errno, "make a key");
	if (address_format(at->host, at->port, text, ADDRESS_TEXT) < 0)
		return fail(err, ENAMETOOLONG, "'%s': too long a name", at->host);
	n = strlen(text);
	text[n++] = '/';
	for (size_t i = 0; i < sizeof(key); i++)
		n += (size_t)snprintf(text + n, 3, "%02x", key[i]);
	explicit_bzero(key, sizeof(key));
	return setenv(REMOTE_ENV, text, 1) < 0 ? fail(err, E2BIG, "the environment is too large")
					       : 0;
}

/* The link's workers have it from its environment (remote/host-access.h). */
static int allow_host_access(bool is_allowed, struct error *err)
{
	const int r = is_allowed ? setenv("DIVVY_REMOTE_HOST_ACCESS", "allow", 1)
				 : unsetenv("DIVVY_REMOTE_HOST_ACCESS");

	return r < 0 ? fail(err, E2BIG, "the environment is too large") : 0;
}

#define GIVEN_MAX 64

static int run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf given = BUF_INIT(64u << 10);
	char link[PLACES_PATH], number[16];
	const char *argv[GIVEN_MAX + 8];
	size_t at[GIVEN_MAX], n = 0, n_given = 0;
	const char *listen_at = cli_get(args, "listen"), *invitation = cli_get(args, "invite");
	struct address address = {.port = PORT};
	struct cli_args as_run;
	int r = beside_find_program("divvy-remote-link", link, sizeof(link), err);

	if (r >= 0 && listen_at)
		r = parse(listen_at, &address, err);
	r = r < 0 ? r : listen_on(&address, err);
	if (r < 0)
		return r;
	snprintf(number, sizeof(number), "%d", r);
	for (const struct option_row *o = options; o->name; o++)
		if (cli_has(args, o->name) && strcmp(o->name, "listen") != 0 &&
			strcmp(o->name, "invite") != 0 &&
			strcmp(o->name, "allow-host-access") != 0 && n_given < GIVEN_MAX) {
			at[n_given++] = given.n;
			buf_addf(&given, "--%s=%s", o->name, cli_get(args, o->name));
			buf_add_byte(&given, '\0');
		}
	if (buf_error(&given) < 0)
		return fail(err, E2BIG, "the options are too long");
	r = invite(&address, err);
	r = r < 0 ? r : allow_host_access(cli_has(args, "allow-host-access"), err);
	if (r < 0)
		return r;
	if (!cli_has(args, "name"))
		argv[n++] = "--name=guest";
	for (size_t i = 0; i < n_given; i++)
		argv[n++] = given.p + at[i];
	argv[n++] = "--";
	argv[n++] = link;
	argv[n++] = "serve";
	argv[n++] = number;
	argv[n++] = cli_has(args, "count") ? cli_get(args, "count") : "1";
	if (invitation && invitation[0])
		argv[n++] = invitation;
	argv[n] = NULL;
	r = cli_parse(&cmd_run, (int)n, (char **)(uintptr_t)argv, &as_run, err);
	return r < 0 ? r : cmd_run_called("divvy serve", &as_run, err);
}

static int check(const struct cli_args *args, struct error *err)
{
	const char *listen_at = cli_get(args, "listen"), *invitation = cli_get(args, "invite");
	struct address at;
	int r = listen_at ? parse(listen_at, &at, err) : 0;

	if (r >= 0 && invitation && access(invitation, F_OK) == 0)
		r = fail(err, EEXIST,
			"--invite '%s': there is such a file already; an old invitation is of no "
			"use: remove it, or name another file",
			invitation);
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
		"It ends when the program has ended, when its tenant is removed, or when it is "
		"itself ended.",
	.examples = "divvy serve --listen 192.0.2.7:7007 --request 0.3 --memory 4Gi\n"
		    "divvy serve --listen '[2001:db8::7]:7007' --request 0.3 --memory 4Gi\n"
		    "divvy serve --invite=guest --request 0.3 --memory 4Gi",
	.options = options,
	.operands_max = 0,
	.check = check,
	.run = run,
};
