/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvyd raises its limits and its priority, reports that it is ready, and leaves the rest to
 * src/agent and src/node.
 */
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "divvyd/divvyd-options.h"
#include "divvyd/rolling.h"
#include "kubelet/dra-plugin.h"

/*
 * One malloc arena for each thread: the loop, two workers, HTTP in a cluster, HTTP on this machine,
 * and libcurl's resolvers.
 */
#define ARENAS_MAX 8

/*
 * Sets the smallest timer slack, so that the daemon wakes up on time. Where permitted, the daemon
 * also runs before ordinary programs.
 */
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

static void divvyd_on_signal(void *agent, bool is_reload)
{
	if (is_reload)
		agent_reload(agent);
	else
		agent_leave(agent);
}

static void tell_ready(const struct options *s, const struct agent *agent)
{
	static const char line[] = "ready\n";

	sd_notifyf(0, "READY=1\nSTATUS=serving %s", agent->socket_path);
	if (s->ready_fd >= 0 && write(s->ready_fd, line, sizeof(line) - 1) < 0)
		log_warn("--ready-fd %d: cannot write to this descriptor", s->ready_fd);
	if (s->ready_fd > 2)
		close(s->ready_fd);
}

/*
 * On a cluster's node, divvyd uses the machine's devices, or the simulated devices that the command
 * line or the GPUNode names. A node without devices gets no simulated GPU by default.
 */
static int prepare_cluster(struct options *s, char **simulate, struct error *err)
{
	int r = s->agent.simulate ? 0 : node_read_simulate(&s->node, simulate, err);

	s->agent.may_have_no_device = true;
	if (r >= 0 && *simulate && **simulate)
		s->agent.simulate = *simulate;
	return r;
}

static int divvyd_serve(
	struct options *s, struct agent *agent, struct program_signals *signals, struct error *err)
{
	struct node *node = NULL;
	int r = s->is_cluster ? node_new(agent, &s->node, &node, err) : 0;

	if (r < 0)
		return r;
	r = program_watch(signals, agent->loop, divvyd_on_signal, agent);
	if (r >= 0) {
		be_prompt();
		tell_ready(s, agent);
		log_info("serving %s", agent->socket_path);
		r = agent_run(agent);
	}
	if (r < 0)
		fail_errno(err, -r, "event loop");
	sd_notify(0, "STOPPING=1");
	program_unwatch(signals);
	node_free(node);
	return r;
}

/* Serves until a signal, or until another divvyd has taken over, which *ret_replaced says. */
static int serve_once(struct options *s, struct program_signals *signals, struct loop *loop,
	bool *ret_replaced, struct error *err)
{
	struct agent *agent = NULL;
	int r;

	s->agent.loop = loop;
	if (loop)
		r = rolling_offer(loop, &s->node, &s->node.dra_plugin, err);
	else
		r = 0;
	r = r < 0 ? r : agent_new(&s->agent, &agent, err);
	if (r >= 0) {
		r = divvyd_serve(s, agent, signals, err);
		s->node.dra_plugin = NULL; /* the node has taken it */
		*ret_replaced = agent->is_replaced;
	}
	dra_plugin_free(TAKE_PTR(s->node.dra_plugin));
	agent_free(agent);
	return r;
}

/* With --rolling: serves, stands by while another divvyd serves, and so on, until a signal. */
static int serve_rolling(struct options *s, struct program_signals *signals, struct error *err)
{
	char runtime_dir[PATH_MAX];
	bool is_replaced = false;
	int r = agent_runtime_dir(s->agent.runtime_dir, runtime_dir, sizeof(runtime_dir), err);

	s->agent.replace = true;
	while (r >= 0) {
		_cleanup_loop_ struct loop *loop = NULL;

		r = loop_new(&loop);
		if (r < 0)
			return fail_errno(err, -r, "event loop");
		r = serve_once(s, signals, loop, &is_replaced, err);
		if (r < 0 || !is_replaced)
			break;
		r = rolling_stand_by(runtime_dir, s->node.health_listen, signals, err);
		if (r == 0)
			break;
		s->agent.replace = false; /* a third divvyd may be faster */
	}
	return r;
}

static int divvyd_run(void *options, struct program_signals *signals, struct error *err)
{
	const char *gate = getenv("DIVVY_GATE");
	_cleanup_free_ char *simulate = NULL;
	struct options *s = options;
	bool is_replaced;
	int r;

	/*
	 * Gives each thread an arena, so that the loop never waits for an arena's lock while a
	 * thread of lower priority holds it.
	 */
	mallopt(M_ARENA_MAX, ARENAS_MAX);
	raise_limits();
	s->agent.is_gate_off = gate && !strcmp(gate, "off");
	if (gate && *gate && !s->agent.is_gate_off)
		log_warn("DIVVY_GATE=%s has no effect; expected off, which opens all gates", gate);
	r = s->is_cluster ? prepare_cluster(s, &simulate, err) : 0;
	if (r >= 0 && s->is_rolling)
		r = serve_rolling(s, signals, err);
	else if (r >= 0)
		r = serve_once(s, signals, NULL, &is_replaced, err);
	return r;
}

PROGRAM_HOLDS_SIGNALS;

int main(int argc, char **argv)
{
	struct options options;

	options_init(&options);
	return program_main(&options_program, divvyd_run, &options, argc, argv);
}
