/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A placeholder: a pod that takes a whole device from another device plugin, and the program in the
 * pod. The program waits. When asked to end, it goes on until GPUNode.status shows no tenant on its
 * device, so that no other pod gets the device earlier. If GPUNode.status does not
 * know the device, the program waits for the controller, which sees the pods
 * (PLACEHOLDER_RELEASED).
 */
#ifndef CONTROLLER_CONTROLLER_PLACEHOLDER_H
#define CONTROLLER_CONTROLLER_PLACEHOLDER_H

#include "base/program.h"
#include "controller/controller.h"
#include "manifest/placeholder.h"

#define PLACEHOLDER_NODE_LABEL "divvy.gpu/placeholder-of" /* the intended node */
#define PLACEHOLDER_RESOURCE "nvidia.com/gpu"
#define PLACEHOLDER_GRACE_S 86400 /* time for tenants to end */

/*
 * node: the intended one, NULL: any node of the pool. The caller owns the result; NULL: no memory.
 */
json_t *placeholder_pod(const char *name, const char *image, const char *node);

/* Whether that GPUNode knows the placeholder's device, and no tenant uses it. Pure. */
bool placeholder_is_unused(const json_t *gpu_node, const char *name);

/* Runs the program until it may end. pod_name and the environment's NODE_NAME identify it. */
int placeholder_run(const struct controller_options *options, struct program_signals *signals,
	struct error *err);

#endif
