/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy top`: draws the devices once, or every two seconds on a terminal.
 * kubectl_top_watch_cluster() reads all objects before it clears the screen, so the old picture
 * stays during a slow request. The signal handler only sets `is_ended`, and
 * kubectl_top_watch_cluster() ends after the picture in progress.
 */
#include <errno.h>
#include <langinfo.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmdline/output.h"
#include "kubectl/kubectl-access.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/device-bars.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"

#define EVERY_NS (2 * NSEC_PER_SEC)

static const struct option_row options[] = {
	{"once", NULL, "print once and exit", .letter = '1'},
	{"node", "NODE", "only this node"},
	CLI_OUTPUT_OPTION,
	ACCESS_OPTIONS,
	{0},
};

struct picture {
	json_t *devices, *bare;
};

static void picture_done(struct picture *p)
{
	json_decref(p->devices);
	json_decref(p->bare);
}
#define _cleanup_picture_ _cleanup_(picture_done)

static int kubectl_top_request_state(
	struct access *a, const struct cli_args *args, struct picture *ret, struct error *err)
{
	struct report_facts facts;
	_cleanup_json_ json_t *nodes = NULL, *one = NULL, *leases = NULL;
	const char *node = cli_get(args, "node");
	int r = access_gpunodes(a, &nodes, err);

	r = r < 0 ? r : access_leases(a, &leases, err);
	if (r < 0)
		return r;
	for (size_t i = 0; node && i < json_array_size(nodes); i++)
		if (!strcmp(kube_json_text_at(json_array_get(nodes, i), "metadata", "name", NULL),
			    node))
			one = json_pack("[O]", json_array_get(nodes, i));
	if (node && !one)
		return fail(err, ENOENT,
			"--node %.80s: no such GPUNode; kubectl get gpunodes lists them", node);
	facts = (struct report_facts){one ? one : nodes, leases, kube_client_real_ns(a->client)};
	ret->devices = report_devices(&facts);
	ret->bare = report_bare_nodes(&facts);
	return ret->devices && ret->bare ? 0 : fail(err, ENOMEM, "out of memory");
}

static int kubectl_top_draw_picture(const struct picture *p, struct buf *out)
{
	const bool is_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;

	draw_devices(p->devices, is_ascii, out);
	if (json_array_size(p->devices) && json_array_size(p->bare))
		buf_add_byte(out, '\n');
	draw_bare_nodes(p->bare, out);
	if (!json_array_size(p->devices) && !json_array_size(p->bare))
		buf_add_text(out,
			"divvy manages no node; run kubectl label node NODE "
			"divvy.gpu/owner=divvy\n");
	return buf_error(out);
}

static volatile sig_atomic_t is_ended;

static void kubectl_top_on_signal(int sig)
{
	is_ended = 1;
}

/*
 * Draws until a signal. Each picture begins at the upper left corner and clears the rest of the
 * screen.
 */
static int kubectl_top_watch_cluster(
	struct access *a, const struct cli_args *args, struct error *err)
{
	const struct sigaction action = {.sa_handler = kubectl_top_on_signal};
	int r = 0;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (r == 0 && !is_ended) {
		_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
		_cleanup_picture_ struct picture picture = {NULL};

		r = kubectl_top_request_state(a, args, &picture, err);
		if (r < 0)
			return r;
		buf_add_text(&out, "\033[H\033[2J");
		kubectl_top_draw_picture(&picture, &out);
		r = output_buf(&out, err);
		clock_nanosleep(CLOCK_MONOTONIC, 0,
			&(struct timespec){.tv_sec = EVERY_NS / NSEC_PER_SEC}, NULL);
	}
	return r;
}

static int kubectl_top_run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_picture_ struct picture picture = {NULL};
	int r;

	if (!cli_has(args, "once") && !cli_has(args, "output") && !isatty(STDOUT_FILENO))
		return fail(err, ENOTTY, "stdout is not a terminal; use --once or -o json");
	r = access_open(args, &a, err);
	if (r == 0 && !cli_has(args, "once") && !cli_has(args, "output"))
		return kubectl_top_watch_cluster(&a, args, err);
	r = r < 0 ? r : kubectl_top_request_state(&a, args, &picture, err);
	if (r < 0)
		return r;
	r = output_as_table(args, picture.devices, err);
	if (r != 1)
		return r;
	r = kubectl_top_draw_picture(&picture, &out);
	return r < 0 ? fail(err, -r, "output") : output_buf(&out, err);
}

const struct cli_command cmd_top = {
	.name = "top",
	.operands = "",
	.summary = "Watch the devices of the cluster as bars, with their tenants",
	.text = TEXT_TOP_TEXT,
	.examples = TEXT_TOP_EXAMPLES,
	.options = options,
	.run = kubectl_top_run,
};
