/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GaiaGPU: Tencent's gpu-manager and gpu-admission. vcuda-core is percent of one device, or a
 * multiple of 100 for whole devices. vcuda-core is also the limit, unless the annotation
 * vcuda-core-limit raises the limit. Pure; any thread.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "spec/dialect-internal.h"

#define P "tencent.com/"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p ? (s).p : ""
#define MEMORY_UNIT (256 * DIALECT_MIB)
#define CORE_ONE 100u
#define CORES_MAX (SPEC_DEVICES_MAX * CORE_ONE)

/* *ret_limit is 0 without the annotation. */
static int gaiagpu_read_limit(
	const struct dialect_draft *draft, uint64_t *ret_limit, struct error *err)
{
	const struct str *text = draft_annotation(draft, P "vcuda-core-limit");

	*ret_limit = 0;
	if (text && parse_uint(*text, 1, CORE_ONE, ret_limit, NULL) < 0)
		return fail(err, EINVAL,
			P "vcuda-core-limit '" SHOW "': expected vcuda-core to 100 (percent)",
			SHOWN(*text));
	return 0;
}

static int gaiagpu_set_share(
	struct spec *spec, uint64_t core, uint64_t memory, uint64_t limit, struct error *err)
{
	if (!memory)
		return fail(err, EINVAL,
			P "vcuda-memory is missing; " P
			  "vcuda-core %llu, which is below 100, requires it; set memory "
			  "in units of 256 MiB",
			(unsigned long long)core);
	if (limit && limit < core)
		return fail(err, EINVAL,
			P "vcuda-core-limit '%llu': below " P "vcuda-core %llu; expected %llu "
			  "to 100",
			(unsigned long long)limit, (unsigned long long)core,
			(unsigned long long)core);
	spec->request = (uint32_t)core * 10;
	spec->limit = (uint32_t)(limit ? limit : core) * 10;
	spec->memory_bytes = memory * MEMORY_UNIT;
	return 0;
}

static int gaiagpu_add_container(
	struct dialect_draft *draft, uint32_t container, uint64_t limit, struct error *err)
{
	uint64_t core = 0, memory = 0;
	struct spec spec;
	int r = draft_resource(draft, container, P "vcuda-core", CORES_MAX, &core, err);

	if (r >= 0)
		r = draft_resource(
			draft, container, P "vcuda-memory", INT64_MAX / MEMORY_UNIT, &memory, err);
	if (r < 0 || (!core && !memory))
		return MIN(r, 0);
	if (!core)
		return fail(err, EINVAL,
			P "vcuda-core is missing; " P
			  "vcuda-memory requires it; set 1 to 99, or a multiple of 100");
	spec_init(&spec);
	if (core < CORE_ONE) {
		r = gaiagpu_set_share(&spec, core, memory, limit, err);
		return r < 0 ? r : draft_add(draft, container, &spec, err);
	}
	if (core % CORE_ONE)
		return fail(err, EINVAL,
			P "vcuda-core %llu: values above 100 are whole devices; expected "
			  "1 to 99, or 100, 200 ... %u",
			(unsigned long long)core, CORES_MAX);
	spec.request = (uint32_t)(core / CORE_ONE) * SPEC_SHARE_ONE;
	return draft_add(draft, container, &spec, err);
}

static int gaiagpu_translate(struct dialect_draft *draft, struct error *err)
{
	uint64_t limit;
	int r = gaiagpu_read_limit(draft, &limit, err);

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++)
		r = gaiagpu_add_container(draft, i, limit, err);
	return r;
}

/*
 * The index of the container among the main containers, which is the index in GaiaGPU's own
 * keys.
 */
static uint32_t main_number(const struct manifest *pod, uint32_t container)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < container; i++)
		n += pod->container[i].kind == MANIFEST_MAIN;
	return n;
}

static const struct dialect_step running[] = {{P "gpu-assigned", "false", "true"}, {NULL}};

static int gaiagpu_write_back(struct dialect_writer *w)
{
	int r = 0;

	for (uint32_t i = writer_next(w, 0); r >= 0 && i < w->result->n_tenants;
		i = writer_next(w, i + 1)) {
		const uint32_t c = w->result->tenant[i].container;
		char key[64];

		if (w->pod->container[c].kind != MANIFEST_MAIN)
			continue;
		snprintf(key, sizeof(key), P "predicate-gpu-idx-%u", main_number(w->pod, c));
		r = writer_put_list(w, i, WRITER_INDEXES, DIALECT_ANNOTATION, MANIFEST_NONE, key);
	}
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "predicate-node", "%s",
			    w->given->node);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "predicate-time", "%llu",
			    (unsigned long long)w->given->time_ns);
	return r < 0 ? r
		     : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, running[0].key, "%s",
			       running[0].before);
}

static const struct dialect_key keys[] = {
	{P "vcuda-core", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"request and limit, 1 to 99 percent of a device; 100, 200, ...: whole devices"},
	{P "vcuda-memory", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory, in 256 MiB; required with a vcuda-core below 100, otherwise without effect"},
	{P "vcuda-core-limit", DIALECT_ANNOTATION, DIALECT_READS,
		"limit, vcuda-core to 100 percent, for every container below 100"},
	{P "predicate-gpu-idx-", DIALECT_ANNOTATION, DIALECT_GIVES,
		"followed by the container's number: indexes of its devices"},
	{P "predicate-node", DIALECT_ANNOTATION, DIALECT_GIVES, "node of the pod"},
	{P "predicate-time", DIALECT_ANNOTATION, DIALECT_GIVES, "time of placement, ns since 1970"},
	{P "gpu-assigned", DIALECT_ANNOTATION, DIALECT_GIVES, "true once the pod runs"},
	{NULL},
};

static const char *const differs[] = {
	"divvy shares time, not grid blocks. Small kernels are held to their share, and a request"
	" is a guarantee.",
	"divvy refuses vcuda-core below 100 without vcuda-memory, and the reverse. GaiaGPU took "
	"such a pod for a pod without a GPU. divvy refuses 150 when the pod is created.",
	"vcuda-core 100 is an exclusive device with all of its memory.",
	NULL,
};

const struct dialect dialect_gaiagpu = {
	.name = "gaiagpu",
	.title = "GaiaGPU (gpu-manager of Tencent)",
	.coming = "Switch the dialect on. gpu-admission, gpu-manager and the node label "
		  "nvidia-device-enable are not needed.",
	.keys = keys,
	.differs = differs,
	.translate = gaiagpu_translate,
	.write_back = gaiagpu_write_back,
	.running = running,
};
