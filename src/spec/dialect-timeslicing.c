/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas of a device, which NVIDIA's device plugin offers as nvidia.com/gpu.shared if it shares
 * devices by time-slicing or MPS and renames them (renameByDefault). timeslicing=N says that a
 * device has N replicas. One replica is 1/N of the device's time and memory here, as with MPS.
 * Pure; any thread.
 */
#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define KEY "nvidia.com/gpu.shared"

static int timeslicing_translate(struct dialect_draft *draft, struct error *err)
{
	const uint32_t replicas = draft->config.timeslicing_replicas;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++) {
		uint64_t n = 0;
		struct spec spec;

		r = draft_resource(draft, i, KEY, replicas, &n, err);
		if (r <= 0 || !n) {
			r = MIN(r, 0);
			continue;
		}
		spec_init(&spec);
		spec.request = (uint32_t)(n * SPEC_SHARE_ONE / replicas);
		r = draft_add(draft, i, &spec, err);
	}
	return r;
}

static const struct dialect_key keys[] = {
	{KEY, DIALECT_RESOURCE, DIALECT_REQUESTS,
		"n: request and memory n/N of one device, limit 1; N: that device alone"},
	{NULL},
};

static const char *const differs[] = {
	"A replica has 1/N of the device's memory, and no more. Time-slicing limits no memory: if "
	"programs need more, set a smaller N, or use divvy.gpu/request and divvy.gpu/memory.",
	"n replicas are one larger part of one device. With NVIDIA's plugin they are n tickets, for "
	"any devices, and no larger part.",
	"If the plugin does not rename (renameByDefault: false), a replica is nvidia.com/gpu, which "
	"divvy cannot tell from a whole device. Write divvy.gpu/request into such pods.",
	"1/N is rounded down to 0.001.",
	NULL,
};

const struct dialect dialect_timeslicing = {
	.name = "timeslicing",
	.title = "nvidia.com/gpu.shared",
	.coming =
		"Switch the dialect on as `timeslicing=N`. N is `replicas` in the configuration of "
		"NVIDIA's device plugin. Without this dialect such pods stay unchanged, and need "
		"that plugin.",
	.is_native = true,
	.keys = keys,
	.differs = differs,
	.translate = timeslicing_translate,
};
