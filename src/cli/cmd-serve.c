/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy serve` offers a tenant to a program on another machine. The command continues as `divvy
 * run` with the program divvy-remote-link. So the tenant is created like any other and lives as
 * long as the link, and the link prints the invitation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/install-path.h"
#include "base/cleanup.h"
#include "cli/cli-text.h"
#include "cli/cli-commands.h"
#include "cli/cli-path.h"
#include "cli/cli-remote.h"
#include "cli/spec-options.h"
#include "cmdline/output.h"

#define KEY_BYTES 32u
#define WAITING 64
#define PORT "7007"

static const struct option_row options[] = {
	{"listen", "HOST:PORT", TEXT_SERVE_LISTEN},
	{"invite", "FILE", TEXT_SERVE_INVITE, .is_maybe = true},
	{"allow-host-access", NULL, TEXT_SERVE_ALLOW_HOST_ACCESS},
	SPEC_OPTIONS_LIVE,
	SPEC_OPTIONS_PLACE,
	{"name", "NAME", "name of the tenant in other commands (default guest)"},
	CLI_SOCKET_OPTION,
	{0},
};

static int cmd_serve_parse_address(
	const char *listen_at, struct address *ret_address, struct error *err)
{
	int r = address_parse(str_from(listen_at), ADDRESS_ANY_PORT, ret_address, err);

	return r < 0 ? fail_within(err, r, "--listen") : 0;
}

/* Listens at *at, and then sets *at to the address for the invitation. */
static int listen_on(struct address *at, struct error *err)
{
	/* The socket stays open across execvp(), because the link uses it. */
	_cleanup_close_ int sock = address_listen(at, 0, WAITING, err);

	if (sock == -EADDRINUSE)
		return fail(err, EADDRINUSE,
			"--listen: another program uses port %s; name another port, or HOST:0 "
			"for a free one",
			at->port);
	if (sock < 0)
		return fail_within(err, sock, "--listen");
	snprintf(at->port, sizeof(at->port), "%u", address_port_of(sock));
	if (address_is_all(at) && gethostname(at->host, sizeof(at->host)) < 0)
		return fail_errno(err, errno, "this machine's name");
	return TAKE_FD(sock);
}

/* The link reads the invitation from its environment, and prints it once the tenant exists. */
static int cmd_serve_print_invitation(const struct address *at, struct error *err)
{
	char text[REMOTE_INVITATION];
	uint8_t key[KEY_BYTES];
	size_t n;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return fail_errno(err, errno, "make a key");
	if (address_format(at->host, at->port, text, ADDRESS_TEXT) < 0)
		return fail(err, ENAMETOOLONG, "'%s': the host name is too long", at->host);
	n = strlen(text);
	text[n++] = '/';
	for (size_t i = 0; i < sizeof(key); i++)
		n += (size_t)snprintf(text + n, 3, "%02x", key[i]);
	explicit_bzero(key, sizeof(key));
	return setenv(REMOTE_ENV, text, 1) < 0 ? fail(err, E2BIG, "the environment is too large")
					       : 0;
}

/* The link's workers inherit this variable from the link (remote/host-access.h). */
static int allow_host_access(bool is_allowed, struct error *err)
{
	const int r = is_allowed ? setenv("DIVVY_REMOTE_HOST_ACCESS", "allow", 1)
				 : unsetenv("DIVVY_REMOTE_HOST_ACCESS");

	return r < 0 ? fail(err, E2BIG, "the environment is too large") : 0;
}

#define GIVEN_MAX 64

static int cmd_serve_run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf given = BUF_INIT(64u << 10);
	char link[PLACES_PATH], number[16];
	const char *argv[GIVEN_MAX + 8];
	size_t at[GIVEN_MAX], n = 0, n_given = 0;
	const char *listen_at = cli_get(args, "listen"), *invitation = cli_get(args, "invite");
	struct address address = {.port = PORT};
	struct cli_args as_run;
	int r = install_path_find_program("divvy-remote-link", link, sizeof(link), err);

	if (r >= 0 && listen_at)
		r = cmd_serve_parse_address(listen_at, &address, err);
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
	r = cmd_serve_print_invitation(&address, err);
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

static int cmd_serve_check(const struct cli_args *args, struct error *err)
{
	const char *listen_at = cli_get(args, "listen"), *invitation = cli_get(args, "invite");
	struct address at;
	int r = listen_at ? cmd_serve_parse_address(listen_at, &at, err) : 0;

	if (r >= 0 && invitation && access(invitation, F_OK) == 0)
		r = fail(err, EEXIST,
			"--invite '%s': the file exists; an old invitation does not work again: "
			"remove the file, or name another",
			invitation);
	return r < 0 ? r : spec_options_check(args, err);
}

const struct cli_command cmd_serve = {
	.name = "serve",
	.operands = "",
	.summary = "Let a program on another machine use a share of a GPU of this machine",
	.text = TEXT_SERVE_TEXT,
	.examples = TEXT_SERVE_EXAMPLES,
	.options = options,
	.operands_max = 0,
	.check = cmd_serve_check,
	.run = cmd_serve_run,
};
