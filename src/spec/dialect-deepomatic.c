/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deepomatic's shared GPU: N containers share each device (100 unless the plugin was configured
 * otherwise), and nothing limits a container's part. divvy gives each container 1/N of the device,
 * as a guaranteed share of time and as a memory quota; the limit is 1. Pure; any thread.
 */
#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define KEY "deepomatic.com/shared-gpu"

static int deepomatic_translate(struct dialect_draft *draft, struct error *err)
{
	const uint32_t per_device = draft->config.deepomatic_per_device;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++) {
		uint64_t n = 0;
		struct spec spec;

		r = draft_resource(draft, i, KEY, per_device, &n, err);
		if (r <= 0 || !n) {
			r = MIN(r, 0);
			continue;
		}
		spec_init(&spec);
		spec.request = (uint32_t)(n * SPEC_SHARE_ONE / per_device);
		r = draft_add(draft, i, &spec, err);
	}
	return r;
}

static const struct dialect_key keys[] = {
	{KEY, DIALECT_RESOURCE, DIALECT_REQUESTS,
		"n: request and memory n/N of a device, limit 1; N is 100, or the N of "
		"deepomatic=N"},
	{NULL},
};

static const char *const differs[] = {
	"Each pod has its fraction of the memory and no more; the original separated nothing. Set"
	" N to the number of pods that really run together, since 1/100 of the memory is little.",
	"n above 1 is a larger fraction of one device. In the original it was n tickets for any "
	"devices.",
	NULL,
};

const struct dialect dialect_deepomatic = {
	.name = "deepomatic",
	.title = "Deepomatic's shared GPU",
	.coming = "Switch the dialect on as `deepomatic=N`. N is DP_NUMBER_CONTAINERS_PER_GPU or,"
		  " better, the number of pods that really run on one device.",
	.keys = keys,
	.differs = differs,
	.translate = deepomatic_translate,
};
