/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A placeholder: the pod that takes a whole device from another device plugin, and the program in
 * it. The program waits; told to end it goes on waiting until no tenant is left on its node that
 * has its device, as GPUNode.status says it, so that nobody else is given the device before. What
 * GPUNode.status does not know of the device is no reason to end: then the controller, which sees
 * the pods, has to have said so (PLACEHOLDER_RELEASED).
 */
#ifndef CONTROLLER_PLACEHOLDER_H
#define CONTROLLER_PLACEHOLDER_H

#include "base/program.h"
#include "controller/controller.h"
#include "manifest/placeholder.h"

#define PLACEHOLDER_NODE_LABEL "divvy.gpu/placeholder-of" /* the node it is meant for */
#define PLACEHOLDER_RESOURCE "nvidia.com/gpu"
#define PLACEHOLDER_GRACE_S 86400 /* for tenants to end */

/* node: the one it is meant for, NULL: any of the pool's. The caller's; NULL: out of memory. */
json_t *placeholder_pod(const char *name, const char *image, const char *node);

/* Has that GPUNode the device behind the placeholder, and no tenant on it? Pure. */
bool placeholder_is_unused(const json_t *gpu_node, const char *name);

/* The program: pod_name and the environment's NODE_NAME say who it is. Until it may end. */
int placeholder_run(const struct controller_options *options, struct program_signals *signals,
	struct error *err);

#endif
