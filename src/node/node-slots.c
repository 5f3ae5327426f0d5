/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: which pod has which slot, and which slots the kubelet is offered. Each device has
 * NODE_SLOTS_EACH slots for the kubelet, and as many for pods of other nodes if these may use the
 * devices. Free slots of devices that admit no new tenants are not offered; slots in use stay. A
 * node of the pool offers all slots even while divvy has no device there. Otherwise a new device of
 * divvy could be used only after the kubelet had reported more slots, which takes long. A slot is
 * no device: divvyd decides at a container's start whether it may start.
 *
 * A card may be missing after a restart of the machine. Slots with numbers beyond those of the
 * remaining devices may then belong to containers on the remaining cards, because the kubelet never
 * gives a container another slot. So slots that a tenant or the kubelet still has are offered
 * beyond the devices' number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "kube/kube-json.h"
#include "kubelet/cdi.h"
#include "manifest/cordon.h"
#include "node/node-files.h"
#include "node/node-internal.h"
#include "node/node-remote.h"
#include "node/node-serve.h"

struct slot *node_slot(struct node *node, const char *id)
{
	struct str rest = str_from(id);
	const bool is_served = str_has_prefix(rest, STR(NODE_SERVED_SLOT));
	uint64_t n;

	if (is_served)
		rest = str_from(id + strlen(NODE_SERVED_SLOT));
	if (parse_uint(rest, 0, UINT32_MAX / 2, &n, NULL) < 0)
		return NULL;
	n += is_served ? node->n_offered : 0;
	return n < (is_served ? node->n_slots : node->n_offered) ? &node->slots[n] : NULL;
}

bool node_slot_is_served(const struct node *node, const struct slot *slot)
{
	return slot->number >= node->n_offered;
}

const struct tenant_pod *node_slot_pod(struct node *node, const struct slot *slot)
{
	const struct tenant *t = node_tenant(node, slot);

	return t ? t->pod : slot->remote ? remote_pod(slot->remote) : NULL;
}

struct tenant *node_tenant(struct node *node, const struct slot *slot)
{
	struct tenant *t = slot->tenant ? tenant_by_id(node->agent, slot->tenant) : NULL;

	return t && !t->is_ending && t->pod ? t : NULL;
}

int node_slot_folder(
	const struct node *node, const struct slot *slot, char *ret, size_t size, struct error *err)
{
	int n = snprintf(ret, size, "%s/slots/%s", node->options.state_dir, slot->id);

	if (n < 0 || (size_t)n >= size)
		return fail(err, ENAMETOOLONG, "the slot's path is too long");
	return 0;
}

int node_slot_write_files(const struct node *node, const struct slot *slot, slot_files_fn *done,
	void *data, struct slot_files **ret_files, struct error *err)
{
	char folder[PATH_MAX];
	const struct slot_files_params params = {
		.folder = folder, .is_remote = slot->is_list_remote};
	int r = node_slot_folder(node, slot, folder, sizeof(folder), err);

	if (r < 0)
		return r;
	r = slot_files_write(node->agent->disk, &params, done, data, ret_files);
	return r < 0 ? fail(err, -r, "no memory") : 0;
}

/* Opens the tenant socket of a container on this node. */
static int node_slot_open_socket(
	struct node *node, struct slot *slot, struct tenant *t, struct error *err)
{
	char folder[PATH_MAX], path[PATH_MAX + 16];
	int r = node_slot_folder(node, slot, folder, sizeof(folder), err);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/divvyd.sock", folder);
	return tenant_socket_open(t, path, &slot->tenant_socket, err);
}

int node_slot_open(struct node *node, struct slot *slot, struct tenant *t, struct error *err)
{
	int r = node_slot_is_served(node, slot) ? 0 : node_slot_open_socket(node, slot, t, err);

	if (r < 0)
		return r;
	slot->tenant = t->id;
	slot->is_over = false;
	slot->since_ns = clock_now_ns();
	slot->denied = slot->over_ns = 0;
	slot->note[0] = '\0';
	return 0;
}

void node_slot_clear(struct node *node, struct slot *slot)
{
	struct tenant *t = node_tenant(node, slot);
	struct error err;

	if (t) {
		watch_slot_ends(node, slot);
		log_info("slot %s: %s/%s %s has ended", slot->id, t->pod->space, t->pod->name,
			t->pod->container);
		node_log(node, "ended", t);
		serve_tenant_ends(node, t);
		tenant_kill(t);
	}
	remote_free(TAKE_PTR(slot->remote));
	tenant_socket_close(TAKE_PTR(slot->tenant_socket));
	if (slot->is_written && cdi_remove(node->options.cdi_dir, slot->number, &err) < 0)
		log_warn("%s", err.msg);
	slot->is_written = slot->is_over = false;
	slot->note[0] = '\0';
	slot->tenant = 0;
	node_status_touch(node);
}

void node_slot_end(struct node *node, struct slot *slot)
{
	const struct tenant *t = node_tenant(node, slot);

	slot->is_over = true;
	tenant_socket_close(TAKE_PTR(slot->tenant_socket));
	if (t)
		serve_tenant_ends(node, t);
	if (!t || !t->n_processes)
		node_slot_clear(node, slot);
}

bool node_is_tenant_on(const struct tenant *t, const struct device *device)
{
	for (uint32_t i = 0; t && i < t->n; i++)
		if (t->devices[i].device == device)
			return true;
	return false;
}

bool node_is_cordoned(const struct node *node, const char *uuid)
{
	return cordon_has(node_gpunode(node), uuid);
}

void node_offer(struct node *node)
{
	_cleanup_free_ struct plugin_device *offer = calloc(node->n_offered + 1, sizeof(*offer));
	const struct device_set *set = node->agent->devices;
	uint32_t closed = 0, n;
	struct error err;

	if (node->dra) {
		node_dra_changed(node);
		node_status_touch(node);
		return;
	}
	if (!offer)
		return;
	for (uint32_t i = 0; i < set->n; i++) {
		set->devices[i].is_native = node_pool_is_native(node, &set->devices[i]);
		if (node->conflict[0] || node->is_pid_hidden ||
			device_is_faulty(&set->devices[i]) ||
			node_is_cordoned(node, set->devices[i].info.uuid))
			closed += NODE_SLOTS_EACH;
	}
	if (!set->n && (node->conflict[0] || node->is_pid_hidden))
		closed = node->n_regular;
	for (uint32_t i = node->n_regular; i-- > 0;) {
		const struct slot *slot = &node->slots[i];
		const bool is_closed = !slot->tenant && !slot->remote && closed;

		closed -= is_closed;
		offer[i] = (struct plugin_device){slot->id, !is_closed, -1};
	}
	n = node->n_regular;
	for (uint32_t i = n; i < node->n_offered; i++)
		if (node->slots[i].is_kept)
			offer[n++] = (struct plugin_device){node->slots[i].id, true, -1};
	if (plugin_set_devices(node->plugin, offer, n, &err) < 0)
		log_warn("device plugin: %s", err.msg);
	node_status_touch(node);
}

uint32_t node_slots_total(const struct node *node)
{
	uint32_t n = node->dra ? 0 : node->n_regular;

	for (uint32_t i = node->n_regular; i < node->n_offered; i++)
		n += node->slots[i].is_kept;
	return n;
}

/* ---- kept slots ---- */

/* The slots that are in use when divvyd starts. */
struct held {
	bool is_held[NODE_SLOTS_MAX];
	/*
	 * largest number of a held slot, plus one. n_own: of the slots for this node's pods;
	 * n_served: of the slots for pods of other nodes.
	 */
	uint32_t n_own, n_served;
};

static void note_held(struct held *held, const char *id)
{
	const bool is_served = str_has_prefix(str_from(id), STR(NODE_SERVED_SLOT));
	uint64_t n;

	if (is_served)
		id += strlen(NODE_SERVED_SLOT);
	if (parse_uint(str_from(id), 0, NODE_SLOTS_MAX - 1, &n, NULL) < 0)
		return;
	if (is_served) {
		held->n_served = MAX(held->n_served, (uint32_t)n + 1);
		return;
	}
	held->is_held[n] = true;
	held->n_own = MAX(held->n_own, (uint32_t)n + 1);
}

/* `ids` is a list, or an object with a list for each NUMA node. */
static void note_ids(struct held *held, json_t *ids)
{
	const char *key, *id;
	json_t *some;
	size_t i;

	json_array_foreach(ids, i, some) {
		id = json_string_value(some);
		if (id)
			note_held(held, id);
	}
	json_object_foreach(ids, key, some)
		if (json_is_array(some))
			note_ids(held, some);
}

/*
 * Reads the kubelet's checkpoint, which also has containers whose tenants are not known here any
 * more. Skips deleted pods: the kubelet removes a deleted pod from the checkpoint only when the
 * next pod comes.
 */
static void note_checkpoint(const struct node *node, struct held *held)
{
	_cleanup_json_ json_t *json = node_checkpoint(node);
	json_t *one;
	size_t i;

	json_array_foreach(kube_json_at(json, "Data", "PodDeviceEntries", NULL), i, one) {
		const char *uid = kube_json_text_at(one, "PodUID", NULL);

		if (node->pods && kube_cache_is_synced(node->pods) &&
			(!uid || !kube_cache_find_uid(node->pods, uid)))
			continue;
		if (!strcmp(kube_json_text(one, "ResourceName"), NODE_RESOURCE))
			note_ids(held, json_object_get(one, "DeviceIDs"));
	}
}

static int make_slots(struct node *node, const struct held *held)
{
	const uint32_t n_devices = node->agent->devices->n;

	/* A node without devices has slots for pods with devices of other nodes. */
	node->n_regular = MAX(n_devices, 1u) * NODE_SLOTS_EACH;
	/* A prepared claim has its slots' numbers for as long as it lives, also without devices. */
	if (node->options.is_dra)
		node->n_regular = NODE_SLOTS_MAX;
	node->n_offered = MAX(node->n_regular, held->n_own);
	node->n_slots = node->n_offered +
		(node->options.remote_listen ? MAX(n_devices * NODE_SLOTS_EACH, held->n_served)
					     : 0);
	node->slots = calloc(node->n_slots + 1, sizeof(*node->slots));
	if (!node->slots)
		return -ENOMEM;
	for (uint32_t i = node->n_regular; i < node->n_offered; i++)
		node->slots[i].is_kept = held->is_held[i];
	return 0;
}

bool node_has_kept_slots(const struct node *node)
{
	return !node->dra && node_slots_total(node) > node->n_regular;
}

void node_drop_kept(struct node *node, const struct podres_list *list)
{
	_cleanup_free_ struct held *held = NULL;
	bool has_changed = false;

	if (!node_has_kept_slots(node))
		return;
	held = calloc(1, sizeof(*held));
	if (!held)
		return;
	/* The kubelet's list and its checkpoint each omit some entries of the other. */
	note_checkpoint(node, held);
	for (uint32_t i = node->n_regular; i < node->n_offered; i++) {
		struct slot *slot = &node->slots[i];
		const struct podres_container *c;

		if (!slot->is_kept || held->is_held[i] || slot->tenant || slot->remote ||
			podres_find(list, STR(NODE_RESOURCE), str_from(slot->id), &c) != -ENOENT)
			continue;
		slot->is_kept = false;
		has_changed = true;
	}
	if (has_changed)
		node_offer(node);
}

/* The loop does not run yet, so this may wait for the disk. */
static int open_again(struct node *node, struct slot *slot, struct tenant *t, struct error *err)
{
	char folder[PATH_MAX];
	int r = node_slot_folder(node, slot, folder, sizeof(folder), err);

	if (r < 0)
		return r;
	if (!node_slot_is_served(node, slot))
		r = slot_files_make(&(struct slot_files_params){.folder = folder}, err);
	return r < 0 ? r : node_slot_open(node, slot, t, err);
}

int node_slots_new(struct node *node, struct error *err)
{
	_cleanup_free_ struct held *held = calloc(1, sizeof(*held));
	struct tenant *t;

	if (held)
		note_checkpoint(node, held);
	LIST_FOREACH(t, &node->agent->tenants, link)
		if (held && t->pod && !t->is_ending)
			note_held(held, t->pod->slot);
	if (!held || make_slots(node, held) < 0)
		return fail(err, ENOMEM, "no memory");
	for (uint32_t i = 0; i < node->n_slots; i++) {
		node->slots[i].number = i;
		if (i < node->n_offered)
			snprintf(node->slots[i].id, sizeof(node->slots[i].id), "%u", i);
		else
			snprintf(node->slots[i].id, sizeof(node->slots[i].id),
				NODE_SERVED_SLOT "%u", i - node->n_offered);
	}
	LIST_FOREACH(t, &node->agent->tenants, link) {
		struct slot *slot = t->pod ? node_slot(node, t->pod->slot) : NULL;
		struct error why;

		if (!t->pod || t->is_ending)
			continue;
		node->epoch = MAX(node->epoch, t->pod->epoch);
		if (!slot || slot->tenant)
			log_warn("%s/%s: slot %s no longer exists", t->pod->space, t->pod->name,
				t->pod->slot);
		else if (open_again(node, slot, t, &why) < 0)
			log_warn("%s/%s: %s", t->pod->space, t->pod->name, why.msg);
		else {
			slot->is_written = !node_slot_is_served(node, slot);
			node_log(node, "kept", t);
		}
	}
	return 0;
}
