/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether and when a SharePod gets another pod. A kubelet since Kubernetes 1.25 rejects the
 * pods of a restarted node for good, since no device plugin has registered yet. An eviction or a
 * shutdown of the node fails a pod too. A pod that always restarts its containers does not end by
 * itself, so another pod follows. The count of failed pods in a row is in the pod's annotation
 * DIALECT_REPLACED_KEY, where another controller finds it. Pure. Any thread.
 */
#ifndef CONTROLLER_SHARE_POD_REPLACE_H
#define CONTROLLER_SHARE_POD_REPLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "kube/kube-json.h"

/* The least time between two pods; doubled for each further pod, as for containers in a kubelet. */
#define SHARE_POD_REPLACE_NS (10 * NSEC_PER_SEC)
#define SHARE_POD_REPLACE_MAX_NS (300 * NSEC_PER_SEC)
/* A pod of this age ends the row of failed pods: twice the longest delay, as in a kubelet. */
#define SHARE_POD_REPLACE_RESET_NS (600 * NSEC_PER_SEC)
#define SHARE_POD_REPLACE_COUNT_MAX 1000000u
#define SHARE_POD_REPLACE_TEXT 768u /* bytes of a sentence, with the terminating 0 */

/* Whether another pod follows this one, which the node, an eviction or a deletion has ended. */
bool share_pod_is_replaced(const json_t *pod);

/* When the next pod may follow, in ns since 1970. 0: the pod has no valid time of creation. */
uint64_t share_pod_replace_due_ns(const json_t *pod);

/* Writes the count of failed pods in a row into the next pod. -ENOMEM. */
int share_pod_replace_count(const json_t *pod, uint64_t real_ns, json_t *next);

/* The pod's name, node and failure: "pod a failed on node b, Evicted: disk is full". UTF-8. */
void share_pod_replace_cause(const json_t *pod, char ret[static SHARE_POD_REPLACE_TEXT]);

#endif
