/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvyd: signals, readiness, exit status. Everything else is the agent's.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "agent/man.h"
#include "agent/options.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"

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
	struct conf *conf = NULL;
	struct error err;

	if (conf_load(agent->options.tenants_conf, &conf, &err) < 0) {
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

static void tell_ready(const struct options *s, const struct agent *agent)
{
	static const char line[] = "ready\n";

	sd_notifyf(0, "READY=1\nSTATUS=serving %s", agent->socket_path);
	if (s->ready_fd >= 0 && write(s->ready_fd, line, sizeof(line) - 1) < 0)
		log_warn("--ready-fd %d: cannot be written", s->ready_fd);
	if (s->ready_fd > 2)
		close(s->ready_fd);
}

/* Devices of a node are its own, or what its GPUNode says; never made up. */
static int prepare_cluster(struct options *s, char **simulate, struct error *err)
{
	int r = s->agent.simulate ? 0 : node_read_simulate(&s->node, simulate, err);

	s->agent.may_have_no_device = true;
	if (r >= 0 && *simulate && **simulate)
		s->agent.simulate = *simulate;
	return r;
}

static int serve(struct options *s, struct error *err)
{
	struct signals signals = {.fd = -1};
	_cleanup_free_ char *simulate = NULL;
	struct agent *agent = NULL;
	struct node *node = NULL;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signals.fd = signal_fd_new(&set);
	if (signals.fd < 0)
		return fail_errno(err, -signals.fd, "signals");
	r = s->is_cluster ? prepare_cluster(s, &simulate, err) : 0;
	r = r < 0 ? r : agent_new(&s->agent, &agent, err);
	if (r < 0)
		return r;
	if (s->is_cluster && (r = node_new(agent, &s->node, &node, err)) < 0) {
		agent_free(agent);
		return r;
	}
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
	node_free(node);
	agent_free(agent);
	fd_close(signals.fd);
	return r;
}

int main(int argc, char **argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	const char *gate = getenv("DIVVY_GATE");
	struct options s;
	struct error err = {0};
	int r;

	log_init("divvyd");
	/* For the build: makes docs/man. */
	if (argc == 3 && !strcmp(argv[1], "--dump-man")) {
		r = man_dump(argv[2], &err);
		if (r < 0)
			log_error("%s", err.msg);
		return r < 0;
	}
	/* One arena: the worker's few allocations need none of their own. */
	mallopt(M_ARENA_MAX, 1);
	r = options_parse(argc, argv, &s, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		return 2;
	}
	s.agent.is_gate_off = gate && !strcmp(gate, "off");
	if (!s.is_done) {
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
