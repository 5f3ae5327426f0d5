/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vgpu_pool_decide() updates a memory of each placeholder and waiting pod, and then plans from that
 * memory. A waiting pod counts as demand for a moment, and again after pauses that double up to
 * POOL_RETRY_MAX_NS. count_devices() packs the needs, largest first, into devices whose first
 * tenants came a moment ago, and then into new devices. The memory forgets each name that is not
 * among the facts. A new leader starts with an empty memory, since nothing stores the memory. A
 * failed placeholder, for example of a node that has restarted, takes the place of its successor
 * until POOL_FAILED_NS after its creation.
 */
#include "controller/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/str.h"

#define TRIES_MAX 16u

/* State of a placeholder or waiting pod that lasts from one decision to the next. */
struct memory {
	UT_hash_handle hh;
	uint64_t since_ns; /* start of a placeholder's idle time; CLOCK_NEVER: not idle */
	/* when the placeholder's first tenant came; CLOCK_NEVER: no tenant, or unknown */
	uint64_t used_ns;
	bool was_seen, was_used; /* an earlier decision saw the placeholder; it was in use then */
	uint64_t next_ns;        /* when the waiting pod counts as demand again */
	/*
	 * milli: need of the pod, in 1/1000 of a device, when the pod last counted as demand. Until
	 * coming_ns a device for the pod may still start.
	 */
	uint64_t milli, coming_ns;
	uint32_t tries;    /* how often the pod counted as demand */
	uint32_t unhelped; /* how often the pod still waited although devices were idle */
	bool is_seen;
	char key[];
};

#define ROOMS_MAX 1024u

struct vgpu_pool {
	struct memory *placeholders, *sources;
	/* Used within one decision: the needs of the waiting pods, and free shares of devices. */
	uint64_t need[POOL_SOURCES_MAX];
	uint64_t room[ROOMS_MAX + POOL_SOURCES_MAX];
};

int pool_policy_parse(struct str text, enum pool_policy *ret_policy, struct error *err)
{
	static const char *const name[] = {"onDemand", "reservation", "hybrid"};

	*ret_policy = POOL_ON_DEMAND;
	for (size_t i = 0; i < ARRAY_SIZE(name); i++)
		if (str_is(text, name[i])) {
			*ret_policy = (enum pool_policy)i;
			return 0;
		}
	return text.n ? fail(err, EINVAL,
				"pool policy '%.*s': allowed are onDemand, reservation and hybrid",
				STR_ARG(text))
		      : 0;
}

/* ---- memory ---- */

static struct memory *pool_recall_memory(struct memory **all, const char *key)
{
	const size_t n = strlen(key) + 1;
	struct memory *m;

	HASH_FIND_STR(*all, key, m);
	if (m)
		return m;
	m = calloc(1, sizeof(*m) + n);
	if (!m)
		return NULL;
	memcpy(m->key, key, n);
	m->since_ns = CLOCK_NEVER;
	m->used_ns = CLOCK_NEVER;
	HASH_ADD_STR(*all, key, m);
	return m;
}

/*
 * Drops the memory of names that no decision saw since the last call, and clears is_seen of the
 * others.
 */
static void pool_forget_memory(struct memory **all)
{
	struct memory *m, *next;

	for (m = *all; m; m = next) {
		next = m->hh.next;
		if (!m->is_seen) {
			HASH_DEL(*all, m);
			free(m);
		} else {
			m->is_seen = false;
		}
	}
}

int vgpu_pool_new(struct vgpu_pool **ret_pool)
{
	*ret_pool = calloc(1, sizeof(**ret_pool));
	return *ret_pool ? 0 : -ENOMEM;
}

void vgpu_pool_free(struct vgpu_pool *pool)
{
	if (!pool)
		return;
	/* the first pass clears is_seen of all names, so the second pass frees all of them */
	for (int i = 0; i < 2; i++) {
		pool_forget_memory(&pool->placeholders);
		pool_forget_memory(&pool->sources);
	}
	free(pool);
}

/* ---- demand ---- */

/*
 * Returns the need of a waiting pod in 1/1000 of a device. unhelped: how often the pod still waited
 * although a device was idle. The pod then counts as unhelped + 1 devices, because it may request
 * shares of several devices.
 */
static uint64_t pool_source_milli(const struct pool_source *source, uint32_t unhelped)
{
	return MAX(source->milli, unhelped ? (uint64_t)(unhelped + 1) * DEVICE_MILLI : 0);
}

static uint64_t pause_of(uint32_t tries)
{
	uint64_t pause = POOL_RETRY_NS;

	while (tries-- > 1 && pause < POOL_RETRY_MAX_NS)
		pause *= 2;
	return MIN(pause, POOL_RETRY_MAX_NS);
}

static bool is_spare(const struct pool_placeholder *p)
{
	return !p->is_used && !p->is_leaving && !p->is_useless;
}

/*
 * Returns whether a placeholder has an idle device, which has not helped the pods that still wait.
 * Returns false while a new placeholder waits for a node.
 */
static bool has_come(const struct pool_facts *f)
{
	bool is_there = false;

	for (size_t i = 0; i < f->n_placeholders; i++) {
		const struct pool_placeholder *p = &f->placeholder[i];

		if (!p->is_bound && !p->is_leaving && !p->has_ended && !p->node[0])
			return false;
		is_there |= p->is_bound && !p->has_ended && is_spare(p);
	}
	return is_there;
}

static int more_first(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/*
 * Collects the free shares of devices whose first tenant came less than POOL_COMING_NS ago: waiting
 * pods may get a place there. A pod that waits longer needs another device.
 */
static size_t find_rooms(struct vgpu_pool *pool, const struct pool_facts *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_placeholders && n < ROOMS_MAX; i++) {
		const struct pool_placeholder *p = &f->placeholder[i];
		struct memory *m;

		HASH_FIND_STR(pool->placeholders, p->name, m);
		if (m && p->is_used && !p->is_leaving && !p->is_useless &&
			m->used_ns != CLOCK_NEVER && f->now_ns < m->used_ns + POOL_COMING_NS)
			pool->room[n++] = p->free_milli;
	}
	return n;
}

/*
 * Returns how many new devices the needs require beyond the free shares; the largest need is placed
 * first.
 */
static uint64_t count_devices(struct vgpu_pool *pool, size_t n_needs, size_t n_rooms)
{
	uint64_t devices = 0;

	qsort(pool->need, n_needs, sizeof(*pool->need), more_first);
	for (size_t i = 0; i < n_needs; i++) {
		const uint64_t need = pool->need[i];
		size_t k = 0;

		if (need > DEVICE_MILLI) {
			devices += (need + DEVICE_MILLI - 1) / DEVICE_MILLI;
			continue;
		}
		while (k < n_rooms && pool->room[k] < need)
			k++;
		if (k == n_rooms) {
			pool->room[n_rooms++] = DEVICE_MILLI;
			devices++;
		}
		pool->room[k] -= need;
	}
	return devices;
}

/*
 * Computes how many devices the pods need that count as demand now, or did so less than
 * POOL_COMING_NS ago.
 */
static int count_demand(struct vgpu_pool *pool, const struct pool_facts *f, struct pool_plan *plan,
	uint64_t *ret_devices)
{
	const bool is_there = has_come(f);
	size_t n = 0;

	for (size_t i = 0; i < f->n_sources; i++) {
		struct memory *m = pool_recall_memory(&pool->sources, f->source[i].uid);

		if (!m)
			return -ENOMEM;
		m->is_seen = true;
		if (f->now_ns >= m->next_ns) {
			if (m->tries && is_there)
				m->unhelped = MIN(m->unhelped + 1, TRIES_MAX);
			m->milli = pool_source_milli(&f->source[i], m->unhelped);
			m->tries = MIN(m->tries + 1, TRIES_MAX);
			m->next_ns = f->now_ns + pause_of(m->tries);
			m->coming_ns = f->now_ns + POOL_COMING_NS;
		}
		/*
		 * The pod's device may still start, so the pod keeps counting, and the device is
		 * not free for another pod.
		 */
		if (f->now_ns < m->coming_ns && n < POOL_SOURCES_MAX)
			pool->need[n++] = m->milli;
		plan->again_ns = MIN(plan->again_ns, m->next_ns);
	}
	*ret_devices = count_devices(pool, n, find_rooms(pool, f));
	return 0;
}

static void pool_plan_make(struct pool_plan *plan, const char *node, uint64_t n)
{
	while (n-- > 0 && plan->n_make < POOL_MAKE_MAX)
		plan->make[plan->n_make++] = node;
}

static void make_for_demand(const struct pool_facts *f, uint64_t devices, struct pool_plan *plan)
{
	uint64_t spare = 0;

	for (size_t i = 0; i < f->n_placeholders; i++)
		spare += is_spare(&f->placeholder[i]);
	if (devices > spare)
		pool_plan_make(plan, "", devices - spare);
}

/* ---- placeholders ---- */

/*
 * Returns the node's policy and reserve; for a node that has left the pool a policy that keeps no
 * placeholder.
 */
static const struct pool_node *pool_find_node(const struct pool_facts *f, const char *name)
{
	static const struct pool_node none = {"", POOL_ON_DEMAND, 0};

	for (size_t i = 0; i < f->n_nodes; i++)
		if (!strcmp(f->node[i].name, name))
			return &f->node[i];
	return &none;
}

struct count {
	/* numbers of placeholders; `ended` counts those that have ended, which `all` leaves out */
	uint32_t all, used, ended;
};

static struct count count_on(const struct pool_facts *f, const char *node)
{
	struct count n = {0};

	for (size_t i = 0; i < f->n_placeholders; i++)
		if (!f->placeholder[i].is_leaving && !strcmp(f->placeholder[i].node, node)) {
			n.all += !f->placeholder[i].has_ended;
			n.used += f->placeholder[i].is_used;
			n.ended += f->placeholder[i].has_ended;
		}
	return n;
}

static uint32_t idle_kept(const struct pool_node *node, uint32_t n_used)
{
	switch (node->policy) {
	case POOL_HYBRID: return node->reserve;
	case POOL_RESERVATION: return node->reserve - MIN(node->reserve, n_used);
	default: return 0;
	}
}

/* Counts the node's other placeholders that have been idle longer; these are given back first. */
static uint32_t idle_before(
	const struct vgpu_pool *pool, const struct pool_facts *f, size_t which, uint64_t since_ns)
{
	const struct pool_placeholder *p = &f->placeholder[which];
	uint32_t n = 0;

	for (size_t i = 0; i < f->n_placeholders; i++) {
		const struct pool_placeholder *other = &f->placeholder[i];
		struct memory *m;

		if (i == which || other->is_used || other->is_leaving || other->has_ended ||
			!other->is_bound || strcmp(other->node, p->node) != 0)
			continue;
		HASH_FIND_STR(pool->placeholders, other->name, m);
		n += m && (m->since_ns < since_ns || (m->since_ns == since_ns && i < which));
	}
	return n;
}

/* Returns when the placeholder is given back if nothing changes; CLOCK_NEVER: it stays. */
static uint64_t pool_idle_end(
	const struct vgpu_pool *pool, const struct pool_facts *f, size_t which, uint64_t since_ns)
{
	const struct pool_placeholder *p = &f->placeholder[which];
	const struct pool_node *node = pool_find_node(f, p->node);
	const struct count n = count_on(f, p->node);
	const uint64_t made_ns = f->now_ns - MIN(f->now_ns, p->age_ns);
	uint32_t surplus;

	if (p->has_ended)
		return made_ns + POOL_FAILED_NS;
	if (!p->is_bound && p->node[0] && node->policy == POOL_RESERVATION)
		return n.all > node->reserve ? f->now_ns : CLOCK_NEVER;
	if (!p->is_bound)
		return made_ns + (f->n_sources ? POOL_NO_ROOM_NS : POOL_IDLE_NS);
	surplus = n.all - n.used - MIN(n.all - n.used, idle_kept(node, n.used));
	if (idle_before(pool, f, which, since_ns) >= surplus)
		return CLOCK_NEVER;
	return since_ns + (f->n_sources ? POOL_UNUSED_NS : POOL_IDLE_NS);
}

static int look_at_idle(struct vgpu_pool *pool, const struct pool_facts *f)
{
	for (size_t i = 0; i < f->n_placeholders; i++) {
		const struct pool_placeholder *p = &f->placeholder[i];
		struct memory *m = pool_recall_memory(&pool->placeholders, p->name);

		if (!m)
			return -ENOMEM;
		m->is_seen = true;
		/*
		 * If the first decision of this controller sees a used placeholder, the start of
		 * the use is unknown.
		 */
		if (p->is_used && !m->was_used)
			m->used_ns = m->was_seen || p->age_ns < POOL_COMING_NS ? f->now_ns
									       : CLOCK_NEVER;
		m->was_seen = true;
		m->was_used = p->is_used;
		if (p->is_used || p->is_leaving || p->is_unknown || !p->is_bound)
			m->since_ns = CLOCK_NEVER;
		else if (m->since_ns == CLOCK_NEVER)
			m->since_ns = f->now_ns;
	}
	return 0;
}

static void pool_plan_release(
	struct vgpu_pool *pool, const struct pool_facts *f, struct pool_plan *plan)
{
	for (size_t i = 0; i < f->n_placeholders; i++) {
		const struct pool_placeholder *p = &f->placeholder[i];
		struct memory *m = NULL;
		uint64_t end;

		if (p->is_leaving && p->may_go && !p->is_released &&
			plan->n_release < POOL_MAKE_MAX)
			plan->release[plan->n_release++] = p->name;
		if (p->is_used || p->is_leaving || p->is_unknown)
			continue;
		HASH_FIND_STR(pool->placeholders, p->name, m);
		end = pool_idle_end(pool, f, i, m ? m->since_ns : f->now_ns);
		if (end > f->now_ns)
			plan->again_ns = MIN(plan->again_ns, end);
		else if (plan->n_give_back < POOL_MAKE_MAX)
			plan->give_back[plan->n_give_back++] = p->name;
	}
}

int vgpu_pool_decide(
	struct vgpu_pool *pool, const struct pool_facts *facts, struct pool_plan *ret_plan)
{
	uint64_t devices = 0;
	int r = look_at_idle(pool, facts);

	*ret_plan = (struct pool_plan){.again_ns = CLOCK_NEVER};
	if (r == 0 && facts->n_nodes)
		r = count_demand(pool, facts, ret_plan, &devices);
	if (r < 0)
		return r;
	for (size_t i = 0; i < facts->n_nodes; i++) {
		const struct pool_node *node = &facts->node[i];
		const struct count n = count_on(facts, node->name);

		if (node->policy == POOL_RESERVATION && n.all + n.ended < node->reserve)
			pool_plan_make(ret_plan, node->name, node->reserve - n.all - n.ended);
	}
	make_for_demand(facts, devices, ret_plan);
	pool_plan_release(pool, facts, ret_plan);
	pool_forget_memory(&pool->placeholders);
	pool_forget_memory(&pool->sources);
	return 0;
}
