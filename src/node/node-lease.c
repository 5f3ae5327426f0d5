/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's Lease: shows that divvyd is alive, and what it has measured in the last 10 s. The
 * scheduler binds nothing to a node with a stale Lease.
 *
 * A change beyond what measured_differs() allows is written within a second, so that autoscalers
 * and people see a load when it comes. At most LEASE_EARLY_MAX such writes may come in a burst, and
 * one more each LEASE_REFILL_NS, whatever the tenants do. If the tenants' load is steady, only the
 * renewals are written.
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/agent-memory.h"
#include "agent/usage.h"
#include "base/log.h"
#include "kube/time.h"
#include "node/node-internal.h"
#include "spec/measured.h"

#define LEASE_RENEW_EACH_NS (10 * NSEC_PER_SEC)
#define LEASE_AGAIN_NS (2 * NSEC_PER_SEC)
#define LEASE_EARLY_MAX 10u
#define LEASE_REFILL_NS (5 * NSEC_PER_SEC)
#define LEASE_SECONDS 40
#define LEASE_GROUP "coordination.k8s.io/v1"

/*
 * Takes the Node from the owner references of the GPUNode, because divvyd may not read nodes. NULL:
 * unknown.
 */
static json_t *node_lease_owners(const struct node *node)
{
	const json_t *all = kube_json_at(node_gpunode(node), "metadata", "ownerReferences", NULL);
	const char *uid = kube_json_text_at(kube_json_find(all, "kind", "Node"), "uid", NULL);

	return uid ? json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "v1", "kind", "Node", "name",
			     node->options.name, "uid", uid)
		   : NULL;
}

/*
 * Adds the values in the order of GPUNode.status.tenants (format: spec/measured.h). Leaves out the
 * tenants whose values do not fit.
 */
static void node_lease_add_measured(struct node *node, uint64_t now, struct buf *out)
{
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct tenant *t = node_tenant(node, &node->slots[i]);
		struct measured m;

		if (!t)
			continue;
		m = (struct measured){.uid = str_from(t->pod->uid),
			.container = str_from(t->pod->container),
			.n = MIN(t->n, SPEC_DEVICES_MAX)};
		for (uint32_t k = 0; k < m.n; k++)
			m.device[k] = (struct measured_device){
				usage_permille(&t->devices[k], LEASE_RENEW_EACH_NS, now),
				memory_used(&t->devices[k])};
		if (measured_format(&m, out) < 0)
			return;
	}
}

/*
 * Without a tenant the annotation's value is null, which removes the annotation from the Lease.
 * NULL: no annotation needed.
 */
static json_t *node_lease_annotations(struct node *node, uint64_t now)
{
	_cleanup_buf_ struct buf measured = BUF_INIT(MEASURED_MAX);

	node_lease_add_measured(node, now, &measured);
	free(node->lease_measured);
	node->lease_measured = str_dup(buf_str(&measured));
	if (!measured.n && node->is_lease_missing)
		return NULL;
	return json_pack("{s:s?}", MEASURED_KEY, measured.n ? buf_text(&measured) : NULL);
}

void node_lease_look(struct node *node, uint64_t now)
{
	_cleanup_buf_ struct buf measured = BUF_INIT(MEASURED_MAX);

	if (now >= node->lease_refill_ns) {
		node->lease_early = MIN(node->lease_early + 1, LEASE_EARLY_MAX);
		node->lease_refill_ns = now + LEASE_REFILL_NS;
	}
	/* After a failed write, only lease_timer starts the next one, once the pause is over. */
	if (!node->lease_early || node->lease_call || !node->is_lease_current)
		return;
	node_lease_add_measured(node, now, &measured);
	if (!measured_differs(
		    str_from(node->lease_measured ? node->lease_measured : ""), buf_str(&measured)))
		return;
	node->lease_early--;
	loop_set_timer(&node->lease_timer, now);
}

static void node_lease_on_done(void *data, const struct kube_answer *answer)
{
	struct node *node = data;

	node->lease_call = NULL;
	node->is_lease_missing = answer->result == -ENOENT;
	node->is_lease_current = answer->result == 0;
	if (answer->result < 0 && !node->is_lease_missing)
		log_warn("Lease: %s", answer->error.msg);
	loop_set_timer(&node->lease_timer,
		clock_now_ns() +
			(answer->result == 0                     ? LEASE_RENEW_EACH_NS
					: node->is_lease_missing ? 0
								 : LEASE_AGAIN_NS));
}

static void node_lease_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct node *node = timer->data;
	const struct node_options *o = &node->options;
	struct kube_write write = {
		.target = {LEASE_GROUP, "leases", o->lease_space, o->name, NULL},
		.field_manager = NODE_FIELD_MANAGER,
		.timeout_ns = LEASE_RENEW_EACH_NS,
		.done = node_lease_on_done,
		.data = node,
		.ret_call = &node->lease_call,
	};
	_cleanup_json_ json_t *lease = NULL;
	struct error err;
	int r;

	if (node->lease_call)
		return;
	lease = json_pack("{s:s, s:s, s:{s:s, s:s, s:o*, s:o*}, s:{s:s, s:i, s:s}}", "apiVersion",
		LEASE_GROUP, "kind", "Lease", "metadata", "name", o->name, "namespace",
		o->lease_space, "ownerReferences", node_lease_owners(node), "annotations",
		node_lease_annotations(node, now), "spec", "holderIdentity",
		o->pod ? o->pod : o->name, "leaseDurationSeconds", LEASE_SECONDS, "renewTime",
		kube_time_format_micro(clock_real_ns()).s);
	if (node->is_lease_missing)
		write.target.name = NULL;
	r = !lease ? fail(&err, ENOMEM, "no memory")
		: node->is_lease_missing
		? kube_create(node->client, &write, lease, &err)
		: kube_patch(node->client, &write, KUBE_PATCH_MERGE, lease, &err);
	if (r < 0) {
		log_warn("Lease: %s", err.msg);
		loop_set_timer(timer, now + LEASE_AGAIN_NS);
	}
}

int node_lease_new(struct node *node)
{
	int r;

	node->lease_timer.data = node;
	node->lease_early = LEASE_EARLY_MAX;
	r = loop_add_timer(node->agent->loop, &node->lease_timer, node_lease_on_timer);
	if (r >= 0)
		loop_set_timer(&node->lease_timer, 0);
	return r;
}

void node_lease_free(struct node *node)
{
	kube_call_cancel(node->lease_call);
	loop_remove_timer(&node->lease_timer);
	free(node->lease_measured);
}
