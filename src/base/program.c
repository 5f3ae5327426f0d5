/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file runs main() of daemons and tools: it parses options, writes help and man page, and
 * delivers signals. The mask `given` has a bit for each row of the program's own options, which
 * PROGRAM_OPTIONS_MAX keeps below 64. check_needs() refuses an option without the option that its
 * row needs, after all options are read. SIGTERM and SIGINT reach run() through a signalfd only, so
 * neither of them interrupts running code. program_hold_signals() runs from .preinit_array before
 * libc is ready, so it calls the kernel directly.
 */
#include "base/program.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/man.h"
#include "base/process.h"

#define NAME_BYTES 64

struct program_signals {
	struct loop_io io;
	int fd;
	program_signal_fn *fn;
	void *data;
};

/* ---- options ---- */

static const struct option_row daemon_common[] = {
	{"log", "LEVEL", "error, warn, info (default) or debug"},
	{"version", NULL, "print the version"},
	{"help", NULL, "print this help"},
	{0},
};

static const struct option_row tool_common[] = {
	{"help", NULL, "print this help", .letter = 'h'},
	{0},
};

static struct option_table table_of(const struct program *p)
{
	return (struct option_table){p->options, p->is_tool ? tool_common : daemon_common};
}

void program_print_help(const struct program *p, FILE *file)
{
	static const struct option_layout layout = {
		.between = ' ', .column = OPTION_COLUMN_LONGEST, .width = INT_MAX};
	const struct option_table table = table_of(p);
	const struct program_section *commands = &p->commands;
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);
	size_t width = 0;

	buf_addf(&out, "usage: %s [options]%s%s\n%s\n\n", p->name, p->operands ? " " : "",
		p->operands ? p->operands : "", p->sentence);
	for (size_t i = 0; i < commands->n_terms; i++)
		width = MAX(width, strlen(commands->terms[i][0]));
	for (size_t i = 0; i < commands->n_terms; i++)
		buf_addf(&out, "  %-*s %s\n%s", (int)width, commands->terms[i][0],
			commands->terms[i][1], i + 1 == commands->n_terms ? "\n" : "");
	option_add_help(&out, &table, &layout);
	fputs(buf_text(&out), file);
	if (p->help_end)
		fprintf(file, "\n%s\n", p->help_end);
}

static void program_set_text(void *options, size_t at, const char *value)
{
	memcpy((char *)options + at, &value, sizeof(value));
}

static int program_set_option(
	const struct option_row *row, void *options, const char *value, struct error *err)
{
	int r = value ? option_check(row, value, err) : 0;

	if (r < 0)
		return r;
	if (row->set) {
		r = row->set(options, value, err);
		return r < 0 ? fail_within(err, r, "--%s", row->name) : 0;
	}
	if (row->value)
		program_set_text(options, row->at, value);
	else
		*(bool *)((char *)options + row->at) = true;
	return 0;
}

/* Handles an option of the common table. Returns 1 if the program has nothing else to do. */
static int set_common(
	const struct program *p, const struct option_row *row, const char *value, struct error *err)
{
	if (row == &daemon_common[0])
		return log_set_option(value, err);
	if (row == &daemon_common[1])
		printf("%s %s\n", p->name, DIVVY_VERSION);
	else
		program_print_help(p, stdout);
	return 1;
}

static void set_presets(const struct program *p, void *options)
{
	size_t n = 0;

	for (const struct option_row *row = p->options; row && row->name; row++, n++)
		if (row->preset)
			program_set_text(options, row->at, row->preset);
	assert(n <= PROGRAM_OPTIONS_MAX);
}

/* Refuses an option whose required option is missing, instead of ignoring it. */
static int check_needs(const struct option_row *rows, uint64_t given, struct error *err)
{
	for (size_t i = 0; rows && rows[i].name; i++) {
		const char *needs = rows[i].needs;

		for (size_t k = 0; needs && given >> i & 1 && rows[k].name; k++)
			if (!strcmp(rows[k].name, needs) && !(given >> k & 1))
				return fail(err, EINVAL, "--%s works only together with --%s",
					rows[i].name, needs);
	}
	return 0;
}

struct parsed {
	const struct program *program;
	void *options;
	uint64_t given; /* bits of the program's own options, by row */
	bool is_done;   /* an option such as --help has printed its text */
};

static int take_option(struct parsed *parsed, const struct option_scan *scan, struct error *err)
{
	const struct option_row *row, *own = parsed->program->options;
	int r;

	for (row = own; row && row->name && row != scan->row;)
		row++;
	if (row && row->name) {
		parsed->given |= UINT64_C(1) << (row - own);
		return program_set_option(row, parsed->options, scan->value, err);
	}
	r = set_common(parsed->program, scan->row, scan->value, err);
	parsed->is_done = parsed->is_done || r > 0;
	return r;
}

static int program_take_event(struct parsed *parsed, const struct option_scan *scan,
	enum option_event event, struct error *err)
{
	switch (event) {
	case OPTION_NO_VALUE:
		return fail(err, EINVAL, "%s: the value is missing; --help lists all options",
			scan->word);
	case OPTION_EMPTY_VALUE:
		return fail(err, EINVAL, "--%s: the value is empty; --help lists all options",
			scan->row->name);
	case OPTION_UNKNOWN:
	case OPTION_EXTRA_VALUE:
		return fail(err, EINVAL,
			"%s: unknown option, or one that takes no value; --help lists all options",
			scan->word);
	default: return take_option(parsed, scan, err);
	}
}

int program_parse(
	const struct program *program, void *options, int argc, char **argv, struct error *err)
{
	struct parsed parsed = {.program = program, .options = options};
	struct option_scan scan = {.table = table_of(program),
		.argc = argc,
		.argv = argv,
		.at = 1,
		.is_cut_accepted = true};
	enum option_event event;
	int r, n = 1;

	set_presets(program, options);
	while ((event = option_next(&scan)) != OPTION_END) {
		if (event == OPTION_OPERAND)
			argv[n++] = argv[scan.at - 1];
		else if ((r = program_take_event(&parsed, &scan, event, err)) < 0)
			return r;
	}
	if (n < argc)
		argv[n] = NULL;
	if (n > 1 && !program->operands)
		return fail(err, EINVAL, "'%s': %s takes options only; --help lists them", argv[1],
			program->name);
	if (parsed.is_done)
		return 1;
	r = check_needs(program->options, parsed.given, err);
	if (r < 0 || !program->finish)
		return r;
	r = program->finish(options, err);
	return r < 0 ? r : 0;
}

/* ---- the man page ---- */

static void add_section(struct buf *out, const struct program_section *section)
{
	buf_addf(out, ".SH %s\n", section->title);
	if (section->text)
		man_add_paragraphs(out, section->text);
	for (size_t i = 0; i < section->n_terms; i++)
		man_add_term(out, section->terms[i][0], section->terms[i][1]);
}

static void program_add_see_also(struct buf *out, const char *pages)
{
	struct str rest = str_from(pages), page;
	bool is_first = true;

	buf_add_text(out, ".SH SEE ALSO\n");
	while (str_word(&rest, &page)) {
		const size_t n = str_find(page, '(');
		char name[NAME_BYTES];

		str_copy(name, sizeof(name), (struct str){page.p, n});
		buf_add_text(out, is_first ? "\\fB" : ",\n\\fB");
		man_add_text(out, name);
		buf_addf(out, "\\fR%" STR_FMT, STR_ARG(((struct str){page.p + n, page.n - n})));
		is_first = false;
	}
	buf_add_byte(out, '\n');
}

int program_dump_man(const struct program *p, const char *folder, struct error *err)
{
	const struct man_page page = {.name = p->name,
		.section = p->is_tool ? 1 : 8,
		.summary = p->summary,
		.made_by = p->name};
	const struct option_table table = table_of(p);
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);
	int r = folder_make(folder, 0755, err);

	if (r < 0)
		return r;
	man_add_head(&out, &page);
	buf_add_text(&out, ".B ");
	man_add_text(&out, p->name);
	buf_add_text(&out, "\n[\\fIOPTION\\fR...]");
	if (p->operands)
		buf_addf(&out, " \\fI%s\\fR", p->operands);
	buf_add_text(&out, "\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out, p->text);
	if (p->commands.n_terms)
		add_section(&out, &p->commands);
	buf_add_text(&out, ".SH OPTIONS\n");
	option_add_man(&out, &table);
	for (size_t i = 0; i < p->n_sections; i++)
		add_section(&out, &p->sections[i]);
	program_add_see_also(&out, p->see_also);
	r = man_write(folder, &page, &out, err);
	return r < 0 || !p->dump_more ? r : p->dump_more(folder, err);
}

/* ---- signals ---- */

/* "4711 (systemd)", so that the log says which process ended the daemon. */
static void name_sender(uint32_t pid, char *ret, size_t size)
{
	struct process_stat stat;
	const bool is_known = process_read_stat((pid_t)pid, &stat) == 0;

	snprintf(ret, size, "%u (%s)", pid, is_known ? stat.name : "?");
}

static void program_on_signal(struct loop_io *io, uint32_t events)
{
	struct program_signals *s = io->data;
	struct signalfd_siginfo info;
	char sender[NAME_BYTES];

	while (read(s->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGHUP) {
			name_sender(info.ssi_pid, sender, sizeof(sender));
			log_info("stopping after signal %u from pid %s", info.ssi_signo, sender);
		}
		s->fn(s->data, info.ssi_signo == SIGHUP);
	}
}

int program_watch(
	struct program_signals *signals, struct loop *loop, program_signal_fn *fn, void *data)
{
	signals->fn = fn;
	signals->data = data;
	signals->io.data = signals;
	return loop_add_io(loop, &signals->io, signals->fd, EPOLLIN, program_on_signal);
}

void program_unwatch(struct program_signals *signals)
{
	loop_remove_io(&signals->io);
}

/* Neither sanitizers nor libc are ready yet. */
__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) void
program_hold_signals(void)
{
	const uint64_t set = UINT64_C(1) << (SIGTERM - 1) | UINT64_C(1) << (SIGINT - 1);

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, sizeof(set));
}

static int run_with_signals(
	const struct program *p, program_run_fn *run, void *options, struct error *err)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct program_signals signals = {0};
	sigset_t set;
	int r;

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (p->has_reload)
		sigaddset(&set, SIGHUP);
	signals.fd = signal_fd_new(&set);
	if (signals.fd < 0)
		return fail_errno(err, -signals.fd, "watch for signals");
	r = run(options, &signals, err);
	fd_close(signals.fd);
	return r;
}

int program_main(
	const struct program *program, program_run_fn *run, void *options, int argc, char **argv)
{
	struct error err = {0};
	bool is_usage;
	int r;

	log_init(program->name);
	process_await_children();
	if (argc == 3 && !strcmp(argv[1], "--dump-man")) {
		r = program_dump_man(program, argv[2], &err);
		is_usage = false;
	} else {
		r = program_parse(program, options, argc, argv, &err);
		is_usage = r < 0;
		if (r == 0)
			r = run_with_signals(program, run, options, &err);
	}
	if (r >= 0)
		return 0;
	log_error("%s", err.msg);
	return is_usage || r == -EINVAL ? 2 : 1;
}
