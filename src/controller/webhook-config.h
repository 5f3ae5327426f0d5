/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes the webhooks of divvy's configurations: the authority to trust, the controller's
 * Service and namespace, and that namespace among the exclusions. API servers that know match
 * conditions also get the condition for new pods. So pods without keys of divvy or of a listed
 * dialect are created even while the controller is down.
 *
 * API servers call a webhook again only if its conditions held the first time. So a second hook,
 * which matches all pods that are no tenants and may fail, translates pods whose keys came from a
 * later webhook. Pure. Any thread.
 */
#ifndef CONTROLLER_WEBHOOK_CONFIG_H
#define CONTROLLER_WEBHOOK_CONFIG_H

#include "kube/kube-json.h"
#include "spec/dialect.h"

#define HOOK_CONDITION "asks-divvy" /* name of the match condition */
#define HOOK_PODS "pods.mutate.divvy.gpu"
#define HOOK_LATE "pods.mutate.late.divvy.gpu" /* made from HOOK_PODS */

struct hook_want {
	const char *bundle;       /* caBundle, in base64 */
	const char *service, *ns; /* the controller's own */
	const struct dialect_config
		*dialects; /* all dialects that any namespace lists; NULL: no conditions */
};

/*
 * An element of `webhooks` for a strategic merge patch, owned by the caller; NULL: the hook is
 * complete. -ENOMEM.
 */
int hook_patch(const json_t *hook, const struct hook_want *want, json_t **ret_patch);

/*
 * As hook_patch(), for HOOK_LATE. `hooks` is the list with HOOK_PODS. If the list lacks HOOK_LATE
 * and conditions are wanted, *ret_hook is the whole hook. Otherwise it has the selectors and rules
 * that differ from HOOK_PODS. NULL: nothing differs, or the list has no HOOK_PODS. -ENOMEM.
 */
int hook_late(const json_t *hooks, const struct hook_want *want, json_t **ret_hook);

/*
 * Elements for a whole configuration; the caller owns the array, NULL: nothing is missing. Write a
 * list without conditions (want->dialects is NULL) before one with them. -ENOMEM.
 */
int hook_patch_all(const json_t *hooks, const struct hook_want *want, json_t **ret_list);

/* Whether a hook of new pods has no condition, in a configuration that was just patched. */
bool hook_has_lost_conditions(const json_t *hooks);

/*
 * CEL that is true for new pods that the webhook must see. The caller owns the result; NULL: no
 * memory.
 */
json_t *hook_expression(const struct dialect_config *dialects);

#endif
