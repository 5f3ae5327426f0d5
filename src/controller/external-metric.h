/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes metrics of pods with a share for external.metrics.k8s.io. Each metric is a sum over the
 * pods that a request selects. Input: the JSON of pods and GPUNodes, and the measurements in
 * Leases. Output: JSON. Pure; any thread.
 */
#ifndef CONTROLLER_EXTERNAL_METRIC_H
#define CONTROLLER_EXTERNAL_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "kube/kube-json.h"

#define EXTERNAL_METRIC_API "external.metrics.k8s.io"
#define EXTERNAL_METRIC_VERSION "v1beta1"
#define EXTERNAL_METRIC_GROUP EXTERNAL_METRIC_API "/" EXTERNAL_METRIC_VERSION

/* Shares are 1/1000 of a device. */
struct external_sum {
	/*
	 * n_pods: pods with a share that have not ended. n_waiting: those of them that wait for a
	 * place or for their start.
	 */
	uint64_t n_pods, n_waiting;
	uint64_t granted; /* sum over the containers: granted request times number of devices */
	/*
	 * number of containers with a measurement; the fields below are sums over these containers
	 */
	uint64_t n_measured;
	uint64_t measured_granted, used, bytes;
};

/*
 * Adds one selected pod. A pod without a share, or one that has ended, adds nothing. gpu_node: the
 * GPUNode of the pod's node; NULL: none. measured: the latest measurements of that node's divvyd
 * (spec/measured.h); STR_NONE: none or too old.
 */
void external_metric_add(
	struct external_sum *sum, const json_t *pod, const json_t *gpu_node, struct str measured);

struct external_metric;
/* NULL: no such metric. */
const struct external_metric *external_metric_find(struct str name);

/*
 * Returns an ExternalMetricValueList with one value. The list is empty if no pod is selected or no
 * pod was measured, because an unknown value is not 0. The caller owns this JSON and those below;
 * NULL: no memory.
 */
json_t *external_metric_list(
	const struct external_metric *metric, const struct external_sum *sum, uint64_t real_ns);

/* Returns an APIResourceList of all metrics. */
json_t *external_metric_resources(void);

/* Returns the group's APIGroup. */
json_t *external_metric_group(void);

/*
 * Returns the list of groups, for GET /apis. accept: the request's header Accept; may be NULL. A
 * client that knows aggregated discovery (API servers since 1.27) names APIGroupDiscoveryList there
 * in the versions that it reads, and gets the newest of them. Other clients get an APIGroupList.
 * ret_content_type: static.
 */
json_t *external_metric_groups(const char *accept, const char **ret_content_type);

/* Returns a metav1.Status with an error. reason: a reason of Kubernetes, such as "NotFound". */
json_t *external_metric_refusal(int code, const char *reason, const char *message);

/* Appends a message such as "no metric 'x': there are a, b and c". */
void external_metric_name_them(struct str name, struct buf *out);

#endif
