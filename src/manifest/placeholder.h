/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to recognise a placeholder: a pod that takes a whole device from another device plugin, so
 * that divvy can use the device. The controller creates placeholders, and divvyd finds their
 * devices. Pure; any thread.
 */
#ifndef MANIFEST_PLACEHOLDER_H
#define MANIFEST_PLACEHOLDER_H

#include <stdbool.h>

#include "kube/kube-json.h"

/* value of PLACEHOLDER_LABEL; also the name of the service account and of the priority class */
#define PLACEHOLDER_NAME "divvy-placeholder"
#define PLACEHOLDER_LABEL "app.kubernetes.io/name"
/*
 * Annotation after which the placeholder's container may exit. The controller sets the annotation
 * when the device has no tenant left. A placeholder whose device GPUNode.status does not list waits
 * for the annotation.
 */
#define PLACEHOLDER_RELEASED "divvy.gpu/released"

/* Whether the pod is a placeholder: it has the label and is in ns, divvy's own namespace. */
bool placeholder_is_one(const json_t *pod, const char *ns);

#endif
