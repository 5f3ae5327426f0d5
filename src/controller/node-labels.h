/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of a node by which pods select devices: model, memory and number of devices, and the
 * driver's version, under divvy's names and under those of NVIDIA's gpu-feature-discovery. The
 * annotation NODE_LABELS_RECORD lists what divvy has written. Pure functions, any thread.
 */
#ifndef CONTROLLER_NODE_LABELS_H
#define CONTROLLER_NODE_LABELS_H

#include <jansson.h>

/* "KEY=VALUE,KEY=VALUE": the labels of the node that divvy has written. */
#define NODE_LABELS_RECORD "divvy.gpu/labels"

/*
 * Returns a merge patch of the node that adds, changes and removes divvy's labels, as the caller's
 * reference; NULL if the node needs none, or without memory. A GPUNode without status.devices
 * changes no label. gpu_node NULL: divvy has left the node, so the patch removes divvy's labels.
 * The patch holds the node's resourceVersion, so the API
 * server refuses the patch after a concurrent change.
 */
json_t *node_labels_patch(const json_t *node, const json_t *gpu_node);

#endif
