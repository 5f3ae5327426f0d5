/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of claims. Each has a slot, as a tenant of the device plugin has, but the kubelet is not
 * offered slots. A slot belongs to its claim from before the tenant is made until after it has
 * ended, and slot->claim says so: such a tenant ends with its claim and not with its pod.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/format.h"
#include "base/log.h"
#include "kubelet/cdi.h"
#include "node/node-dra.h"
#include "node/node-files.h"

/* ---- making ---- */

static struct slot *find_free(struct node *node)
{
	for (uint32_t i = 0; i < node->n_regular; i++)
		if (!node->slots[i].tenant && !node->slots[i].is_claimed)
			return &node->slots[i];
	return NULL;
}

static struct slot *slot_of(const struct dra *dra, const struct dra_tenant *t)
{
	return t->slot < dra->node->n_regular ? &dra->node->slots[t->slot] : NULL;
}

/* Tenants of an earlier divvyd come back on faulty and cordoned devices, too. */
static int dra_places(struct node *node, const struct dra_tenant *t, struct tenant_place *ret,
	bool is_new, struct error *err)
{
	for (uint32_t i = 0; i < t->spec.count; i++) {
		const struct device *d = device_find(node->agent->devices, t->places[i].uuid);

		if (!d)
			return fail(err, ENODEV, "this node has no device %s any more",
				t->places[i].uuid);
		if (is_new && node_is_cordoned(node, d->info.uuid))
			return fail(err, EPERM, "device %s is cordoned: it gets no new tenants",
				d->info.uuid);
		if (is_new && device_is_faulty(d))
			return fail(err, EIO, "device %s %s", d->info.uuid, device_fault_text(d));
		ret[i] = (struct tenant_place){d->index, t->places[i].quota_bytes};
	}
	return 0;
}

static void fill_pod(const struct dra_claim *claim, const struct dra_tenant *t,
	const struct slot *slot, struct tenant_pod *ret)
{
	*ret = (struct tenant_pod){0};
	snprintf(ret->uid, sizeof(ret->uid), "%s", claim->pod_uid);
	snprintf(ret->space, sizeof(ret->space), "%s", claim->space);
	snprintf(ret->name, sizeof(ret->name), "%s", claim->pod);
	snprintf(ret->claim, sizeof(ret->claim), "%s", claim->name);
	snprintf(ret->container, sizeof(ret->container), "%.63s", t->request);
	snprintf(ret->slot, sizeof(ret->slot), "%s", slot->id);
}

/* Names the tenant in divvyd's state, where the next divvyd finds it. */
static void fill_origin(
	const struct dra_claim *claim, const struct dra_tenant *t, char *ret, size_t size)
{
	snprintf(ret, size, "claim %s/%s", claim->uid, t->request);
}

static int make_tenant(struct dra *dra, const struct dra_claim *claim, const struct dra_tenant *t,
	struct slot *slot, bool is_new, struct error *err)
{
	struct node *node = dra->node;
	struct tenant_place places[SPEC_DEVICES_MAX];
	char name[TENANT_NAME], origin[TENANT_ORIGIN];
	struct tenant_pod pod;
	struct tenant_params params = {
		.spec = t->spec,
		.name = name,
		.origin = origin,
		.lifetime = TENANT_KEEP,
		.source = TENANT_POD,
		.pod = &pod,
		.places = places,
	};
	struct tenant *tenant;
	int r = dra_places(node, t, places, is_new, err);

	if (r < 0)
		return r;
	/* Consumed memory never exceeds a device, so a claim promises nothing beyond it. */
	for (uint32_t i = 0; i < t->spec.count; i++)
		overcommit_set(node, &node->agent->devices->devices[places[i].device], 0);
	fill_pod(claim, t, slot, &pod);
	fill_origin(claim, t, origin, sizeof(origin));
	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, claim->pod);
	r = tenant_new(node->agent, &params, &tenant, err);
	if (r < 0)
		return r;
	slot->tenant = tenant->id;
	slot->since_ns = clock_now_ns();
	slot->is_over = false;
	return 0;
}

int dra_tenants_make(struct dra *dra, struct dra_claim *claim, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < claim->n_tenants; i++) {
		struct dra_tenant *t = &claim->tenants[i];
		struct slot *slot = find_free(dra->node);

		if (!slot) {
			r = fail(err, ENOSPC,
				"this node has %u tenants, and no slot for another one; delete "
				"other pods with shares there, or let the pod start on another "
				"node",
				dra->node->n_regular);
			break;
		}
		t->slot = slot->number;
		slot->is_claimed = true;
		r = make_tenant(dra, claim, t, slot, true, err);
		if (r < 0)
			fail_within(err, r, "request %s", t->request);
	}
	if (r < 0)
		dra_tenants_end(dra, claim);
	return r;
}

int dra_tenants_open(struct dra *dra, const struct dra_claim *claim, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < claim->n_tenants; i++) {
		struct slot *slot = slot_of(dra, &claim->tenants[i]);
		struct tenant *t = slot ? node_tenant(dra->node, slot) : NULL;

		if (slot)
			slot->is_written = true; /* its CDI file */
		if (t && !slot->tenant_socket)
			r = node_slot_open(dra->node, slot, t, err);
	}
	return r;
}

void dra_tenants_end(struct dra *dra, struct dra_claim *claim)
{
	for (uint32_t i = 0; i < claim->n_tenants; i++) {
		struct slot *slot = slot_of(dra, &claim->tenants[i]);

		claim->tenants[i].slot = DRA_NO_SLOT;
		if (!slot)
			continue;
		node_slot_clear(dra->node, slot);
		slot->is_claimed = false;
	}
}

void dra_tenants_report(struct dra *dra, const struct dra_claim *claim)
{
	for (uint32_t i = 0; i < claim->n_tenants; i++) {
		const struct slot *slot = slot_of(dra, &claim->tenants[i]);
		const struct tenant *t = slot ? node_tenant(dra->node, slot) : NULL;
		_cleanup_buf_ struct buf list = BUF_INIT(2048);

		if (!t)
			continue;
		for (uint32_t k = 0; k < t->n; k++)
			buf_addf(&list, "%s%s with %s", k ? ", " : "",
				t->devices[k].device->info.uuid,
				format_bytes(t->devices[k].quota_bytes).s);
		node_log(dra->node, "granted", t);
		log_info("slot %s: claim %s/%s, request %s, has %s of %s", slot->id, claim->space,
			claim->name, claim->tenants[i].request, format_share(t->spec.request).s,
			buf_text(&list));
		node_pod_event(dra->node, t->pod, false, "Granted",
			"claim %s, request %s: %s of %s", claim->name, claim->tenants[i].request,
			format_share(t->spec.request).s, buf_text(&list));
	}
}

/* ---- at the start ---- */

/* The tenant that divvyd's state has kept in the slot, if it is the claim's. */
static struct tenant *find_kept(struct node *node, struct slot *slot, const struct dra_claim *claim,
	const struct dra_tenant *t)
{
	struct tenant *kept = node_tenant(node, slot);
	char origin[TENANT_ORIGIN];

	fill_origin(claim, t, origin, sizeof(origin));
	return kept && !strcmp(kept->origin, origin) ? kept : NULL;
}

/* Makes what the tenant lacks. The loop does not run yet, so this may wait for the disk. */
static int resume_tenant(struct dra *dra, const struct dra_claim *claim, const struct dra_tenant *t,
	struct slot *slot, struct error *err)
{
	struct dra_files *files = NULL;
	struct tenant *kept = find_kept(dra->node, slot, claim, t);
	int r = 0;

	if (!kept) {
		node_slot_clear(dra->node, slot);
		r = make_tenant(dra, claim, t, slot, false, err);
		kept = node_tenant(dra->node, slot);
	}
	r = r < 0 ? r : dra_files_new(dra->node, slot, kept, &files, err);
	r = r < 0 ? r : dra_files_write(files, err);
	dra_files_free(files);
	return r;
}

static void resume_claim(struct dra *dra, struct dra_claim *claim)
{
	struct error err;

	for (uint32_t i = 0; i < claim->n_tenants; i++) {
		const struct dra_tenant *t = &claim->tenants[i];
		struct slot *slot = slot_of(dra, t);

		if (!slot || slot->is_claimed) {
			log_error("claim %s/%s: slot %u cannot be used", claim->space, claim->name,
				t->slot);
			continue;
		}
		slot->is_claimed = true;
		if (resume_tenant(dra, claim, t, slot, &err) < 0)
			log_error("claim %s/%s, request %s: %s", claim->space, claim->name,
				t->request, err.msg);
	}
	if (dra_tenants_open(dra, claim, &err) < 0)
		log_error("claim %s/%s: %s", claim->space, claim->name, err.msg);
}

void dra_tenants_resume(struct dra *dra)
{
	struct node *node = dra->node;
	const struct dra_prepared *p;

	for (p = dra->claims; p; p = p->hh.next)
		resume_claim(dra, p->claim);
	for (uint32_t i = 0; i < node->n_regular; i++) {
		struct slot *slot = &node->slots[i];
		const struct tenant *t = node_tenant(node, slot);
		struct error err;

		if (slot->is_claimed || (t && !t->pod->claim[0]))
			continue;
		/* A kill came between a step for the tenant and the checkpoint. */
		if (t)
			node_slot_clear(node, slot);
		if (cdi_remove(node->options.cdi_dir, slot->number, &err) < 0)
			log_warn("%s", err.msg);
	}
}
