/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that the kubelet has forgotten. A kubelet unprepares each claim that it has prepared, but
 * not if its own state was lost. So divvyd looks for claims that no pod of the node names, and asks
 * the API server about them, one after another. A claim that is gone several times in a row ends
 * here. A claim that exists stays, because the kubelet may still use it for a further pod without
 * another request.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "kube/kube-json.h"
#include "node/node-dra.h"

#define SWEEP_NS (20 * NSEC_PER_SEC)
#define SWEEP_MISSED_MAX 3u /* answers that a claim is gone, before it ends */

/* A claim's first pod is looked at first: without it, every pod would be read for every claim. */
static bool has_pod(const struct node *node, const struct dra_claim *claim)
{
	const struct kube_entry *pod = kube_cache_find_uid(node->pods, claim->pod_uid);

	if (pod && dra_pod_has_claim(pod->object, claim->name))
		return true;
	pod = NULL;
	while ((pod = kube_cache_next(node->pods, pod)))
		if (!strcmp(pod->namespace_name, claim->space) &&
			dra_pod_has_claim(pod->object, claim->name))
			return true;
	return false;
}

static void on_ended(void *data, int result, const struct error *err)
{
	struct dra *dra = data;
	struct dra_prepared *p = dra_find(dra, dra->ending_uid);

	dra->ending_uid[0] = '\0';
	p->is_busy = false;
	if (result < 0)
		log_warn("%s", err->msg); /* the next sweep tries again */
	else
		dra_forget(dra, p);
}

static void end_claim(struct dra *dra, struct dra_prepared *p)
{
	struct error err;

	log_info("claim %s/%s is gone, and the kubelet has not unprepared it: it ends",
		p->claim->space, p->claim->name);
	dra_tenants_end(dra, p->claim);
	p->state = PREPARED_ENDING;
	memcpy(dra->ending_uid, p->claim->uid, sizeof(dra->ending_uid));
	p->is_busy = dra_write_unprepared(dra, p->claim->uid, on_ended, dra, &err) >= 0;
	if (!p->is_busy) {
		dra->ending_uid[0] = '\0';
		log_warn("%s", err.msg);
	}
	node_status_touch(dra->node);
}

static void on_answer(void *data, const struct kube_answer *answer)
{
	struct dra *dra = data;
	struct dra_prepared *p = dra_find(dra, dra->swept_uid);
	_cleanup_json_ json_t *object = NULL;

	dra->sweep_call = NULL;
	if (!p || p->is_busy || (answer->result < 0 && answer->result != -ENOENT) ||
		(answer->result >= 0 && kube_json_parse(answer->body, &object, NULL) < 0))
		return;
	if (object &&
		!strcmp(kube_json_text(json_object_get(object, "metadata"), "uid"), p->claim->uid))
		p->n_missed = 0;
	else if (++p->n_missed >= SWEEP_MISSED_MAX)
		end_claim(dra, p);
}

static void ask(struct dra *dra, const struct dra_claim *claim)
{
	const struct kube_write read = {
		.target = {"resource.k8s.io/v1", "resourceclaims", claim->space, claim->name, NULL},
		.done = on_answer,
		.data = dra,
		.ret_call = &dra->sweep_call,
	};
	struct error err;

	memcpy(dra->swept_uid, claim->uid, sizeof(dra->swept_uid));
	if (kube_read(dra->node->client, &read, &err) < 0)
		log_warn("claim %s/%s: %s", claim->space, claim->name, err.msg);
}

void dra_sweep(struct dra *dra, uint64_t now)
{
	struct dra_prepared *p, *next = NULL;

	if (now < dra->next_sweep_ns || dra->sweep_call || dra->ending_uid[0] ||
		!kube_cache_is_synced(dra->node->pods))
		return;
	dra->next_sweep_ns = now + SWEEP_NS;
	/* The claim that was asked about the longest time ago. */
	for (p = dra->claims; p; p = p->hh.next)
		if (!p->is_busy && (!next || p->swept_ns < next->swept_ns) &&
			(p->state == PREPARED_ENDING || !has_pod(dra->node, p->claim)))
			next = p;
	if (!next)
		return;
	next->swept_ns = now;
	if (next->state == PREPARED_ENDING)
		end_claim(dra, next);
	else
		ask(dra, next->claim);
}
