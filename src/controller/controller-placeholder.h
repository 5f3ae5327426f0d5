/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A placeholder: a pod that takes a whole device from another device plugin, and the program in the
 * pod. After a signal or its pod's deletion, the program goes on until GPUNode.status shows no
 * tenant on its device, so that no other pod gets the device earlier. If GPUNode.status does not
 * have the device, the program waits until the controller, which knows all pods, sets
 * PLACEHOLDER_RELEASED.
 */
#ifndef CONTROLLER_CONTROLLER_PLACEHOLDER_H
#define CONTROLLER_CONTROLLER_PLACEHOLDER_H

#include "base/program.h"
#include "controller/controller.h"
#include "manifest/placeholder.h"

/*
 * Annotation: the node whose device to take. A label's value would be too short for some nodes'
 * names. Placeholders of earlier versions have a label with this key.
 */
#define PLACEHOLDER_NODE "divvy.gpu/placeholder-of"
#define PLACEHOLDER_RESOURCE "nvidia.com/gpu"
#define PLACEHOLDER_GRACE_S 86400 /* grace period of the pod, so that tenants can end */

/*
 * Makes the pod. node: the node whose device to take; NULL: any node of the pool. The caller owns
 * the result; NULL: no memory.
 */
json_t *placeholder_pod(const char *name, const char *image, const char *node);

/*
 * Returns a merge patch for a placeholder that has got its node, so that no autoscaler keeps the
 * node for the placeholder; NULL if the pod needs none, or without memory. The caller owns the
 * result. node: the Node of that name; NULL: not known. Pure.
 */
json_t *placeholder_bound_patch(const json_t *pod, const json_t *node);

/*
 * Whether the GPUNode's status has the device of the placeholder `name`, and no tenant uses that
 * device. Pure.
 */
bool placeholder_is_unused(const json_t *gpu_node, const char *name);

/*
 * Runs the program until it may end. options->pod_name and the environment variable NODE_NAME name
 * its pod and node.
 */
int placeholder_run(const struct controller_options *options, struct program_signals *signals,
	struct error *err);

#endif
