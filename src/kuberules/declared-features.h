/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features that a kubelet declares in its node's status.declaredFeatures. A pod whose spec uses
 * such a feature fits only nodes that declare it: older kubelets would reject the pod. A set of
 * features is a bit mask; features that no pod's spec can use are left out.
 */
#ifndef KUBERULES_DECLARED_FEATURES_H
#define KUBERULES_DECLARED_FEATURES_H

#include <jansson.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

/* Returns the features that a pod's spec uses. */
uint32_t declared_features_used(json_t *spec);

/* Reads a node's list of features into a uint32_t. -EINVAL: it is no list. */
int declared_features_read(struct arena *arena, json_t *value, void *into, struct error *err);

/*
 * Returns the name of a feature in `used` that is not in `declared`; NULL: none. Kubernetes
 * 1.`minor` ignores features that later releases introduced.
 */
const char *declared_features_missing(uint32_t used, uint32_t declared, unsigned minor);

#endif
