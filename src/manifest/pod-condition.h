/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the conditions that divvy-scheduler writes on pods, beside PodScheduled. */
#ifndef MANIFEST_POD_CONDITION_H
#define MANIFEST_POD_CONDITION_H

/* True or False: whether the last resize request was accepted. */
#define POD_CONDITION_GRANTED "divvy.gpu/Granted"
/*
 * True: the pod waits for a device, so that a further device might help. False or missing: it does
 * not wait, or for something else, such as a policy, a queue's quota or a volume. The controller
 * takes devices of a pool for pods with True.
 */
#define POD_CONDITION_NEEDS_DEVICE "divvy.gpu/NeedsDevice"

#endif
