/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes the webhooks in divvy's configurations: the authority to trust, the controller's
 * Service and namespace, and the exclusion of that namespace. If the API server supports match
 * conditions, the webhooks for new pods also get a condition. Pods without keys of divvy or of an
 * enabled dialect are then created even while the controller is down. The hook for Leases gets a
 * condition too: the webhook need not see the Lease of a divvyd's own node.
 *
 * Another webhook may add such keys after divvy's webhook did not match. API servers do not call a
 * webhook again whose conditions failed the first time. So a second hook, HOOK_LATE, matches all
 * pods that are not tenants yet. Pods are created also if this hook fails. Pure. Any thread.
 */
#ifndef CONTROLLER_WEBHOOK_CONFIG_H
#define CONTROLLER_WEBHOOK_CONFIG_H

#include "kube/kube-json.h"
#include "spec/dialect.h"

#define HOOK_CONDITION "asks-divvy" /* name of the match condition */
#define HOOK_PODS "pods.mutate.divvy.gpu"
#define HOOK_LEASES "leases.divvy.gpu"
#define HOOK_LEASES_CONDITION "of-another-node" /* name of its match condition */
#define HOOK_LATE "pods.mutate.late.divvy.gpu"  /* a hook that hook_late() makes from HOOK_PODS */

struct hook_want {
	const char *bundle;       /* caBundle, in base64 */
	const char *service, *ns; /* name and namespace of the controller's Service */
	const struct dialect_config
		*dialects; /* all dialects that any namespace enables; NULL: no match conditions */
};

/*
 * Makes an element of `webhooks` for a strategic merge patch, owned by the caller; NULL: the hook
 * is complete. -ENOMEM.
 */
int hook_patch(const json_t *hook, const struct hook_want *want, json_t **ret_patch);

/*
 * Like hook_patch(), for HOOK_LATE. `hooks` is the list with HOOK_PODS. If the list lacks HOOK_LATE
 * and conditions are wanted, *ret_hook is the whole hook. Otherwise *ret_hook has the selectors and
 * rules that must follow HOOK_PODS. NULL: nothing differs, or the list has no HOOK_PODS. -ENOMEM.
 */
int hook_late(const json_t *hooks, const struct hook_want *want, json_t **ret_hook);

/*
 * Makes the elements for all hooks of a configuration; the caller owns the array, NULL: nothing is
 * missing. Write a list without conditions (want->dialects NULL) before a list with conditions.
 * -ENOMEM.
 */
int hook_patch_all(const json_t *hooks, const struct hook_want *want, json_t **ret_list);

/*
 * Whether the API server has dropped the conditions: in a configuration that was just patched, a
 * hook for new pods has none.
 */
bool hook_has_lost_conditions(const json_t *hooks);

/*
 * Returns a CEL expression that is true for new pods that the webhook must see. The caller owns the
 * result; NULL: no memory.
 */
json_t *hook_expression(const struct dialect_config *dialects);

#endif
