/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of pods with a share for external.metrics.k8s.io, each a sum over the pods that a request
 * selects. Input: pods, GPUNodes and the measurements in Leases; JSON in, JSON out. Pure; any
 * thread.
 */
#ifndef CONTROLLER_EXTERNAL_METRIC_H
#define CONTROLLER_EXTERNAL_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "kube/kube-json.h"

#define EXTERNAL_METRIC_GROUP "external.metrics.k8s.io/v1beta1"

/* Shares are 1/1000 of a device. */
struct external_sum {
	/* pods with a share that have not ended; those that wait for a place or their start */
	uint64_t n_pods, n_waiting;
	uint64_t granted; /* request x devices, as granted */
	/* containers with a measurement; the next fields are sums over these */
	uint64_t n_measured;
	uint64_t measured_granted, used, bytes;
};

/*
 * Adds one selected pod; a pod without a share, or one that has ended, adds nothing. gpu_node: of
 * the pod's node, NULL: none. measured: the node daemon's latest measurements (spec/measured.h);
 * STR_NONE: none or too old.
 */
void external_metric_add(
	struct external_sum *sum, const json_t *pod, const json_t *gpu_node, struct str measured);

struct external_metric;
/* NULL: no such metric. */
const struct external_metric *external_metric_find(struct str name);

/*
 * An ExternalMetricValueList with one value. It is empty if no pod is selected or none was
 * measured, because unknown is not 0. The caller owns this JSON and those below; NULL: no memory.
 */
json_t *external_metric_list(
	const struct external_metric *metric, const struct external_sum *sum, uint64_t real_ns);

/* An APIResourceList of all metrics. */
json_t *external_metric_resources(void);

/* A metav1.Status with an error. reason: "NotFound", "BadRequest", ... */
json_t *external_metric_refusal(int code, const char *reason, const char *message);

/* "no metric 'x': there are a, b and c" */
void external_metric_name_them(struct str name, struct buf *out);

#endif
