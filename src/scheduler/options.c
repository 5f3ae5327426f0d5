/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

enum option_id { OPT_TEXT, OPT_FLAG, OPT_LOG, OPT_VERSION, OPT_HELP };

static const struct described {
	const char *name;
	enum option_id id;
	size_t at; /* of what it sets in struct options */
	const char *arg, *help;
} table[] = {
	{"kubeconfig", OPT_TEXT, offsetof(struct options, kubeconfig), "FILE",
		"how to reach the API server; default $KUBECONFIG, or what a pod finds in itself"},
	{"leader-elect", OPT_FLAG, offsetof(struct options, is_elected), NULL,
		"of several only the one that holds the Lease decides"},
	{"scheduler-name", OPT_TEXT, offsetof(struct options, scheduler_name), "NAME",
		"whose pods are placed, by schedulerName; default divvy-scheduler"},
	{"namespace", OPT_TEXT, offsetof(struct options, space), "NAMESPACE",
		"of the Lease for leader election; default divvy-system"},
	{"lease-namespace", OPT_TEXT, offsetof(struct options, lease_space), "NAMESPACE",
		"of the Leases by which daemons of nodes show that they live; default "
		"divvy-node-lease"},
	{"listen", OPT_TEXT, offsetof(struct options, listen), "ADDRESS",
		"serve /metrics, /healthz and the extender, such as :9444; default nothing"},
	{"tls-cert", OPT_TEXT, offsetof(struct options, tls_cert), "FILE",
		"certificate of what is served; default one made at the start"},
	{"tls-key", OPT_TEXT, offsetof(struct options, tls_key), "FILE", "its key"},
	{"client-ca", OPT_TEXT, offsetof(struct options, client_ca), "FILE",
		"whose certificates may use the extender; default nobody's"},
	{"log", OPT_LOG, 0, "LEVEL", "error, warn, info (default) or debug"},
	{"version", OPT_VERSION, 0, NULL, "print the version"},
	{"help", OPT_HELP, 0, NULL, "print this"},
};

static void print_help(void)
{
	printf("usage: divvy-scheduler [options]\nPlaces pods on GPUs and parts of them.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", table[i].name, table[i].arg ? " " : "",
			table[i].arg ? table[i].arg : "");
		printf("  %-28s %s\n", left, table[i].help);
	}
}

static int set_option(
	struct options *o, const struct described *d, const char *value, struct error *err)
{
	void *into = (char *)o + d->at;

	if (value && !value[0])
		return fail(err, EINVAL, "--%s is empty (--help lists all)", d->name);
	switch (d->id) {
	case OPT_TEXT: *(const char **)into = value; break;
	case OPT_FLAG: *(bool *)into = true; break;
	case OPT_LOG: return log_set_option(value, err);
	case OPT_VERSION:
		printf("divvy-scheduler %s\n", DIVVY_VERSION);
		o->is_done = true;
		break;
	case OPT_HELP:
		print_help();
		o->is_done = true;
		break;
	}
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret, struct error *err)
{
	struct options o = {.scheduler_name = "divvy-scheduler",
		.space = "divvy-system",
		.lease_space = "divvy-node-lease",
		.listen = ""};
	struct option longs[ARRAY_SIZE(table) + 1] = {0};
	int id;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		longs[i] = (struct option){.name = table[i].name,
			.has_arg = table[i].arg ? required_argument : no_argument,
			.val = 256 + (int)i};
	opterr = 0;
	optind = 1;
	while ((id = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		int r;

		if (id == ':')
			return fail(err, EINVAL, "%s: its value is missing (--help lists all)",
				argv[optind - 1]);
		if (id == '?')
			return fail(err, EINVAL,
				"%s: unknown, or it takes no value (--help lists all)",
				argv[optind - 1]);
		r = set_option(&o, &table[id - 256], optarg, err);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return fail(err, EINVAL, "'%s': options only (--help lists them)", argv[optind]);
	if (!o.tls_cert != !o.tls_key)
		return fail(err, EINVAL, "--tls-cert and --tls-key are needed together");
	*ret = o;
	return 0;
}

bool options_describe(size_t i, struct man_option *ret)
{
	if (i >= ARRAY_SIZE(table))
		return false;
	*ret = (struct man_option){
		.name = table[i].name, .value = table[i].arg, .help = table[i].help};
	return true;
}
