/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/sched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "scheduler/decide.h"

#define UNIT_MAX 640u

/* What is to be done next; names, since a pod may go meanwhile. */
struct todo {
	enum sched_act act;
	const char *reason;
	char *ns, *name, *text;
};

struct sched {
	struct cluster *cluster;
	struct pending *pending;
	struct rand rand;
	uint64_t now_ns;
	struct todo *todo;
	uint32_t n_todo, todo_room, todo_at;
	struct todo last; /* what was handed out */
	struct buf why;
	struct sched_counts counts;
};

static void todo_done(struct todo *t)
{
	free(t->ns);
	free(t->name);
	free(t->text);
	*t = (struct todo){0};
}

int sched_new(const struct sched_config *config, struct sched **ret, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail(err, ENOMEM, "out of memory");
	s->rand = rand_seeded(config->seed);
	buf_init(&s->why, DECIDE_WHY_MAX);
	r = cluster_new(&config->cluster, &s->cluster, err);
	if (r < 0)
		return r;
	if (pending_new(&s->rand, &s->pending) < 0)
		return fail(err, ENOMEM, "out of memory");
	*ret = TAKE_PTR(s);
	return 0;
}

void sched_free(struct sched *s)
{
	if (!s)
		return;
	for (uint32_t i = s->todo_at; i < s->n_todo; i++)
		todo_done(&s->todo[i]);
	todo_done(&s->last);
	free(s->todo);
	buf_done(&s->why);
	pending_free(s->pending);
	cluster_free(s->cluster);
	free(s);
}

struct cluster *sched_cluster(struct sched *s)
{
	return s->cluster;
}

void sched_set_time(struct sched *s, uint64_t now_ns, uint64_t real_ns)
{
	s->now_ns = now_ns;
	cluster_set_time(s->cluster, now_ns, real_ns);
}

/* ---- who waits ---- */

/* "namespace/name" of a pod, "namespace/name\n" of a group. */
static const char *unit_of(const struct cpod *pod, char ret[static UNIT_MAX])
{
	if (cpod_group(pod)[0])
		snprintf(ret, UNIT_MAX, "%s\n", cpod_group(pod));
	else
		snprintf(ret, UNIT_MAX, "%s/%s", cpod_ns(pod), cpod_name(pod));
	return ret;
}

static int add_unit(struct sched *s, const struct cpod *pod)
{
	const struct pending_rank rank = {
		cpod_priority(pod), cpod_gpu_priority(pod), cpod_created_ns(pod)};
	char unit[UNIT_MAX];

	unit_of(pod, unit);
	return pending_add(s->pending, unit, &rank);
}

int sched_set(struct sched *s, int kind, json_t *json, struct error *err)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns, *name = json_string_value(json_object_get(metadata, "name"));
	enum cpod_state was = CPOD_OTHER;
	struct cpod *pod;
	char unit[UNIT_MAX] = "", unit_now[UNIT_MAX];
	int r;

	if (kind != OBJECT_POD)
		return cluster_set(s->cluster, kind, json, err);
	ns = json_string_value(json_object_get(metadata, "namespace"));
	pod = cluster_pod(s->cluster, ns ? ns : "", name ? name : "");
	if (pod) {
		was = cpod_state(pod);
		unit_of(pod, unit);
	}
	r = cluster_set(s->cluster, kind, json, err);
	pod = r < 0 ? NULL : cluster_pod(s->cluster, ns ? ns : "", name);
	if (!pod)
		return r;
	unit_of(pod, unit_now);
	if (was == CPOD_PENDING && (cpod_state(pod) != CPOD_PENDING || strcmp(unit, unit_now)))
		pending_remove(s->pending, unit);
	else if (was == CPOD_ASSUMED && cpod_state(pod) != CPOD_ASSUMED)
		pending_remove(s->pending, unit);
	if (cpod_state(pod) == CPOD_PENDING && add_unit(s, pod) < 0)
		return fail(err, ENOMEM, "out of memory");
	return r;
}

int sched_remove(struct sched *s, int kind, const char *ns, const char *name)
{
	char unit[UNIT_MAX];
	struct cpod *pod;

	if (kind == OBJECT_POD) {
		pod = cluster_pod(s->cluster, ns, name);
		if (pod)
			pending_remove(s->pending, unit_of(pod, unit));
	}
	return cluster_remove(s->cluster, kind, ns, name);
}

/* ---- what is to be done ---- */

static int push(struct sched *s, enum sched_act act, const struct cpod *pod, const char *reason,
	struct str text)
{
	struct todo *t;

	if (array_grow(&s->todo, &s->todo_room, s->n_todo + 1ul, sizeof(*s->todo)) < 0)
		return -ENOMEM;
	t = &s->todo[s->n_todo++];
	*t = (struct todo){.act = act,
		.reason = reason,
		.ns = str_dup(str_from(cpod_ns(pod))),
		.name = str_dup(str_from(cpod_name(pod))),
		.text = str_dup(text)};
	return t->ns && t->name && t->text ? 0 : -ENOMEM;
}

static int try_pod(struct sched *s, const char *unit, struct cpod *pod, struct error *err)
{
	enum decision decision;
	int r = decide_pod(s->cluster, pod, &decision, &s->why, err);

	s->counts.n_decisions++;
	if (r < 0) {
		pending_put_back(s->pending, unit, PENDING_FAILED, s->now_ns);
		return r;
	}
	if (decision == DECIDE_BIND) {
		s->counts.n_placed++;
		r = push(s, SCHED_BIND, pod, NULL, STR(""));
	} else {
		s->counts.n_nowhere++;
		pending_put_back(s->pending, unit, PENDING_NOWHERE, s->now_ns);
		r = push(s, SCHED_TELL, pod, NULL, buf_str(&s->why));
	}
	return r < 0 ? fail(err, ENOMEM, "out of memory") : 0;
}

static int try_unit(struct sched *s, const char *unit, struct error *err)
{
	struct str ns, name = str_from(unit);
	struct cpod *pod;
	char copy[UNIT_MAX], space[UNIT_MAX];

	str_copy(copy, sizeof(copy), name);
	str_split(&name, '/', &ns);
	str_copy(space, sizeof(space), ns);
	pod = cluster_pod(s->cluster, space, copy + ns.n + 1);
	if (!pod || cpod_state(pod) != CPOD_PENDING) {
		pending_remove(s->pending, copy);
		return 0;
	}
	return try_pod(s, copy, pod, err);
}

int sched_next(struct sched *s, struct sched_action *ret, struct error *err)
{
	todo_done(&s->last);
	for (;;) {
		const char *unit;
		struct cpod *pod;
		int r;

		if (s->todo_at < s->n_todo) {
			s->last = s->todo[s->todo_at++];
			pod = cluster_pod(s->cluster, s->last.ns, s->last.name);
			if (!pod) {
				todo_done(&s->last);
				continue;
			}
			*ret = (struct sched_action){
				s->last.act, pod, s->last.reason, s->last.text};
			return 1;
		}
		s->n_todo = s->todo_at = 0;
		if (cluster_take_news(s->cluster))
			pending_wake(s->pending, s->now_ns);
		unit = pending_next(s->pending, s->now_ns);
		if (!unit)
			return 0;
		r = try_unit(s, unit, err);
		if (r < 0)
			return r;
	}
}

uint64_t sched_deadline(const struct sched *s)
{
	return s->todo_at < s->n_todo ? 0 : pending_deadline(s->pending);
}

void sched_bound(struct sched *s, const char *ns, const char *name, const char *uid, bool is_done)
{
	struct cpod *pod = cluster_pod(s->cluster, ns, name);
	char unit[UNIT_MAX];

	if (!pod || strcmp(cpod_uid(pod), uid) || cpod_state(pod) != CPOD_ASSUMED || is_done)
		return;
	s->counts.n_bind_failures++;
	cluster_forget(s->cluster, pod);
	unit_of(pod, unit);
	if (pending_has(s->pending, unit))
		pending_put_back(s->pending, unit, PENDING_FAILED, s->now_ns);
	else
		add_unit(s, pod);
}

struct sched_counts sched_counts(const struct sched *s)
{
	struct sched_counts counts = s->counts;

	counts.pending = pending_counts(s->pending);
	return counts;
}
