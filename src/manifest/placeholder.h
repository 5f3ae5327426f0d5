/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of a placeholder: the pod that holds a whole device of another device plugin for divvy. The
 * controller creates placeholders, and divvyd finds their devices. Pure; any thread.
 */
#ifndef MANIFEST_PLACEHOLDER_H
#define MANIFEST_PLACEHOLDER_H

#include <stdbool.h>

#include "kube/kube-json.h"

/* value of the label, service account, priority class */
#define PLACEHOLDER_NAME "divvy-placeholder"
#define PLACEHOLDER_LABEL "app.kubernetes.io/name"
/*
 * Annotation that lets a placeholder end. The controller sets it when the device has no tenant
 * left. The placeholder needs it if GPUNode.status does not know the device.
 */
#define PLACEHOLDER_RELEASED "divvy.gpu/released"

/* Whether the pod is a placeholder: it has the label and is in ns, divvy's own namespace. */
bool placeholder_is_one(const json_t *pod, const char *ns);

#endif
