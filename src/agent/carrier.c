/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container watcher: ends a tenant when no process of its container lives any more.
 * run_search() runs in the thread of the worker `seeker` and uses only its own job; all other
 * functions run in the loop's thread. A search asks the container's cgroup. If the daemon does not
 * know or cannot read this cgroup, the search scans all processes' environments. An error counts as
 * a living container, so a failed search ends no tenant. A tenant ends after two misses without a
 * hit or a use in between: each of these moves alone_ns past missed_ns.
 */
#include "agent/carrier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tenant.h"
#include "base/clock.h"
#include "base/process.h"
#include "threads/worker.h"

#define CGROUPS "/sys/fs/cgroup"

/*
 * Time between two misses. It covers an engine that restarts a container, and a program within
 * execve.
 */
#define MISSED_NS (3 * NSEC_PER_SEC)
#define CARRIED_NS (10 * NSEC_PER_SEC)

/* Refers to the tenant by id, because the tenant may be removed meanwhile. */
struct search {
	struct worker_job job;
	struct agent *agent;
	uint32_t id;
	char entry[sizeof("DIVVY_TENANT=") + TENANT_SECRET_TEXT];
	char cgroup[CONF_CGROUP];          /* the container's; "": not known */
	uint64_t since_ticks, until_ticks; /* times of the container's start */
	bool is_carried;                   /* the container lives, or the search failed */
};

static void run_search(struct worker_job *job)
{
	struct search *s = (struct search *)job;

	int r = s->cgroup[0] ? cgroup_is_populated(CGROUPS, s->cgroup) : -ENOTSUP;

	if (r < 0)
		r = process_find_environ(str_from(s->entry), s->since_ticks, s->until_ticks);
	s->is_carried = r != 0;
}

static void note(struct tenant *t, bool is_carried)
{
	const uint64_t now = clock_now_ns();

	t->is_sought = false;
	t->seek_ns = now + (is_carried ? CARRIED_NS : MISSED_NS);
	if (!tenant_has_ended(t, now))
		return;
	if (is_carried)
		t->alone_ns = now;
	else if (t->missed_ns && t->missed_ns >= t->alone_ns)
		tenant_kill(t);
	else
		t->missed_ns = now;
}

static void search_done(struct worker_job *job)
{
	struct search *s = (struct search *)job;
	struct tenant *t = s->agent->is_leaving ? NULL : tenant_by_id(s->agent, s->id);

	if (t && !t->is_ending)
		note(t, s->is_carried);
	explicit_bzero(s->entry, sizeof(s->entry));
	free(s);
}

void carrier_seek(struct tenant *t)
{
	const uint64_t now = clock_now_ns();
	char secret[TENANT_SECRET_TEXT];
	struct search *s;

	if (t->is_sought || now < t->seek_ns)
		return;
	if (!t->agent->seeker && worker_new(t->agent->loop, &t->agent->seeker) < 0)
		return; /* the next tick tries again */
	s = calloc(1, sizeof(*s));
	if (!s)
		return; /* the next tick tries again */
	s->job = (struct worker_job){.run = run_search, .done = search_done};
	s->agent = t->agent;
	s->id = t->id;
	s->since_ticks = t->owner_start;
	s->until_ticks = t->owner_end ? t->owner_end : UINT64_MAX;
	if (t->container == TENANT_CONTAINER_BOUND)
		snprintf(s->cgroup, sizeof(s->cgroup), "%s", t->cgroup);
	tenant_secret_format(t, secret);
	snprintf(s->entry, sizeof(s->entry), "DIVVY_TENANT=%s", secret);
	explicit_bzero(secret, sizeof(secret));
	t->is_sought = true;
	worker_submit(t->agent->seeker, &s->job);
}
