/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 1.0: annotations of a SharePod, and of a pod. request, limit and memory are all there
 * or it is no pod with a GPU; the exclusion label that is not given and the empty one are the same.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define P "kubeshare/"

static const struct dialect_fraction fraction = {P "gpu_request", P "gpu_limit", P "gpu_mem"};

static int read_labels(struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	int r = draft_spec_label(draft, P "sched_affinity", spec->affinity, err);

	r = r < 0 ? r : draft_spec_label(draft, P "sched_anti-affinity", spec->anti_affinity, err);
	r = r < 0 ? r : draft_spec_label(draft, P "sched_exclusion", spec->exclusion, err);
	spec->has_exclusion = spec->exclusion[0];
	return r;
}

static int translate(struct dialect_draft *draft, struct error *err)
{
	struct spec spec;
	int r = draft_fraction(draft, &fraction, &spec, err);

	r = r < 0 ? r : read_labels(draft, &spec, err);
	r = r < 0 ? r : draft_vgpu(draft, P "GPUID", err);
	return r < 0 ? r : draft_add_pod(draft, &spec, err);
}

static int write_back(struct dialect_writer *w)
{
	return writer_put_vgpu(w, P "GPUID", "BoundDeviceID", "PodManagerPort");
}

static const struct dialect_key keys[] = {
	{P "gpu_request", DIALECT_ANNOTATION, DIALECT_ASKS,
		"request, 0 to 1; 0 is 0.001 in class opportunistic"},
	{P "gpu_limit", DIALECT_ANNOTATION, DIALECT_ASKS, "limit, request to 1"},
	{P "gpu_mem", DIALECT_ANNOTATION, DIALECT_ASKS, "memory, in bytes"},
	{P "sched_affinity", DIALECT_ANNOTATION, DIALECT_READS, "affinity"},
	{P "sched_anti-affinity", DIALECT_ANNOTATION, DIALECT_READS, "anti-affinity"},
	{P "sched_exclusion", DIALECT_ANNOTATION, DIALECT_READS,
		"exclusion; the empty label is none"},
	{P "GPUID", DIALECT_ANNOTATION, DIALECT_READS,
		"with spec.nodeName: on the vGPU of that name"},
	{P "GPUID", DIALECT_ANNOTATION, DIALECT_GIVES, "name of the vGPU"},
	{"BoundDeviceID", DIALECT_STATUS, DIALECT_GIVES, "UUID of the device"},
	{"PodManagerPort", DIALECT_STATUS, DIALECT_GIVES,
		"0: there is no pod manager, and no port to it"},
	{NULL},
};

static const char *const differs[] = {
	"A value that is missing, wrong or out of its range is refused when the object is made; it "
	"used to be logged by the controller, and the SharePod stayed as it was without a word.",
	"gpu_request 1.0 is a whole device, shared with nobody; a SharePod with request 0 could be "
	"put beside it.",
	"Shares are in steps of 0.001. gpu_mem may be a quantity such as 1Gi.",
	"A pod that asks for an affinity label waits when the label's device is full. It was put "
	"on another device, away from the others of its label.",
	"The default container gets the share, or those that divvy.gpu/container names, each as "
	"much. All containers of a pod used to draw from one.",
	"A pod that is no SharePod names its node with a GPUID in nodeSelector "
	"(kubernetes.io/hostname): who sets spec.nodeName goes past the scheduler, and is refused.",
	"The name of a vGPU without pods is free again: who asks for it next gets a device that "
	"nobody is on.",
	NULL,
};

const struct dialect dialect_kubeshare = {
	.name = "kubeshare",
	.title = "KubeShare 1.0",
	.coming = "Switch the dialect on; pods and templates with these annotations then run as "
		  "they are, also in Deployments and Jobs, which SharePods could not. SharePods of "
		  "kubeshare.nthu/v1 need the chart for that kind.",
	.prefix = P,
	.keys = keys,
	.differs = differs,
	.translate = translate,
	.write_back = write_back,
};
