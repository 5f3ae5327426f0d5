/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "scheduler/options.h"

static const struct man_page page = {
	.name = "divvy-scheduler",
	.section = 8,
	.summary = "place pods on GPUs and parts of them",
	.made_by = "divvy-scheduler",
};

static const char *const environment[][2] = {
	{"KUBECONFIG", "how to reach the API server, where --kubeconfig names no file"},
	{"POD_NAME", "who it is in Events and in the Lease; default the host's name"},
	{"DIVVY_LOG", "error, warn, info or debug, where --log says nothing"},
};

int man_dump(const char *folder, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);
	struct man_option option;
	int r = folder_make(folder, 0755, err);

	if (r < 0)
		return r;
	man_add_head(&out, &page);
	buf_add_text(&out, ".B divvy-scheduler\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out,
		"divvy-scheduler gives pods of a Kubernetes cluster a node and devices on it. It "
		"takes those whose schedulerName is its own, keeps every rule of the cluster's "
		"scheduler for them, and writes what it has granted into the Binding's "
		"annotations.\n\n"
		"It keeps nothing of its own: all that it knows it reads from the API server. Of "
		"several that run, with --leader-elect one decides.");
	buf_add_text(&out, ".SH OPTIONS\n");
	for (size_t i = 0; options_describe(i, &option); i++)
		man_add_option(&out, &option);
	buf_add_text(&out, ".SH SIGNALS\n");
	man_add_term(&out, "SIGTERM, SIGINT", "gives the Lease up and ends");
	buf_add_text(&out, ".SH EXIT STATUS\n");
	man_add_paragraphs(
		&out, "0 when it was told to end, 1 on failure, 2 when an option is wrong.");
	buf_add_text(&out, ".SH ENVIRONMENT\n");
	for (size_t i = 0; i < ARRAY_SIZE(environment); i++)
		man_add_term(&out, environment[i][0], environment[i][1]);
	buf_add_text(&out, ".SH SEE ALSO\n\\fBdivvyd\\fR(8),\n\\fBdivvy\\fR(1)\n");
	return man_write(folder, &page, &out, err);
}
