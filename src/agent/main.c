/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvyd: options, signals, readiness. Everything else is the agent's.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/conf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"

#define EXIT_IDLE_DEFAULT_NS (30 * NSEC_PER_SEC)
#define OVERSUBSCRIBE_DEFAULT 1500u

enum option_id {
	OPT_SIMULATE = 256,
	OPT_METRICS,
	OPT_POLICY,
	OPT_RUNTIME_DIR,
	OPT_TENANTS,
	OPT_APPLY,
	OPT_EXIT_IDLE,
	OPT_OVERSUBSCRIBE,
	OPT_POLICE,
	OPT_POLICE_ALLOW,
	OPT_REPLACE,
	OPT_REFUSE,
	OPT_READY_FD,
	OPT_LOG,
	OPT_VERSION,
	OPT_HELP,
};

static const struct described {
	const char *name;
	int has_arg;
	int id;
	const char *arg, *help;
} options[] = {
	{"simulate", required_argument, OPT_SIMULATE, "SPEC",
		"share simulated GPUs, e.g. 2xH200-141Gi; without a GPU one 1xH200-141Gi is "
		"simulated anyway"},
	{"metrics", required_argument, OPT_METRICS, "ADDRESS",
		"serve /metrics and /healthz on unix:PATH or a loopback port such as "
		"127.0.0.1:9400"},
	{"policy", required_argument, OPT_POLICY, "NAME",
		"of the arbiter: share (default), fifo, bias, gemini"},
	{"tenants", required_argument, OPT_TENANTS, "FILE",
		"rules for processes without a tenant; default /etc/divvy/tenants.conf, read again "
		"on SIGHUP"},
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
	{"ready-fd", required_argument, OPT_READY_FD, "N",
		"write a line to this descriptor when serving"},
	{"log", required_argument, OPT_LOG, "LEVEL", "error, warn, info (default) or debug"},
	{"version", no_argument, OPT_VERSION, NULL, "print the version"},
	{"help", no_argument, OPT_HELP, NULL, "print this"},
};

struct setup {
	struct agent_options agent;
	int ready_fd;
	bool is_done; /* --help, --version */
};

static void print_help(void)
{
	printf("usage: divvyd [options]\nShares the machine's GPUs among tenants.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct described *o = &options[i];
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

static int set_log(const char *text, struct error *err)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], text)) {
			log_set_level((enum log_level)i);
			return 0;
		}
	return fail(err, EINVAL, "--log %s: expected error, warn, info or debug", text);
}

static int set_option(struct setup *s, int id, const char *value, struct error *err)
{
	struct agent_options *o = &s->agent;
	uint64_t n;
	int r = 0;

	switch (id) {
	case OPT_SIMULATE: o->simulate = value; break;
	case OPT_METRICS: o->metrics = value; break;
	case OPT_POLICY: o->policy = value; break;
	case OPT_RUNTIME_DIR: o->runtime_dir = value; break;
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
	case OPT_LOG: return set_log(value, err);
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

static int parse_options(int argc, char **argv, struct setup *s, struct error *err)
{
	struct option longs[ARRAY_SIZE(options) + 1] = {0};
	int id;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		longs[i] = (struct option){.name = options[i].name,
			.has_arg = options[i].has_arg,
			.val = options[i].id};
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		int r;

		if (id == '?')
			return fail(err, EINVAL,
				"%s: unknown, or its value is missing (--help lists all)",
				argv[optind - 1]);
		r = set_option(s, id, optarg, err);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return fail(err, EINVAL, "'%s': divvyd takes options only (--help lists them)",
			argv[optind]);
	return 0;
}

/* Late by at most what the kernel needs; before ordinary programs where that is permitted. */
static void be_prompt(void)
{
	struct sched_param param = {.sched_priority = 1};

	clock_set_slack_ns(1);
	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) < 0)
		setpriority(PRIO_PROCESS, 0, -10);
}

static void raise_limits(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

struct signals {
	struct agent *agent;
	struct loop_io io;
	int fd;
};

static void reload_conf(struct agent *agent)
{
	const char *path = agent->options.tenants_conf;
	struct conf *conf = NULL;
	struct error err;

	if (conf_load(path ? path : "/etc/divvy/tenants.conf", &conf, &err) < 0) {
		log_warn("%s (the rules stay as they are)", err.msg);
		return;
	}
	conf_free(agent->conf);
	agent->conf = conf;
}

/* "4711 (systemd)", for who wonders why it ended. */
static void name_sender(uint32_t pid, char *ret, size_t size)
{
	char path[32], name[32];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, name, sizeof(name));
	snprintf(ret, size, "%u (%.*s)", pid, n > 1 ? (int)n - 1 : 1, n > 1 ? name : "?");
}

static void on_signal(struct loop_io *io, uint32_t events)
{
	struct signals *s = io->data;
	struct signalfd_siginfo info;
	char sender[64];

	while (read(s->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			reload_conf(s->agent);
			continue;
		}
		name_sender(info.ssi_pid, sender, sizeof(sender));
		log_info("signal %u of pid %s: ending", info.ssi_signo, sender);
		agent_leave(s->agent);
	}
}

static void tell_ready(const struct setup *s, const struct agent *agent)
{
	static const char line[] = "ready\n";

	sd_notifyf(0, "READY=1\nSTATUS=serving %s", agent->socket_path);
	if (s->ready_fd >= 0 && write(s->ready_fd, line, sizeof(line) - 1) < 0)
		log_warn("--ready-fd %d: cannot be written", s->ready_fd);
	if (s->ready_fd > 2)
		close(s->ready_fd);
}

static int serve(struct setup *s, struct error *err)
{
	struct signals signals = {.fd = -1};
	struct agent *agent = NULL;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signals.fd = signal_fd_new(&set);
	if (signals.fd < 0)
		return fail_errno(err, -signals.fd, "signals");
	r = agent_new(&s->agent, &agent, err);
	if (r < 0)
		return r;
	signals.agent = agent;
	signals.io.data = &signals;
	r = loop_add_io(agent->loop, &signals.io, signals.fd, EPOLLIN, on_signal);
	if (r >= 0) {
		be_prompt();
		tell_ready(s, agent);
		log_info("serving %s", agent->socket_path);
		r = agent_run(agent);
	}
	if (r < 0)
		fail_errno(err, -r, "event loop");
	sd_notify(0, "STOPPING=1");
	loop_remove_io(&signals.io);
	agent_free(agent);
	fd_close(signals.fd);
	return r;
}

int main(int argc, char **argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	const char *gate = getenv("DIVVY_GATE");
	struct setup s = {.ready_fd = -1};
	struct error err = {0};
	int r;

	log_init("divvyd");
	/* One arena: the worker's few allocations need none of their own. */
	mallopt(M_ARENA_MAX, 1);
	s.agent.oversubscribe_permille = OVERSUBSCRIBE_DEFAULT;
	s.agent.is_gate_off = gate && !strcmp(gate, "off");
	r = parse_options(argc, argv, &s, &err);
	if (r >= 0 && !s.is_done) {
		sigaction(SIGPIPE, &ignore, NULL);
		raise_limits();
		r = serve(&s, &err);
	}
	if (r < 0) {
		log_error("%s", err.msg);
		return r == -EINVAL ? 2 : 1;
	}
	return 0;
}
