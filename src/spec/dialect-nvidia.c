/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain `nvidia.com/gpu`: whole devices. If this dialect is off, such pods belong to NVIDIA's
 * device plugin and stay unchanged. MIG instances and renamed replicas have dialects of their own.
 * Pure; any thread.
 */
#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define KEY "nvidia.com/gpu"

/*
 * Whether the dialect hami translates the container: that dialect is on, and the container has a
 * resource that only HAMi knows.
 */
static bool is_hami(const struct dialect_draft *draft, uint32_t container)
{
	return dialect_is_on(&draft->config, &dialect_hami) &&
		(draft_has_resource(draft, container, "nvidia.com/gpumem") ||
			draft_has_resource(draft, container, "nvidia.com/gpumem-percentage") ||
			draft_has_resource(draft, container, "nvidia.com/gpucores"));
}

static int nvidia_translate(struct dialect_draft *draft, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++) {
		uint64_t n = 0;
		struct spec spec;

		if (is_hami(draft, i))
			continue;
		r = draft_resource(draft, i, KEY, SPEC_DEVICES_MAX, &n, err);
		if (r <= 0 || !n) {
			r = MIN(r, 0);
			continue;
		}
		spec_init(&spec);
		spec.request = (uint32_t)n * SPEC_SHARE_ONE;
		r = draft_add(draft, i, &spec, err);
	}
	return r;
}

static const struct dialect_key keys[] = {
	{KEY, DIALECT_RESOURCE, DIALECT_REQUESTS, "request: that many whole devices"},
	{NULL},
};

static const char *const differs[] = {
	"The dialect has an effect only where it is switched on. Elsewhere the resource keeps its"
	" meaning.",
	NULL,
};

const struct dialect dialect_nvidia = {
	.name = "nvidia",
	.title = "nvidia.com/gpu",
	.coming = "On nodes without divvy and on nodes with the label `divvy.gpu/owner=pool`, no "
		  "change is necessary: such pods run as before, on devices of their own. On nodes "
		  "with the label `divvy.gpu/owner=divvy`, no device plugin serves `nvidia.com/gpu`"
		  ", so such pods need the dialect there. If you switch the dialect on, divvy "
		  "places them too: in groups, with preemption, and where they fragment least.",
	.is_native = true,
	.keys = keys,
	.differs = differs,
	.translate = nvidia_translate,
};
