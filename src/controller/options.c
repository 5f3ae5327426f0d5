/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/man.h"
#include "http/listen.h"

#define FIRST 256
#define TEXT(field) offsetof(struct controller_options, field)

enum { AT_ELECT = 1000, AT_LOG, AT_VERSION, AT_HELP };

static const struct described {
	const char *name, *arg, *value; /* value: the default */
	size_t at;                      /* of a text in the options, or one of the above */
	const char *help;
} table[] = {
	{"kubeconfig", "FILE", NULL, TEXT(kubeconfig),
		"how to reach the API server; default $KUBECONFIG, ~/.kube/config, or as a pod "
		"does"},
	{"leader-elect", NULL, NULL, AT_ELECT,
		"of several controllers one reconciles, which has the Lease divvy-controller; all "
		"answer the webhook"},
	{"scheduler-name", "NAME", "divvy-scheduler", TEXT(scheduler_name),
		"what pods with a share are given as spec.schedulerName; default divvy-scheduler"},
	{"namespace", "NAME", "divvy-system", TEXT(ns),
		"where divvy's own parts are; default divvy-system"},
	{"lease-namespace", "NAME", "divvy-node-lease", TEXT(lease_ns),
		"where the nodes' daemons renew their Leases; default divvy-node-lease"},
	{"webhook-listen", "ADDRESS", ":9443", TEXT(webhook_listen),
		"where API servers ask, HTTPS; default :9443"},
	{"webhook-configuration", "NAME", "divvy", TEXT(webhook_configuration),
		"the configurations that are told whom to trust; default divvy"},
	{"webhook-service", "NAME", "divvy-controller", TEXT(webhook_service),
		"the Service that leads here, whose name the certificate is for; default "
		"divvy-controller"},
	{"tls-secret", "NAME", "divvy-controller-tls", TEXT(tls_secret),
		"where authority, certificate and keys are kept; default divvy-controller-tls"},
	{"listen", "ADDRESS", ":9446", TEXT(listen),
		"/metrics, for who may get it, and /healthz for all, HTTPS; default :9446"},
	{"log", "LEVEL", NULL, AT_LOG, "error, warn, info (default) or debug"},
	{"version", NULL, NULL, AT_VERSION, "print the version"},
	{"help", NULL, NULL, AT_HELP, "print this"},
};

static void print_help(void)
{
	printf("usage: divvy-controller [options]\nThe webhook, SharePods and nodes of divvy in a "
	       "Kubernetes cluster.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", table[i].name, table[i].arg ? " " : "",
			table[i].arg ? table[i].arg : "");
		printf("  %-30s %s\n", left, table[i].help);
	}
}

static const char **text_of(struct controller_options *o, size_t at)
{
	return (const char **)(void *)((char *)o + at);
}

static int set_option(
	struct options *s, const struct described *d, const char *value, struct error *err)
{
	int r = 0;

	if (value && !value[0])
		return fail(err, EINVAL, "--%s is empty (--help lists all)", d->name);
	switch (d->at) {
	case AT_ELECT: s->controller.is_elected = true; break;
	case AT_LOG: return log_set_option(value, err);
	case AT_VERSION:
		printf("divvy-controller %s\n", DIVVY_VERSION);
		s->is_done = true;
		break;
	case AT_HELP:
		print_help();
		s->is_done = true;
		break;
	default:
		*text_of(&s->controller, d->at) = value;
		if (!strcmp(d->arg, "ADDRESS"))
			r = http_address_check(value, err);
		break;
	}
	return r < 0 ? fail_within(err, r, "--%s", d->name) : 0;
}

int options_parse(int argc, char **argv, struct options *ret_options, struct error *err)
{
	struct option longs[ARRAY_SIZE(table) + 1] = {0};
	const char *pod = getenv("POD_NAME");
	struct options s = {0};
	int id;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		longs[i] = (struct option){.name = table[i].name,
			.has_arg = table[i].arg ? required_argument : no_argument,
			.val = FIRST + (int)i};
		if (table[i].value)
			*text_of(&s.controller, table[i].at) = table[i].value;
	}
	s.controller.pod_name = pod && pod[0] ? pod : NULL;
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		int r;

		if (id == ':')
			return fail(err, EINVAL, "%s: its value is missing (--help lists all)",
				argv[optind - 1]);
		if (id == '?')
			return fail(err, EINVAL,
				"%s: unknown, or it takes no value (--help lists all)",
				argv[optind - 1]);
		r = set_option(&s, &table[id - FIRST], optarg, err);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return fail(err, EINVAL,
			"'%s': divvy-controller takes options only (--help lists them)",
			argv[optind]);
	*ret_options = s;
	return 0;
}

int options_dump_man(const char *folder, struct error *err)
{
	static const struct man_page page = {.name = "divvy-controller",
		.section = 8,
		.summary = "the webhook, SharePods and nodes of divvy in a Kubernetes cluster",
		.made_by = "divvy-controller"};
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);

	man_add_head(&out, &page);
	buf_add_text(&out, ".B divvy\\-controller\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out,
		"divvy-controller looks at pods and their templates before a cluster stores them: "
		"what they ask of GPUs, in divvy's words or another system's, has to be possible, "
		"and what the scheduler and the kubelet count is put in. It makes the pods of "
		"SharePods and keeps their status, makes a GPUNode for each node that is labelled "
		"divvy.gpu/owner, and keeps those nodes' capacity.\n\n"
		"It comes with the manifests in deploy/, which give it the rights it needs; "
		"docs/cluster-objects.md is the contract. Its certificate is its own: made, stored "
		"in a Secret and replaced in time, with the old and the new authority trusted "
		"while they change.");
	buf_add_text(&out, ".SH OPTIONS\n");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		man_add_option(&out,
			&(struct man_option){.name = table[i].name,
				.value = table[i].arg,
				.help = table[i].help});
	buf_add_text(&out, ".SH SIGNALS\n");
	man_add_term(&out, "SIGTERM, SIGINT",
		"give the Lease back and end; what runs in the cluster goes on");
	buf_add_text(&out, ".SH EXIT STATUS\n");
	man_add_paragraphs(&out,
		"0 when it was told to end, 1 on failure, 2 when an option or its value is not "
		"right.");
	buf_add_text(&out, ".SH ENVIRONMENT\n");
	man_add_term(
		&out, "POD_NAME", "who it is in the Lease and in Events; else the host's name");
	man_add_term(&out, "KUBECONFIG", "see --kubeconfig");
	man_add_term(&out, "DIVVY_LOG", "error, warn, info or debug, where --log says nothing");
	buf_add_text(&out, ".SH SEE ALSO\n\\fBdivvyd\\fR(8),\n\\fBdivvy\\fR(1)\n");
	return man_write(folder, &page, &out, err);
}
