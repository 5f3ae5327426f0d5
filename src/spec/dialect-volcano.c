/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volcano's vGPUs: HAMi's plugin under Volcano's names (dialect-hami.h), with the same meaning.
 * Memory counts units of as many MiB as --gpu-memory-factor of the plugin says. Volcano's older
 * resources gpu-memory and gpu-number, of the plugin before it, are memory on one shared device
 * and whole devices. Pure; any thread.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "spec/dialect-hami.h"

#define P "volcano.sh/"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p ? (s).p : ""

static const struct hami_names names = {
	P "vgpu-number", P "vgpu-memory", P "vgpu-memory-percentage", P "vgpu-cores", NULL};

/* Reads the older resources. Returns 1 if the container has one of them, else 0. */
static int volcano_read_older(
	struct dialect_draft *draft, uint32_t container, struct spec *spec, struct error *err)
{
	uint64_t memory = 0, number = 0;
	int r = draft_resource(
		draft, container, P "gpu-memory", INT64_MAX / DIALECT_MIB, &memory, err);

	if (r >= 0)
		r = draft_resource(
			draft, container, P "gpu-number", SPEC_DEVICES_MAX, &number, err);
	if (r < 0 || (!memory && !number))
		return MIN(r, 0);
	if (memory && number)
		return fail(err, EINVAL,
			P "gpu-memory %llu and " P "gpu-number %llu; keep one of the two",
			(unsigned long long)memory, (unsigned long long)number);
	spec->request = number ? (uint32_t)number * SPEC_SHARE_ONE : 1;
	spec->memory_bytes = memory * DIALECT_MIB;
	return 1;
}

static int volcano_add(struct dialect_draft *draft, uint32_t container, const struct spec *models,
	struct error *err)
{
	struct hami_requested requested;
	struct spec spec = *models, older = *models;
	int r = 0, has_older = volcano_read_older(draft, container, &older, err);

	if (has_older < 0)
		return has_older;
	if (hami_has_own(draft, container, &names) ||
		draft_has_resource(draft, container, names.count))
		r = hami_read(draft, container, &names, draft->config.volcano_mib, &requested, err);
	if (r < 0)
		return r;
	if (r > 0 && has_older)
		return fail(err, EINVAL,
			"container " SHOW ": " P "vgpu-... beside " P "gpu-memory or " P
			"gpu-number; keep the one or the other",
			SHOWN(draft->pod->container[container].name));
	if (has_older)
		return draft_add(draft, container, &older, err);
	if (r == 0)
		return 0;
	r = hami_set(&spec, &requested, &names, false, err);
	return r < 0 ? r : draft_add(draft, container, &spec, err);
}

static int volcano_translate(struct dialect_draft *draft, struct error *err)
{
	struct spec models;
	int r = hami_check_mode(draft, P "vgpu-mode", err);

	spec_init(&models);
	r = r < 0 ? r : hami_read_models(draft, &models, err);
	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++)
		r = volcano_add(draft, i, &models, err);
	return r;
}

/* ---- writing back ---- */

static const struct dialect_step running[] = {{P "bind-phase", "allocating", "success"}, {NULL}};

static int volcano_write_back(struct dialect_writer *w)
{
	_cleanup_buf_ struct buf devices = BUF_INIT(64u << 10);
	const unsigned long long seconds = w->given->time_ns / 1000000000;
	int r = 0;

	for (uint32_t i = writer_next(w, 0); r >= 0 && i < w->result->n_tenants;
		i = writer_next(w, i + 1)) {
		if (devices.n)
			buf_add_byte(&devices, ';');
		hami_format_tenant(w, i, &devices);
		r = hami_write_env(w, i);
	}
	r = r < 0 ? r : buf_error(&devices);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "vgpu-ids-new", "%s",
			    buf_text(&devices));
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "vgpu-node", "%s",
			    w->given->node);
	r = r < 0
		? r
		: writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "vgpu-time", "%llu", seconds);
	r = r < 0
		? r
		: writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "bind-time", "%llu", seconds);
	return r < 0 ? r
		     : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, running[0].key, "%s",
			       running[0].before);
}

static const struct dialect_key keys[] = {
	{P "vgpu-number", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"count; 1 if only other keys are present"},
	{P "vgpu-memory", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory on each device, in MiB, or in N MiB with volcano=N"},
	{P "vgpu-memory-percentage", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory on each device, 1 to 100 percent; without both: all memory"},
	{P "vgpu-cores", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"request and limit, percent of each device; 0 or absent: request 0.001, limit 1; "
		"100: whole devices"},
	{P "gpu-memory", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"from older versions: memory on one device, in MiB; request 0.001, limit 1"},
	{P "gpu-number", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"from older versions: request, that many whole devices"},
	{P "vgpu-mode", DIALECT_ANNOTATION, DIALECT_READS, "hami-core; mig and mps are refused"},
	{"nvidia.com/use-gputype", DIALECT_ANNOTATION, DIALECT_READS, "model: one of these"},
	{"nvidia.com/nouse-gputype", DIALECT_ANNOTATION, DIALECT_READS, "model: none of these"},
	{P "queue-name", DIALECT_LABEL, DIALECT_READS,
		"queue: that of a GPUPolicy whose podSelector names this label"},
	{P "vgpu-ids-new", DIALECT_ANNOTATION, DIALECT_GIVES,
		"UUID,NVIDIA,MiB,cores of each device, by container with a share"},
	{P "vgpu-node", DIALECT_ANNOTATION, DIALECT_GIVES, "node of the pod"},
	{P "vgpu-time", DIALECT_ANNOTATION, DIALECT_GIVES,
		"time of placement, in seconds since 1970"},
	{P "bind-time", DIALECT_ANNOTATION, DIALECT_GIVES, "the same"},
	{P "bind-phase", DIALECT_ANNOTATION, DIALECT_GIVES,
		"allocating, then success once the pod runs"},
	{"CUDA_DEVICE_MEMORY_LIMIT_", DIALECT_ENV, DIALECT_GIVES,
		"followed by the device's number: its memory, such as 3000m"},
	{"CUDA_DEVICE_SM_LIMIT", DIALECT_ENV, DIALECT_GIVES,
		"vgpu-cores, for programs that read it"},
	{NULL},
};

static const char *const differs[] = {
	"vgpu-cores are time on the device for each container, whatever the number of its "
	"processes.",
	"divvy refuses vgpu-memory together with vgpu-memory-percentage. Volcano dropped the "
	"percentage. divvy refuses vgpu-cores above 100.",
	"Init containers count, too. Volcano gave devices to main containers only.",
	"divvy has neither deviceSplitCount nor deviceMemoryScaling. Up to 64 containers share a "
	"device.",
	"divvy does not write volcano.sh/devices-to-allocate, since no part allocates by it.",
	"A PodGroup's minMember counts ([groups](#groups-of-other-schedulers)).",
	"An administrator decides by GPUPolicies which labels lead to which queue. spec.queue of a "
	"PodGroup has no effect.",
	NULL,
};

static const char *const schedulers[] = {"volcano", NULL};

const struct dialect dialect_volcano = {
	.name = "volcano",
	.title = "Volcano vGPU",
	.coming =
		"First remove volcano-vgpu-device-plugin from those nodes, then switch the "
		"dialect on, as `volcano=N` if that plugin ran with `--gpu-memory-factor=N`. "
		"schedulerName volcano may stay: divvy replaces it in pods with a share. Volcano's "
		"controllers may stay for its Jobs.",
	.schedulers = schedulers,
	.keys = keys,
	.differs = differs,
	.translate = volcano_translate,
	.write_back = volcano_write_back,
	.running = running,
};
