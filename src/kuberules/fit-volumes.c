/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the pod's volumes: whether a node reaches the bound volumes; whether a claim that waits
 * for a first pod gets a volume there; zones; disks that two pods cannot share.
 */
#include "kuberules/fit-internal.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define NO_PROVISIONER "kubernetes.io/no-provisioner"

static const struct volume *find_volume(const struct fit *fit, const char *name)
{
	return (const struct volume *)view_find(fit->view, OBJECT_VOLUME, "", name);
}

/* If the object was not understood, the pod that uses it cannot be placed either. */
static int check_refusal(const struct object *object, struct error *err)
{
	if (!object->refusal.code)
		return 0;
	return fail(err, object->refusal.code, "%s %.64s: %.160s", object_kind_name(object->kind),
		object->name, object->refusal.msg);
}

static bool fit_volumes_is_for_claim(const struct volume *volume, const struct claim *claim)
{
	return volume->claim_name && !strcmp(volume->claim_name, claim->object.name) &&
		!strcmp(volume->claim_ns, claim->object.ns) &&
		(!*volume->claim_uid || !strcmp(volume->claim_uid, claim->object.uid));
}

/* Returns whether the volume has the size, mode and class of the claim. */
static bool is_large_enough(const struct volume *volume, const struct claim *claim)
{
	return !volume->object.refusal.code && !volume->object.is_deleting &&
		volume->capacity_bytes >= claim->request_bytes && volume->mode == claim->mode &&
		!strcmp(volume->class, claim->class);
}

static bool is_free_for(const struct volume *volume, const struct claim *claim)
{
	if (volume->claim_name || !volume->is_available ||
		strcmp(volume->attributes_class, claim->attributes_class) != 0)
		return false;
	for (uint32_t i = 0; i < claim->access_modes.n; i++)
		if (!texts_has(&volume->access_modes, claim->access_modes.v[i]))
			return false;
	return !claim->has_selector || selector_matches(&claim->selector, &volume->object.labels);
}

static int by_size(const void *a, const void *b)
{
	const struct volume *x = *(const struct volume *const *)a;
	const struct volume *y = *(const struct volume *const *)b;

	if (x->capacity_bytes != y->capacity_bytes)
		return x->capacity_bytes < y->capacity_bytes ? -1 : 1;
	return strcmp(x->object.name, y->object.name);
}

/* Finds the existing volumes that suit the claim; find_volume_for() then considers the node. */
static int find_candidates(struct fit *fit, struct fit_claim *claim)
{
	struct view_entry *entry, *next;
	uint32_t n = 0;

	HASH_ITER(hh, fit->view->tables[OBJECT_VOLUME], entry, next)
		n += is_large_enough((const struct volume *)entry->object, claim->claim);
	claim->volumes = arena_take_array(&fit->arena, n, sizeof(*claim->volumes));
	if (!claim->volumes)
		return -ENOMEM;
	HASH_ITER(hh, fit->view->tables[OBJECT_VOLUME], entry, next) {
		const struct volume *volume = (const struct volume *)entry->object;

		if (!is_large_enough(volume, claim->claim))
			continue;
		if (fit_volumes_is_for_claim(volume, claim->claim))
			claim->own = volume;
		else if (is_free_for(volume, claim->claim))
			claim->volumes[claim->n_volumes++] = volume;
	}
	if (claim->n_volumes)
		qsort(claim->volumes, claim->n_volumes, sizeof(*claim->volumes), by_size);
	return 0;
}

/*
 * Adds a claim that waits for its first pod. The claims are in order of size, because smaller
 * claims choose their volumes first.
 */
static int add_delayed(struct fit *fit, const struct claim *claim,
	const struct storage_class *class, struct error *err)
{
	uint32_t at = fit->n_claims++;

	for (; at && fit->claims[at - 1].claim->request_bytes > claim->request_bytes; at--)
		fit->claims[at] = fit->claims[at - 1];
	fit->claims[at] = (struct fit_claim){.claim = claim, .class = class};
	if (!claim->object.selected_node && find_candidates(fit, &fit->claims[at]) < 0)
		return fail(err, ENOMEM, "out of memory");
	return 0;
}

static int add_bound(struct fit *fit, const struct claim *claim, struct error *err)
{
	const struct volume *volume = find_volume(fit, claim->volume);

	if (!volume)
		return fail(err, ENOENT,
			"claim %.64s is bound to volume %.64s, which does not exist",
			claim->object.name, claim->volume);
	fit->bound[fit->n_bound++] = volume;
	return check_refusal(&volume->object, err);
}

/* Refuses a claim with access mode ReadWriteOncePod that a pod of any node uses already. */
static int check_exclusive(const struct fit *fit, const struct claim *claim, struct error *err)
{
	const struct view *view = fit->view;

	if (!texts_has(&claim->access_modes, "ReadWriteOncePod"))
		return 0;
	for (uint32_t n = 0; n < view->n_nodes; n++)
		for (uint32_t p = 0; p < view->nodes[n]->pods.n; p++) {
			const struct pod *pod = view->nodes[n]->pods.v[p];

			for (uint32_t i = 0; i < pod->volumes.n; i++)
				if (pod->volumes.v[i].claim &&
					!strcmp(pod->object.ns, claim->object.ns) &&
					!strcmp(pod->volumes.v[i].claim, claim->object.name))
					return fail(err, EAGAIN,
						"claim %.64s is ReadWriteOncePod and pod %.64s "
						"uses it",
						claim->object.name, pod->object.name);
		}
	return 0;
}

static int check_claim(const struct fit *fit, const struct pod_volume *volume,
	const struct claim *claim, struct error *err)
{
	int r;

	if (!claim)
		return fail(err, ENOENT, "claim %.128s does not exist%s", volume->claim,
			volume->is_ephemeral ? " yet" : "");
	r = check_refusal(&claim->object, err);
	if (r < 0)
		return r;
	if (volume->is_ephemeral && strcmp(claim->object.owner_uid, fit->pod->object.uid) != 0)
		return fail(err, EINVAL, "claim %.128s was not made for this pod", volume->claim);
	if (claim->is_lost)
		return fail(err, ENOENT, "claim %.64s has lost its volume %.64s", volume->claim,
			claim->volume);
	if (claim->object.is_deleting)
		return fail(err, EAGAIN, "claim %.128s is being deleted", volume->claim);
	return check_exclusive(fit, claim, err);
}

static int add_claim(struct fit *fit, const struct pod_volume *volume, struct error *err)
{
	const struct claim *claim = (const struct claim *)view_find(
		fit->view, OBJECT_CLAIM, fit->pod->object.ns, volume->claim);
	const struct storage_class *class;
	int r;

	r = check_claim(fit, volume, claim, err);
	if (r < 0)
		return r;
	if (claim_is_bound(claim))
		return add_bound(fit, claim, err);
	class = (const struct storage_class *)view_find(fit->view, OBJECT_CLASS, "", claim->class);
	if (!class && *claim->class)
		return fail(err, ENOENT,
			"claim %.64s has the storage class %.64s, which does not exist",
			volume->claim, claim->class);
	if (class) {
		r = check_refusal(&class->object, err);
		if (r < 0)
			return r;
	}
	if (!class || !class->is_delayed || *claim->volume)
		return fail(err, EAGAIN,
			"claim %.64s is not bound yet; its class binds without waiting for a pod",
			volume->claim);
	return add_delayed(fit, claim, class, err);
}

int fit_volumes_prepare(struct fit *fit, struct error *err)
{
	const struct pod_volumes *volumes = &fit->pod->volumes;
	int r = 0;

	if (!volumes->n)
		return 0;
	fit->bound = arena_take_array(&fit->arena, volumes->n, sizeof(*fit->bound));
	fit->claims = arena_take_array(&fit->arena, volumes->n, sizeof(*fit->claims));
	if (!fit->bound || !fit->claims)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; r == 0 && i < volumes->n; i++)
		if (volumes->v[i].claim)
			r = add_claim(fit, &volumes->v[i], err);
	return r;
}

uint32_t fit_n_claims(const struct fit *fit)
{
	return fit->n_claims;
}

const char *fit_claim_name(const struct fit *fit, uint32_t claim)
{
	return fit->claims[claim].claim->object.name;
}

bool fit_is_provisioned(const struct fit *fit)
{
	for (uint32_t i = 0; i < fit->n_claims; i++) {
		const struct fit_claim *claim = &fit->claims[i];

		if (claim->own || claim->n_volumes || !claim->class || !claim->class->provisioner ||
			!strcmp(claim->class->provisioner, NO_PROVISIONER))
			return false;
	}
	return true;
}

static bool have_monitor_in_common(const struct disk *a, const struct disk *b)
{
	for (uint32_t i = 0; i < a->monitors.n; i++)
		if (texts_has(&b->monitors, a->monitors.v[i]))
			return true;
	return false;
}

static bool disks_conflict(const struct disk *a, const struct disk *b)
{
	bool is_shareable = a->is_read_only && b->is_read_only;

	if (!a->kind || a->kind != b->kind || strcmp(a->id, b->id) != 0)
		return false;
	switch (a->kind) {
	case DISK_EBS: return true;
	case DISK_GCE:
	case DISK_ISCSI: return !is_shareable;
	case DISK_RBD:
		return !is_shareable && !strcmp(a->pool, b->pool) && have_monitor_in_common(a, b);
	default: return false;
	}
}

struct fit_answer fit_check_disks(struct fit *fit, const struct fit_candidate *candidate)
{
	const struct pod_volumes *own = &fit->pod->volumes;

	for (uint32_t p = 0; own->n && p < candidate_n_pods(candidate); p++) {
		const struct pod_volumes *other = &candidate_pod(candidate, p)->volumes;

		for (uint32_t i = 0; i < own->n; i++)
			for (uint32_t k = 0; k < other->n; k++)
				if (disks_conflict(&own->v[i].disk, &other->v[k].disk))
					return FIT_NO(DISK, own->v[i].disk.id);
	}
	return FIT_YES;
}

/* The node affinity of a volume selects nodes by labels only, so the node's name is left empty. */
static bool fit_volumes_is_reachable(const struct volume *volume, const struct node *node)
{
	return node_terms_match(&volume->nodes, &node->object.labels, "");
}

static bool is_chosen(const struct fit *fit, const struct volume **chosen, uint32_t n,
	const struct volume *volume)
{
	for (uint32_t i = 0; i < n; i++)
		if (chosen[i] == volume)
			return true;
	return false;
}

/* Returns the volume that the claim would get on this node, or NULL. */
static const struct volume *find_volume_for(const struct fit *fit, const struct fit_claim *claim,
	const struct node *node, const struct volume **chosen, uint32_t n_chosen)
{
	if (claim->own && !is_chosen(fit, chosen, n_chosen, claim->own))
		return fit_volumes_is_reachable(claim->own, node) ? claim->own : NULL;
	for (uint32_t i = 0; i < claim->n_volumes; i++)
		if (!is_chosen(fit, chosen, n_chosen, claim->volumes[i]) &&
			fit_volumes_is_reachable(claim->volumes[i], node))
			return claim->volumes[i];
	return NULL;
}

static bool has_capacity(
	const struct fit *fit, const struct fit_claim *claim, const struct node *node)
{
	const struct csi_driver *driver = (const struct csi_driver *)view_find(
		fit->view, OBJECT_CSI_DRIVER, "", claim->class->provisioner);
	const struct view_entry *entry = fit->view->tables[OBJECT_CSI_CAPACITY];

	if (fit->view->minor < RULES_VOLUME_CAPACITY || !driver || !driver->has_capacities)
		return true;
	for (; entry; entry = entry->hh.next) {
		const struct csi_capacity *capacity = (const struct csi_capacity *)entry->object;

		if (!capacity->object.refusal.code &&
			!strcmp(capacity->class, claim->class->object.name) &&
			capacity->bytes >= claim->claim->request_bytes &&
			selector_matches(&capacity->nodes, &node->object.labels))
			return true;
	}
	return false;
}

/* Returns whether the class can provision a volume for the claim on this node. */
static struct fit_answer check_provision(
	const struct fit *fit, const struct fit_claim *claim, const struct node *node)
{
	const struct storage_class *class = claim->class;
	const char *name = claim->claim->object.name;

	if (!*class->provisioner || !strcmp(class->provisioner, NO_PROVISIONER))
		return FIT_NO(CLAIM_VOLUME, name);
	if (!node_terms_match(&class->topologies, &node->object.labels, ""))
		return FIT_NO(CLAIM_TOPOLOGY, name);
	if (!has_capacity(fit, claim, node))
		return FIT_NO(CLAIM_CAPACITY, name);
	return FIT_YES;
}

struct fit_answer fit_check_volumes(struct fit *fit, const struct fit_candidate *candidate)
{
	const struct node *node = candidate->node->node;
	const struct volume **chosen = NULL, *volume;
	struct fit_answer answer;
	uint32_t n_chosen = 0;

	for (uint32_t i = 0; i < fit->n_bound; i++)
		if (!fit_volumes_is_reachable(fit->bound[i], node))
			return FIT_NO(VOLUME_NODE, fit->bound[i]->object.name);
	/*
	 * fit->bound has space for a volume of each claim, so the part behind the bound volumes can
	 * hold those chosen here.
	 */
	if (fit->n_claims)
		chosen = fit->bound + fit->n_bound;
	for (uint32_t i = 0; i < fit->n_claims; i++) {
		const struct fit_claim *claim = &fit->claims[i];
		const char *promised = claim->claim->object.selected_node;

		if (promised && strcmp(promised, node->object.name) != 0)
			return FIT_NO(CLAIM_ELSEWHERE, claim->claim->object.name);
		volume = promised ? NULL : find_volume_for(fit, claim, node, chosen, n_chosen);
		if (volume) {
			chosen[n_chosen++] = volume;
			continue;
		}
		answer = check_provision(fit, claim, node);
		if (answer.why)
			return answer;
	}
	return FIT_YES;
}

static const struct {
	const char *label, *stable;
} zone_labels[] = {
	{"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
	{"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
	{"topology.kubernetes.io/zone", NULL},
	{"topology.kubernetes.io/region", NULL},
};

/*
 * Returns whether a volume's zone label permits the zone. "a__b" lists alternative zones; a list
 * with an empty zone permits every zone.
 */
static bool zones_have(const char *list, const char *zone)
{
	struct str rest = str_from(list), piece;
	bool is_there = false, is_more = true;

	while (is_more) {
		const char *gap = rest.n ? strstr(rest.p, "__") : NULL;

		piece = rest;
		is_more = gap;
		if (gap) {
			piece.n = (size_t)(gap - rest.p);
			rest = str_from(gap + 2);
		}
		piece = str_trim(piece);
		if (!piece.n)
			return true;
		is_there = is_there || str_is(piece, zone);
	}
	return is_there;
}

static bool is_in_zone(const struct fit *fit, const struct volume *volume, const struct node *node)
{
	for (size_t i = 0; i < ARRAY_SIZE(zone_labels); i++) {
		const char *zones = labels_get(&volume->object.labels, zone_labels[i].label);
		const char *zone = labels_get(&node->object.labels, zone_labels[i].label);

		if (!zones)
			continue;
		if (!zone && zone_labels[i].stable && fit->view->minor >= RULES_ZONE_TRANSLATION)
			zone = labels_get(&node->object.labels, zone_labels[i].stable);
		if (!zones_have(zones, zone ? zone : ""))
			return false;
	}
	return true;
}

struct fit_answer fit_check_zones(struct fit *fit, const struct fit_candidate *candidate)
{
	const struct node *node = candidate->node->node;
	bool is_zoned = false;

	for (size_t i = 0; fit->n_bound && i < ARRAY_SIZE(zone_labels); i++)
		is_zoned = is_zoned || labels_get(&node->object.labels, zone_labels[i].label);
	for (uint32_t i = 0; is_zoned && i < fit->n_bound; i++)
		if (!is_in_zone(fit, fit->bound[i], node))
			return FIT_NO(VOLUME_ZONE, fit->bound[i]->object.name);
	return FIT_YES;
}
