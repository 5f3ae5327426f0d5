/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One webhook of divvy's configurations, as the controller completes it: the authority to trust,
 * the Service in the controller's own namespace, that namespace among the exclusions, and, where
 * API servers know match conditions, which new pods they ask about. So pods that say nothing of
 * divvy and of no listed dialect are created while the controller is down.
 *
 * API servers call a webhook again only if its conditions held the first time. So a second hook,
 * which asks about all pods that are no tenants and may fail, translates pods whose keys came
 * from a webhook that ran after divvy's. Pure. Any thread.
 */
#ifndef CONTROLLER_HOOK_H
#define CONTROLLER_HOOK_H

#include "kube/json.h"
#include "spec/dialect.h"

#define HOOK_CONDITION "asks-divvy" /* name of the match condition */
#define HOOK_PODS "pods.mutate.divvy.gpu"
#define HOOK_LATE "pods.mutate.late.divvy.gpu" /* made of HOOK_PODS */

struct hook_want {
	const char *bundle;       /* caBundle, in base64 */
	const char *service, *ns; /* the controller's own */
	const struct dialect_config
		*dialects; /* all that any namespace lists; NULL: no conditions */
};

/*
 * Element of `webhooks` for a strategic merge patch, the caller's; NULL where the hook has all.
 * -ENOMEM.
 */
int hook_patch(const json_t *hook, const struct hook_want *want, json_t **ret_patch);

/*
 * HOOK_LATE, of the list that has HOOK_PODS, likewise: the whole of it where the list lacks it and
 * conditions are wanted, else what differs in its selectors and rules from those of HOOK_PODS.
 * NULL where nothing differs, and where there is nothing to make it of.
 */
int hook_late(const json_t *hooks, const struct hook_want *want, json_t **ret_hook);

/*
 * The elements for a whole configuration: the array is the caller's, and NULL where nothing is
 * missing. A list without conditions (want->dialects is NULL) comes before one with them. -ENOMEM.
 */
int hook_patch_all(const json_t *hooks, const struct hook_want *want, json_t **ret_list);

/* Of a configuration that a patch has just given conditions: a hook of new pods has none. */
bool hook_has_lost_conditions(const json_t *hooks);

/* CEL, true for new pods that the webhook must see. The caller's; NULL: no memory. */
json_t *hook_expression(const struct dialect_config *dialects);

#endif
