/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KAI Scheduler and NVIDIA Run:ai. gpu-fraction is a part of the memory of one device, or of each
 * of gpu-fraction-num-devices devices; KAI counts as large a part of the device's time. gpu-memory
 * is a number of MiB instead, without a part of the time. The annotations
 * nvidia.com/container.NAME.gpu-memory.request and .limit (NvFractions) are for one container. A
 * limit above the request is memory that a pod may use while it is free. divvy cannot take memory
 * back from a program, so divvy reserves the limit. Pure; any thread.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "spec/dialect-internal.h"
#include "spec/quantity.h"

#define FRACTION "gpu-fraction"
#define MEMORY "gpu-memory"
#define COUNT "gpu-fraction-num-devices"
#define CONTAINER "gpu-fraction-container-name"
#define PART "nvidia.com/container." /* of a key for one container */
#define LIMIT_ENV "RUNAI_GPU_MEMORY_LIMIT"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p ? (s).p : ""

/* The annotation's value; NULL if it is absent or empty. KAI ignores an empty value, too. */
static const struct str *kai_find(const struct dialect_draft *draft, const char *key)
{
	const struct str *value = draft_annotation(draft, key);

	return value && value->n ? value : NULL;
}

/* ---- the keys of the pod ---- */

static int kai_read_fraction(
	const struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	const struct str *fraction = kai_find(draft, FRACTION), *memory = kai_find(draft, MEMORY);
	uint64_t mib;

	if (fraction && memory)
		return fail(err, EINVAL,
			FRACTION " '" SHOW "' and " MEMORY " '" SHOW "': keep one of the two",
			SHOWN(*fraction), SHOWN(*memory));
	spec->request = 1;
	if (fraction &&
		(draft_share(FRACTION, *fraction, SPEC_SHARE_ONE - 1, &spec->request, NULL) < 0 ||
			!spec->request))
		return fail(err, EINVAL,
			FRACTION
			" '" SHOW
			"': expected 0.001 to 0.999 in steps of 0.001; for whole devices leave it "
			"out and use nvidia.com/gpu",
			SHOWN(*fraction));
	if (!memory)
		return 0;
	if (parse_uint(*memory, 1, INT64_MAX / DIALECT_MIB, &mib, NULL) < 0)
		return fail(err, EINVAL,
			MEMORY
			" '" SHOW
			"': expected a whole number of MiB above 0, without a unit, such as 2000",
			SHOWN(*memory));
	spec->memory_bytes = mib * DIALECT_MIB;
	return 0;
}

static int kai_read_count(const struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	const struct str *count = kai_find(draft, COUNT);
	uint64_t n = 1;

	if (count && parse_uint(*count, 1, SPEC_DEVICES_MAX, &n, NULL) < 0)
		return fail(err, EINVAL, COUNT " '" SHOW "': expected 1 to %u devices",
			SHOWN(*count), SPEC_DEVICES_MAX);
	spec->count = (uint32_t)n;
	return 0;
}

/* ---- the keys of a container ---- */

/* The annotation PART CONTAINER.FIELD; NULL if it is absent or empty. */
static const struct str *find_part(
	const struct dialect_draft *draft, uint32_t container, const char *field)
{
	char key[sizeof(PART) + MANIFEST_CONTAINER_NAME_MAX + 32];

	snprintf(key, sizeof(key), PART "%" STR_FMT ".%s",
		STR_ARG(draft->pod->container[container].name), field);
	return kai_find(draft, key);
}

static bool has_parts(const struct dialect_draft *draft, uint32_t container)
{
	return find_part(draft, container, "gpu-memory.request") ||
		find_part(draft, container, "gpu-memory.limit");
}

/* Checks that each key for one container names a container, and notes fields without effect. */
static int check_parts(struct dialect_draft *draft, struct error *err)
{
	const struct manifest_list list = draft->pod->annotations;

	for (uint32_t i = 0; i < list.n; i++) {
		struct str name = list.entry[i].key;
		bool is_read;

		if (!str_skip_prefix(&name, STR(PART)))
			continue;
		is_read = str_skip_suffix(&name, STR(".gpu-memory.request")) ||
			str_skip_suffix(&name, STR(".gpu-memory.limit"));
		if (!is_read)
			draft_note(draft,
				"'" SHOW "' has no effect: dialect kai reads "
				".gpu-memory.request and .gpu-memory.limit of a container",
				SHOWN(list.entry[i].key));
		else if (manifest_container_find(draft->pod, name) == MANIFEST_NONE)
			return fail(err, EINVAL, "'%.*s': the pod has no container '" SHOW "'",
				(int)MIN(list.entry[i].key.n, (size_t)100), list.entry[i].key.p,
				SHOWN(name));
	}
	return 0;
}

static int read_parts(
	const struct dialect_draft *draft, uint32_t container, struct spec *spec, struct error *err)
{
	const struct str *request = find_part(draft, container, "gpu-memory.request"),
			 *limit = find_part(draft, container, "gpu-memory.limit");
	uint64_t least = 0, most = 0;
	int r = 0;

	if (request)
		r = draft_bytes("gpu-memory.request", *request, false, &least, err);
	if (r >= 0 && limit)
		r = draft_bytes("gpu-memory.limit", *limit, false, &most, err);
	if (r < 0)
		return r;
	if (limit && most < least)
		return fail(err, EINVAL,
			"gpu-memory.limit '" SHOW "': below gpu-memory.request '" SHOW
			"'; expected at least the request",
			SHOWN(*limit), SHOWN(*request));
	if (spec->memory_bytes && least && spec->memory_bytes != least)
		return fail(err, EINVAL,
			"gpu-memory.request '" SHOW "': " MEMORY
			" says %llu MiB; keep one of the two",
			SHOWN(*request), (unsigned long long)(spec->memory_bytes / DIALECT_MIB));
	if (limit && most < spec->memory_bytes)
		return fail(err, EINVAL,
			"gpu-memory.limit '" SHOW "': below " MEMORY
			" of %llu MiB; expected at least as much",
			SHOWN(*limit), (unsigned long long)(spec->memory_bytes / DIALECT_MIB));
	if (limit || request)
		spec->memory_bytes = limit ? most : least;
	return 0;
}

/* Run:ai's limit of memory: a share beside gpu-fraction, a quantity beside gpu-memory. */
static int read_limit_env(
	const struct dialect_draft *draft, uint32_t container, struct spec *spec, struct error *err)
{
	const struct str *limit = manifest_find(
		draft->pod->container[container].env, STR(LIMIT_ENV));
	uint32_t permille;
	uint64_t bytes;
	int r;

	if (!limit || !limit->n)
		return 0;
	if (!spec->memory_bytes) {
		r = draft_share(LIMIT_ENV, *limit, SPEC_SHARE_ONE, &permille, err);
		if (r >= 0 && permille < spec->request)
			return fail(err, EINVAL,
				LIMIT_ENV " '" SHOW "': below " FRACTION "; expected %s to 1",
				SHOWN(*limit), format_share(spec->request).s);
		if (r >= 0)
			spec->memory_permille = permille;
		return r;
	}
	r = draft_bytes(LIMIT_ENV, *limit, false, &bytes, err);
	if (r >= 0 && bytes < spec->memory_bytes)
		return fail(err, EINVAL,
			LIMIT_ENV " '" SHOW "': below the memory of %s that the "
				  "pod requests; expected at least as much",
			SHOWN(*limit), format_bytes_exact(spec->memory_bytes).s);
	if (r >= 0)
		spec->memory_bytes = bytes;
	return r;
}

static int kai_add(
	struct dialect_draft *draft, uint32_t container, const struct spec *all, struct error *err)
{
	const struct str name = draft->pod->container[container].name;
	struct spec spec = *all;
	int r;

	if (draft_has_resource(draft, container, "nvidia.com/gpu"))
		return fail(err, EINVAL,
			"container " SHOW ": nvidia.com/gpu beside a part of a "
			"device; keep one of the two",
			SHOWN(name));
	r = read_parts(draft, container, &spec, err);
	r = r < 0 ? r : read_limit_env(draft, container, &spec, err);
	if (r < 0)
		return fail_within(err, r, "container " SHOW, SHOWN(name));
	return draft_add(draft, container, &spec, err);
}

/* ---- which containers ---- */

/* The container that CONTAINER names; MANIFEST_NONE: the pod does not have that annotation. */
static int read_container(
	const struct dialect_draft *draft, uint32_t *ret_container, struct error *err)
{
	const struct str *name = kai_find(draft, CONTAINER);

	*ret_container = name ? manifest_container_find(draft->pod, *name) : MANIFEST_NONE;
	if (name && *ret_container == MANIFEST_NONE)
		return fail(err, EINVAL,
			CONTAINER " '" SHOW "': the pod has no container of that name",
			SHOWN(*name));
	if (name && draft_annotation(draft, "divvy.gpu/container"))
		return fail(err, EINVAL,
			CONTAINER " '" SHOW "' and divvy.gpu/container: keep one of the two",
			SHOWN(*name));
	return 0;
}

/* Adds the containers with keys of their own. Returns their number. */
static int add_with_parts(
	struct dialect_draft *draft, uint32_t named, const struct spec *spec, struct error *err)
{
	int n = 0;

	for (uint32_t i = 0; i < draft->pod->n_containers; i++) {
		int r;

		if (!has_parts(draft, i))
			continue;
		if (named != MANIFEST_NONE && named != i)
			return fail(err, EINVAL,
				CONTAINER " '" SHOW "': container " SHOW " has keys " PART
					  "...; name one container",
				SHOWN(draft->pod->container[named].name),
				SHOWN(draft->pod->container[i].name));
		r = kai_add(draft, i, spec, err);
		if (r < 0)
			return r;
		n++;
	}
	return n;
}

/*
 * Notes the containers that the keys of the pod would reach if no container had keys of its own:
 * the main container, or those that divvy.gpu/container names.
 */
static int kai_note_left_out(struct dialect_draft *draft, struct error *err)
{
	const char *key = kai_find(draft, FRACTION) ? FRACTION : MEMORY;
	const bool is_named = draft_annotation(draft, "divvy.gpu/container") != NULL;
	uint32_t container = manifest_main(draft->pod);
	int r = container != MANIFEST_NONE;

	for (uint32_t i = 0; is_named || i == 0; i++) {
		/* draft_container() would also record the default container, which gets nothing. */
		if (is_named)
			r = draft_container(draft, i, &container, err);
		if (r <= 0)
			break;
		if (!has_parts(draft, container))
			draft_note(draft,
				"container " SHOW " gets no share of a GPU: %s applies only to "
				"containers with keys " PART "NAME.gpu-memory; write such a key "
				"for container " SHOW ", too",
				SHOWN(draft->pod->container[container].name), key,
				SHOWN(draft->pod->container[container].name));
	}
	return MIN(r, 0);
}

static int kai_translate(struct dialect_draft *draft, struct error *err)
{
	const bool has_part_of_pod = kai_find(draft, FRACTION) || kai_find(draft, MEMORY);
	uint32_t named, container;
	struct spec spec;
	int r;

	spec_init(&spec);
	r = kai_read_fraction(draft, &spec, err);
	r = r < 0 ? r : kai_read_count(draft, &spec, err);
	r = r < 0 ? r : check_parts(draft, err);
	r = r < 0 ? r : read_container(draft, &named, err);
	r = r < 0 ? r : add_with_parts(draft, named, &spec, err);
	if (r > 0 && has_part_of_pod && named == MANIFEST_NONE)
		return kai_note_left_out(draft, err);
	if (r != 0)
		return MIN(r, 0);
	if (!has_part_of_pod)
		return kai_find(draft, COUNT) ? fail(err, EINVAL,
							COUNT ": " FRACTION " and " MEMORY
							      " are missing; set one of the two")
					      : 0;
	if (named != MANIFEST_NONE)
		return kai_add(draft, named, &spec, err);
	for (uint32_t i = 0; (r = draft_container(draft, i, &container, err)) > 0; i++) {
		r = kai_add(draft, container, &spec, err);
		if (r < 0)
			return r;
	}
	if (r == 0)
		draft_note_default(draft);
	return r;
}

/* ---- writing back ---- */

/* The part of the device that users of KAI read: gpu-fraction, or the memory's part. */
static uint32_t kai_permille(const struct spec *spec, const struct dialect_device *d)
{
	const uint64_t bytes = MIN(d->granted_bytes, d->memory_bytes);

	if (spec->request > 1)
		return spec->request;
	return d->memory_bytes < SPEC_SHARE_ONE
		? 0
		: (uint32_t)(bytes / (d->memory_bytes / SPEC_SHARE_ONE));
}

static int kai_write_env(const struct dialect_writer *w, uint32_t i)
{
	const struct dialect_grant *g = &w->given->grant[i];
	const uint32_t c = w->result->tenant[i].container;
	char share[8];
	int r;

	if (!g->n_devices)
		return 0;
	spec_share_format(
		MIN(kai_permille(&w->result->tenant[i].spec, &g->device[0]), SPEC_SHARE_ONE),
		share);
	r = writer_put(w, DIALECT_ENV, c, "GPU_PORTION", "%s", share);
	r = r < 0 ? r : writer_put(w, DIALECT_ENV, c, "RUNAI_NUM_OF_GPUS", "%s", share);
	return r < 0 ? r
		     : writer_put(w, DIALECT_ENV, c, "CUDA_DEVICE_MEMORY_LIMIT", "%llum",
			       (unsigned long long)(g->device[0].granted_bytes / DIALECT_MIB));
}

static int kai_write_back(struct dialect_writer *w)
{
	int r = 0;

	for (uint32_t i = writer_next(w, 0); r >= 0 && i < w->result->n_tenants;
		i = writer_next(w, i + 1))
		r = kai_write_env(w, i);
	return r < 0 ? r
		     : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, "received-resource-type",
			       "Fraction");
}

static const struct dialect_key keys[] = {
	{FRACTION, DIALECT_ANNOTATION, DIALECT_REQUESTS,
		"request and memory, 0.001 to 0.999 of each device; limit 1"},
	{MEMORY, DIALECT_ANNOTATION, DIALECT_REQUESTS,
		"memory on each device, in MiB; request 0.001, limit 1"},
	{COUNT, DIALECT_ANNOTATION, DIALECT_REQUESTS, "count: 1 to 16 devices; missing: 1"},
	{CONTAINER, DIALECT_ANNOTATION, DIALECT_READS,
		"the container that gets the share; missing: the default container"},
	{PART, DIALECT_ANNOTATION, DIALECT_REQUESTS,
		"followed by CONTAINER.gpu-memory.request or .limit: memory of that container on "
		"each device, a quantity such as 4096Mi; the limit counts if both are there"},
	{LIMIT_ENV, DIALECT_ENV, DIALECT_READS,
		"memory instead: a part of the device beside gpu-fraction, else bytes"},
	{"kai.scheduler/queue", DIALECT_LABEL, DIALECT_READS,
		"queue: that of a GPUPolicy whose podSelector names this label"},
	{"runai/queue", DIALECT_LABEL, DIALECT_READS, "the same in Run:ai"},
	{"received-resource-type", DIALECT_ANNOTATION, DIALECT_GIVES, "Fraction"},
	{"runai-gpu-group", DIALECT_LABEL, DIALECT_GIVES,
		"UUID of the pod's first device, once the pod runs"},
	{"GPU_PORTION", DIALECT_ENV, DIALECT_GIVES,
		"gpu-fraction, or the memory's part of the device"},
	{"RUNAI_NUM_OF_GPUS", DIALECT_ENV, DIALECT_GIVES, "the same"},
	{"CUDA_DEVICE_MEMORY_LIMIT", DIALECT_ENV, DIALECT_GIVES,
		"memory on each device, such as 2000m"},
	{NULL},
};

static const char *const differs[] = {
	"divvy enforces the memory, and guarantees as large a part of the device's time. KAI alone "
	"enforces neither.",
	"Pods with gpu-memory request no share of the time. So 0.001 is guaranteed, and all share "
	"the unused time equally.",
	"divvy reserves a limit of memory that is above the request. KAI lends that memory, and "
	"kills a program when another pod needs the memory.",
	"Fractions are in steps of 0.001. KAI rounds a fraction that it computes from gpu-memory to "
	"0.01; divvy rounds nothing.",
	"The default container gets the share. In KAI it is the first container of the pod.",
	"An administrator decides by GPUPolicies which labels lead to which queue. Without such a "
	"policy the label of the queue has no effect.",
	"divvy needs no reservation pods. Pods with an equal label runai-gpu-group share a device, as "
	"in KAI. Of several devices the label names the first, and divvy.gpu/devices names all.",
	"KAI's pod grouper finds pods that start together by their owner. divvy reads a group only "
	"from the pod's keys: see [groups](#groups-of-other-schedulers).",
	NULL,
};

static const char *const schedulers[] = {"kai-scheduler", "runai-scheduler", NULL};

const struct dialect dialect_kai = {
	.name = "kai",
	.title = "KAI Scheduler and Run:ai",
	.coming = "Switch the dialect on. schedulerName kai-scheduler or runai-scheduler may stay: "
		  "divvy replaces it. Make a GPUPolicy for each queue, with a podSelector for the "
		  "label kai.scheduler/queue. Whole devices are nvidia.com/gpu in KAI too: switch "
		  "nvidia on as well.",
	.schedulers = schedulers,
	.keys = keys,
	.differs = differs,
	.translate = kai_translate,
	.write_back = kai_write_back,
	.label = {"runai-gpu-group", "received-resource-type"},
};
