/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and groups of users: see user-names.h. An old answer stays in use while a new one is
 * requested. A failure of the service keeps the old answer, and the next question follows after
 * RETRY_NS.
 */
#include "agent/user-names.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "agent/conf.h"
#include "agent/register.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "threads/thread-worker.h"

#define FRESH_NS (300 * NSEC_PER_SEC)
#define RETRY_NS (10 * NSEC_PER_SEC)
#define NAME_SIZE 64
#define GROUPS_MAX 1024
#define TEXT_BYTES (64u << 10) /* for one user's entry */

struct entry {
	uid_t uid;
	bool is_asking, is_known;
	char name[NAME_SIZE]; /* "": no such user */
	gid_t *groups;
	int n_groups;
	uint64_t first_ns; /* time of the first question */
	uint64_t again_ns; /* time of the next question */
	uint64_t used_ns;
};

struct names {
	struct entry entries[NAMES_MAX];
	uint32_t n, n_asking;
	struct worker *worker;
};

struct lookup {
	struct worker_job job;
	struct agent *agent;
	uid_t uid;
	int r; /* 0: there is an answer */
	char name[NAME_SIZE];
	gid_t groups[GROUPS_MAX];
	int n_groups;
};

/* ---- the thread ---- */

static void run_lookup(struct worker_job *job)
{
	struct lookup *l = (struct lookup *)job;
	_cleanup_free_ char *text = malloc(TEXT_BYTES);
	struct passwd pw, *found = NULL;

	l->r = text ? -getpwuid_r(l->uid, &pw, text, TEXT_BYTES, &found) : -ENOMEM;
	/* Some name services return these errors for "no such user". */
	if (l->r == -ENOENT || l->r == -ESRCH || l->r == -EBADF || l->r == -EPERM)
		l->r = 0;
	if (l->r < 0 || !found || str_copy(l->name, sizeof(l->name), str_from(pw.pw_name)) < 0)
		return;
	l->n_groups = GROUPS_MAX;
	if (getgrouplist(pw.pw_name, pw.pw_gid, l->groups, &l->n_groups) < 0)
		l->n_groups = MIN(l->n_groups, GROUPS_MAX); /* further groups are ignored */
}

struct worker *names_worker(struct agent *agent)
{
	struct names *names = agent->names;

	if (names && !names->worker && worker_new(agent->loop, &names->worker) < 0)
		return NULL; /* the next question tries again */
	return names ? names->worker : NULL;
}

/* ---- the loop's thread ---- */

static struct entry *names_find_entry(struct names *names, uid_t uid)
{
	for (uint32_t i = 0; i < names->n; i++)
		if (names->entries[i].uid == uid)
			return &names->entries[i];
	return NULL;
}

static void names_take_lookup(struct entry *e, const struct lookup *l)
{
	gid_t *groups = l->n_groups ? calloc((size_t)l->n_groups, sizeof(*groups)) : NULL;

	e->is_asking = false;
	if (l->r < 0 || (l->n_groups && !groups)) {
		e->again_ns = clock_now_ns() + RETRY_NS;
		return;
	}
	free(e->groups);
	if (groups)
		memcpy(groups, l->groups, (size_t)l->n_groups * sizeof(*groups));
	e->groups = groups;
	e->n_groups = l->n_groups;
	memcpy(e->name, l->name, sizeof(e->name));
	e->is_known = true;
	e->again_ns = clock_now_ns() + FRESH_NS;
}

static void lookup_done(struct worker_job *job)
{
	struct lookup *l = (struct lookup *)job;
	struct names *names = l->agent->names;
	struct entry *e = names_find_entry(names, l->uid);

	names->n_asking--;
	if (e)
		names_take_lookup(e, l);
	if (!l->agent->is_leaving) {
		if (e && e->name[0])
			conf_user_known(l->agent, e->uid, e->name);
		register_deferred(l->agent);
	}
	free(l);
}

static void names_start_lookup(struct agent *agent, struct entry *e)
{
	struct names *names = agent->names;
	struct worker *worker = names->n_asking < NAMES_ASKING_MAX ? names_worker(agent) : NULL;
	struct lookup *l = worker ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return;
	l->job = (struct worker_job){.run = run_lookup, .done = lookup_done};
	l->agent = agent;
	l->uid = e->uid;
	e->is_asking = true;
	e->first_ns = e->first_ns ? e->first_ns : clock_now_ns();
	names->n_asking++;
	worker_submit(worker, &l->job);
}

/*
 * Frees the entry that was unused for longest and has no open question. NULL: each entry has an
 * open question.
 */
static struct entry *names_evict_entry(struct names *names)
{
	struct entry *oldest = NULL;

	if (names->n < NAMES_MAX)
		return &names->entries[names->n++];
	for (uint32_t i = 0; i < names->n; i++) {
		struct entry *e = &names->entries[i];

		if (!e->is_asking && (!oldest || e->used_ns < oldest->used_ns))
			oldest = e;
	}
	if (oldest)
		free(oldest->groups);
	return oldest;
}

static struct entry *entry_of(struct agent *agent, uid_t uid)
{
	const uint64_t now = clock_now_ns();
	struct entry *e;

	if (!agent->names || agent->is_leaving)
		return NULL;
	e = names_find_entry(agent->names, uid);
	if (!e) {
		e = names_evict_entry(agent->names);
		if (!e)
			return NULL;
		*e = (struct entry){.uid = uid};
	}
	e->used_ns = now;
	if (!e->is_asking && now >= e->again_ns)
		names_start_lookup(agent, e);
	return e;
}

const char *names_user(struct agent *agent, uid_t uid)
{
	const struct entry *e = entry_of(agent, uid);

	return e && e->name[0] ? e->name : NULL;
}

bool names_is_member(struct agent *agent, uid_t uid, gid_t group)
{
	const struct entry *e = entry_of(agent, uid);

	for (int i = 0; e && i < e->n_groups; i++)
		if (e->groups[i] == group)
			return true;
	return false;
}

bool names_is_awaited(struct agent *agent, uid_t uid)
{
	const struct entry *e = entry_of(agent, uid);

	return e && e->is_asking && !e->is_known &&
		clock_since_ns(clock_now_ns(), e->first_ns) < NAMES_WAIT_NS;
}

int names_new(struct agent *agent, struct error *err)
{
	agent->names = calloc(1, sizeof(*agent->names));
	return agent->names ? 0 : fail(err, ENOMEM, "out of memory");
}

void names_free(struct agent *agent)
{
	struct names *names = agent->names;

	if (!names)
		return;
	worker_leave(names->worker, WORKER_LEAVE_S);
	for (uint32_t i = 0; i < names->n; i++)
		free(names->entries[i].groups);
	free(names);
	agent->names = NULL;
}
