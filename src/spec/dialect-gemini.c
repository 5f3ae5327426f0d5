/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemini's requests as annotations. Gemini's published form is a file (gemini.h), which `divvy
 * apply` reads. In a cluster, Gemini's users wrote request, limit, memory and the labels of
 * KubeShare 1.0 as annotations with the prefix gemini/. Pure; any thread.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define P "gemini/"

static int gemini_translate(struct dialect_draft *draft, struct error *err)
{
	/*
	 * The memory key has two names, gpu_mem and gpu_memory; a pod may have only one of these
	 * keys.
	 */
	const bool is_long = draft_annotation(draft, P "gpu_memory");
	const struct dialect_fraction fraction = {
		P "gpu_request", P "gpu_limit", is_long ? P "gpu_memory" : P "gpu_mem"};
	struct spec spec;
	int r;

	if (is_long && draft_annotation(draft, P "gpu_mem"))
		return fail(err, EINVAL, P "gpu_mem and " P "gpu_memory: keep one of the two");
	r = draft_fraction(draft, &fraction, &spec, err);
	r = r < 0 ? r : draft_spec_label(draft, P "sched_affinity", spec.affinity, err);
	r = r < 0 ? r : draft_spec_label(draft, P "sched_anti-affinity", spec.anti_affinity, err);
	r = r < 0 ? r : draft_spec_label(draft, P "sched_exclusion", spec.exclusion, err);
	if (r < 0)
		return r;
	spec.has_exclusion = spec.exclusion[0];
	return draft_add_pod(draft, &spec, err);
}

static const struct dialect_key keys[] = {
	{P "gpu_request", DIALECT_ANNOTATION, DIALECT_REQUESTS,
		"request, 0 to 1; 0 is 0.001 in class opportunistic"},
	{P "gpu_limit", DIALECT_ANNOTATION, DIALECT_REQUESTS, "limit, request to 1"},
	{P "gpu_mem", DIALECT_ANNOTATION, DIALECT_REQUESTS, "memory, in bytes"},
	{P "gpu_memory", DIALECT_ANNOTATION, DIALECT_REQUESTS, "memory, in bytes"},
	{P "sched_affinity", DIALECT_ANNOTATION, DIALECT_READS, "affinity"},
	{P "sched_anti-affinity", DIALECT_ANNOTATION, DIALECT_READS, "anti-affinity"},
	{P "sched_exclusion", DIALECT_ANNOTATION, DIALECT_READS,
		"exclusion; the empty label counts as absent"},
	{NULL},
};

static const char *const differs[] = {
	"gpu_request 1.0 is an exclusive device.",
	"Shares are in steps of 0.001. Memory may be a quantity such as 1Gi.",
	NULL,
};

const struct dialect dialect_gemini = {
	.name = "gemini",
	.title = "Gemini",
	.coming = "Switch the dialect on. On the node, `divvy apply` takes a resource-config.txt."
		  " gem-schd, gem-pmgr and libgemhook are not needed. SharePods of kubeshare.nthu"
		  " with these annotations need `kubeshare` in the list too.",
	.prefix = P,
	.keys = keys,
	.differs = differs,
	.translate = gemini_translate,
};
