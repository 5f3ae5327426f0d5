/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GpuShare by Wang et al. (2023): annotations of a VirtualPod or a pod. A pod with a GPU has
 * request, limit, memory and priority. Priority 0 is guaranteed, 1 burstable, 2 best effort. The
 * placement policy `wang` (place-wang.c) has the rules about sharing a device; the three priorities
 * become the classes latency, standard and opportunistic. Pure; any thread.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define P "gpushare/"

static const struct dialect_fraction fraction = {P "gpu_request", P "gpu_limit", P "gpu_memory"};

static const enum spec_class classes[] = {SPEC_LATENCY, SPEC_STANDARD, SPEC_OPPORTUNISTIC};

static int wang_read_class(const struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	const struct str *text = draft_annotation(draft, P "resource_priority");

	if (!text)
		return fail(err, EINVAL,
			P "resource_priority is missing; expected 0 (guaranteed), 1 "
			  "(burstable) or 2 (best effort)");
	if (text->n != 1 || text->p[0] < '0' || text->p[0] > '2')
		return fail(err, EINVAL,
			P "resource_priority '%.*s': expected 0 (guaranteed), 1 "
			  "(burstable) or 2 (best effort)",
			(int)MIN(text->n, (size_t)48), text->p);
	spec->class = classes[text->p[0] - '0'];
	return 0;
}

static int wang_translate(struct dialect_draft *draft, struct error *err)
{
	struct spec spec;
	int r = draft_fraction(draft, &fraction, &spec, err);

	r = r < 0 ? r : wang_read_class(draft, &spec, err);
	r = r < 0 ? r : draft_vgpu(draft, P "GPUID", err);
	return r < 0 ? r : draft_add_pod(draft, &spec, err);
}

static int wang_write_back(struct dialect_writer *w)
{
	return writer_put_vgpu(w, P "GPUID", "deviceid", "podmanagerport");
}

static const struct dialect_key keys[] = {
	{P "gpu_request", DIALECT_ANNOTATION, DIALECT_REQUESTS, "request, 0 to 1; 0 is 0.001"},
	{P "gpu_limit", DIALECT_ANNOTATION, DIALECT_REQUESTS, "limit, request to 1"},
	{P "gpu_memory", DIALECT_ANNOTATION, DIALECT_REQUESTS, "memory, in bytes"},
	{P "resource_priority", DIALECT_ANNOTATION, DIALECT_REQUESTS,
		"class: 0 latency, 1 standard, 2 opportunistic"},
	{P "GPUID", DIALECT_ANNOTATION, DIALECT_READS,
		"with spec.nodeName: on the vGPU of that name"},
	{P "taskid", DIALECT_ANNOTATION, DIALECT_IGNORES, "the pod's own name is its id"},
	{P "GPUID", DIALECT_ANNOTATION, DIALECT_GIVES, "name of the vGPU"},
	{"deviceid", DIALECT_STATUS, DIALECT_GIVES, "UUID of the device"},
	{"podmanagerport", DIALECT_STATUS, DIALECT_GIVES, "always 0: divvy has no pod manager"},
	{NULL},
};

static const char *const differs[] = {
	"divvy refuses a missing or wrong value when the object is created. The original logged "
	"it, and the pod waited forever.",
	"The placement policy decides which classes may share a device: policy wang as the "
	"original, other policies by their own rules.",
	"A best-effort pod waits for the device only while a guaranteed pod wants the device, and"
	" not for a fixed time after it.",
	"gpu_request 1.0 is an exclusive device. Shares are in steps of 0.001.",
	NULL,
};

const struct dialect dialect_wang = {
	.name = "wang",
	.title = "GpuShare (Wang et al.)",
	.coming = "Switch the dialect on. The placement policy wang keeps the original's rules "
		  "about which classes share a device. Move annotations from the VirtualPod to "
		  "the pod or to its template.",
	.prefix = P,
	.keys = keys,
	.differs = differs,
	.translate = wang_translate,
	.write_back = wang_write_back,
};
