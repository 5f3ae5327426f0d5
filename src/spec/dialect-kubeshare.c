/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 1.0: annotations of a SharePod or a pod. A pod with a GPU has all three of request,
 * limit and memory. An empty exclusion label is the same as none. Pure; any thread.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define P "kubeshare/"

static const struct dialect_fraction fraction = {P "gpu_request", P "gpu_limit", P "gpu_mem"};

static int kubeshare_read_labels(struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	int r = draft_spec_label(draft, P "sched_affinity", spec->affinity, err);

	r = r < 0 ? r : draft_spec_label(draft, P "sched_anti-affinity", spec->anti_affinity, err);
	r = r < 0 ? r : draft_spec_label(draft, P "sched_exclusion", spec->exclusion, err);
	spec->has_exclusion = spec->exclusion[0];
	return r;
}

static int kubeshare_translate(struct dialect_draft *draft, struct error *err)
{
	struct spec spec;
	int r = draft_fraction(draft, &fraction, &spec, err);

	r = r < 0 ? r : kubeshare_read_labels(draft, &spec, err);
	r = r < 0 ? r : draft_vgpu(draft, P "GPUID", err);
	return r < 0 ? r : draft_add_pod(draft, &spec, err);
}

static int kubeshare_write_back(struct dialect_writer *w)
{
	return writer_put_vgpu(w, P "GPUID", "BoundDeviceID", "PodManagerPort");
}

static const struct dialect_key keys[] = {
	{P "gpu_request", DIALECT_ANNOTATION, DIALECT_REQUESTS,
		"request, 0 to 1; 0 is 0.001 in class opportunistic"},
	{P "gpu_limit", DIALECT_ANNOTATION, DIALECT_REQUESTS, "limit, request to 1"},
	{P "gpu_mem", DIALECT_ANNOTATION, DIALECT_REQUESTS, "memory, in bytes"},
	{P "sched_affinity", DIALECT_ANNOTATION, DIALECT_READS, "affinity"},
	{P "sched_anti-affinity", DIALECT_ANNOTATION, DIALECT_READS, "anti-affinity"},
	{P "sched_exclusion", DIALECT_ANNOTATION, DIALECT_READS,
		"exclusion; the empty label counts as absent"},
	{P "GPUID", DIALECT_ANNOTATION, DIALECT_READS,
		"with spec.nodeName: on the vGPU of that name"},
	{P "GPUID", DIALECT_ANNOTATION, DIALECT_GIVES, "name of the vGPU"},
	{"BoundDeviceID", DIALECT_STATUS, DIALECT_GIVES, "UUID of the device"},
	{"PodManagerPort", DIALECT_STATUS, DIALECT_GIVES, "always 0: divvy has no pod manager"},
	{NULL},
};

static const char *const differs[] = {
	"divvy refuses a missing, wrong or out-of-range value when the object is created. "
	"KubeShare's controller only logged the value, and the SharePod did not change.",
	"gpu_request 1.0 is an exclusive device. KubeShare could put a SharePod with request 0 "
	"beside it.",
	"Shares are in steps of 0.001. gpu_mem may be a quantity such as 1Gi.",
	"A pod with an affinity label waits when the label's device is full. KubeShare put the "
	"pod on another device, apart from the others of its label.",
	"The default container gets the share, or each of the containers that divvy.gpu/container"
	" names gets as much. In KubeShare all containers of a pod used one share together.",
	"A pod that is no SharePod names its node for a GPUID in nodeSelector "
	"(kubernetes.io/hostname). divvy refuses a pod with spec.nodeName, since it bypasses the "
	"scheduler.",
	"The name of a vGPU without pods is free again. The next pod with that name gets a device"
	" without tenants.",
	NULL,
};

static const char *const schedulers[] = {"kubeshare-scheduler", NULL};

const struct dialect dialect_kubeshare = {
	.name = "kubeshare",
	.title = "KubeShare 1.0",
	.coming = "Switch the dialect on. Pods and templates with these annotations then run "
		  "unchanged, also in Deployments and Jobs, which SharePods could not do. "
		  "SharePods of kubeshare.nthu/v1 need the definition of that kind: "
		  "deploy/kubeshare or deploy/chart-kubeshare.",
	.prefix = P,
	.schedulers = schedulers,
	.keys = keys,
	.differs = differs,
	.translate = kubeshare_translate,
	.write_back = kubeshare_write_back,
};
