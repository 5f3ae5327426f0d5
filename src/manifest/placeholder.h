/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What marks a placeholder: the pod that holds a whole device of another device plugin for divvy.
 * The controller makes them, divvyd finds their devices. Pure; any thread.
 */
#ifndef MANIFEST_PLACEHOLDER_H
#define MANIFEST_PLACEHOLDER_H

#include <stdbool.h>

#include "kube/json.h"

#define PLACEHOLDER_NAME "divvy-placeholder" /* label's value, account, priority class */
#define PLACEHOLDER_LABEL "app.kubernetes.io/name"
/* Set on one that is told to end, where divvyd does not say it, by who sees that nobody is left. */
#define PLACEHOLDER_RELEASED "divvy.gpu/released"

/* Is that pod one? ns: divvy's own namespace; who has the label elsewhere is none. */
bool placeholder_is_one(const json_t *pod, const char *ns);

#endif
