/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns objects and time into actions, one step of sched_think() at a time. A step handles
 * nominated pods first, then resize requests and pods that began to run, then the next queue item.
 * A step that queued actions ends there; sched_next() hands them out before it thinks again. A gang
 * is one queue item: sched_gather_gang() finds places for enough of its members, or cancels all of
 * them. rank_all() gives every waiting pod its queue item again when queues or groups change. The
 * flags has_resizes and has_denied prevent a search through all pods when nothing has changed. For
 * pods on tainted devices cluster_must_check_taints() does, and for victims evict_again_ns.
 * Nominated pods have their own list, which is checked after each event and each change of time.
 */
#include "scheduler/sched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/kube-json.h"
#include "scheduler/sched-todo.h"

#define KEY_MAX 640u /* "namespace/name" of a pod, or the name of a gang, with the terminating 0 */
#define OFFERS_NS (UINT64_C(1) * 1000000000) /* interval of the checks for expired reservations */

struct sched {
	struct cluster *cluster;
	struct pending *pending;
	struct rand rand;
	uint64_t now_ns, offers_seen_ns;
	struct todo todo;
	struct buf why;
	struct decide_outcome outcome; /* outcome of the current decision */
	struct decide_victims victims; /* victims of the current decision */
	/* a pod may have a resize request, or may have begun to run */
	bool has_resizes;
	uint64_t epoch;  /* epoch of this instance's Lease */
	bool has_denied; /* a resize request may have been denied */
	/* capacity was freed since the last try of denied resize requests */
	bool has_room;
	bool has_news; /* nominated pods need a check */
	/* No eviction for another pod has to be repeated before this time. */
	uint64_t evict_again_ns;
	struct sched_counts counts;
};

static bool sched_is_before(void *arg, uint32_t a, uint32_t b)
{
	return cluster_queue_is_before(arg, a, b);
}

static bool sched_is_below_guarantee(void *arg, uint32_t line)
{
	return cluster_queue_is_below_guarantee(arg, line);
}

int sched_new(const struct sched_config *config, struct sched **ret, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *s = calloc(1, sizeof(*s));
	struct cluster_config cluster = config->cluster;
	struct pending_queues lines = {sched_is_before, sched_is_below_guarantee, NULL};
	int r;

	if (!s)
		return fail(err, ENOMEM, "out of memory");
	s->rand = rand_seeded(config->seed);
	buf_init(&s->why, DECIDE_WHY_MAX);
	s->outcome = DECIDE_OUTCOME_INIT;
	cluster.seed = config->seed;
	r = cluster_new(&cluster, &s->cluster, err);
	if (r < 0)
		return r;
	lines.arg = s->cluster;
	if (pending_new(&s->rand, &lines, &s->pending) < 0)
		return fail(err, ENOMEM, "out of memory");
	*ret = TAKE_PTR(s);
	return 0;
}

void sched_free(struct sched *s)
{
	if (!s)
		return;
	todo_done(&s->todo);
	free(s->victims.v);
	buf_done(&s->why);
	decide_outcome_done(&s->outcome);
	pending_free(s->pending);
	cluster_free(s->cluster);
	free(s);
}

struct cluster *sched_cluster(struct sched *s)
{
	return s->cluster;
}

/* Releases expired reservations of extender pods, for which kube-scheduler sent no bind request. */
static void take_back_offers(struct sched *s)
{
	struct cpod *pod = NULL;

	if (!cluster_n_reserved(s->cluster) || s->now_ns < s->offers_seen_ns + OFFERS_NS)
		return;
	s->offers_seen_ns = s->now_ns;
	while ((pod = cluster_next_pod(s->cluster, pod)))
		if (cpod_state(pod) == CPOD_RESERVED && s->now_ns >= cpod_give_up_ns(pod)) {
			s->counts.n_expired++;
			cluster_forget(s->cluster, pod);
		}
}

void sched_set_time(struct sched *s, uint64_t now_ns, uint64_t real_ns)
{
	s->now_ns = now_ns;
	s->has_news = true;
	cluster_set_time(s->cluster, now_ns, real_ns);
	take_back_offers(s);
}

void sched_lead(struct sched *s, uint64_t epoch)
{
	struct cpod *pod = NULL;

	s->epoch = epoch;
	while ((pod = cluster_next_pod(s->cluster, pod))) {
		if (cpod_state(pod) != CPOD_BOUND)
			continue;
		cpod_accept(pod);
		if (cpod_is_older(pod, epoch)) {
			cpod_note_resize(pod);
			s->has_resizes = true;
		}
	}
}

/* ---- queue items ---- */

/* The queue item that the pod belongs to. Valid until the pod changes. */
static struct pending_key sched_pod_key(const struct cpod *pod)
{
	if (cpod_group(pod)[0])
		return (struct pending_key){PENDING_GANG, cpod_group(pod)};
	return (struct pending_key){PENDING_POD, cpod_key(pod)};
}

/* Like sched_pod_key(), with the key's name copied to `name`. */
static struct pending_key copy_key(const struct cpod *pod, char name[static KEY_MAX])
{
	const struct pending_key key = sched_pod_key(pod);

	str_copy(name, KEY_MAX, str_from(key.name));
	return (struct pending_key){key.kind, name};
}

static bool is_same_key(struct pending_key a, struct pending_key b)
{
	return a.kind == b.kind && !strcmp(a.name, b.name);
}

static int add_item(struct sched *s, const struct cpod *pod)
{
	const struct pending_rank rank = {cpod_priority(pod), cpod_gpu_priority(pod),
		cpod_created_ns(pod), cpod_queue_index(s->cluster, pod)};

	return pending_add(s->pending, sched_pod_key(pod), &rank);
}

/* Removes the item from the queue. A gang stays in the queue while one of its members waits. */
static void drop_item(struct sched *s, struct pending_key key)
{
	_cleanup_free_ struct cpod **members = NULL;
	uint32_t n_members;

	if (key.kind == PENDING_GANG) {
		n_members = cluster_members(s->cluster, key.name, NULL, 0);
		members = calloc(n_members + 1ul, sizeof(struct cpod *));
		if (!members)
			return;
		cluster_members(s->cluster, key.name, members, n_members);
		for (uint32_t i = 0; i < n_members; i++)
			if (cpod_state(members[i]) == CPOD_PENDING)
				return;
	}
	pending_remove(s->pending, key);
}

static bool sched_is_equal(const json_t *a, const json_t *b)
{
	return a == b || (a && b && json_equal(a, b));
}

/*
 * Returns whether annotations, labels, spec or the names of its claims have changed, which can
 * affect the place of a waiting pod.
 */
static bool sched_is_other_resize(const json_t *was, const json_t *now)
{
	static const char *const fields[] = {"annotations", "labels"};
	const json_t *a = json_object_get(was, "metadata"), *b = json_object_get(now, "metadata");

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!sched_is_equal(json_object_get(a, fields[i]), json_object_get(b, fields[i])))
			return true;
	}
	return !sched_is_equal(json_object_get(was, "spec"), json_object_get(now, "spec")) ||
		!sched_is_equal(kube_json_at(was, "status", "resourceClaimStatuses", NULL),
			kube_json_at(now, "status", "resourceClaimStatuses", NULL));
}

static int sched_set_pod(struct sched *s, json_t *json, struct error *err)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	struct cpod *pod = cluster_pod(s->cluster, ns ? ns : "", name ? name : "");
	_cleanup_json_ json_t *was = pod ? json_incref(cpod_json(pod)) : NULL;
	struct pending_key key = {.name = NULL};
	char room[KEY_MAX];
	int r;

	if (pod)
		key = copy_key(pod, room);
	r = cluster_set(s->cluster, OBJECT_POD, json, err);
	pod = r < 0 ? NULL : cluster_pod(s->cluster, ns ? ns : "", name);
	if (!pod)
		return r;
	s->has_news = true;
	if (cpod_running(pod) || decide_has_resize(s->cluster, pod) ||
		cpod_is_older(pod, s->epoch)) {
		cpod_note_resize(pod);
		s->has_resizes = true;
	}
	if (key.name &&
		(!is_same_key(key, sched_pod_key(pod)) || cpod_state(pod) == CPOD_BOUND ||
			cpod_state(pod) == CPOD_OTHER))
		drop_item(s, key);
	if (cpod_state(pod) != CPOD_PENDING)
		return r;
	if (add_item(s, pod) < 0)
		return fail(err, ENOMEM, "out of memory");
	if (!was || sched_is_other_resize(was, json)) {
		cpod_forgive(pod);
		pending_wake_one(s->pending, sched_pod_key(pod));
	}
	return r;
}

int sched_set(struct sched *s, int kind, json_t *json, struct error *err)
{
	s->has_news = true;
	return kind == OBJECT_POD ? sched_set_pod(s, json, err)
				  : cluster_set(s->cluster, kind, json, err);
}

int sched_remove(struct sched *s, int kind, const char *ns, const char *name)
{
	struct cpod *pod = kind == OBJECT_POD ? cluster_pod(s->cluster, ns, name) : NULL;
	struct pending_key key = {.name = NULL};
	char room[KEY_MAX];
	int r;

	if (pod)
		key = copy_key(pod, room);
	s->has_news = true;
	r = cluster_remove(s->cluster, kind, ns, name);
	if (key.name)
		drop_item(s, key);
	return r;
}

/* ---- actions ---- */

/*
 * The API server writes the condition of a gated pod, with reason SchedulingGated. No other reason
 * replaces it: an autoscaler would add a node for a pod that its queue has not admitted.
 *
 * As in kube-scheduler, the reason SchedulerError keeps an autoscaler from adding a node while the
 * Binding is refused. After the pause the reason is Unschedulable again, because the pod may then
 * lack a device.
 */
static int sched_push_condition(struct sched *s, const struct cpod *pod, struct str text)
{
	if (cpod_is_gated(pod))
		return 0;
	return todo_push(&s->todo, SCHED_CONDITION, pod,
		cpod_is_refused(s->cluster, pod) ? REASON_SCHEDULER_ERROR : REASON_UNSCHEDULABLE,
		text);
}

int sched_note_need(struct sched *s, struct cpod *pod, bool needs_device, struct error *err)
{
	cpod_set_needs_device(pod, needs_device);
	if (cpod_is_need_reported(pod))
		return 0;
	return todo_push(&s->todo, SCHED_NEEDS_DEVICE, pod, REASON_NONE, STR("")) < 0
		? fail(err, ENOMEM, "out of memory")
		: 0;
}

/* Frees the devices that the pod of the last decision got earlier, where it does not fit now. */
static int sched_push_free_claims(struct sched *s, const struct cpod *pod)
{
	return s->outcome.has_unused_claims
		? todo_push(&s->todo, SCHED_FREE_CLAIMS, pod, REASON_NONE, STR(""))
		: 0;
}

/* Evicts the victims of the last decision. */
static int push_evictions(struct sched *s, const struct cpod *pod)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < s->victims.n; i++) {
		struct cpod *victim = s->victims.v[i];

		cpod_set_reported_ns(victim, s->now_ns);
		s->evict_again_ns = MIN(s->evict_again_ns, s->now_ns + CLUSTER_EVICT_AGAIN_NS);
		s->counts.n_evictions++;
		s->counts.n_reclaimed += cpod_is_reclaimed(victim);
		r = todo_push_eviction(&s->todo, victim, pod);
	}
	return r;
}

/*
 * Makes the item unschedulable; with reclaim_at_ns it is tried again at that time, when it may
 * evict to reclaim its queue's guarantee.
 */
static void sched_rest_pod(struct sched *s, struct pending_key key, uint64_t reclaim_at_ns)
{
	if (reclaim_at_ns)
		pending_put_back_until(s->pending, key, reclaim_at_ns);
	else
		pending_put_back(s->pending, key, PENDING_NOWHERE, s->now_ns);
}

/* The item, with its group, backs off longer after each failed Binding. */
static void put_back_failed(struct sched *s, const struct cpod *pod)
{
	const struct pending_key key = sched_pod_key(pod);

	if (!pending_has(s->pending, key) && add_item(s, pod) < 0)
		return;
	if (cpod_n_refused(pod))
		pending_set_tries(s->pending, key, cpod_n_refused(pod) - 1);
	pending_put_back(s->pending, key, PENDING_FAILED, s->now_ns);
}

/* The pod has its place already, and gives the place back if the action cannot be queued. */
static int push_placed(struct sched *s, enum sched_act act, struct cpod *pod, struct str text)
{
	const int r = todo_push(&s->todo, act, pod, REASON_NONE, text);

	if (r < 0) {
		cluster_forget(s->cluster, pod);
		put_back_failed(s, pod);
	}
	return r;
}

static int sched_push_bind(struct sched *s, struct cpod *pod)
{
	const int r = push_placed(s, SCHED_BIND, pod, STR(""));

	s->counts.n_placed += r == 0;
	if (r == 0 && cpod_is_group_ignored(pod))
		todo_push(&s->todo, SCHED_EVENT, pod, REASON_GROUP_IGNORED,
			STR("spec.schedulingGroup has no effect: the API server serves no "
			    "PodGroup of " DIALECT_KUBE_GROUP " in a version that divvy knows"));
	return r;
}

static int try_pod(struct sched *s, struct pending_key key, struct cpod *pod, struct error *err)
{
	int r;

	s->victims.n = 0;
	r = decide_pod(s->cluster, pod, &s->victims, &s->outcome, err);
	s->counts.n_decisions++;
	if (r < 0) {
		pending_put_back(s->pending, key, PENDING_FAILED, s->now_ns);
		return r;
	}
	switch (s->outcome.decision) {
	case DECIDE_BIND: r = sched_push_bind(s, pod); break;
	case DECIDE_NOMINATE:
		r = push_evictions(s, pod);
		r = r < 0 ? r
			  : todo_push(&s->todo, SCHED_NOMINATE, pod, REASON_NONE,
				    buf_str(&s->outcome.why));
		break;
	case DECIDE_CLAIM:
		pending_put_back(s->pending, key, PENDING_NOWHERE, s->now_ns);
		r = todo_push_claims(&s->todo, pod, &s->outcome.claims);
		break;
	case DECIDE_WAIT:
		s->counts.n_nowhere++;
		sched_rest_pod(s, key, cpod_reclaim_at_ns(pod));
		r = sched_push_condition(s, pod, buf_str(&s->outcome.why));
		r = r < 0 ? r : sched_push_free_claims(s, pod);
		break;
	}
	return r < 0 ? fail(err, ENOMEM, "out of memory") : 0;
}

/* ---- groups ---- */

struct gang {
	struct cpod **member; /* pending members first, in queue order */
	uint32_t n, n_waiting, n_running;
	uint32_t least, size;
	bool is_nominated;
	/* request of a member whose group's object does not exist; NULL: no such member */
	const struct tenancy *unsized;
};

/*
 * Returns whether the gang can start without waiting for the member. Running and completed members
 * need no wait. Members of another scheduler count as running, because they may wait for the
 * members of divvy-scheduler, and both would wait forever. A member that is being deleted does not
 * count: its replacement does, which may belong to a new object of the same name.
 */
static bool is_running(const struct cpod *pod)
{
	return !cpod_is_deleting(pod) &&
		(cpod_state(pod) == CPOD_BOUND || cpod_state(pod) == CPOD_ASSUMED ||
			!cpod_is_ours(pod) || cpod_is_done(pod));
}

static int compare_members(const void *pa, const void *pb)
{
	struct cpod *const *a = pa, *const *b = pb;
	const bool is_a = cpod_state(*a) == CPOD_PENDING, is_b = cpod_state(*b) == CPOD_PENDING;

	if (is_a != is_b)
		return is_a ? -1 : 1;
	if (cpod_created_ns(*a) != cpod_created_ns(*b))
		return cpod_created_ns(*a) < cpod_created_ns(*b) ? -1 : 1;
	return strcmp(cpod_name(*a), cpod_name(*b));
}

static int gang_init(struct sched *s, const char *group, struct gang *g)
{
	*g = (struct gang){.n = cluster_members(s->cluster, group, NULL, 0)};
	g->member = calloc(g->n + 1ul, sizeof(struct cpod *));
	if (!g->member)
		return -ENOMEM;
	cluster_members(s->cluster, group, g->member, g->n);
	qsort(g->member, g->n, sizeof(struct cpod *), compare_members);
	for (uint32_t i = 0; i < g->n; i++) {
		const struct tenancy *requested = cpod_requested(g->member[i]);

		g->n_waiting += cpod_state(g->member[i]) == CPOD_PENDING;
		g->n_running += is_running(g->member[i]);
		g->is_nominated |= cpod_state(g->member[i]) == CPOD_NOMINATED;
		if (!requested->group_least)
			g->unsized = requested;
		/* If the members state different thresholds or sizes, the largest ones count. */
		g->least = MAX(g->least, requested->group_least);
		g->size = MAX(g->size, requested->group_size);
	}
	return 0;
}

/* Reports to all waiting members why they wait, and whether a further device might help. */
static int tell_all(struct sched *s, const struct gang *g, struct str text, bool needs_device)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < g->n_waiting; i++) {
		cpod_set_needs_device(g->member[i], needs_device);
		r = sched_push_condition(s, g->member[i], text);
	}
	return r;
}

/*
 * Returns 1 if a placed member has to wait for a terminating pod. The pod may be a victim of this
 * gang or of another preemptor.
 */
static int has_to_wait(struct sched *s, const struct gang *g, struct error *err)
{
	enum decision decision = DECIDE_BIND;
	int r = 0;

	if (s->victims.n)
		return 1;
	for (uint32_t i = 0; r == 0 && decision == DECIDE_BIND && i < g->n_waiting; i++)
		if (cpod_state(g->member[i]) == CPOD_NOMINATED)
			r = decide_nominated(s->cluster, g->member[i], &decision, err);
	return r < 0 ? r : decision != DECIDE_BIND;
}

/*
 * Binds the placed members, or nominates all of them if one has to wait. `why` goes to the members
 * without a place.
 */
static int sched_settle_gang(struct sched *s, const struct gang *g, uint64_t give_up_ns,
	const struct buf *why, struct error *err)
{
	const int must_wait = has_to_wait(s, g, err);
	int r = MIN(must_wait, 0);

	for (uint32_t i = 0; i < g->n_waiting; i++) {
		struct cpod *pod = g->member[i];

		if (r < 0) {
			cluster_forget(s->cluster, pod);
			continue;
		}
		if (cpod_state(pod) == CPOD_PENDING) {
			r = sched_push_condition(s, pod, buf_str(why));
			continue;
		}
		if (must_wait)
			decide_nominate(s->cluster, pod, give_up_ns);
		else
			decide_release(s->cluster, pod);
		r = push_placed(s, must_wait ? SCHED_NOMINATE : SCHED_BIND, pod,
			STR("waits for pods to terminate where its group has reserved places"));
	}
	return r == 0 && s->victims.n ? push_evictions(s, g->member[0]) : r;
}

/*
 * Places as many members as fit, if placed and running members together reach the threshold; else
 * none.
 */
static int sched_gather_gang(
	struct sched *s, struct pending_key key, struct gang *g, struct error *err)
{
	_cleanup_buf_ struct buf first = BUF_INIT(DECIDE_WHY_MAX);
	uint32_t n_placed = 0;
	uint64_t give_up_ns = 0, reclaim_at_ns = 0;
	bool is_enough, needs_device = false;
	int r = 0;

	decide_begin(s->cluster, &s->victims);
	for (uint32_t i = 0; r == 0 && i < g->n_waiting; i++) {
		enum decision decision;

		r = decide_pod(s->cluster, g->member[i], &s->victims, &s->outcome, err);
		decision = s->outcome.decision;
		s->counts.n_decisions++;
		if (r == 0 && decision == DECIDE_CLAIM) {
			/*
			 * The volumes of this member's claims must exist first; the gang is tried
			 * again when they do.
			 */
			r = todo_push_claims(&s->todo, g->member[i], &s->outcome.claims);
			continue;
		}
		n_placed += r == 0 && decision != DECIDE_WAIT;
		if (r == 0 && decision == DECIDE_NOMINATE)
			give_up_ns = MAX(give_up_ns, cpod_give_up_ns(g->member[i]));
		if (r == 0 && decision == DECIDE_WAIT)
			reclaim_at_ns = MAX(reclaim_at_ns, cpod_reclaim_at_ns(g->member[i]));
		if (r == 0 && decision == DECIDE_WAIT)
			r = sched_push_free_claims(s, g->member[i]);
		if (r == 0 && decision == DECIDE_WAIT && !first.n) {
			buf_add(&first, buf_str(&s->outcome.why));
			needs_device = cpod_needs_device(g->member[i]);
		}
	}
	is_enough = r == 0 && g->n_running + n_placed >= g->least;
	if (is_enough)
		r = decide_end(s->cluster, &s->victims, g->member, g->n_waiting, err);
	else
		decide_cancel(s->cluster, &s->victims, g->member, g->n_waiting);
	if (r < 0 || !is_enough) {
		/*
		 * decide_cancel() set has_news of the cluster, but the state is as before the try,
		 * so no waiting pod benefits.
		 */
		cluster_take_news(s->cluster);
		s->counts.n_nowhere++;
		if (r < 0) {
			pending_put_back(s->pending, key, PENDING_FAILED, s->now_ns);
			return r;
		}
		sched_rest_pod(s, key, reclaim_at_ns);
		buf_clear(&s->why);
		buf_addf(&s->why, "group %s: %u of %u pods fit, %u are needed; %s", key.name,
			g->n_running + n_placed, g->size, g->least, buf_text(&first));
		return tell_all(s, g, buf_str(&s->why), needs_device);
	}
	s->counts.n_placed += n_placed;
	r = sched_settle_gang(s, g, give_up_ns, &first, err);
	pending_put_back(s->pending, key, PENDING_NOWHERE, s->now_ns);
	drop_item(s, key);
	return r;
}

static void explain_unsized(
	const char *group, const struct tenancy *requested, char *text, size_t size)
{
	const char *kind = cluster_group_kind(requested->group_object);

	if (!requested->group_by)
		snprintf(text, size,
			"group %s: %s %s of %s does not exist; create it, or set "
			"divvy.gpu/group and divvy.gpu/group-size",
			group, kind, requested->group, requested->group_object);
	else if (requested->is_group_empty)
		snprintf(text, size,
			"group %s: %s '%s' of %s states 0 pods for %s%s%s; set its replicas to 1 or "
			"more, or set divvy.gpu/group and divvy.gpu/group-size in place "
			"of " DIALECT_GROUP_BY_KEY,
			group, kind, requested->group_object_name, requested->group_object,
			requested->group_part[0] ? "part '" : "this group", requested->group_part,
			requested->group_part[0] ? "'" : "");
	else if (requested->group_part[0])
		snprintf(text, size,
			"group %s: no %s '%s' of %s with a part '%s' exists; create it, or set "
			"divvy.gpu/group and divvy.gpu/group-size in place of " DIALECT_GROUP_BY_KEY,
			group, kind, requested->group_object_name, requested->group_object,
			requested->group_part);
	else
		snprintf(text, size,
			"group %s: no %s '%s' of %s exists; create it, or set divvy.gpu/group and "
			"divvy.gpu/group-size in place of " DIALECT_GROUP_BY_KEY,
			group, kind, requested->group_object_name, requested->group_object);
}

static int try_group(struct sched *s, struct pending_key key, struct error *err)
{
	_cleanup_free_ struct cpod **members = NULL;
	const char *group = key.name;
	char text[KEY_MAX + SPEC_GROUP + 160];
	struct gang g;
	int r = gang_init(s, group, &g);

	members = g.member;
	if (r < 0) {
		pending_put_back(s->pending, key, PENDING_FAILED, s->now_ns);
		return fail(err, -r, "out of memory");
	}
	if (!g.n_waiting) {
		pending_remove(s->pending, key);
		return 0;
	}
	if (g.least && !g.is_nominated && g.n_waiting + g.n_running >= g.least)
		return sched_gather_gang(s, key, &g, err);
	if (!g.least)
		explain_unsized(group, g.unsized, text, sizeof(text));
	else if (g.is_nominated)
		snprintf(text, sizeof(text),
			"group %s: waits until its nominated pods have started", group);
	else
		snprintf(text, sizeof(text), "group %s: %u of %u pods exist, %u are needed", group,
			g.n_waiting + g.n_running, g.size, g.least);
	pending_put_back(s->pending, key, PENDING_NOWHERE, s->now_ns);
	r = tell_all(s, &g, str_from(text), false);
	return r < 0 ? r
		     : todo_push(&s->todo, SCHED_EVENT, g.member[0], REASON_GROUP_WAITING,
			       str_from(text));
}

/* ---- nominated pods ---- */

/* Cancels all evictions if no pod is nominated any more, because no pod needs their capacity. */
static int sched_readd_all(struct sched *s)
{
	struct cpod *pod = NULL;
	int r = 0;

	if (cluster_n_nominated(s->cluster))
		return 0;
	while (r == 0 && (pod = cluster_next_pod(s->cluster, pod)))
		if (cpod_reported_ns(pod))
			r = cluster_readd(s->cluster, pod);
	return r;
}

/*
 * Ends the pod's nomination. is_late: the nomination expired; otherwise the group lost too many
 * members.
 */
static int sched_give_up_pod(struct sched *s, struct cpod *pod, bool is_late)
{
	int r = 0;

	if (is_late && cpod_group(pod)[0]) {
		s->counts.n_timeouts++;
		r = todo_push(&s->todo, SCHED_EVENT, pod, REASON_GROUP_TIMED_OUT,
			STR("reservation released: other pods did not terminate in time"));
	}
	cluster_forget(s->cluster, pod);
	r = r < 0 ? r : add_item(s, pod);
	pending_put_back(s->pending, sched_pod_key(pod), PENDING_FAILED, s->now_ns);
	return r;
}

/* Returns whether nominated and running members together still reach the threshold. */
static bool is_enough(const struct gang *g)
{
	uint32_t n = g->n_running;

	for (uint32_t i = 0; i < g->n; i++)
		n += cpod_state(g->member[i]) == CPOD_NOMINATED;
	return n >= g->least;
}

/*
 * Checks a nominated pod, or all nominated pods of its gang together, and binds them or ends their
 * nominations.
 */
static int look_at_held(struct sched *s, struct cpod *pod, struct error *err)
{
	struct cpod *alone[1] = {pod};
	struct gang g = {.member = alone, .n = 1};
	_cleanup_free_ struct cpod **members = NULL;
	enum decision all = DECIDE_BIND;
	bool is_whole = true;
	int r = 0;

	if (cpod_group(pod)[0]) {
		r = gang_init(s, cpod_group(pod), &g);
		members = g.member;
		is_whole = r == 0 && is_enough(&g);
	}
	for (uint32_t i = 0; r == 0 && is_whole && i < g.n; i++) {
		enum decision decision;

		if (cpod_state(g.member[i]) != CPOD_NOMINATED)
			continue;
		r = decide_nominated(s->cluster, g.member[i], &decision, err);
		if (r == 0 && decision == DECIDE_NOMINATE &&
			s->now_ns > cpod_give_up_ns(g.member[i]))
			decision = DECIDE_WAIT;
		if (decision == DECIDE_WAIT || (decision == DECIDE_NOMINATE && all == DECIDE_BIND))
			all = decision;
	}
	if (!is_whole)
		all = DECIDE_WAIT;
	for (uint32_t i = 0; r == 0 && all != DECIDE_NOMINATE && i < g.n; i++) {
		if (cpod_state(g.member[i]) != CPOD_NOMINATED)
			continue;
		if (all == DECIDE_WAIT) {
			r = sched_give_up_pod(s, g.member[i], is_whole);
			continue;
		}
		decide_release(s->cluster, g.member[i]);
		r = sched_push_bind(s, g.member[i]);
	}
	return r;
}

/* Repeats evictions, because the API server may have refused the last one. */
static int sched_evict_again(struct sched *s)
{
	struct cpod *pod = NULL;
	int r = 0;

	if (s->now_ns <= s->evict_again_ns)
		return 0;
	s->evict_again_ns = UINT64_MAX;
	while (r == 0 && (pod = cluster_next_pod(s->cluster, pod))) {
		if (!cpod_reported_ns(pod))
			continue;
		if (s->now_ns > cpod_reported_ns(pod) + CLUSTER_EVICT_AGAIN_NS) {
			cpod_set_reported_ns(pod, s->now_ns);
			r = todo_push_eviction(&s->todo, pod, NULL);
		}
		s->evict_again_ns = MIN(
			s->evict_again_ns, cpod_reported_ns(pod) + CLUSTER_EVICT_AGAIN_NS);
	}
	return r;
}

static int look_at_all_held(struct sched *s, struct error *err)
{
	const uint32_t n = cluster_n_nominated(s->cluster);
	_cleanup_free_ struct cpod **held = calloc(n + 1ul, sizeof(struct cpod *));
	int r = 0;

	if (!held)
		return fail(err, ENOMEM, "out of memory");
	s->has_news = false;
	cluster_nominated(s->cluster, held);
	/* Together with a pod its gang is bound or loses its nominations. */
	for (uint32_t i = 0; r == 0 && i < n; i++)
		if (cpod_state(held[i]) == CPOD_NOMINATED)
			r = look_at_held(s, held[i], err);
	r = r < 0 ? r : sched_evict_again(s);
	return r < 0 ? r : sched_readd_all(s);
}

/* ---- resize requests and started pods ---- */

static int sched_check_resizes(struct sched *s, struct error *err)
{
	struct cpod *pod = NULL;
	bool is_granted;
	int r = 0;

	s->has_resizes = false;
	while (r == 0 && (pod = cluster_next_pod(s->cluster, pod))) {
		if (!cpod_take_resize(pod))
			continue;
		if (cpod_running(pod))
			r = todo_push(&s->todo, SCHED_RUNS, pod, REASON_NONE, STR(""));
		if (r == 0 && cpod_is_older(pod, s->epoch))
			r = todo_push(&s->todo, SCHED_REFRESH_EPOCH, pod, REASON_NONE, STR(""));
		if (r < 0 || !decide_has_resize(s->cluster, pod))
			continue;
		r = decide_resize(s->cluster, pod, &is_granted, &s->why, err);
		if (r == 0 && is_granted) {
			s->counts.n_granted++;
			r = todo_push(&s->todo, SCHED_GRANT, pod, REASON_NONE, buf_str(&s->why));
			cpod_deny(pod, STR(""));
			continue;
		}
		s->has_denied = true;
		if (r == 0 && cpod_deny(pod, buf_str(&s->why))) {
			s->counts.n_denied++;
			r = todo_push(&s->todo, SCHED_DENY, pod, REASON_NONE, buf_str(&s->why));
		}
	}
	return r;
}

/* Tries denied requests again after capacity was freed. */
static bool sched_renew_resizes(struct sched *s)
{
	struct cpod *pod = NULL;

	if (!s->has_denied || !s->has_room)
		return false;
	s->has_denied = s->has_room = false;
	while ((pod = cluster_next_pod(s->cluster, pod)))
		if (cpod_is_denied(pod)) {
			cpod_note_resize(pod);
			s->has_resizes = true;
		}
	return s->has_resizes;
}

/* ---- tainted devices ---- */

static int sched_evict_tainted(struct sched *s)
{
	struct cpod *pod = NULL;
	int r = 0;

	while (r == 0 && (pod = cluster_next_tainted(s->cluster, pod))) {
		bool is_first;

		buf_clear(&s->why);
		if (!cpod_leaves_taint(s->cluster, pod, &s->why) ||
			!cpod_note_taint_eviction(s->cluster, pod, &is_first))
			continue;
		s->counts.n_taint_evictions += is_first;
		r = todo_push(&s->todo, SCHED_EVICT_TAINTED, pod, REASON_DEVICE_TAINTED,
			is_first ? buf_str(&s->why) : STR(""));
	}
	if (r < 0)
		cluster_note_taint_news(s->cluster);
	return r;
}

/* ---- one item after another ---- */

static int try_item(struct sched *s, struct pending_key key, struct error *err)
{
	struct cpod *pod;

	if (key.kind == PENDING_GANG)
		return try_group(s, key, err);
	pod = cluster_pod_by_key(s->cluster, key.name);
	if (!pod || cpod_state(pod) != CPOD_PENDING) {
		pending_remove(s->pending, key);
		return 0;
	}
	return try_pod(s, key, pod, err);
}

/*
 * Gives each waiting pod its queue item again, after the numbers of queues or the names of groups
 * changed. Pods with a Binding in flight have an item too.
 */
static int rank_all(struct sched *s)
{
	struct cpod *pod = NULL;
	int r = 0;

	pending_doubt_all(s->pending);
	while (r == 0 && (pod = cluster_next_pod(s->cluster, pod)))
		if (cpod_state(pod) == CPOD_PENDING || pending_has(s->pending, sched_pod_key(pod)))
			r = add_item(s, pod);
	if (r == 0)
		pending_remove_doubted(s->pending);
	return r;
}

int sched_settle(struct sched *s, struct error *err)
{
	bool has_changed;
	int r = cluster_settle(s->cluster, &has_changed);

	if (r == 0 && has_changed)
		r = rank_all(s);
	return r < 0 ? fail(err, ENOMEM, "out of memory") : 0;
}

static int sched_think(struct sched *s, struct error *err)
{
	const struct pending_key *key;
	uint32_t n_opened;
	bool has_news;
	int r;

	r = sched_settle(s, err);
	if (r < 0)
		return r;
	if (cluster_n_nominated(s->cluster) && s->has_news) {
		r = look_at_all_held(s, err);
		if (r < 0 || !todo_is_empty(&s->todo))
			return r;
	}
	if (cluster_must_check_taints(s->cluster)) {
		r = sched_evict_tainted(s);
		if (r < 0)
			return fail(err, ENOMEM, "out of memory");
		if (!todo_is_empty(&s->todo))
			return 0;
	}
	if (s->has_resizes) {
		r = sched_check_resizes(s, err);
		if (r < 0 || !todo_is_empty(&s->todo))
			return r;
	}
	has_news = cluster_take_news(s->cluster);
	if (has_news)
		pending_wake(s->pending, s->now_ns);
	n_opened = cluster_take_opened(s->cluster);
	pending_hurry(
		s->pending, MIN(n_opened, UINT32_MAX / PENDING_OPENED_MAX) * PENDING_OPENED_MAX);
	s->has_room |= has_news || n_opened;
	key = pending_next(s->pending, s->now_ns);
	/* Denied resize requests are tried again only when no waiting pod can be tried. */
	if (!key)
		return sched_renew_resizes(s) ? 0 : 1;
	return try_item(s, *key, err);
}

/*
 * Steps of searches for devices after which sched_next() returns, about a tenth of a second: many
 * pods with costly claims must not keep the caller from its other work, such as renewing a Lease.
 */
#define SCHED_CLAIM_STEPS UINT64_C(5000000)

int sched_next(struct sched *s, struct sched_action *ret, struct error *err)
{
	const uint64_t n_steps = cluster_n_claim_steps(s->cluster);

	for (;;) {
		int r;

		if (todo_next(&s->todo, s->cluster, ret))
			return 1;
		if (cluster_n_claim_steps(s->cluster) - n_steps > SCHED_CLAIM_STEPS)
			return 0;
		r = sched_think(s, err);
		/* Victims may be marked whose evictions are not queued. */
		if (r < 0)
			s->evict_again_ns = 0;
		if (r != 0)
			return MIN(r, 0);
	}
}

uint64_t sched_deadline(const struct sched *s)
{
	return todo_is_empty(&s->todo) ? pending_deadline(s->pending) : 0;
}

void sched_bound(struct sched *s, const char *ns, const char *name, const char *uid, bool is_done)
{
	struct cpod *pod = cluster_pod(s->cluster, ns, name);

	if (!pod || strcmp(cpod_uid(pod), uid) || cpod_state(pod) != CPOD_ASSUMED || is_done)
		return;
	s->counts.n_bind_failures++;
	cluster_forget(s->cluster, pod);
	if (!cpod_is_ours(pod))
		return;
	put_back_failed(s, pod);
}

void sched_defer(struct sched *s, const char *ns, const char *name, const char *uid)
{
	struct cpod *pod = cluster_pod(s->cluster, ns, name);

	if (!pod || strcmp(cpod_uid(pod), uid) || cpod_state(pod) != CPOD_ASSUMED)
		return;
	cluster_forget(s->cluster, pod);
	if (cpod_is_ours(pod))
		put_back_failed(s, pod);
}

void sched_refused(
	struct sched *s, const char *ns, const char *name, const char *uid, const char *why)
{
	struct cpod *pod = cluster_pod(s->cluster, ns, name), *kept = NULL;

	if (!pod || strcmp(cpod_uid(pod), uid) || cpod_state(pod) != CPOD_ASSUMED)
		return;
	s->counts.n_bind_failures++;
	/* If memory for the message is exhausted, cluster_refuse() still releases the place. */
	(void)cluster_refuse(s->cluster, pod, why);
	if (!cpod_is_ours(pod))
		return;
	put_back_failed(s, pod);
	if (*cpod_refusal(pod))
		sched_push_condition(s, pod, str_from(cpod_refusal(pod)));
	while ((kept = cluster_next_kept(s->cluster, pod, kept)))
		todo_push(&s->todo, SCHED_EVENT, kept, REASON_RESERVATION_RELEASED,
			str_from(cpod_kept_text(kept)));
}

void sched_stand_down(struct sched *s)
{
	struct sched_action action;
	struct cpod *pod = NULL;

	/* Cancels the Bindings that were decided and not yet handed out. */
	while (todo_next(&s->todo, s->cluster, &action))
		if (action.act == SCHED_BIND)
			sched_bound(s, cpod_ns(action.pod), cpod_name(action.pod),
				cpod_uid(action.pod), false);
	while ((pod = cluster_next_pod(s->cluster, pod))) {
		if (cpod_state(pod) == CPOD_RESERVED)
			cluster_forget(s->cluster, pod);
		if (cpod_state(pod) != CPOD_NOMINATED)
			continue;
		cluster_forget(s->cluster, pod);
		if (add_item(s, pod) == 0)
			pending_put_back(s->pending, sched_pod_key(pod), PENDING_FAILED, s->now_ns);
	}
	sched_readd_all(s);
}

struct sched_counts sched_counts(const struct sched *s)
{
	struct sched_counts counts = s->counts;

	counts.pending = pending_counts(s->pending);
	counts.n_nominated = cluster_n_nominated(s->cluster);
	counts.n_reserved = cluster_n_reserved(s->cluster);
	return counts;
}
