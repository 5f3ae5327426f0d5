/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two phases of --rolling in which this divvyd serves no tenants: see rolling.h. While it
 * stands by, it looks for the lock of the runtime folder, which the serving divvyd holds. Between
 * two daemons of a handover nobody holds the lock for a moment, so it has to be free for several
 * looks in a row.
 */
#include "divvyd/rolling.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "http/server.h"
#include "kubelet/dra-plugin.h"

#define REGISTER_LOOK_NS (10 * NSEC_PER_MSEC)
#define LOCK_LOOK_NS (500 * NSEC_PER_MSEC)
#define LOCK_FREE_LOOKS 3u
#define PROBE_CONNECTIONS 8u

/* ---- registration ---- */

struct registering {
	struct loop *loop;
	struct dra_plugin *plugin;
	struct loop_timer timer;
	uint64_t until_ns;
};

static void on_register_look(struct loop_timer *timer, uint64_t now)
{
	struct registering *r = timer->data;

	if (dra_plugin_is_known(r->plugin) || now >= r->until_ns)
		loop_stop(r->loop, 1);
	else
		loop_set_timer(timer, now + REGISTER_LOOK_NS);
}

int rolling_offer(struct loop *loop, const struct node_options *options,
	struct dra_plugin **ret_plugin, struct error *err)
{
	const uint64_t now = clock_now_ns();
	struct registering reg = {.loop = loop, .until_ns = now + ROLLING_REGISTER_NS};
	int r = node_dra_offer(loop, options, &reg.plugin, err);

	if (r < 0)
		return r;
	reg.timer.data = &reg;
	r = loop_add_timer(loop, &reg.timer, on_register_look);
	if (r < 0) {
		dra_plugin_free(reg.plugin);
		return fail_errno(err, -r, "start a timer");
	}
	loop_set_timer(&reg.timer, now + REGISTER_LOOK_NS);
	loop_run(loop);
	loop_remove_timer(&reg.timer);
	if (!dra_plugin_is_known(reg.plugin))
		log_warn("the kubelet has not registered the driver yet");
	*ret_plugin = reg.plugin;
	return 0;
}

/* ---- standing by ---- */

struct standby {
	struct loop *loop;
	struct loop_timer timer;
	char lock[PATH_MAX];
	uint32_t n_free;
	bool has_signal;
};

static void on_standby_signal(void *data, bool is_reload)
{
	struct standby *s = data;

	if (is_reload)
		return;
	s->has_signal = true;
	loop_stop(s->loop, 1);
}

static bool is_lock_free(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? errno == ENOENT : flock(fd, LOCK_SH | LOCK_NB) == 0;
}

static void on_lock_look(struct loop_timer *timer, uint64_t now)
{
	struct standby *s = timer->data;

	s->n_free = is_lock_free(s->lock) ? s->n_free + 1 : 0;
	if (s->n_free >= LOCK_FREE_LOOKS)
		loop_stop(s->loop, 1);
	else
		loop_set_timer(timer, now + LOCK_LOOK_NS);
}

static int standby_start(
	struct standby *s, const char *health_listen, struct http_server **ret, struct error *err)
{
	static const struct http_route routes[] = {
		{"GET", "/healthz", http_answer_ok},
		{"GET", "/readyz", http_answer_ok},
	};
	const struct http_options http = {.address = health_listen,
		.max_connections = PROBE_CONNECTIONS,
		.max_per_address = PROBE_CONNECTIONS,
		.gives_way_at_once = true,
		.routes = routes,
		.n_routes = ARRAY_SIZE(routes)};
	int r = health_listen ? http_server_new(s->loop, &http, ret, err) : 0;

	s->timer.data = s;
	if (r >= 0 && loop_add_timer(s->loop, &s->timer, on_lock_look) < 0)
		r = fail(err, ENOMEM, "out of memory");
	if (r >= 0)
		loop_set_timer(&s->timer, clock_now_ns() + LOCK_LOOK_NS);
	return r;
}

int rolling_stand_by(const char *runtime_dir, const char *health_listen,
	struct program_signals *signals, struct error *err)
{
	_cleanup_loop_ struct loop *loop = NULL;
	struct http_server *server = NULL;
	struct standby s = {0};
	int r = loop_new(&loop);

	if (r < 0)
		return fail_errno(err, -r, "event loop");
	s.loop = loop;
	if ((size_t)snprintf(s.lock, sizeof(s.lock), "%s/lock", runtime_dir) >= sizeof(s.lock))
		return fail(err, ENAMETOOLONG, "--runtime-dir is too long");
	r = standby_start(&s, health_listen, &server, err);
	if (r >= 0 && (r = program_watch(signals, loop, on_standby_signal, &s)) < 0)
		fail_errno(err, -r, "watch signals");
	if (r >= 0) {
		log_info("standing by: another divvyd serves this node");
		r = loop_run(loop);
		program_unwatch(signals);
	}
	http_server_free(server);
	loop_remove_timer(&s.timer);
	return r < 0 ? r : !s.has_signal;
}
