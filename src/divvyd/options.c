/* SPDX-License-Identifier: Apache-2.0 */
#include "divvyd/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metrics.h"
#include "base/clock.h"
#include "base/parse.h"
#include "core/arbiter.h"
#include "divvyd/man.h"
#include "http/listen.h"
#include "kubelet/cdi.h"
#include "manifest/policy.h"
#include "node/node-serve.h"
#include "node/peers.h"
#include "simgpu/config.h"
#include "wire/serve.h"

#define EXIT_IDLE_DEFAULT_NS (30 * NSEC_PER_SEC)
#define OVERSUBSCRIBE_DEFAULT 1500u
#define TRANSFER_MS 100u
#define AT(field) offsetof(struct options, field)

/*
 * Values are checked here, before anything is touched: a daemon that runs is not to be told to
 * leave for one that cannot start.
 */

static int check_simulate(const char *text, struct error *err)
{
	struct sim_config config;

	sim_config_init(&config);
	return sim_config_parse_devices(&config, str_from(text), err) < 0 ? -EINVAL : 0;
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
		return fail(
			err, EINVAL, "'%s': expected 1 or more in steps of 0.001, as 1.5", value);
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

static const struct option_row table[] = {
	{"simulate", "SPEC",
		"share simulated GPUs, e.g. 2xH200-141Gi; without a GPU one 1xH200-141Gi is "
		"simulated anyway; a file sim/faults in the runtime folder makes them fail",
		AT(agent.simulate), .check = check_simulate},
	{"metrics", "ADDRESS",
		"serve /metrics and /healthz on unix:PATH or a loopback port such as "
		"127.0.0.1:9400",
		AT(agent.metrics), .check = metrics_check},
	{"policy", "NAME", "of the arbiter: share (default), fifo, bias, gemini", AT(agent.policy),
		.check = check_policy},
	{"tenants", "FILE",
		"rules for processes without a tenant; default /etc/divvy/tenants.conf, which need "
		"not exist; read again on SIGHUP",
		AT(agent.tenants_conf)},
	{"refuse-strangers", NULL,
		"refuse processes of no tenant; otherwise they get the default tenant "
		"(opportunistic, what is free)",
		AT(agent.refuse_strangers)},
	{"apply", "FILE", "follow a resource-config.txt of Gemini", AT(agent.apply)},
	{"oversubscribe", "FACTOR",
		"how far memory quotas of wait and swap tenants may exceed what is left; default "
		"1.5. With --cluster GPUPolicy and GPUNode say it",
		.set = set_oversubscribe},
	{"police", NULL,
		"end compute processes of no tenant after 3 confirmations, with SIGTERM, and 10 s "
		"later with SIGKILL (pid 1 and graphics never)",
		AT(agent.police)},
	{"police-allow", "LIST",
		"processes that --police leaves alone, with commas between: by executable "
		"(/opt/x/viewer, or Xorg for one in /usr/bin, /usr/sbin, /usr/local/bin, "
		"/usr/local/sbin, /usr/lib/xorg or /usr/libexec) or by user (uid:1000). What a "
		"process calls itself does not count",
		AT(agent.police_allow)},
	{"exit-idle", "TIME",
		"end when nothing has lived for that long; default 30s if no time is given",
		.set = set_exit_idle, .is_maybe = true},
	{"replace", NULL, "take over from the running daemon; its clients stay", AT(agent.replace)},
	{"runtime-dir", "FOLDER",
		"socket and state; default $DIVVY_RUNTIME_DIR, /run/divvy, $XDG_RUNTIME_DIR/divvy",
		AT(agent.runtime_dir)},
	{"usage-dir", "FOLDER",
		"what reports are made of; default $STATE_DIRECTORY, as systemd sets it, or the "
		"runtime folder, which is empty after a reboot",
		AT(agent.usage_dir)},
	{"ready-fd", "N", "write a line to this descriptor when serving", .set = set_ready_fd},
	{"cluster", NULL,
		"be a Kubernetes node's: tenants are the pods that divvy's scheduler has given "
		"devices to",
		AT(is_cluster)},
	{"kubeconfig", "FILE", "how to reach the API server; default the pod's service account",
		AT(node.kubeconfig), .needs = "cluster"},
	{"node-name", "NODE", "the node's name; default $NODE_NAME", AT(node.name),
		.needs = "cluster"},
	{"namespace", "NAME", "that of divvy's own parts; default divvy-system", AT(node.space),
		.needs = "cluster"},
	{"lease-namespace", "NAME", "where the node's Lease is; default divvy-node-lease",
		AT(node.lease_space), .needs = "cluster"},
	{"kubelet-dir", "FOLDER", "the kubelet's; default /var/lib/kubelet", AT(node.kubelet_dir),
		.needs = "cluster"},
	{"state-dir", "FOLDER",
		"libraries and sockets for tenants, and usage: survives the machine's restart; "
		"default /var/lib/divvy",
		AT(node.state_dir), .needs = "cluster"},
	{"cdi-dir", "FOLDER", "where runtimes look for devices' names; default /var/run/cdi",
		AT(node.cdi_dir), .needs = "cluster"},
	{"dev-dir", "FOLDER", "where the host's device files are seen; default /dev",
		AT(node.dev_dir), .needs = "cluster"},
	{"sys-dir", "FOLDER", "where the host's sysfs, with its network, is seen; default /sys",
		AT(node.sys_dir), .needs = "cluster"},
	{"devices-by", "WAY",
		"how containers get real devices: cdi (default), exactly those "
		"granted; environment, for runtimes without CDI: NVIDIA_VISIBLE_DEVICES, which "
		"shows them all",
		.set = set_devices_by, .needs = "cluster"},
	{"cgroup-root", "CGROUP",
		"below which the kubelet has its pods' cgroups; default that of "
		"divvyd's own pod",
		.set = set_cgroup_root, .needs = "cluster"},
	{"grant-log", "FILE",
		"write down what is granted and given back, a JSON object a line, "
		"for audits; it only grows; default nowhere",
		AT(node.grant_log), .needs = "cluster"},
	{"remote-listen", "ADDRESS",
		"serve this node's devices to pods of other nodes on ADDRESS:PORT or "
		"[ADDRESS]:PORT, by which those reach it; default nowhere",
		AT(node.remote_listen), .needs = "cluster", .check = check_remote_listen},
	{"remote-host-access", NULL,
		"serve other nodes also with devices whose kernels reach ordinary memory of their "
		"process (HMM, ATS), that of divvy's worker: for programs that are trusted",
		AT(node.is_host_access_allowed), .needs = "remote-listen"},
	{"probe-peers", "N",
		"measure round trip and bandwidth to up to N other nodes that serve devices (0 to "
		"64), for the scheduler; default 32",
		.set = set_probe_peers, .needs = "cluster"},
	{"probe-transfer", "MS",
		"how long a measurement of bandwidth, about once an hour for each of these, may "
		"fill the network (0 to 500 milliseconds; 0: it is never done, here or from "
		"there); default 100",
		.set = set_probe_transfer, .needs = "cluster"},
	{"listen", "ADDRESS",
		"serve /healthz, /readyz and /metrics over HTTPS on ADDRESS:PORT or :PORT; "
		"/metrics to those whom the cluster lets get it; default nowhere",
		AT(node.listen), .needs = "cluster", .check = http_address_check},
	{"health-listen", "ADDRESS",
		"serve /healthz and /readyz over HTTP there too, such as :9447: a port for the "
		"kubelet's probes, which no other client keeps busy; default nowhere",
		AT(node.health_listen), .needs = "listen", .check = http_address_check},
	{0},
};

static const char *const environment[][2] = {
	{"DIVVY_RUNTIME_DIR", "folder of the socket and the state, where --runtime-dir names none"},
	{"DIVVY_GATE", "off leaves every gate open: nothing is enforced"},
	{"DIVVY_LOG", "error, warn, info or debug, where --log says nothing"},
	{"DIVVY_DRIVER",
		"folder of the driver's libnvidia-ml.so.1, where the loader does not find it"},
	{"STATE_DIRECTORY", "see --usage-dir"},
	{"DIVVY_SIM", "folder of the simulated machine (default: sim in the runtime folder)"},
	{"DIVVY_SIM_COSTS", "what things cost there, such as switch_us=450,slice_us=1000"},
	{"DIVVY_SIM_LIBS",
		"folder of the simulated driver's libraries, where they are neither beside divvyd "
		"nor installed"},
};

static const char *const files[][2] = {
	{"/etc/divvy/tenants.conf", "rules for programs without a tenant: see tenants.conf(5)"},
	{"/run/divvy/divvyd.sock",
		"the socket of root's daemon; another user's is in $XDG_RUNTIME_DIR/divvy, or in "
		"/tmp/divvy-UID"},
	{"/run/divvy/programs",
		"the folder with the socket of programs in containers, which answers no "
		"commands: to be mounted read-only there, and nothing else of /run/divvy"},
	{"/run/divvy/state",
		"tenants and processes, beside the socket: with it the next daemon goes on where "
		"this one has ended; one that cannot be read is kept as state.bad"},
	{"/var/lib/divvy/usage, usage-log",
		"sums for reports, where systemd runs it; else in the folder of --usage-dir, or "
		"beside the state. Minutes and hours of use are kept for 31 days, sums of the last "
		"4096 tenants for good. The log has what is newer than the other file. A file that "
		"cannot be read is kept as usage.bad"},
	{"/run/divvy/tally",
		"what reports do not have in their file yet, so that a daemon that is killed loses "
		"at most the last 50 ms; time in which none runs is charged to nobody"},
	{"/run/divvy/divvy-UUID.lock",
		"root's lock of that device: one daemon shares a device. Users' daemons look here "
		"first"},
	{"/run/lock/divvy-UUID.lock",
		"a user's lock of that device, in /tmp where /run/lock cannot be written. Root's "
		"daemon locks both too, sends SIGTERM to a user's daemon that holds one, and "
		"moves aside what other programs hold there (.aside)"},
};

static const char *const signals[][2] = {
	{"SIGHUP", "reads tenants.conf again; one that is not right changes nothing"},
	{"SIGTERM, SIGINT",
		"save the state and end; programs that run go on without limits until the next "
		"daemon takes them up"},
};

static const char *const faults[][2] = {
	{"oom device=0 nth=5 count=2",
		"the fifth allocation from now on fails, and the one after it"},
	{"ecc device=0 after=100", "a memory error after so many kernels; at=2s: after that time"},
	{"lost device=1 at=2s", "the device is lost; after=100: after so many kernels"},
	{"xid device=0 code=79 at=2s",
		"the driver tells of that Xid, as of a device that is lost to programs soon; "
		"after=100: after so many kernels"},
	{"hang device=0 after=10", "the kernel after so many never ends"},
	{"slow device=0 factor=3", "kernels take that many times as long; after=100: later ones"},
};

static const struct program_section sections[] = {
	{"SIMULATED DEVICES",
		"SPEC is COUNTxMODEL-MEMORY, several with commas between: "
		"2xH200-141Gi,1xTest-1Gi. Models that are known by name (such as H200, H100, A100, "
		"L4, T4) have their own speed and memory; any other is a small device, of which "
		"the "
		"memory must be said.\n\n"
		"They fail as the file faults in the simulated machine's folder says; "
		"`divvy-simctl "
		"--dir FOLDER faults FILE` sets it while they run, an empty one ends all faults, "
		"but what is lost stays lost until the daemon is restarted. "
		"One a line, of device 0 where none is named; without at= or after= the next "
		"kernel has it:",
		faults, ARRAY_SIZE(faults)},
	{"SIGNALS", NULL, signals, ARRAY_SIZE(signals)},
	{"EXIT STATUS",
		"0 when it was told to end or was idle, 1 on failure, 2 when an option, its value "
		"or tenants.conf is not right."},
	{"ENVIRONMENT", NULL, environment, ARRAY_SIZE(environment)},
	{"FILES", NULL, files, ARRAY_SIZE(files)},
};

static void set_default(const char **option, const char *value)
{
	if (!*option)
		*option = value;
}

static int finish(void *data, struct error *err)
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
	/* What a former one has promised is kept; then policies say it (node/node-overcommit.c). */
	s->agent.oversubscribe_permille = POLICY_OVERCOMMIT_MAX;
	o->is_simulate_fixed = s->agent.simulate != NULL;
	if (!o->name || !o->name[0])
		return fail(err, EINVAL,
			"--cluster: which node is this? --node-name or $NODE_NAME says it");
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
	.help_end =
		"DIVVY_GATE=off in the environment leaves every gate open: nothing is enforced.",
	.text = "divvyd decides who may use a GPU when, and how much of its memory. It shares out "
		"all devices of the machine, one daemon for each device; without a GPU it offers a "
		"simulated one.\n\n"
		"divvy-run(1) starts one when none runs, for the user alone and until it is idle. "
		"A machine with several users has root's: `systemctl enable --now divvyd`. "
		"A user's daemon gives way to it.",
	.see_also = "divvy(1) divvy-simctl(1) tenants.conf(5)",
	.options = table,
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
	.finish = finish,
	.dump_more = man_dump_conf,
	.has_reload = true,
};
