/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metrics.h"
#include "agent/node-serve.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "core/arbiter.h"
#include "kubelet/cdi.h"
#include "sim/config.h"

#define EXIT_IDLE_DEFAULT_NS (30 * NSEC_PER_SEC)
#define OVERSUBSCRIBE_DEFAULT 1500u

enum option_id {
	OPT_SIMULATE = 256,
	OPT_METRICS,
	OPT_POLICY,
	OPT_RUNTIME_DIR,
	OPT_USAGE_DIR,
	OPT_TENANTS,
	OPT_APPLY,
	OPT_EXIT_IDLE,
	OPT_OVERSUBSCRIBE,
	OPT_POLICE,
	OPT_POLICE_ALLOW,
	OPT_REPLACE,
	OPT_REFUSE,
	OPT_READY_FD,
	OPT_CLUSTER,
	OPT_KUBECONFIG,
	OPT_NODE_NAME,
	OPT_NAMESPACE,
	OPT_LEASE_NAMESPACE,
	OPT_KUBELET_DIR,
	OPT_STATE_DIR,
	OPT_CDI_DIR,
	OPT_DEV_DIR,
	OPT_DEVICES_BY,
	OPT_CGROUP_ROOT,
	OPT_LISTEN,
	OPT_LOG,
	OPT_VERSION,
	OPT_HELP,
};

static const struct described {
	const char *name;
	int has_arg;
	int id;
	const char *arg, *help;
} table[] = {
	{"simulate", required_argument, OPT_SIMULATE, "SPEC",
		"share simulated GPUs, e.g. 2xH200-141Gi; without a GPU one 1xH200-141Gi is "
		"simulated anyway; a file sim/faults in the runtime folder makes them fail"},
	{"metrics", required_argument, OPT_METRICS, "ADDRESS",
		"serve /metrics and /healthz on unix:PATH or a loopback port such as "
		"127.0.0.1:9400"},
	{"policy", required_argument, OPT_POLICY, "NAME",
		"of the arbiter: share (default), fifo, bias, gemini"},
	{"tenants", required_argument, OPT_TENANTS, "FILE",
		"rules for processes without a tenant; default /etc/divvy/tenants.conf, which need "
		"not exist; read again on SIGHUP"},
	{"refuse-strangers", no_argument, OPT_REFUSE, NULL,
		"refuse processes of no tenant; otherwise they get the default tenant "
		"(opportunistic, what is free)"},
	{"apply", required_argument, OPT_APPLY, "FILE", "follow a resource-config.txt of Gemini"},
	{"oversubscribe", required_argument, OPT_OVERSUBSCRIBE, "FACTOR",
		"how far memory quotas of wait and swap tenants may exceed what is left; default "
		"1.5"},
	{"police", no_argument, OPT_POLICE, NULL,
		"stop compute processes of no tenant after 3 confirmations (pid 1 and graphics "
		"never)"},
	{"police-allow", required_argument, OPT_POLICE_ALLOW, "NAMES",
		"command names never stopped, a,b,c"},
	{"exit-idle", optional_argument, OPT_EXIT_IDLE, "TIME",
		"end when nothing has lived for that long; default 30s if no time is given"},
	{"replace", no_argument, OPT_REPLACE, NULL,
		"take over from the running daemon; its clients stay"},
	{"runtime-dir", required_argument, OPT_RUNTIME_DIR, "FOLDER",
		"socket and state; default $DIVVY_RUNTIME_DIR, /run/divvy, $XDG_RUNTIME_DIR/divvy"},
	{"usage-dir", required_argument, OPT_USAGE_DIR, "FOLDER",
		"what reports are made of; default $STATE_DIRECTORY, as systemd sets it, or the "
		"runtime folder, which is empty after a reboot"},
	{"ready-fd", required_argument, OPT_READY_FD, "N",
		"write a line to this descriptor when serving"},
	{"cluster", no_argument, OPT_CLUSTER, NULL,
		"be a Kubernetes node's: tenants are the pods that divvy's scheduler has given "
		"devices to"},
	{"kubeconfig", required_argument, OPT_KUBECONFIG, "FILE",
		"with --cluster: how to reach the API server; default the pod's service account"},
	{"node-name", required_argument, OPT_NODE_NAME, "NODE",
		"with --cluster: the node's name; default $NODE_NAME"},
	{"namespace", required_argument, OPT_NAMESPACE, "NAME",
		"with --cluster: that of divvy's own parts; default divvy-system"},
	{"lease-namespace", required_argument, OPT_LEASE_NAMESPACE, "NAME",
		"with --cluster: where the node's Lease is; default divvy-node-lease"},
	{"kubelet-dir", required_argument, OPT_KUBELET_DIR, "FOLDER",
		"with --cluster: the kubelet's; default /var/lib/kubelet"},
	{"state-dir", required_argument, OPT_STATE_DIR, "FOLDER",
		"with --cluster: libraries for tenants, by version, and usage; default "
		"/var/lib/divvy"},
	{"cdi-dir", required_argument, OPT_CDI_DIR, "FOLDER",
		"with --cluster: where runtimes look for devices' names; default /var/run/cdi"},
	{"dev-dir", required_argument, OPT_DEV_DIR, "FOLDER",
		"with --cluster: where the host's device files are seen; default /dev"},
	{"devices-by", required_argument, OPT_DEVICES_BY, "WAY",
		"with --cluster: how containers get real devices: cdi (default), exactly those "
		"granted; environment, for runtimes without CDI: NVIDIA_VISIBLE_DEVICES, which "
		"shows them all"},
	{"cgroup-root", required_argument, OPT_CGROUP_ROOT, "CGROUP",
		"with --cluster: below which the kubelet has its pods' cgroups; default that of "
		"divvyd's own pod"},
	{"listen", required_argument, OPT_LISTEN, "ADDRESS",
		"with --cluster: serve /healthz and /metrics over HTTPS on ADDRESS:PORT or :PORT; "
		"/metrics to those whom the cluster lets get it; default nowhere"},
	{"log", required_argument, OPT_LOG, "LEVEL", "error, warn, info (default) or debug"},
	{"version", no_argument, OPT_VERSION, NULL, "print the version"},
	{"help", no_argument, OPT_HELP, NULL, "print this"},
};

static void print_help(void)
{
	printf("usage: divvyd [options]\nShares the machine's GPUs among tenants.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct described *o = &table[i];
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s%s", o->name,
			!o->arg                                   ? ""
				: o->has_arg == optional_argument ? "[="
								  : " ",
			o->arg ? o->arg : "", o->has_arg == optional_argument ? "]" : "");
		printf("  %-24s %s\n", left, o->help);
	}
	printf("\nDIVVY_GATE=off in the environment leaves every gate open: nothing is "
	       "enforced.\n");
}

/*
 * Values are checked here, before anything is touched: a daemon that runs is not to be told to
 * leave for one that cannot start.
 */

static const char *name_of(int id)
{
	size_t i = 0;

	while (table[i].id != id)
		i++;
	return table[i].name;
}

static int check_simulate(const char *text, struct error *err)
{
	struct sim_config config;
	int r;

	sim_config_init(&config);
	r = sim_config_parse_devices(&config, str_from(text), err);
	return r < 0 ? fail_within(err, -EINVAL, "--simulate %s", text) : 0;
}

static int check_policy(const char *name, struct error *err)
{
	struct arbiter_config config;
	struct arbiter *trial = NULL;
	int r;

	arbiter_config_init(&config);
	config.policy = name;
	r = arbiter_new(&config, 1, &trial, err);
	arbiter_free(trial);
	return r;
}

static int set_option(struct options *s, int id, const char *value, struct error *err)
{
	struct agent_options *o = &s->agent;
	uint64_t n;
	int r = 0;

	if (value && !value[0])
		return fail(err, EINVAL, "--%s is empty (--help lists all)", name_of(id));
	switch (id) {
	case OPT_SIMULATE: o->simulate = value; return check_simulate(value, err);
	case OPT_METRICS: o->metrics = value; return metrics_check(value, err);
	case OPT_POLICY: o->policy = value; return check_policy(value, err);
	case OPT_RUNTIME_DIR: o->runtime_dir = value; break;
	case OPT_USAGE_DIR: o->usage_dir = value; break;
	case OPT_TENANTS: o->tenants_conf = value; break;
	case OPT_REFUSE: o->refuse_strangers = true; break;
	case OPT_APPLY: o->apply = value; break;
	case OPT_OVERSUBSCRIBE:
		r = parse_share(str_from(value), &o->oversubscribe_permille, err);
		if (r >= 0 && o->oversubscribe_permille < 1000)
			r = fail(err, EINVAL, "%s: expected 1 or more", value);
		return r < 0 ? fail_within(err, r, "--oversubscribe") : 0;
	case OPT_POLICE: o->police = true; break;
	case OPT_POLICE_ALLOW: o->police_allow = value; break;
	case OPT_EXIT_IDLE:
		o->exit_idle_ns = EXIT_IDLE_DEFAULT_NS;
		r = value ? parse_duration(str_from(value), &o->exit_idle_ns, err) : 0;
		return r < 0 ? fail_within(err, r, "--exit-idle") : 0;
	case OPT_REPLACE: o->replace = true; break;
	case OPT_READY_FD:
		r = parse_uint(str_from(value), 0, 65535, &n, err);
		if (r < 0)
			return fail_within(err, r, "--ready-fd");
		s->ready_fd = (int)n;
		break;
	case OPT_CLUSTER: s->is_cluster = true; break;
	case OPT_KUBECONFIG: s->node.kubeconfig = value; break;
	case OPT_NODE_NAME: s->node.name = value; break;
	case OPT_NAMESPACE: break; /* whose it is decides who we are; nothing is read there */
	case OPT_LEASE_NAMESPACE: s->node.lease_space = value; break;
	case OPT_KUBELET_DIR: s->node.kubelet_dir = value; break;
	case OPT_STATE_DIR: s->node.state_dir = value; break;
	case OPT_CDI_DIR: s->node.cdi_dir = value; break;
	case OPT_DEV_DIR: s->node.dev_dir = value; break;
	case OPT_DEVICES_BY:
		if (strcmp(value, "cdi") != 0 && strcmp(value, "environment") != 0)
			return fail(err, EINVAL,
				"--devices-by '%.60s': expected cdi or environment", value);
		s->node.is_by_environment = !strcmp(value, "environment");
		break;
	case OPT_CGROUP_ROOT: s->node.cgroup_root = strcmp(value, "/") ? value : ""; break;
	case OPT_LISTEN: s->node.listen = value; return serve_check(value, err);
	case OPT_LOG: return log_set_option(value, err);
	case OPT_VERSION:
		printf("divvyd %s\n", DIVVY_VERSION);
		s->is_done = true;
		break;
	case OPT_HELP:
		print_help();
		s->is_done = true;
		break;
	default: return -EINVAL;
	}
	return 0;
}

static void set_default(const char **option, const char *value)
{
	if (!*option)
		*option = value;
}

static int finish_cluster(struct options *s, struct error *err)
{
	struct node_options *o = &s->node;

	set_default(&o->name, getenv("NODE_NAME"));
	set_default(&o->pod, getenv("POD_NAME"));
	set_default(&o->lease_space, "divvy-node-lease");
	set_default(&o->kubelet_dir, "/var/lib/kubelet");
	set_default(&o->state_dir, "/var/lib/divvy");
	set_default(&o->cdi_dir, CDI_FOLDER);
	set_default(&o->dev_dir, "/dev");
	set_default(&s->agent.usage_dir, o->state_dir);
	o->is_simulate_fixed = s->agent.simulate != NULL;
	if (!o->name || !o->name[0])
		return fail(err, EINVAL,
			"--cluster: which node is this? --node-name or $NODE_NAME says it");
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret_options, struct error *err)
{
	struct options s = {
		.ready_fd = -1, .agent = {.oversubscribe_permille = OVERSUBSCRIBE_DEFAULT}};
	struct option longs[ARRAY_SIZE(table) + 1] = {0};
	int id, r;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		longs[i] = (struct option){
			.name = table[i].name, .has_arg = table[i].has_arg, .val = table[i].id};
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (id == ':')
			return fail(err, EINVAL, "%s: its value is missing (--help lists all)",
				argv[optind - 1]);
		if (id == '?')
			return fail(err, EINVAL,
				"%s: unknown, or it takes no value (--help lists all)",
				argv[optind - 1]);
		r = set_option(&s, id, optarg, err);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return fail(err, EINVAL, "'%s': divvyd takes options only (--help lists them)",
			argv[optind]);
	r = s.is_cluster && !s.is_done ? finish_cluster(&s, err) : 0;
	if (r < 0)
		return r;
	*ret_options = s;
	return 0;
}

bool options_describe(size_t i, struct man_option *ret_option)
{
	if (i >= ARRAY_SIZE(table))
		return false;
	*ret_option = (struct man_option){.name = table[i].name,
		.value = table[i].arg,
		.is_maybe = table[i].has_arg == optional_argument,
		.help = table[i].help};
	return true;
}
