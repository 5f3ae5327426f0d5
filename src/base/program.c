/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/man.h"
#include "base/process.h"

#define FIRST 256 /* of what getopt gives back */
#define LEFT_BYTES 64
#define HELP_BYTES 512

struct program_signals {
	struct loop_io io;
	int fd;
	program_signal_fn *fn;
	void *data;
};

/* ---- options ---- */

static const struct program_option common[] = {
	{"log", "LEVEL", "error, warn, info (default) or debug"},
	{"version", NULL, "print the version"},
	{"help", NULL, "print this"},
};

static const struct program_option *option_at(const struct program *p, size_t i)
{
	if (i < p->n_options)
		return &p->options[i];
	return i - p->n_options < ARRAY_SIZE(common) ? &common[i - p->n_options] : NULL;
}

static int format_left(const struct program_option *o, char ret[static LEFT_BYTES])
{
	return snprintf(ret, LEFT_BYTES, "--%s%s%s%s", o->name,
		!o->value             ? ""
			: o->is_maybe ? "[="
				      : " ",
		o->value ? o->value : "", o->is_maybe ? "]" : "");
}

static const char *format_help(const struct program_option *o, char ret[static HELP_BYTES])
{
	if (!o->needs)
		return o->help;
	snprintf(ret, HELP_BYTES, "with --%s: %s", o->needs, o->help);
	return ret;
}

static void print_help(const struct program *p)
{
	const struct program_option *o;
	char left[LEFT_BYTES], help[HELP_BYTES];
	int width = 0;

	for (size_t i = 0; (o = option_at(p, i)); i++)
		width = MAX(width, format_left(o, left));
	printf("usage: %s [options]\n%s\n\n", p->name, p->sentence);
	for (size_t i = 0; (o = option_at(p, i)); i++) {
		format_left(o, left);
		printf("  %-*s %s\n", width, left, format_help(o, help));
	}
	if (p->help_end)
		printf("\n%s\n", p->help_end);
}

static void set_text(void *options, size_t at, const char *value)
{
	memcpy((char *)options + at, &value, sizeof(value));
}

static int set_option(
	const struct program_option *o, void *options, const char *value, struct error *err)
{
	int r = 0;

	if (o->set)
		r = o->set(options, value, err);
	else if (!o->value)
		*(bool *)((char *)options + o->at) = true;
	else if (!o->check || (r = o->check(value, err)) >= 0)
		set_text(options, o->at, value);
	return r < 0 ? fail_within(err, r, "--%s", o->name) : 0;
}

/* One of ours: 1 when it is all that is wanted. */
static int set_common(const struct program *p, const struct program_option *o, const char *value,
	struct error *err)
{
	if (o == &common[0])
		return log_set_option(value, err);
	if (o == &common[1])
		printf("%s %s\n", p->name, DIVVY_VERSION);
	else
		print_help(p);
	return 1;
}

static int take_option(const struct program *p, size_t i, void *options, struct error *err)
{
	const struct program_option *o = option_at(p, i);

	if (optarg && !optarg[0])
		return fail(err, EINVAL, "--%s is empty (--help lists all)", o->name);
	return i < p->n_options ? set_option(o, options, optarg, err)
				: set_common(p, o, optarg, err);
}

static void prepare(const struct program *p, void *options, struct option *ret_longs)
{
	const struct program_option *o;

	assert(p->n_options + ARRAY_SIZE(common) < PROGRAM_OPTIONS_MAX);
	for (size_t i = 0; (o = option_at(p, i)); i++) {
		ret_longs[i] = (struct option){.name = o->name,
			.has_arg = !o->value  ? no_argument
				: o->is_maybe ? optional_argument
					      : required_argument,
			.val = FIRST + (int)i};
		if (o->preset)
			set_text(options, o->at, o->preset);
	}
}

/* Nothing that was said is passed over in silence. */
static int check_needs(const struct program *p, uint64_t given, struct error *err)
{
	for (size_t i = 0; i < p->n_options; i++) {
		const char *needs = p->options[i].needs;

		for (size_t k = 0; needs && given >> i & 1 && k < p->n_options; k++)
			if (!strcmp(p->options[k].name, needs) && !(given >> k & 1))
				return fail(err, EINVAL, "--%s: with --%s only", p->options[i].name,
					needs);
	}
	return 0;
}

int program_parse(
	const struct program *program, void *options, int argc, char **argv, struct error *err)
{
	struct option longs[PROGRAM_OPTIONS_MAX] = {0};
	uint64_t given = 0;
	bool is_done = false;
	int id, r;

	prepare(program, options, longs);
	opterr = 0;
	optind = 1;
	while ((id = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (id == ':')
			return fail(err, EINVAL, "%s: its value is missing (--help lists all)",
				argv[optind - 1]);
		if (id == '?')
			return fail(err, EINVAL,
				"%s: unknown, or it takes no value (--help lists all)",
				argv[optind - 1]);
		r = take_option(program, (size_t)(id - FIRST), options, err);
		if (r < 0)
			return r;
		is_done = is_done || r > 0;
		given |= UINT64_C(1) << (id - FIRST);
	}
	if (optind < argc)
		return fail(err, EINVAL, "'%s': %s takes options only (--help lists them)",
			argv[optind], program->name);
	if (is_done)
		return 1;
	r = check_needs(program, given, err);
	r = r >= 0 && program->finish ? program->finish(options, err) : r;
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

static void add_see_also(struct buf *out, const char *pages)
{
	struct str rest = str_from(pages), page;
	bool is_first = true;

	buf_add_text(out, ".SH SEE ALSO\n");
	while (str_word(&rest, &page)) {
		const size_t n = str_find(page, '(');
		char name[LEFT_BYTES];

		str_copy(name, sizeof(name), (struct str){page.p, n});
		buf_add_text(out, is_first ? "\\fB" : ",\n\\fB");
		man_add_text(out, name);
		buf_addf(out, "\\fR%" STR_FMT, STR_ARG(((struct str){page.p + n, page.n - n})));
		is_first = false;
	}
	buf_add_byte(out, '\n');
}

static int dump_man(const struct program *p, const char *folder, struct error *err)
{
	const struct man_page page = {
		.name = p->name, .section = 8, .summary = p->summary, .made_by = p->name};
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);
	const struct program_option *o;
	char help[HELP_BYTES];
	int r = folder_make(folder, 0755, err);

	if (r < 0)
		return r;
	man_add_head(&out, &page);
	buf_add_text(&out, ".B ");
	man_add_text(&out, p->name);
	buf_add_text(&out, "\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out, p->text);
	buf_add_text(&out, ".SH OPTIONS\n");
	for (size_t i = 0; (o = option_at(p, i)); i++)
		man_add_option(&out,
			&(struct man_option){.name = o->name,
				.value = o->value,
				.is_maybe = o->is_maybe,
				.help = format_help(o, help)});
	for (size_t i = 0; i < p->n_sections; i++)
		add_section(&out, &p->sections[i]);
	add_see_also(&out, p->see_also);
	r = man_write(folder, &page, &out, err);
	return r < 0 || !p->dump_more ? r : p->dump_more(folder, err);
}

/* ---- signals ---- */

/* "4711 (systemd)", for who wonders why it ended. */
static void name_sender(uint32_t pid, char *ret, size_t size)
{
	struct process_stat stat;
	const bool is_known = process_read_stat((pid_t)pid, &stat) == 0;

	snprintf(ret, size, "%u (%s)", pid, is_known ? stat.name : "?");
}

static void on_signal(struct loop_io *io, uint32_t events)
{
	struct program_signals *s = io->data;
	struct signalfd_siginfo info;
	char sender[LEFT_BYTES];

	while (read(s->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGHUP) {
			name_sender(info.ssi_pid, sender, sizeof(sender));
			log_info("signal %u of pid %s: ending", info.ssi_signo, sender);
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
	return loop_add_io(loop, &signals->io, signals->fd, EPOLLIN, on_signal);
}

void program_unwatch(struct program_signals *signals)
{
	loop_remove_io(&signals->io);
}

/* Nothing of a sanitizer or of libc is ready yet. */
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
		return fail_errno(err, -signals.fd, "signals");
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
		r = dump_man(program, argv[2], &err);
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
