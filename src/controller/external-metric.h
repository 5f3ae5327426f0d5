/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What external.metrics.k8s.io is told of pods with shares: some metrics, each a sum over those
 * that a request selects. Out of pods, GPUNodes and what Leases have measured; JSON in, JSON out.
 * Pure; any thread.
 */
#ifndef CONTROLLER_EXTERNAL_METRIC_H
#define CONTROLLER_EXTERNAL_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "kube/json.h"

#define EXTERNAL_METRIC_GROUP "external.metrics.k8s.io/v1beta1"

/* Shares in 1/1000 of a device. */
struct external_sum {
	uint64_t n_pods, n_waiting; /* with a wish, not ended; of these without a place or start */
	uint64_t granted;           /* request x devices, in force */
	uint64_t n_measured;        /* containers; of these: */
	uint64_t measured_granted, used, bytes;
};

/*
 * One more pod that is selected; who asks for no share, or has ended, counts nothing. gpu_node:
 * that of its node, NULL: it has none. measured: what that node's daemon has said last
 * (spec/measured.h), STR_NONE: nothing, or too long ago.
 */
void external_metric_add(
	struct external_sum *sum, const json_t *pod, const json_t *gpu_node, struct str measured);

struct external_metric;
/* NULL: there is no such metric. */
const struct external_metric *external_metric_find(struct str name);

/*
 * ExternalMetricValueList of one value; of none where nothing is selected, or nothing of it was
 * measured: not known is not 0. The caller's, as those below; NULL: out of memory.
 */
json_t *external_metric_list(
	const struct external_metric *metric, const struct external_sum *sum, uint64_t real_ns);

/* APIResourceList: what there is. */
json_t *external_metric_resources(void);

/* metav1.Status: why not. reason: "NotFound", "BadRequest", ... */
json_t *external_metric_refusal(int code, const char *reason, const char *message);

/* "no metric 'x': there are a, b and c" */
void external_metric_name_them(struct str name, struct buf *out);

#endif
