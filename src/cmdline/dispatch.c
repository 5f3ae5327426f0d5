/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file finds the command in argv and runs it. Only this file prints errors and chooses exit
 * codes. A command's check() failure is bad usage. Main thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "cmdline/command.h"
#include "cmdline/output.h"

const struct cli_command *cli_command_find(const char *name)
{
	for (size_t i = 0; cli_commands[i]; i++)
		if (!strcmp(cli_commands[i]->name, name))
			return cli_commands[i];
	return NULL;
}

static const char *next_command(const void *names, size_t i)
{
	const struct cli_command *const *commands = names;

	return commands[i] ? commands[i]->name : NULL;
}

int cli_unknown_command(const char *name, struct error *err)
{
	const char *near = cli_suggest(name, next_command, cli_commands);

	if (name[0] == '-')
		return fail(err, EINVAL,
			"unknown option '%.40s'; '%s COMMAND --help' lists the options of a "
			"command",
			name, cli_program.name);
	if (near)
		return fail(err, EINVAL, "unknown command '%.40s'; did you mean '%s'?", name, near);
	return fail(err, EINVAL, "unknown command '%.40s'; '%s help' lists the commands", name,
		cli_program.name);
}

/* Blanks control characters: the message may quote a file or a user's text. */
static void dispatch_print_error(const struct cli_command *c, const char *sentence)
{
	char text[sizeof(((struct error *)NULL)->msg)];

	snprintf(text, sizeof(text), "%s", sentence);
	str_blank_controls(text, strlen(text));
	fprintf(stderr, "%s%s%s: %s\n", cli_program.name, c ? " " : "", c ? c->name : "", text);
}

static int dispatch_show_text(
	void (*make)(const struct cli_command *, struct buf *), const struct cli_command *c)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	struct error err;

	make(c, &out);
	if (output_buf(&out, &err) == 0)
		return 0;
	dispatch_print_error(NULL, err.msg);
	return CLI_EXIT_FAILED;
}

static void make_overview(const struct cli_command *c, struct buf *out)
{
	cli_overview(out);
}

static int dispatch_run_command(const struct cli_command *c, int argc, char **argv)
{
	struct cli_args args;
	struct error err = {0};
	int r = cli_parse(c, argc, argv, &args, &err);

	if (r >= 0 && !args.help && c->check)
		r = c->check(&args, &err);
	if (r < 0) {
		dispatch_print_error(c, err.msg);
		return c->failed ? c->failed : CLI_EXIT_USAGE;
	}
	if (args.help)
		return dispatch_show_text(cli_help, c);
	r = c->run(&args, &err);
	if (r >= 0 && output_end(&err) == 0)
		return r;
	dispatch_print_error(c, err.msg[0] ? err.msg : strerror(-r));
	return c->failed ? c->failed : CLI_EXIT_FAILED;
}

/*
 * A closed standard descriptor would be reused by the next file or socket, which would then receive
 * the program's output. This function opens /dev/null with the opposite access mode, so that using
 * the descriptor still fails. The program of divvy run finds the descriptor closed, as before.
 */
static void hold_standard_fds(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
}

/* Turns "-n team-a ps" into "ps -n team-a". */
static void put_command_first(int argc, char **argv)
{
	for (int at = 2; at < argc && argv[1][0] == '-'; at++) {
		const struct cli_command *c = cli_command_find(argv[at]);
		char *name = argv[at];

		if (!c || !cli_are_options(c, at - 1, argv + 1))
			continue;
		memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
		argv[1] = name;
	}
}

int cli_main(int argc, char **argv)
{
	const struct cli_command *c;
	struct error err = {0};

	hold_standard_fds();
	setlocale(LC_CTYPE, "");
	log_init(cli_program.name);
	if (argc < 2) {
		dispatch_show_text(make_overview, NULL);
		return CLI_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return dispatch_show_text(make_overview, NULL);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return dispatch_run_command(cli_command_find("version"), 0, argv + argc);
	/* The build makes docs/man with this option. */
	if (!strcmp(argv[1], "--dump-man") && argc == 3) {
		if (cli_man_dump(argv[2], &err) == 0)
			return 0;
		dispatch_print_error(NULL, err.msg);
		return CLI_EXIT_FAILED;
	}
	put_command_first(argc, argv);
	c = cli_command_find(argv[1]);
	if (!c) {
		cli_unknown_command(argv[1], &err);
		dispatch_print_error(NULL, err.msg);
		return CLI_EXIT_USAGE;
	}
	return dispatch_run_command(c, argc - 2, argv + 2);
}
