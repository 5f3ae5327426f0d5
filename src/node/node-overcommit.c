/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overcommitted device memory of tenants with memory policy wait or swap. GPUNode.spec may set the
 * limit. Otherwise the limit is the smallest that the policies of the tenants' namespaces allowed
 * when each tenant was granted. A memory quota that was granted stays granted when policies change.
 */
#include <errno.h>

#include "agent/device.h"
#include "core/ledger.h"
#include "manifest/policy.h"
#include "node/node-internal.h"

int overcommit_of(
	const struct node *node, const json_t *space, uint32_t *ret_overcommit, struct error *err)
{
	const char *name = kube_json_text_at(space, "metadata", "name", NULL);
	const json_t *labels = kube_json_at(space, "metadata", "labels", NULL);
	const struct kube_entry *e = NULL;
	uint32_t least = 0;

	if (!kube_cache_is_synced(node->policies))
		return fail(err, EAGAIN, "divvyd has not read the GPUPolicies yet");
	while (name && (e = kube_cache_next(node->policies, e))) {
		const json_t *spec = json_object_get(e->object, "spec");
		const uint32_t says = policy_overcommit_memory(spec);

		if (says && (!least || says < least) && policy_selects(spec, name, labels))
			least = says;
	}
	*ret_overcommit = least ? least : POLICY_OVERCOMMIT_ONCE;
	return 0;
}

void overcommit_set(struct node *node, const struct device *device, uint32_t overcommit)
{
	const uint32_t fixed = policy_overcommit_memory(
		json_object_get(node_gpunode(node), "spec"));
	uint32_t least = overcommit;
	const struct tenant *t;
	bool is_shared = overcommit;

	LIST_FOREACH(t, &node->agent->tenants, link) {
		if (t->is_ending || !t->pod || t->spec.memory_policy == SPEC_MEMORY_FAIL ||
			!node_is_tenant_on(t, device))
			continue;
		is_shared = true;
		if (t->pod->overcommit && (!least || t->pod->overcommit < least))
			least = t->pod->overcommit;
	}
	/*
	 * If only tenants without a stored limit overcommit, divvyd does not know their limit. The
	 * scheduler keeps to that limit, so the ledger allows the largest possible one.
	 */
	ledger_set_oversubscribe(device->ledger,
		fixed               ? fixed
			: least     ? least
			: is_shared ? POLICY_OVERCOMMIT_MAX
				    : POLICY_OVERCOMMIT_ONCE);
}
