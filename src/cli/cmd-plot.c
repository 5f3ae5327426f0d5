/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy plot` makes an SVG picture from four answers of the daemon. `usage` has the points,
 * `devices` the models, and `list` and `report` have the requested shares. A tenant that `list`
 * lacks has ended, and then `report` knows its last request. The picture takes its number of points
 * from the last series, because the daemon sends the same number for each series. An older daemon
 * refuses the key `ended`, and the command then repeats the request without this key.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/parse.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cmdline/chart.h"
#include "cmdline/output.h"

static const struct option_row options[] = {
	{"out", "FILE", "file of the picture, - for stdout (default out/usage.svg)", .letter = 'o'},
	{"last", "TIME", "period up to now: 100ms to 15m (default 1m)"},
	{"step", "TIME", TEXT_PLOT_STEP},
	{"device", "N", "number of the device in `divvy devices` (default 0)", .letter = 'd'},
	{"style", "STYLE", "lines, or stacked areas (default lines)", .choices = "lines stacked"},
	CLI_SOCKET_OPTION,
	{0},
};

struct plot {
	struct chart_series series[CHART_SERIES_MAX];
	double *share[CHART_SERIES_MAX]; /* owned */
	size_t n_series, n_points;
};

static void plot_done(struct plot *p)
{
	for (size_t i = 0; i < p->n_series; i++)
		free(p->share[i]);
}

/* The tenant's request in permille; -1 if the tenant has ended. */
static int64_t asked_of(const json_t *tenants, int64_t id)
{
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *t = json_array_get(tenants, i);

		if (json_int_or_zero(t, "id") == id)
			return (int64_t)json_uint_or_zero(
				json_object_get(t, "spec"), "request_permille");
	}
	return -1;
}

/* The last request of a tenant that has ended, in permille; 0 if no report knows the tenant. */
static uint32_t asked_before(const json_t *report, int64_t id)
{
	const json_t *tenants = json_object_get(report, "tenants");

	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *t = json_array_get(tenants, i);

		if (json_int_or_zero(t, "id") == id)
			return (uint32_t)json_uint_or_zero(t, "request_permille");
	}
	return 0;
}

/*
 * Adds a tenant's curve. The points before the tenant's first use become -1 (absent), and for a
 * tenant that has ended also the points after its last use.
 */
static int cmd_plot_add_series(struct plot *p, const json_t *series, uint32_t asked, bool has_ended)
{
	const json_t *permille = json_object_get(series, "permille");
	const size_t n = json_array_size(permille);
	size_t first = n, last = 0;
	double *share = calloc(n ? n : 1, sizeof(*share));

	if (!share)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		share[i] = json_number_value(json_array_get(permille, i)) / 1000;
		if (share[i] > 0) {
			first = MIN(first, i);
			last = i;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (i < first || (has_ended && i > last))
			share[i] = -1;
	if (has_ended && first == n) { /* the tenant ended before the plotted time */
		free(share);
		return 0;
	}
	p->series[p->n_series] = (struct chart_series){.name = json_text_or_empty(series, "name"),
		.requested_permille = asked,
		.share = share,
		.got = -1};
	p->share[p->n_series++] = share;
	p->n_points = n;
	return 0;
}

struct answers {
	json_t *usage, *list, *report, *devices;
};

static void answers_done(struct answers *a)
{
	json_decref(a->usage);
	json_decref(a->list);
	json_decref(a->report);
	json_decref(a->devices);
}

static int cmd_plot_collect_series(
	const struct answers *a, int64_t device, struct plot *p, struct error *err)
{
	const json_t *all = json_object_get(a->usage, "series"),
		     *tenants = json_object_get(a->list, "tenants");

	for (size_t i = 0; i < json_array_size(all) && p->n_series < CHART_SERIES_MAX; i++) {
		const json_t *s = json_array_get(all, i);
		const int64_t id = json_int_or_zero(s, "tenant"), asked = asked_of(tenants, id);

		if (json_int_or_zero(s, "index") != device)
			continue;
		if (cmd_plot_add_series(p, s,
			    asked < 0 ? asked_before(a->report, id) : (uint32_t)asked,
			    asked < 0) < 0)
			return fail(err, ENOMEM, "out of memory for the picture");
	}
	if (!p->n_series)
		return fail(err, ENOENT,
			"device %d: no tenant used the device in this period; try a "
			"longer --last",
			(int)device);
	return 0;
}

static int check_device(const json_t *devices, uint64_t device, struct error *err)
{
	const size_t n = json_array_size(devices);

	if (device < n)
		return 0;
	if (n == 1)
		return fail(err, ENOENT,
			"--device %u: no such device; this machine has device 0 only",
			(unsigned int)device);
	return fail(err, ENOENT, "--device %u: no such device; this machine has devices 0 to %zu",
		(unsigned int)device, n - 1);
}

/* path: NULL selects the default file, and then the function creates its folder. */
static int write_picture(const char *path, const struct buf *svg, struct error *err)
{
	int r;

	if (path && !strcmp(path, "-"))
		return output_buf(svg, err);
	r = path ? 0 : folder_make("out", 0755, err);
	path = path ? path : "out/usage.svg";
	r = r < 0 ? r : file_replace(path, buf_str(svg), 0644, err);
	if (r == 0)
		printf("%s\n", path);
	return r;
}

/* Limits of the daemon's usage history, from docs/control-protocol.md. */
#define LAST_MAX_NS (15 * 60 * NSEC_PER_SEC)
#define STEP_MIN_NS (10 * NSEC_PER_MSEC)
/* In a shorter step not every tenant has its turn, and the picture would show single turns. */
#define STEP_DEFAULT_NS (500 * NSEC_PER_MSEC)

struct wanted {
	uint64_t device, last_ns, step_ns;
};

static int ask_usage(struct client *c, const struct wanted *w, bool has_ended, json_t **ret_usage,
	struct error *err)
{
	json_t *request = json_pack("{s:s, s:I, s:I}", "cmd", "usage", "last_ms",
		(json_int_t)(w->last_ns / NSEC_PER_MSEC), "step_ms",
		(json_int_t)(w->step_ns / NSEC_PER_MSEC));

	if (has_ended)
		json_object_set_new(request, "ended", json_true());
	return client_call(c, request, ret_usage, err);
}

static int cmd_plot_request_usage(
	struct client *c, const struct wanted *w, struct answers *a, struct error *err)
{
	int r = client_ask(c, "devices", NULL, &a->devices, err);

	r = r < 0 ? r : check_device(json_object_get(a->devices, "devices"), w->device, err);
	r = r < 0 ? r : client_ask(c, "list", NULL, &a->list, err);
	r = r < 0 ? r : client_ask(c, "report", NULL, &a->report, err);
	if (r < 0)
		return r;
	r = ask_usage(c, w, true, &a->usage, err);
	/* an older daemon does not know the key `ended` */
	return r == -EINVAL ? ask_usage(c, w, false, &a->usage, err) : r;
}

static int cmd_plot_read_options(
	const struct cli_args *args, struct wanted *ret_wanted, struct error *err)
{
	const char *device = cli_get(args, "device");
	struct wanted w = {0};
	int r = device ? parse_uint(str_from(device), 0, 1023, &w.device, err) : 0;

	if (r < 0)
		return fail_within(err, r, "--device");
	r = cli_get_duration_within(args, "last", 60 * NSEC_PER_SEC,
		(uint64_t[]){10 * STEP_MIN_NS, LAST_MAX_NS}, &w.last_ns, err);
	r = r < 0 ? r
		  : cli_get_duration_within(args, "step",
			    MIN(MAX(w.last_ns / 300, STEP_DEFAULT_NS), w.last_ns / 2),
			    (uint64_t[]){STEP_MIN_NS, w.last_ns / 2}, &w.step_ns, err);
	if (r >= 0)
		*ret_wanted = w;
	return r;
}

static int cmd_plot_check(const struct cli_args *args, struct error *err)
{
	struct wanted wanted;

	return cmd_plot_read_options(args, &wanted, err);
}

static int cmd_plot_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_(answers_done) struct answers a = {0};
	_cleanup_(plot_done) struct plot plot = {0};
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	const char *out = cli_get(args, "out"), *style = cli_get(args, "style");
	struct wanted wanted = {0};
	char subtitle[160];
	struct chart chart;
	int r = cmd_plot_read_options(args, &wanted, err);

	r = r < 0 ? r : client_connect(&c, cli_get(args, "socket"), err);
	r = r < 0 ? r : cmd_plot_request_usage(&c, &wanted, &a, err);
	r = r < 0 ? r : cmd_plot_collect_series(&a, (int64_t)wanted.device, &plot, err);
	if (r < 0)
		return r;
	snprintf(subtitle, sizeof(subtitle),
		"%s, device %d: time charged by the daemon, one point for each %s",
		json_text_or_empty(
			json_array_get(json_object_get(a.devices, "devices"), wanted.device),
			"model"),
		(int)wanted.device,
		format_duration(json_uint_or_zero(a.usage, "step_ms") * NSEC_PER_MSEC).s);
	chart = (struct chart){
		.title = "Share of the device over time",
		.subtitle = subtitle,
		.simulated = json_bool_or_false(a.list, "simulated"),
		.style = style && !strcmp(style, "stacked") ? CHART_STACKED : CHART_LINES,
		.start_s = -json_real_or_zero(a.usage, "step_ms") / 1000 *
			(double)(plot.n_points - 1),
		.step_s = json_real_or_zero(a.usage, "step_ms") / 1000,
		.n_points = plot.n_points,
		.series = plot.series,
		.n_series = plot.n_series,
	};
	r = chart_svg(&chart, &svg, err);
	return r < 0 ? r : write_picture(out, &svg, err);
}

const struct cli_command cmd_plot = {
	.name = "plot",
	.operands = "",
	.summary = "Draw the tenants' shares over time as an SVG picture",
	.text = TEXT_PLOT_TEXT,
	.examples = "divvy plot\ndivvy plot --last 5m --style stacked -o usage.svg",
	.options = options,
	.check = cmd_plot_check,
	.run = cmd_plot_run,
};
