/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container watcher: ends a tenant when no process of its container lives any more.
 * run_search() and may_read() run in the thread of a worker and touch only their own search; all
 * other functions run in the loop's thread. A search reads the container's cgroup; if the daemon
 * does not know or cannot read this cgroup, the search scans all processes' environments. An error
 * counts as a living container, so a failed search ends no tenant. A tenant ends after two searches
 * that found no process. If another search finds one in between, or a process uses the tenant,
 * alone_ns becomes later than missed_ns, and the first of the two searches no longer counts.
 */
#include "agent/container-watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/conf.h"
#include "agent/tenant.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "threads/thread-worker.h"

#define CGROUPS "/sys/fs/cgroup"

/* After a search that found a process, the next one waits this many times as long. */
#define FOUND_TIMES 3u
/* Far more than /proc needs for one process, so that a slow search does not count as stuck. */
#define STUCK_NS (2 * NSEC_PER_SEC)

struct search;

/* A process whose environment a worker cannot finish reading, and that worker. */
struct stuck {
	const struct search *search; /* only compared, never dereferenced */
	struct worker *worker;
	bool is_over; /* the read has returned: the worker can be joined */
	pid_t pid;    /* 0: the search is blocked, but not by a process */
	uint64_t start;
	uint64_t cgroup; /* hash of the process's cgroup; 0: unknown, or "/" */
};

/* Refers to the tenant by id, because the tenant may be removed meanwhile. */
struct search {
	struct worker_job job;
	STAILQ_ENTRY(search) link;
	struct container_watch *watch;
	uint32_t id;
	char entry[sizeof("DIVVY_TENANT=") + TENANT_SECRET_TEXT];
	char cgroup[CONF_CGROUP];          /* the cgroup of the container; "": not known */
	uint64_t since_ticks, until_ticks; /* the container was started between these times */
	struct stuck skipped[CONTAINER_WATCH_STUCK_MAX];
	uint32_t n_skipped;
	bool is_found; /* a process was found, or the search failed */

	/* Hints for the loop's thread; relaxed, since nothing else depends on them. */
	_Atomic(pid_t) reading;
	_Atomic(uint64_t) n_read;
};

struct container_watch {
	struct agent *agent;
	struct worker *worker;  /* NULL: none yet, or the last one is stuck */
	struct search *running; /* the search that the worker runs; NULL: none */
	STAILQ_HEAD(, search) waiting;
	struct loop_timer look;
	uint64_t n_read; /* progress of the running search at the last check */
	struct stuck stuck[CONTAINER_WATCH_STUCK_MAX];
	uint32_t n_stuck;
};

/* ---- the search ---- */

static uint64_t cgroup_hash(pid_t pid)
{
	char cgroup[CONF_CGROUP];

	return conf_cgroup(pid, cgroup, NULL) < 0 ? 0 : conf_cgroup_id(cgroup);
}

static bool is_skipped(const struct search *s, pid_t pid)
{
	uint64_t start = 0, cgroup = 0;
	uint32_t n_beside = 0;

	if (s->n_skipped) {
		cgroup = cgroup_hash(pid);
		process_start_ticks(pid, &start);
	}
	for (uint32_t i = 0; i < s->n_skipped; i++) {
		if (s->skipped[i].pid == pid && s->skipped[i].start == start)
			return true;
		n_beside += cgroup && s->skipped[i].cgroup == cgroup;
	}
	return n_beside >= CONTAINER_WATCH_STUCK_EACH;
}

static bool may_read(void *data, pid_t pid)
{
	struct search *s = data;

	atomic_store_explicit(&s->reading, pid, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->n_read, 1, memory_order_relaxed);
	return !is_skipped(s, pid);
}

static void run_search(struct worker_job *job)
{
	struct search *s = (struct search *)job;

	int r = s->cgroup[0] ? cgroup_is_populated(CGROUPS, s->cgroup) : -ENOTSUP;

	if (r < 0 && s->n_skipped < CONTAINER_WATCH_STUCK_MAX)
		r = process_find_environ(
			str_from(s->entry), s->since_ticks, s->until_ticks, may_read, s);
	s->is_found = r != 0;
}

static void search_free(struct search *s)
{
	explicit_bzero(s->entry, sizeof(s->entry));
	free(s);
}

/* ---- results ---- */

static void container_watch_note_result(struct tenant *t, bool is_found)
{
	const uint64_t now = clock_now_ns(), option_ns = t->agent->options.search_ns,
		       missed_ns = option_ns ? option_ns : CONTAINER_WATCH_NS;

	t->is_sought = false;
	t->seek_ns = now + (is_found ? FOUND_TIMES * missed_ns : missed_ns);
	if (!tenant_has_ended(t, now))
		return;
	if (is_found)
		t->alone_ns = now;
	else if (t->missed_ns && t->missed_ns >= t->alone_ns)
		tenant_kill(t);
	else
		t->missed_ns = now;
}

static void start_next(struct container_watch *watch);

/* The read of a stuck process's environment has returned, so its worker can be joined. */
static void stuck_done(struct container_watch *watch, const struct search *s)
{
	for (uint32_t i = 0; i < watch->n_stuck; i++)
		if (watch->stuck[i].search == s)
			watch->stuck[i].is_over = true;
}

static void container_watch_search_done(struct worker_job *job)
{
	struct search *s = (struct search *)job;
	struct container_watch *watch = s->watch;
	struct tenant *t = NULL;

	if (watch->running != s) {
		stuck_done(watch, s);
		search_free(s);
		return;
	}
	watch->running = NULL;
	if (!watch->agent->is_leaving)
		t = tenant_by_id(watch->agent, s->id);
	if (t && !t->is_ending)
		container_watch_note_result(t, s->is_found);
	search_free(s);
	if (!watch->agent->is_leaving)
		start_next(watch);
}

/* ---- the queue of searches ---- */

static void forget_over(struct container_watch *watch)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < watch->n_stuck; i++) {
		if (watch->stuck[i].is_over)
			worker_free(watch->stuck[i].worker);
		else
			watch->stuck[n++] = watch->stuck[i];
	}
	watch->n_stuck = n;
}

/* Ends the search without a result: the next tick starts a new one for the tenant. */
static void give_up(struct container_watch *watch, const struct search *s)
{
	struct tenant *t = tenant_by_id(watch->agent, s->id);

	if (t)
		t->is_sought = false;
}

static void start_next(struct container_watch *watch)
{
	struct search *s = STAILQ_FIRST(&watch->waiting);

	if (watch->running || !s)
		return;
	forget_over(watch);
	STAILQ_REMOVE_HEAD(&watch->waiting, link);
	if (!watch->worker && worker_new(watch->agent->loop, &watch->worker) < 0) {
		give_up(watch, s);
		search_free(s);
		return;
	}
	memcpy(s->skipped, watch->stuck, sizeof(s->skipped));
	s->n_skipped = watch->n_stuck;
	watch->running = s;
	watch->n_read = UINT64_MAX;
	worker_submit(watch->worker, &s->job);
	loop_set_timer(&watch->look, clock_now_ns() + STUCK_NS);
}

static void leave_behind(struct container_watch *watch)
{
	struct search *s = watch->running;
	const pid_t pid = atomic_load_explicit(&s->reading, memory_order_relaxed);
	struct stuck *stuck = &watch->stuck[watch->n_stuck++];

	*stuck = (struct stuck){.search = s, .worker = TAKE_PTR(watch->worker), .pid = pid};
	if (pid) {
		process_start_ticks(pid, &stuck->start);
		stuck->cgroup = cgroup_hash(pid);
	}
	log_warn("pid %d: reading its environment blocks; the search for containers skips it",
		(int)pid);
	give_up(watch, s);
	watch->running = NULL;
	start_next(watch);
}

static void on_look(struct loop_timer *timer, uint64_t now)
{
	struct container_watch *watch = timer->data;
	uint64_t n_read;

	if (!watch->running)
		return;
	n_read = atomic_load_explicit(&watch->running->n_read, memory_order_relaxed);
	if (n_read == watch->n_read && watch->n_stuck < CONTAINER_WATCH_STUCK_MAX) {
		leave_behind(watch);
		return;
	}
	watch->n_read = n_read;
	loop_set_timer(timer, clock_now_ns() + STUCK_NS);
}

static struct container_watch *container_watch_get(struct agent *agent)
{
	struct container_watch *watch = agent->container_watch ? NULL : calloc(1, sizeof(*watch));

	if (!watch)
		return agent->container_watch;
	watch->agent = agent;
	watch->look.data = watch;
	STAILQ_INIT(&watch->waiting);
	if (loop_add_timer(agent->loop, &watch->look, on_look) < 0)
		free(watch);
	else
		agent->container_watch = watch;
	return agent->container_watch;
}

void container_watch_free(struct agent *agent)
{
	struct container_watch *watch = agent->container_watch;
	struct search *s;

	if (!watch)
		return;
	while ((s = STAILQ_FIRST(&watch->waiting))) {
		STAILQ_REMOVE_HEAD(&watch->waiting, link);
		search_free(s);
	}
	worker_leave(watch->worker, WORKER_LEAVE_S);
	forget_over(watch);
	for (uint32_t i = 0; i < watch->n_stuck; i++)
		worker_leave(watch->stuck[i].worker, 0);
	loop_remove_timer(&watch->look);
	free(watch);
	agent->container_watch = NULL;
}

void container_watch_seek(struct tenant *t)
{
	const uint64_t now = clock_now_ns();
	char secret[TENANT_SECRET_TEXT];
	struct container_watch *watch;
	struct search *s;

	if (t->is_sought || now < t->seek_ns)
		return;
	watch = container_watch_get(t->agent);
	s = watch ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return; /* the next tick tries again */
	s->job = (struct worker_job){.run = run_search, .done = container_watch_search_done};
	s->watch = watch;
	s->id = t->id;
	s->since_ticks = t->owner_start;
	s->until_ticks = t->owner_end ? t->owner_end : UINT64_MAX;
	if (t->container == TENANT_CONTAINER_BOUND)
		snprintf(s->cgroup, sizeof(s->cgroup), "%s", t->cgroup);
	tenant_secret_format(t, secret);
	snprintf(s->entry, sizeof(s->entry), "DIVVY_TENANT=%s", secret);
	explicit_bzero(secret, sizeof(secret));
	t->is_sought = true;
	STAILQ_INSERT_TAIL(&watch->waiting, s, link);
	start_next(watch);
}
