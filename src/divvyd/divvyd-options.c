/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file holds divvyd's option table, which makes the parser, --help and divvyd(8). The parser
 * runs the checks of the table before the daemon touches anything. With --replace, a new daemon
 * that cannot start must not end the running daemon. divvyd_options_finish() runs after all options
 * are read, and sets the defaults that hold with --cluster only.
 */
#include "divvyd/divvyd-options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metrics.h"
#include "base/clock.h"
#include "base/parse.h"
#include "core/arbiter.h"
#include "divvyd/divvyd-text.h"
#include "divvyd/divvyd-man.h"
#include "divvyd/metrics-dcgm.h"
#include "http/listen.h"
#include "kubelet/cdi.h"
#include "manifest/policy.h"
#include "node/node-serve.h"
#include "node/peers.h"
#include "simgpu/simgpu-config.h"
#include "wire/serve.h"

#define EXIT_IDLE_DEFAULT_NS (30 * NSEC_PER_SEC)
#define OVERSUBSCRIBE_DEFAULT 1500u
#define TRANSFER_MS 100u
#define AT(field) offsetof(struct options, field)

static int check_simulate(const char *text, struct error *err)
{
	struct simgpu_config config;

	simgpu_config_init(&config);
	return simgpu_config_parse_devices(&config, str_from(text), err) < 0 ? -EINVAL : 0;
}

static int divvyd_options_check_policy(const char *name, struct error *err)
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

static int check_remote_listen(const char *text, struct error *err)
{
	struct address at;

	return serve_address_parse(text, &at, err);
}

static int set_number(const char *value, uint64_t most, uint32_t *ret, struct error *err)
{
	uint64_t n;
	int r = parse_uint(str_from(value), 0, most, &n, err);

	if (r == 0)
		*ret = (uint32_t)n;
	return r;
}

static int set_probe_peers(void *data, const char *value, struct error *err)
{
	return set_number(value, PEERS_MAX, &((struct options *)data)->node.probe_peers, err);
}

static int set_probe_transfer(void *data, const char *value, struct error *err)
{
	return set_number(value, SERVE_TRANSFER_MS_MAX,
		&((struct options *)data)->node.probe_transfer_ms, err);
}

static int set_oversubscribe(void *data, const char *value, struct error *err)
{
	struct agent_options *o = &((struct options *)data)->agent;

	if (parse_share(str_from(value), &o->oversubscribe_permille, NULL) < 0 ||
		o->oversubscribe_permille < 1000)
		return fail(err, EINVAL, "'%s': expected 1 or more in steps of 0.001, such as 1.5",
			value);
	return 0;
}

static int set_exit_idle(void *data, const char *value, struct error *err)
{
	struct options *s = data;

	s->agent.exit_idle_ns = EXIT_IDLE_DEFAULT_NS;
	return value ? parse_duration(str_from(value), &s->agent.exit_idle_ns, err) : 0;
}

static int set_ready_fd(void *data, const char *value, struct error *err)
{
	struct options *s = data;
	uint64_t n;
	int r = parse_uint(str_from(value), 0, 65535, &n, err);

	if (r >= 0)
		s->ready_fd = (int)n;
	return r;
}

static int set_cgroup_root(void *data, const char *value, struct error *err)
{
	struct options *s = data;

	s->node.cgroup_root = strcmp(value, "/") ? value : "";
	return 0;
}

static int set_devices_by(void *data, const char *value, struct error *err)
{
	struct options *s = data;

	s->node.is_by_environment = !strcmp(value, "environment");
	if (!s->node.is_by_environment && strcmp(value, "cdi") != 0)
		return fail(err, EINVAL, "'%.60s': expected cdi or environment", value);
	return 0;
}

static int set_dcgm_metrics(void *data, const char *value, struct error *err)
{
	struct options *s = data;

	s->agent.add_metrics = strcmp(value, "on") ? NULL : metrics_add_dcgm;
	if (!s->agent.add_metrics && strcmp(value, "off") != 0)
		return fail(err, EINVAL, "'%.60s': expected on or off", value);
	return 0;
}

static const struct option_row table[] = {
	{"simulate", "SPEC", TEXT_DIVVYD_SIMULATE, AT(agent.simulate), .check = check_simulate},
	{"metrics", "ADDRESS", TEXT_DIVVYD_METRICS, AT(agent.metrics), .check = metrics_check},
	{"dcgm-metrics", "SWITCH", TEXT_DIVVYD_DCGM_METRICS, .set = set_dcgm_metrics},
	{"policy", "NAME", "policy of the arbiter: share (default), fifo, bias or gemini",
		AT(agent.policy), .check = divvyd_options_check_policy},
	{"tenants", "FILE", TEXT_DIVVYD_TENANTS, AT(agent.tenants_conf)},
	{"refuse-unmanaged", NULL, TEXT_DIVVYD_REFUSE_UNMANAGED, AT(agent.refuse_unmanaged),
		.old_name = "refuse-strangers"},
	{"apply", "FILE",
		"create tenants from a resource-config.txt of Gemini and follow its changes",
		AT(agent.apply)},
	{"oversubscribe", "FACTOR", TEXT_DIVVYD_OVERSUBSCRIBE, .set = set_oversubscribe},
	{"police", NULL, TEXT_DIVVYD_POLICE, AT(agent.police)},
	{"police-allow", "LIST", TEXT_DIVVYD_POLICE_ALLOW, AT(agent.police_allow)},
	{"exit-idle", "TIME",
		"exit after TIME without tenants and clients; default 30s if no TIME is given",
		.set = set_exit_idle, .is_maybe = true},
	{"replace", NULL, "take over from the running daemon and keep its clients",
		AT(agent.replace)},
	{"runtime-dir", "FOLDER",
		"folder of socket and state; default $DIVVY_RUNTIME_DIR, /run/divvy or "
		"$XDG_RUNTIME_DIR/divvy",
		AT(agent.runtime_dir)},
	{"usage-dir", "FOLDER", TEXT_DIVVYD_USAGE_DIR, AT(agent.usage_dir)},
	{"ready-fd", "N", "write a line to file descriptor N when the daemon serves",
		.set = set_ready_fd},
	{"cluster", NULL, TEXT_DIVVYD_CLUSTER, AT(is_cluster)},
	{"dra", NULL,
		"be the DRA driver divvy.gpu of the node, and not a device plugin; needs "
		"Kubernetes 1.36",
		AT(node.is_dra), .needs = "cluster"},
	{"rolling", NULL,
		"with --cluster and --dra: take over from the node's running divvyd as --replace "
		"does, after the kubelet has registered this one; and stand by while another one "
		"has taken over. For DaemonSets that start a new pod before the old one ends",
		AT(is_rolling), .needs = "dra"},
	{"kubeconfig", "FILE", "kubeconfig for the API server; default the pod's service account",
		AT(node.kubeconfig), .needs = "cluster"},
	{"node-name", "NODE", "name of the node; default $NODE_NAME", AT(node.name),
		.needs = "cluster"},
	{"namespace", "NAME", "namespace of divvy's own pods; default divvy-system", AT(node.space),
		.needs = "cluster"},
	{"lease-namespace", "NAME", "namespace of the node's Lease; default divvy-node-lease",
		AT(node.lease_space), .needs = "cluster"},
	{"kubelet-dir", "FOLDER", "folder of the kubelet; default /var/lib/kubelet",
		AT(node.kubelet_dir), .needs = "cluster"},
	{"state-dir", "FOLDER", TEXT_DIVVYD_STATE_DIR, AT(node.state_dir), .needs = "cluster"},
	{"cdi-dir", "FOLDER",
		"folder in which container runtimes find CDI files; default /var/run/cdi",
		AT(node.cdi_dir), .needs = "cluster"},
	{"dev-dir", "FOLDER", "folder of the host's device files; default /dev", AT(node.dev_dir),
		.needs = "cluster"},
	{"sys-dir", "FOLDER", "folder of the host's sysfs; default /sys", AT(node.sys_dir),
		.needs = "cluster"},
	{"devices-by", "WAY", TEXT_DIVVYD_DEVICES_BY, .set = set_devices_by, .needs = "cluster"},
	{"cgroup-root", "CGROUP",
		"cgroup that contains the pods' cgroups; default: as for divvyd's own pod",
		.set = set_cgroup_root, .needs = "cluster"},
	{"grant-log", "FILE", TEXT_DIVVYD_GRANT_LOG, AT(node.grant_log), .needs = "cluster"},
	{"remote-listen", "ADDRESS", TEXT_DIVVYD_REMOTE_LISTEN, AT(node.remote_listen),
		.needs = "cluster", .check = check_remote_listen},
	{"remote-host-access", NULL, TEXT_DIVVYD_REMOTE_HOST_ACCESS,
		AT(node.is_host_access_allowed), .needs = "remote-listen"},
	{"probe-peers", "N", TEXT_DIVVYD_PROBE_PEERS, .set = set_probe_peers, .needs = "cluster"},
	{"probe-transfer", "MS", TEXT_DIVVYD_PROBE_TRANSFER, .set = set_probe_transfer,
		.needs = "cluster"},
	{"listen", "ADDRESS", TEXT_DIVVYD_LISTEN, AT(node.listen), .needs = "cluster",
		.check = http_address_check},
	{"health-listen", "ADDRESS", TEXT_DIVVYD_HEALTH_LISTEN, AT(node.health_listen),
		.needs = "listen", .check = http_address_check},
	{0},
};

static const char *const environment[][2] = {TEXT_DIVVYD_ENVIRONMENT};

static const char *const files[][2] = {TEXT_DIVVYD_FILES};

static const char *const signals[][2] = {TEXT_DIVVYD_SIGNALS};

static const char *const faults[][2] = {TEXT_DIVVYD_FAULTS};

static const struct program_section sections[] = {
	{"SIMULATED DEVICES", TEXT_DIVVYD_SIMULATED_DEVICES, faults, ARRAY_SIZE(faults)},
	{"SIGNALS", NULL, signals, ARRAY_SIZE(signals)},
	{"EXIT STATUS", TEXT_DIVVYD_EXIT_STATUS},
	{"ENVIRONMENT", NULL, environment, ARRAY_SIZE(environment)},
	{"FILES", NULL, files, ARRAY_SIZE(files)},
};

static void set_default(const char **option, const char *value)
{
	if (!*option)
		*option = value;
}

static int divvyd_options_finish(void *data, struct error *err)
{
	struct options *s = data;
	struct node_options *o = &s->node;

	if (!s->is_cluster)
		return 0;
	set_default(&o->name, getenv("NODE_NAME"));
	set_default(&o->pod, getenv("POD_NAME"));
	set_default(&o->lease_space, "divvy-node-lease");
	set_default(&o->space, "divvy-system");
	set_default(&o->kubelet_dir, "/var/lib/kubelet");
	set_default(&o->state_dir, "/var/lib/divvy");
	set_default(&o->cdi_dir, CDI_FOLDER);
	set_default(&o->dev_dir, "/dev");
	set_default(&o->sys_dir, "/sys");
	set_default(&s->agent.usage_dir, o->state_dir);
	set_default(&s->agent.host, o->name);
	/*
	 * With the largest overcommit, the agent accepts all quotas that an earlier daemon granted.
	 * Policies set the limit afterwards (node/node-overcommit.c).
	 */
	s->agent.oversubscribe_permille = POLICY_OVERCOMMIT_MAX;
	o->is_simulate_fixed = s->agent.simulate != NULL;
	if (!o->name || !o->name[0])
		return fail(err, EINVAL,
			"--cluster needs the name of the node; set --node-name or $NODE_NAME");
	/* node-serve.c preloads libraries from this folder into workers of remote programs. */
	if (strpbrk(o->state_dir, " :"))
		return fail(err, EINVAL,
			"--state-dir '%s': expected a path without spaces and colons, which "
			"LD_PRELOAD cannot name",
			o->state_dir);
	return 0;
}

void options_init(struct options *options)
{
	*options = (struct options){.ready_fd = -1,
		.node = {.probe_peers = PEERS_DEFAULT, .probe_transfer_ms = TRANSFER_MS},
		.agent = {.oversubscribe_permille = OVERSUBSCRIBE_DEFAULT}};
}

const struct program options_program = {
	.name = "divvyd",
	.summary = "share the machine's GPUs among tenants",
	.sentence = "Shares the machine's GPUs among tenants.",
	.help_end = "DIVVY_GATE=off in the environment opens all gates, so no share is enforced.",
	.text = TEXT_DIVVYD_TEXT,
	.see_also = "divvy(1) divvy-simctl(1) tenants.conf(5)",
	.options = table,
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
	.finish = divvyd_options_finish,
	.dump_more = man_dump_conf,
	.has_reload = true,
};
