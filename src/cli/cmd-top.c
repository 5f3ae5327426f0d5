/* SPDX-License-Identifier: Apache-2.0 */
/* `divvy top` shows the frame of frame.c on a full screen (ncurses), in place (ANSI), or once. */
#include <errno.h>
#include <langinfo.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cli/frame.h"
#include "cmdline/output.h"

static const struct option_row options[] = {
	{"once", NULL, "print one plain frame and exit", .letter = '1'},
	{"json", NULL, "print devices, tenants and the last minute as JSON, and exit",
		.letter = 'j'},
	{"inline", NULL, "refresh in place, without using the whole screen", .letter = 'i'},
	{"every", "TIME", "time between frames (default 1s)", .letter = 'e'},
	{"time", "TIME", "exit after this time", .letter = 't'},
	{"sort", "FIELD", "sort key of the tenants (default id)", .letter = 's',
		.choices = "id used requested memory", .old_choices = "got asked"},
	CLI_SOCKET_OPTION,
	{0},
};

struct top {
	struct client client;
	const char *socket;
	json_t *ping, *devices, *list, *usage;
	struct frame frame;
	uint64_t every_ns, end_ns;
};

static volatile sig_atomic_t interrupted;

static void cmd_top_on_signal(int signo)
{
	interrupted = signo;
}

static void cmd_top_free_answers(struct top *t)
{
	json_t **all[] = {&t->ping, &t->devices, &t->list, &t->usage};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		json_decref(*all[i]);
		*all[i] = NULL;
	}
}

static void top_done(struct top *t)
{
	cmd_top_free_answers(t);
	client_done(&t->client);
}

/* Connects at most once for each frame, so a restarted daemon appears in the next frame. */
static int cmd_top_request_state(struct top *t, struct error *err)
{
	int r = 0;

	cmd_top_free_answers(t);
	if (t->client.fd < 0)
		r = client_connect(&t->client, t->socket, err);
	r = r < 0 ? r : client_ask(&t->client, "ping", NULL, &t->ping, err);
	r = r < 0 ? r : client_ask(&t->client, "devices", NULL, &t->devices, err);
	r = r < 0 ? r : client_ask(&t->client, "list", NULL, &t->list, err);
	r = r < 0 ? r
		  : client_call(&t->client,
			    json_pack("{s:s, s:i, s:i}", "cmd", "usage", "last_ms", 60000,
				    "step_ms", 1000),
			    &t->usage, err);
	if (r < 0)
		client_done(&t->client);
	t->frame.ping = t->ping;
	t->frame.devices = t->devices;
	t->frame.list = t->list;
	t->frame.usage = t->usage;
	return r;
}

static int print_json(struct top *t, struct error *err)
{
	_cleanup_json_ json_t *all = json_pack("{s:b, s:O, s:O, s:O, s:O}", "simulated",
		json_bool_or_false(t->list, "simulated"), "devices",
		json_object_get(t->devices, "devices"), "tenants",
		json_object_get(t->list, "tenants"), "usage", json_object_get(t->usage, "series"),
		"step_ms", json_object_get(t->usage, "step_ms"));

	if (!all)
		return fail(err, EPROTO,
			"the daemon's answer has no devices, tenants or usage; restart the daemon");
	return output_json(all, err);
}

static int print_once(struct top *t, struct error *err)
{
	_cleanup_buf_ struct buf drawn = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);

	frame_draw(&t->frame, &drawn);
	frame_plain(&drawn, &out);
	return output_buf(&out, err);
}

static int terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t n;

	if (columns && parse_uint(str_from(columns), 40, 1000, &n, NULL) == 0)
		return (int)n;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return 120;
}

static bool cmd_top_is_over(const struct top *t)
{
	return interrupted || (t->end_ns && clock_now_ns() >= t->end_ns);
}

/* ANSI codes draw over the last frame and keep the user's scroll-back. */
static int run_inline(struct top *t, struct error *err)
{
	int lines = 0, r = 0;

	while (r == 0 && !cmd_top_is_over(t)) {
		_cleanup_buf_ struct buf drawn = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);
		const uint64_t next = clock_now_ns() + t->every_ns;

		if (lines)
			buf_addf(&out, "\033[%dA\r", lines);
		t->frame.width = terminal_width();
		frame_draw(&t->frame, &drawn);
		/*
		 * A wide row must not wrap, because the next frame moves up by the number of rows.
		 */
		buf_add_text(&out, "\033[?7l");
		frame_ansi(&drawn, &out, &lines);
		buf_add_text(&out, "\033[J\033[?7h");
		r = output_buf(&out, err);
		while (!cmd_top_is_over(t) && clock_now_ns() < next) {
			const uint64_t left = next - clock_now_ns();

			poll(NULL, 0, (int)(left / NSEC_PER_MSEC) + 1);
		}
		r = r < 0 ? r : cmd_top_request_state(t, err);
	}
	return r;
}

static int style_attribute(int style)
{
	switch (style) {
	case FRAME_NORMAL: return A_NORMAL;
	case FRAME_BOLD: return A_BOLD;
	case FRAME_DIM: return A_DIM;
	case FRAME_WARN: return A_BOLD | COLOR_PAIR(FRAME_COLOURS + 1);
	default: return COLOR_PAIR(1 + style - FRAME_COLOUR);
	}
}

static int screen_open(struct error *err)
{
	static const short colour[FRAME_COLOURS] = {
		COLOR_BLUE, COLOR_YELLOW, COLOR_GREEN, COLOR_MAGENTA, COLOR_CYAN, COLOR_RED};

	/* initscr() would end the program if it failed. */
	if (!newterm(NULL, stdout, stdin))
		return fail(err, ENOTTY,
			"TERM '%s': unknown terminal; set TERM, or use --inline or --once",
			getenv("TERM") ? getenv("TERM") : "");
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	start_color();
	use_default_colors();
	for (short i = 0; i < FRAME_COLOURS; i++)
		init_pair((short)(i + 1), colour[i], -1);
	init_pair(FRAME_COLOURS + 1, COLOR_YELLOW, -1);
	return 0;
}

static void screen_show(const struct buf *drawn)
{
	size_t from = 0;
	int line = 0;

	erase();
	move(0, 0);
	for (size_t i = 0; i <= drawn->n; i++) {
		if (i < drawn->n && drawn->p[i] != FRAME_MARK && drawn->p[i] != '\n')
			continue;
		addnstr(drawn->p + from, (int)(i - from));
		if (i < drawn->n && drawn->p[i] == FRAME_MARK)
			attrset(style_attribute(drawn->p[++i] - 'A'));
		else
			move(++line, 0);
		from = i + 1;
	}
	refresh();
}

/* Returns false if the user wants to quit. */
static bool handle_key(struct top *t, int key)
{
	switch (key) {
	case 'q':
	case 'Q': return false;
	case 's': t->frame.sort = (enum frame_sort)((t->frame.sort + 1) % FRAME_SORTS); break;
	case 'p':
	case ' ': t->frame.paused = !t->frame.paused; break;
	default: break;
	}
	return true;
}

static int run_screen(struct top *t, struct error *err)
{
	int r = screen_open(err);

	if (r < 0)
		return r;
	t->frame.keys = true;
	while (r == 0 && !cmd_top_is_over(t)) {
		_cleanup_buf_ struct buf drawn = BUF_INIT(OUTPUT_MAX);
		int key;

		getmaxyx(stdscr, t->frame.height, t->frame.width);
		frame_draw(&t->frame, &drawn);
		screen_show(&drawn);
		timeout((int)(t->every_ns / NSEC_PER_MSEC));
		key = getch();
		if (key != ERR && !handle_key(t, key))
			break;
		if (key == ERR && !t->frame.paused)
			r = cmd_top_request_state(t, err);
	}
	endwin();
	return r;
}

static int cmd_top_read_options(const struct cli_args *args, struct top *t, struct error *err)
{
	static const uint64_t every[2] = {50 * NSEC_PER_MSEC, 3600 * NSEC_PER_SEC};
	uint64_t time = 0;
	int r = cli_get_duration_within(args, "every", NSEC_PER_SEC, every, &t->every_ns, err);

	r = r < 0 ? r : cli_get_duration(args, "time", 0, &time, err);
	if (r < 0)
		return r;
	t->frame.sort = frame_sort_find(cli_get(args, "sort"));
	t->end_ns = time ? clock_now_ns() + time : 0;
	t->frame.width = terminal_width();
	t->frame.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	t->socket = cli_get(args, "socket");
	return 0;
}

static int cmd_top_check(const struct cli_args *args, struct error *err)
{
	struct top t = {0};

	return cmd_top_read_options(args, &t, err);
}

static int cmd_top_run(const struct cli_args *args, struct error *err)
{
	_cleanup_(top_done) struct top t = {.client = CLIENT_NONE};
	const struct sigaction action = {.sa_handler = cmd_top_on_signal};
	int r = cmd_top_read_options(args, &t, err);

	r = r < 0 ? r : cmd_top_request_state(&t, err);
	if (r < 0)
		return r;
	if (cli_has(args, "json"))
		return print_json(&t, err);
	if (cli_has(args, "once"))
		return print_once(&t, err);
	if (!isatty(STDOUT_FILENO) && !cli_has(args, "inline"))
		return fail(err, ENOTTY,
			"stdout is not a terminal; use --once for one frame, --json for the "
			"numbers");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return cli_has(args, "inline") ? run_inline(&t, err) : run_screen(&t, err);
}

const struct cli_command cmd_top = {
	.name = "top",
	.operands = "",
	.summary = "Watch devices and tenants: shares, memory and the last minute",
	.text = TEXT_TOP_TEXT,
	.examples = "divvy top\ndivvy top --once\ndivvy top --json | jq '.tenants[0]'",
	.options = options,
	.check = cmd_top_check,
	.run = cmd_top_run,
};
