/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live changes of claims' tenants. A user changes limit, class and priority by annotations of the
 * claim, and the webhook gives such claims a label. This file watches the claims with the label in
 * the whole cluster, which are few, because claims cannot be selected by node. It compares each
 * claim that is prepared here with its tenants, and changes those that differ. An annotation that
 * is removed changes its value back.
 *
 * The checkpoint has the changed values, so that they outlive a restart without the API server.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent-state.h"
#include "agent/device.h"
#include "base/format.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "node/node-dra.h"

#define LIVE_PATH "/apis/resource.k8s.io/v1/resourceclaims"

static void live_event(
	const struct dra *dra, const struct dra_prepared *p, bool is_rejected, const char *text)
{
	const struct dra_tenant *first = &p->claim->tenants[0];
	const struct tenant *t = first->slot < dra->node->n_regular
		? node_tenant(dra->node, &dra->node->slots[first->slot])
		: NULL;

	log_info("claim %s/%s %s: %s", p->claim->space, p->claim->name,
		is_rejected ? "is not changed" : "has changed", text);
	if (t)
		node_pod_event(dra->node, t->pod, is_rejected,
			is_rejected ? "ResizeRejected" : "ResizeAccepted", "claim %s: %s",
			p->claim->name, text);
}

static void on_live_written(void *data, int result, const struct error *err)
{
	if (result < 0)
		log_error("checkpoint of the prepared claims: %s", err->msg);
}

/* Changes a tenant. Returns 1 if it has changed, and adds to `list` what it has now. */
static int change_tenant(struct dra *dra, struct dra_tenant *is, const struct dra_tenant *wanted,
	struct buf *list, struct error *err)
{
	struct tenant *t = is->slot < dra->node->n_regular
		? node_tenant(dra->node, &dra->node->slots[is->slot])
		: NULL;
	int r;

	if (!t || spec_is_same(&is->spec, &wanted->spec))
		return 0;
	r = tenant_change(t, &wanted->spec, err);
	r = r < 0 ? r : state_tenant(t, err);
	if (r < 0)
		return fail_within(err, r, "request %s", is->request);
	is->spec = wanted->spec;
	node_log(dra->node, "changed", t);
	buf_addf(list, "%srequest %s has limit %s, class %s, priority %u", list->n ? "; " : "",
		is->request, format_share(is->spec.limit).s, spec_class_name(is->spec.class),
		is->spec.priority);
	return 1;
}

static int live_change(struct dra *dra, struct dra_prepared *p, const json_t *object,
	struct buf *list, struct error *err)
{
	_cleanup_free_ struct dra_known *known = dra_known_devices(dra->node);
	const struct dra_inventory inventory = {
		dra->node->options.name, known, dra->node->agent->devices->n};
	_cleanup_dra_claim_ struct dra_claim *wanted = NULL;
	int r = known ? dra_claim_read(object, p->claim->uid, &inventory, &wanted, err)
		      : fail(err, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	/* The claim was allocated anew: its next NodePrepareResources says so. */
	if (!dra_claim_has_same_devices(p->claim, wanted))
		return 0;
	for (uint32_t i = 0; r >= 0 && i < wanted->n_tenants; i++)
		r = change_tenant(dra, &p->claim->tenants[i], &wanted->tenants[i], list, err);
	return r;
}

static void live_follow(struct dra *dra, struct dra_prepared *p, const json_t *object)
{
	_cleanup_buf_ struct buf list = BUF_INIT(1024);
	struct error err = {0};
	int r = live_change(dra, p, object, &list, &err);

	/* A claim that ends has no allocation, and nothing to say. */
	if (r < 0 && r != -ENODATA && r != -ESTALE && strcmp(p->rejection, err.msg) != 0) {
		snprintf(p->rejection, sizeof(p->rejection), "%s", err.msg);
		live_event(dra, p, true, err.msg);
	}
	if (r >= 0)
		p->rejection[0] = '\0';
	if (!list.n)
		return;
	live_event(dra, p, false, buf_text(&list));
	node_status_touch(dra->node);
	if (dra_write_prepared(dra, p->claim, NULL, 0, on_live_written, NULL, &err) < 0)
		log_error("%s", err.msg);
}

void dra_live_look(struct dra *dra, struct dra_prepared *p)
{
	const struct kube_entry *entry = dra->live
		? kube_cache_find(dra->live, p->claim->space, p->claim->name)
		: NULL;

	if (entry && p->state == PREPARED_READY && !strcmp(entry->uid, p->claim->uid))
		live_follow(dra, p, entry->object);
}

/* ---- the watch ---- */

static void on_live_claim(void *data, const struct kube_entry *entry)
{
	struct dra *dra = data;
	struct dra_prepared *p = dra_find(dra, entry->uid);

	/* A claim whose files are being written follows afterwards. */
	if (p && p->state == PREPARED_READY)
		live_follow(dra, p, entry->object);
}

static void on_live_updated(void *data, const struct kube_entry *entry, void *old)
{
	on_live_claim(data, entry);
}

static int project_claim(
	void *data, const struct kube_object *object, void **ret, struct error *err)
{
	*ret = json_incref(object->json);
	return 0;
}

static void release_claim(void *own)
{
	json_decref(own);
}

static void on_live_trouble(void *data, const struct error *err)
{
	log_warn("%s", err->msg);
}

int dra_live_new(struct dra *dra, struct error *err)
{
	const struct kube_reflect_options options = {.path = LIVE_PATH,
		.label_selector = CLAIM_LIVE_LABEL,
		.max_pause_ns = 5 * NSEC_PER_SEC};
	const struct kube_cache_handler handler = {
		.project = project_claim,
		.release = release_claim,
		.added = on_live_claim,
		.updated = on_live_updated,
		.trouble = on_live_trouble,
		.data = dra,
	};

	return kube_cache_new(dra->node->client, &options, &handler, &dra->live, err);
}

void dra_live_free(struct dra *dra)
{
	kube_cache_free(TAKE_PTR(dra->live));
}
