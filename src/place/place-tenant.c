/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds, changes and removes tenants: see place.h. Only this file changes the counters of tenants,
 * so that adding and removing a tenant change the same counters. While a savepoint is open, each
 * change is recorded so that a rollback can undo it.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "place/place-bounds.h"
#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-queue.h"

int place_spec_check(const struct place_spec *spec, struct error *err)
{
	if (spec->count > SPEC_DEVICES_MAX)
		return fail(err, EINVAL, "count %u: up to %u devices are possible", spec->count,
			SPEC_DEVICES_MAX);
	if (spec->count && (spec->share == 0 || spec->share > SPEC_SHARE_ONE))
		return fail(err, EINVAL, "share %u: 1 to %u permille are possible", spec->share,
			SPEC_SHARE_ONE);
	if (!spec->count && spec->share)
		return fail(err, EINVAL, "share %u of no device", spec->share);
	if (spec->is_exclusive && spec->share != SPEC_SHARE_ONE)
		return fail(err, EINVAL, "share %u: an exclusive tenant needs the whole device",
			spec->share);
	if (spec->device_permille > SPEC_SHARE_ONE)
		return fail(err, EINVAL, "device memory %u: up to %u permille are possible",
			spec->device_permille, SPEC_SHARE_ONE);
	if (spec->device_bytes > UINT64_MAX / 2 || spec->memory_bytes > UINT64_MAX / 2)
		return fail(err, EINVAL, "memory %" PRIu64 ": more than any machine has",
			spec->device_bytes > UINT64_MAX / 2 ? spec->device_bytes
							    : spec->memory_bytes);
	if (spec->cpu_milli > INT32_MAX)
		return fail(err, EINVAL, "cpu %u: more than any machine has", spec->cpu_milli);
	if ((unsigned int)spec->class >= N_CLASSES)
		return fail(err, EINVAL, "class %u: there are %d", (unsigned int)spec->class,
			N_CLASSES);
	if (spec->priority > SPEC_PRIORITY_MAX)
		return fail(err, EINVAL, "priority %u: 0 to 100 are possible", spec->priority);
	return 0;
}

/* All labels that a spec names. */
#define N_LABELS 6
static void place_tenant_labels(const struct place_spec *spec, uint32_t ret[static N_LABELS])
{
	const uint32_t labels[N_LABELS] = {spec->affinity, spec->anti_affinity,
		spec->preferred_anti_affinity, spec->exclusion, spec->near, spec->budget};

	memcpy(ret, labels, sizeof(labels));
}

int place_spec_known(const struct place *place, const struct place_spec *spec, struct error *err)
{
	uint32_t labels[N_LABELS];

	place_tenant_labels(spec, labels);
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		if (labels[i] && !place_label_at(place, labels[i]))
			return fail(
				err, EINVAL, "label %u: %u are known", labels[i], place->n_labels);
	for (int i = 0; i < 2; i++)
		if (spec->network[i] && place_network_node(place, spec->network[i]) == PLACE_NONE)
			return fail(err, EINVAL, "there is no network device %u", spec->network[i]);
	return place_queue_check(place, spec->queue, err);
}

/* ---- labels on devices ---- */

static struct tag *tag_find(const struct device *d, uint32_t label, enum role role)
{
	for (uint32_t i = 0; i < d->n_tags; i++)
		if (d->tags[i].label == label && d->tags[i].role == role)
			return &d->tags[i];
	return NULL;
}

bool place_is_tagged(const struct place *place, uint32_t device, uint32_t label, enum role role)
{
	return tag_find(&place->devices[device], label, role) != NULL;
}

static uint32_t label_in(const struct place_spec *spec, enum role role)
{
	switch (role) {
	case ROLE_AFFINITY: return spec->affinity;
	case ROLE_ANTI_AFFINITY: return spec->anti_affinity;
	case ROLE_PREFERRED: /* if both labels are equal, only the anti-affinity label counts */
		return spec->preferred_anti_affinity == spec->anti_affinity
			? 0
			: spec->preferred_anti_affinity;
	default: return spec->exclusion;
	}
}

/*
 * Reserves memory for the labels of one more tenant on the device, so that adding them cannot fail.
 */
static int tag_reserve(struct place *place, const struct place_spec *spec, uint32_t device)
{
	struct device *d = &place->devices[device];
	int r = array_grow(&d->tags, &d->tags_size, d->n_tags + N_ROLES, sizeof(*d->tags));

	for (int role = 0; r == 0 && role < N_ROLES; role++) {
		uint32_t id = label_in(spec, (enum role)role);
		struct label *label = id ? place->label_of[id] : NULL;

		if (label)
			r = array_grow(&label->devices[role], &label->size[role],
				label->n_devices[role] + spec->count, sizeof(**label->devices));
	}
	return r;
}

static void tag_add(struct place *place, uint32_t id, enum role role, uint32_t device)
{
	struct device *d = &place->devices[device];
	struct tag *tag = tag_find(d, id, role);
	struct label *label = place->label_of[id];

	if (tag) {
		tag->n++;
		return;
	}
	d->tags[d->n_tags++] = (struct tag){.label = id, .n = 1, .role = role};
	label->devices[role][label->n_devices[role]++] = device;
}

static void tag_remove(struct place *place, uint32_t id, enum role role, uint32_t device)
{
	struct device *d = &place->devices[device];
	struct tag *tag = tag_find(d, id, role);
	struct label *label = place->label_of[id];
	uint32_t at = 0;

	assert(tag);
	if (--tag->n)
		return;
	*tag = d->tags[--d->n_tags];
	while (label->devices[role][at] != device)
		at++;
	label->devices[role][at] = label->devices[role][--label->n_devices[role]];
}

/* ---- groups ---- */

static struct group *group_find(const struct place *place, uint32_t id)
{
	struct group *group;

	HASH_FIND(hh, place->groups, &id, sizeof(id), group);
	return group;
}

const struct group *place_group(const struct place *place, uint32_t id)
{
	const struct group *group = id ? group_find(place, id) : NULL;

	return group && group->n ? group : NULL;
}

static void group_free(struct place *place, struct group *group)
{
	HASH_DEL(place->groups, group);
	free(group->devices);
	free(group);
}

void place_groups_free(struct place *place)
{
	struct group *group, *next;

	HASH_ITER(hh, place->groups, group, next)
		group_free(place, group);
}

/* Frees the groups without tenants. Called when no rollback can return a tenant to them. */
static void free_idle_groups(struct place *place)
{
	while (place->idle_groups) {
		struct group *group = place->idle_groups;

		DL_DELETE(place->idle_groups, group);
		group_free(place, group);
	}
}

/* Reserves memory for one more tenant of the group, so that adding the tenant cannot fail. */
static int group_reserve(struct place *place, const struct place_spec *spec)
{
	struct group *group;

	if (!spec->group || !spec->count)
		return 0;
	group = group_find(place, spec->group);
	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			return -ENOMEM;
		group->id = spec->group;
		HASH_ADD(hh, place->groups, id, sizeof(group->id), group);
		if (!group->hh.tbl) {
			free(group);
			return -ENOMEM;
		}
		DL_APPEND(place->idle_groups, group);
	}
	return array_grow(
		&group->devices, &group->size, group->n + spec->count, sizeof(*group->devices));
}

static void group_join(struct place *place, uint32_t id, uint32_t device)
{
	struct group *group = group_find(place, id);

	assert(group && group->n < group->size);
	if (group->n == 0)
		DL_DELETE(place->idle_groups, group);
	group->devices[group->n++] = device;
	place_locality_forget(place, id);
}

static void group_leave(struct place *place, uint32_t id, uint32_t device)
{
	struct group *group = group_find(place, id);
	uint32_t at = 0;

	while (group->devices[at] != device)
		at++;
	group->devices[at] = group->devices[--group->n];
	place_locality_forget(place, id);
	if (group->n == 0)
		DL_APPEND(place->idle_groups, group);
}

/* ---- counters ---- */

/*
 * memory_taken exceeds memory_all if the device has shrunk since tenants were placed; then nothing
 * is free.
 */
static void count_memory(struct device *d)
{
	d->memory_free = d->memory_all > d->memory_taken ? d->memory_all - d->memory_taken : 0;
}

static void count_opportunistic(
	struct place *place, const struct place_spec *spec, uint32_t at, int sign)
{
	if (spec->priority)
		return;
	place->devices[at].n_opportunistic += (uint32_t)sign;
	place->nodes[place->devices[at].node].n_opportunistic += (uint32_t)sign;
	place->n_opportunistic += (uint32_t)sign;
}

/* Counts the tenant's k-th device. */
static void device_take(struct place *place, const struct place_tenant *t, uint32_t k)
{
	const struct place_spec *spec = &t->spec;
	const uint32_t at = t->device[k];
	struct device *d = &place->devices[at];
	uint32_t share = spec->is_exclusive ? d->share_all : spec->share;

	place->share_free[at] = (uint16_t)(place->share_free[at] - share);
	place->idle[d->model] -= device_counts(place, at) ? share : 0;
	d->memory_taken += t->bytes[k];
	count_memory(d);
	d->exclusion = spec->exclusion;
	d->n_tenants++;
	d->n_of[spec->class]++;
	count_opportunistic(place, spec, at, 1);
	if (spec->group)
		group_join(place, spec->group, at);
	for (int role = 0; role < N_ROLES; role++)
		if (label_in(spec, (enum role)role))
			tag_add(place, label_in(spec, (enum role)role), (enum role)role, at);
	place_device_changed(place, at);
}

static void device_give(struct place *place, const struct place_tenant *t, uint32_t k)
{
	const struct place_spec *spec = &t->spec;
	const uint32_t at = t->device[k];
	struct device *d = &place->devices[at];
	uint32_t share = spec->is_exclusive ? d->share_all : spec->share;

	place->share_free[at] = (uint16_t)(place->share_free[at] + share);
	place->idle[d->model] += device_counts(place, at) ? share : 0;
	d->memory_taken -= t->bytes[k];
	count_memory(d);
	d->n_tenants--;
	d->n_of[spec->class]--;
	count_opportunistic(place, spec, at, -1);
	if (spec->group)
		group_leave(place, spec->group, at);
	for (int role = 0; role < N_ROLES; role++)
		if (label_in(spec, (enum role)role))
			tag_remove(place, label_in(spec, (enum role)role), (enum role)role, at);
	place_device_changed(place, at);
}

static void count_labels(struct place *place, const struct place_spec *spec, int sign)
{
	uint32_t labels[N_LABELS];

	place_tenant_labels(spec, labels);
	for (int i = 0; i < N_LABELS; i++)
		if (labels[i])
			place->label_of[labels[i]]->n_uses += (uint32_t)sign;
}

/*
 * Counts a terminating tenant (sign 1), or stops counting it (-1). The tenant's devices are closed,
 * but the tenant's share of them is free. The tenant's CPU, memory and tenant slot on the node
 * still count.
 */
static void place_tenant_count_terminating(
	struct place *place, const struct place_tenant *t, int sign)
{
	struct node *node = &place->nodes[t->node];

	node->n_terminating += (uint32_t)sign;
	node->cpu_terminating += (uint32_t)sign * t->spec.cpu_milli;
	node->memory_terminating += (uint64_t)(int64_t)sign * t->spec.memory_bytes;
	for (uint32_t i = 0; i < t->n; i++) {
		place->devices[t->device[i]].n_terminating += (uint32_t)sign;
		place_device_changed(place, t->device[i]);
	}
}

/* t must be an element of place->tenants, here and in the functions below. */
static void place_tenant_take_capacity(struct place *place, const struct place_tenant *t)
{
	struct node *node = &place->nodes[t->node];

	node->cpu_taken += t->spec.cpu_milli;
	node->memory_taken += t->spec.memory_bytes;
	node->n_tenants++;
	count_labels(place, &t->spec, 1);
	place_node_count(place, t->node);
	if (t->is_terminating) {
		place_tenant_count_terminating(place, t, 1);
	} else {
		for (uint32_t i = 0; i < t->n; i++)
			device_take(place, t, i);
		place_held_add(place, (uint32_t)(t - place->tenants));
		place_queue_count(place, t, 1);
	}
	place_network_count(place, t, 1);
	place_bounds_changed(place->bounds, t->node);
	place->n_placed++;
}

static void place_tenant_give_capacity(struct place *place, const struct place_tenant *t)
{
	struct node *node = &place->nodes[t->node];

	node->cpu_taken -= t->spec.cpu_milli;
	node->memory_taken -= t->spec.memory_bytes;
	node->n_tenants--;
	count_labels(place, &t->spec, -1);
	place_node_count(place, t->node);
	if (t->is_terminating) {
		place_tenant_count_terminating(place, t, -1);
	} else {
		for (uint32_t i = 0; i < t->n; i++)
			device_give(place, t, i);
		place_held_remove(place, (uint32_t)(t - place->tenants));
		place_queue_count(place, t, -1);
	}
	place_network_count(place, t, -1);
	place_bounds_changed(place->bounds, t->node);
	place->n_placed--;
}

/* ---- tenants ---- */

static bool is_placed(const struct place *place, uint32_t tenant)
{
	return tenant < place->n_tenants && place->tenants[tenant].node != PLACE_NONE;
}

const struct place_tenant *place_tenant(const struct place *place, uint32_t tenant)
{
	return is_placed(place, tenant) ? &place->tenants[tenant] : NULL;
}

uint32_t place_peer(const struct place *place, uint32_t tenant)
{
	const struct place_tenant *t = place_tenant(place, tenant);

	/* The peer may have been removed, and another tenant may have its number now. */
	if (!t || !is_placed(place, t->peer) || place->tenants[t->peer].peer != tenant)
		return PLACE_NONE;
	return t->peer;
}

static int choice_check(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, struct error *err)
{
	const struct node *node;

	if (choice->node >= place->n_nodes || !place->nodes[choice->node].is_used)
		return fail(err, EINVAL, "there is no node %u", choice->node);
	node = &place->nodes[choice->node];
	if (choice->n != spec->count)
		return fail(err, EINVAL, "%u devices for a tenant of %u", choice->n, spec->count);
	for (uint32_t i = 0; i < choice->n; i++) {
		if (choice->device[i] - node->first_device >= node->n_devices)
			return fail(err, EINVAL, "device %u is not on node %s", choice->device[i],
				node->name->text);
		for (uint32_t j = 0; j < i; j++)
			if (choice->device[i] == choice->device[j])
				return fail(
					err, EINVAL, "device %u is named twice", choice->device[i]);
	}
	return 0;
}

/*
 * is_back: the tenant was on these devices before other tenants there became terminating, so
 * terminating tenants do not exclude it.
 */
static int place_tenant_fits_choice(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, bool is_back, struct error *err)
{
	uint64_t mask = place_eligible(place, spec, choice->node);
	uint32_t first = place->nodes[choice->node].first_device;
	int r = place_network_fits(place, spec, choice->node, err);

	if (r < 0)
		return r;
	if (place_node_reason(place, spec, choice->node) != PLACE_FITS)
		return fail(err, ENOSPC, "node %s has no room for the tenant",
			place->nodes[choice->node].name->text);
	for (uint32_t i = 0; i < choice->n; i++) {
		r = place_queue_allows(place, spec, place->devices[choice->device[i]].model, err);
		if (r < 0)
			return r;
		if (!(mask >> (choice->device[i] - first) & 1) &&
			!(is_back &&
				place_device_reason(place, spec, choice->device[i]) ==
					PLACE_TERMINATING))
			return fail(err, ENOSPC, "device %s has no room for the tenant",
				place->devices[choice->device[i]].uuid);
	}
	return 0;
}

/* Records a change if a savepoint is open. */
static int place_tenant_remember_change(struct place *place, int type, uint32_t tenant)
{
	int r;

	if (!place->n_savepoints)
		return 0;
	r = array_grow(&place->undo, &place->undo_size, place->n_undo + 1, sizeof(*place->undo));
	if (r < 0)
		return r;
	place->undo[place->n_undo].tenant = tenant;
	place->undo[place->n_undo].type = (__typeof__(place->undo->type))type;
	if (type == UNDO_REMOVE || type == UNDO_CHANGE)
		place->undo[place->n_undo].was = place->tenants[tenant];
	place->n_undo++;
	return 0;
}

/*
 * Reserves memory for all lists that get the tenant, so that place_tenant_take_capacity() cannot
 * fail.
 */
static int place_tenant_reserve(struct place *place, const struct place_tenant *t)
{
	int r = place_held_reserve(place, t->node);

	for (uint32_t i = 0; i < t->n && r == 0; i++)
		r = tag_reserve(place, &t->spec, t->device[i]);
	return r < 0 ? r : group_reserve(place, &t->spec);
}

static int reserve_slot(struct place *place)
{
	if (place->tenant_free != PLACE_NONE)
		return 0;
	return array_grow(&place->tenants, &place->tenants_size, place->n_tenants + 1,
		sizeof(*place->tenants));
}

static uint32_t place_tenant_take_slot(struct place *place)
{
	uint32_t slot = place->tenant_free;

	if (slot == PLACE_NONE)
		return place->n_tenants++;
	place->tenant_free = place->tenants[slot].spec.group;
	return slot;
}

#define SLOT_FREE UINT32_MAX /* value of n in a slot to which no rollback can return a tenant */

static void place_tenant_free_slot(struct place *place, uint32_t slot)
{
	place->tenants[slot].node = PLACE_NONE;
	place->tenants[slot].n = SLOT_FREE;
	place->tenants[slot].spec.group = place->tenant_free;
	place->tenant_free = slot;
}

/* Checks only that the node's counters do not overflow. The node may lack the capacity. */
static int node_counts(
	const struct place *place, const struct place_spec *spec, uint32_t at, struct error *err)
{
	const struct node *node = &place->nodes[at];

	if (spec->cpu_milli > UINT32_MAX - node->cpu_taken ||
		spec->memory_bytes > UINT64_MAX - node->memory_taken)
		return fail(err, ENOSPC, "node %s: its tenants would use more than any machine has",
			node->name->text);
	return 0;
}

/*
 * Checks that a tenant which runs already can be counted, without the rules for new tenants: see
 * place_restore().
 */
static int place_tenant_check_was_there(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, const uint64_t *bytes, struct error *err)
{
	int r = node_counts(place, spec, choice->node, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < choice->n; i++) {
		const uint32_t at = choice->device[i];
		const struct device *d = &place->devices[at];
		const uint32_t share = spec->is_exclusive ? d->share_all : spec->share;
		const uint64_t its = bytes ? bytes[i] : place_device_bytes(place, spec, at);

		if (place->share_free[at] < share)
			return fail(err, ENOSPC, "device %s: %s free, the tenant has %s", d->uuid,
				format_share(place->share_free[at]).s, format_share(share).s);
		if (d->n_tenants && d->exclusion != spec->exclusion)
			return fail(err, ENOSPC,
				"device %s: its tenants have another exclusion label", d->uuid);
		if (its > UINT64_MAX - d->memory_taken)
			return fail(err, ENOSPC,
				"device %s: its tenants would use more than any device has",
				d->uuid);
	}
	return place_network_fits(place, spec, choice->node, err);
}

static int place_tenant_check(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, struct error *err)
{
	int r = place_spec_check(spec, err);

	if (r == 0)
		r = place_spec_known(place, spec, err);
	return r < 0 ? r : choice_check(place, spec, choice, err);
}

/* The caller has checked the place, so the only possible error is -ENOMEM. */
static int place_tenant_add(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, const uint64_t *bytes, uint32_t *ret_tenant,
	struct error *err)
{
	struct place_tenant t = {
		.spec = *spec, .node = choice->node, .n = choice->n, .peer = PLACE_NONE};
	uint32_t slot;
	int r;

	t.spec.is_terminating_free = false;
	memcpy(t.device, choice->device, t.n * sizeof(t.device[0]));
	for (uint32_t i = 0; i < t.n; i++)
		t.bytes[i] = bytes ? bytes[i] : place_device_bytes(place, spec, t.device[i]);
	r = place_tenant_reserve(place, &t);
	if (r == 0)
		r = reserve_slot(place);
	slot = place->tenant_free == PLACE_NONE ? place->n_tenants : place->tenant_free;
	if (r == 0)
		r = place_tenant_remember_change(place, UNDO_ADD, slot);
	if (r < 0)
		return fail(err, -r, "out of memory for a tenant");
	slot = place_tenant_take_slot(place);
	place->tenants[slot] = t;
	place_tenant_take_capacity(place, &place->tenants[slot]);
	*ret_tenant = slot;
	return 0;
}

int place_add(struct place *place, const struct place_spec *spec, const struct place_choice *choice,
	uint32_t *ret_tenant, struct error *err)
{
	int r = place_tenant_check(place, spec, choice, err);

	if (r < 0)
		return r;
	if (spec->is_terminating_free)
		place_count_terminating_free(place, choice->node, true);
	r = place_tenant_fits_choice(place, spec, choice, false, err);
	if (spec->is_terminating_free)
		place_count_terminating_free(place, choice->node, false);
	return r < 0 ? r : place_tenant_add(place, spec, choice, NULL, ret_tenant, err);
}

int place_restore(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, const uint64_t *bytes, uint32_t *ret_tenant,
	struct error *err)
{
	int r = place_tenant_check(place, spec, choice, err);

	if (r == 0)
		r = place_tenant_check_was_there(place, spec, choice, bytes, err);
	if (r < 0)
		return r;
	return place_tenant_add(place, spec, choice, bytes, ret_tenant, err);
}

int place_remove(struct place *place, uint32_t tenant)
{
	struct place_tenant *t;
	int r;

	if (!is_placed(place, tenant))
		return -ENOENT;
	t = &place->tenants[tenant];
	r = place_tenant_remember_change(place, UNDO_REMOVE, tenant);
	if (r < 0)
		return r;
	place_tenant_give_capacity(place, t);
	if (place->n_savepoints) {
		/* slot and group stay, because a rollback may return the tenant */
		t->node = PLACE_NONE;
		return 0;
	}
	place_tenant_free_slot(place, tenant);
	free_idle_groups(place);
	return 0;
}

int place_return(struct place *place, uint32_t tenant, const struct place_tenant *was)
{
	struct place_choice choice = {.node = was->node, .n = was->n};
	int r;

	assert(place->n_savepoints && !is_placed(place, tenant));
	memcpy(choice.device, was->device, sizeof(choice.device));
	r = place_tenant_fits_choice(place, &was->spec, &choice, true, NULL);
	if (r == 0)
		r = place_tenant_reserve(place, was);
	if (r == 0)
		r = place_tenant_remember_change(place, UNDO_RETURN, tenant);
	if (r < 0)
		return r;
	place->tenants[tenant] = *was;
	place_tenant_take_capacity(place, &place->tenants[tenant]);
	return 0;
}

int place_return_terminating(
	struct place *place, uint32_t tenant, const struct place_tenant *was, struct error *err)
{
	struct place_tenant t = *was;
	int r;

	assert(place->n_savepoints && !is_placed(place, tenant));
	r = node_counts(place, &t.spec, t.node, err);
	if (r < 0)
		return r;
	r = place_tenant_remember_change(place, UNDO_RETURN, tenant);
	if (r < 0)
		return fail(err, -r, "out of memory for a tenant");
	t.is_terminating = true;
	place->tenants[tenant] = t;
	place_tenant_take_capacity(place, &place->tenants[tenant]);
	return 0;
}

int place_mark_terminating(struct place *place, uint32_t tenant, struct error *err)
{
	struct place_tenant *t;
	int r;

	if (!is_placed(place, tenant))
		return fail(err, ENOENT, "there is no tenant %u", tenant);
	t = &place->tenants[tenant];
	if (t->is_terminating)
		return 0;
	r = place_tenant_remember_change(place, UNDO_CHANGE, tenant);
	if (r < 0)
		return fail(err, -r, "out of memory for a tenant");
	place_tenant_give_capacity(place, t);
	t->is_terminating = true;
	place_tenant_take_capacity(place, t);
	if (!place->n_savepoints)
		free_idle_groups(place);
	return 0;
}

bool place_is_awaiting(const struct place *place, uint32_t tenant)
{
	const struct place_tenant *t = place_tenant(place, tenant);
	const struct node *node = t ? &place->nodes[t->node] : NULL;

	if (!t || t->is_terminating || !node->n_terminating)
		return false;
	for (uint32_t i = 0; i < t->n; i++)
		if (place->devices[t->device[i]].n_terminating)
			return true;
	return (t->spec.cpu_milli && node->cpu_taken > node->cpu_all) ||
		(t->spec.memory_bytes && node->memory_taken > node->memory_all) ||
		(node->n_tenants_max && node->n_tenants > node->n_tenants_max);
}

int place_tie(struct place *place, uint32_t a, uint32_t b)
{
	int r = place_tenant_remember_change(place, UNDO_CHANGE, a);

	if (r < 0)
		return r;
	r = place_tenant_remember_change(place, UNDO_CHANGE, b);
	if (r < 0) {
		place->n_undo--;
		return r;
	}
	place->tenants[a].peer = b;
	place->tenants[b].peer = a;
	return 0;
}

/* bytes: memory on each device; NULL: as the spec says */
static int place_tenant_resize(struct place *place, uint32_t tenant, struct place_spec *spec,
	const uint64_t *bytes, struct error *err)
{
	struct place_tenant *t = &place->tenants[tenant], now = *t;
	int r = place_spec_check(spec, err);

	if (r == 0)
		r = place_queue_allows_share(place, t, spec->share, err);
	if (r < 0)
		return r;
	now.spec = *spec;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct device *d = &place->devices[t->device[i]];
		const uint32_t free = place->share_free[t->device[i]] + t->spec.share;

		now.bytes[i] = bytes ? bytes[i] : place_device_bytes(place, spec, t->device[i]);
		if (d->n_terminating && (spec->share > t->spec.share || now.bytes[i] > t->bytes[i]))
			return fail(err, EBUSY,
				"device %s has terminating tenants: no tenant can grow there yet",
				d->uuid);
		if (!spec->is_exclusive && spec->share > free)
			return fail(err, ENOSPC, "share %s: %s free on %s",
				format_share(spec->share).s, format_share(free).s, d->uuid);
		if (now.bytes[i] > t->bytes[i] && now.bytes[i] - t->bytes[i] > d->memory_free)
			return fail(err, ENOSPC, "device memory %s: %s free on %s",
				format_bytes_exact(now.bytes[i]).s,
				format_bytes_exact(d->memory_free + t->bytes[i]).s, d->uuid);
	}
	r = place_tenant_remember_change(place, UNDO_CHANGE, tenant);
	if (r < 0)
		return fail(err, -r, "out of memory for a tenant");
	place_tenant_give_capacity(place, t);
	*t = now;
	place_tenant_take_capacity(place, t);
	return 0;
}

/* Checks that the tenant exists and is not terminating. */
static int may_resize(const struct place *place, uint32_t tenant, struct error *err)
{
	if (!is_placed(place, tenant))
		return fail(err, EINVAL, "there is no tenant %u", tenant);
	if (place->tenants[tenant].is_terminating)
		return fail(err, EBUSY, "tenant %u is terminating: it cannot be resized", tenant);
	return 0;
}

int place_resize(struct place *place, uint32_t tenant, uint32_t share, uint64_t device_bytes,
	struct error *err)
{
	struct place_spec spec;
	int r = may_resize(place, tenant, err);

	if (r < 0)
		return r;
	spec = place->tenants[tenant].spec;
	spec.share = share;
	spec.device_bytes = device_bytes;
	return place_tenant_resize(place, tenant, &spec, NULL, err);
}

int place_resize_each(struct place *place, uint32_t tenant, uint32_t share, const uint64_t *bytes,
	struct error *err)
{
	struct place_spec spec;
	int r = may_resize(place, tenant, err);

	if (r < 0)
		return r;
	spec = place->tenants[tenant].spec;
	spec.share = share;
	return place_tenant_resize(place, tenant, &spec, bytes, err);
}

/* ---- savepoints ---- */

uint32_t place_savepoint(struct place *place)
{
	place->n_savepoints++;
	return place->n_undo;
}

void place_rollback(struct place *place, uint32_t savepoint)
{
	while (place->n_undo > savepoint) {
		struct undo *undo = &place->undo[--place->n_undo];
		struct place_tenant *t = &place->tenants[undo->tenant];

		if (undo->type != UNDO_REMOVE)
			place_tenant_give_capacity(place, t);
		switch (undo->type) {
		case UNDO_ADD: place_tenant_free_slot(place, undo->tenant); break;
		case UNDO_RETURN: t->node = PLACE_NONE; break;
		default: *t = undo->was; place_tenant_take_capacity(place, t);
		}
	}
}

void place_release(struct place *place)
{
	if (--place->n_savepoints)
		return;
	/*
	 * No rollback can return a removed tenant any more, so free its slot. A tenant can have
	 * several removal records.
	 */
	for (uint32_t i = 0; i < place->n_undo; i++) {
		const struct place_tenant *t = &place->tenants[place->undo[i].tenant];

		if (place->undo[i].type == UNDO_REMOVE && t->node == PLACE_NONE &&
			t->n != SLOT_FREE)
			place_tenant_free_slot(place, place->undo[i].tenant);
	}
	place->n_undo = 0;
	free_idle_groups(place);
}
