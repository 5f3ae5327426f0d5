/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes from cached objects what the controller never reads, such as the images of a node. In a
 * cluster of thousands of nodes these parts are most of the objects' size. Pure; any thread.
 */
#ifndef CONTROLLER_PRUNE_H
#define CONTROLLER_PRUNE_H

#include <jansson.h>

enum prune_kind { PRUNE_NODE, PRUNE_GPU_NODE, PRUNE_TENANT, PRUNE_KINDS };

/* PRUNE_TENANT: a pod that the webhook has translated. Other pods may be translated later. */
void prune_object(json_t *object, enum prune_kind kind);

#endif
