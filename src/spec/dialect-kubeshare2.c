/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 2.0: labels of a pod. The limit is required. A limit up to 1 is a share; a limit above
 * 1 is a number of whole devices, which the request must equal. Priority up to 0 is opportunistic,
 * above 0 guaranteed. A gang starts when floor(threshold x headcount + 0.5) members fit, which is
 * spec_group_least(). Pure; any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "spec/dialect-internal.h"

#define P "sharedgpu/"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p ? (s).p : ""
#define SHARES_MAX (SPEC_DEVICES_MAX * SPEC_SHARE_ONE)

/* Checks a limit above 1: a number of whole devices, which the request must equal. */
static int kubeshare2_read_devices(struct str limit, const struct str *request,
	uint32_t limit_permille, uint32_t request_permille, struct error *err)
{
	if (!request)
		return fail(err, EINVAL,
			P "gpu_request is missing; " P "gpu_limit '" SHOW
			  "', which is above 1, requires the same number",
			SHOWN(limit));
	if (limit_permille % SPEC_SHARE_ONE || limit_permille != request_permille)
		return fail(err, EINVAL,
			P "gpu_limit '" SHOW "' and " P "gpu_request '" SHOW
			  "': above 1, both must be the same whole number of devices",
			SHOWN(limit), SHOWN(*request));
	return 0;
}

static int read_shares(
	const struct dialect_draft *draft, struct spec *spec, bool *ret_none, struct error *err)
{
	const struct str *request = draft_label(draft, P "gpu_request"),
			 *limit = draft_label(draft, P "gpu_limit");
	uint32_t request_permille = 0, limit_permille = 0;
	int r;

	if (!limit)
		return fail(err, EINVAL,
			P "gpu_limit is missing; a pod with a GPU requires 0.001 to 1, or "
			  "a whole number up to %u",
			SPEC_DEVICES_MAX);
	r = draft_share(P "gpu_limit", *limit, SHARES_MAX, &limit_permille, err);
	if (r == 0 && request)
		r = draft_share(P "gpu_request", *request, SHARES_MAX, &request_permille, err);
	if (r == 0 && limit_permille > SPEC_SHARE_ONE)
		r = kubeshare2_read_devices(*limit, request, limit_permille, request_permille, err);
	if (r < 0)
		return r;
	if (request_permille > limit_permille)
		return fail(err, EINVAL,
			P "gpu_limit '" SHOW "': below " P "gpu_request '" SHOW "'; expected " SHOW
			  " to 1",
			SHOWN(*limit), SHOWN(*request), SHOWN(*request));
	*ret_none = limit_permille == 0;
	spec->request = MAX(request_permille, 1u);
	spec->limit = limit_permille;
	return 0;
}

static int kubeshare2_read_memory(struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	const struct str *memory = draft_label(draft, P "gpu_mem");
	int r = memory ? draft_bytes(P "gpu_mem", *memory, true, &spec->memory_bytes, err) : 0;

	if (r == 0 && spec->memory_bytes && spec->request > SPEC_SHARE_ONE) {
		draft_note(draft,
			P "gpu_mem has no effect: whole devices include all of their memory");
		spec->memory_bytes = 0;
	}
	return r;
}

static int kubeshare2_read_priority(
	const struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	const struct str *text = draft_label(draft, P "priority");
	uint64_t priority = 0;

	if (text && text->n && !str_is(*text, "-1") &&
		parse_uint(*text, 0, 100, &priority, NULL) < 0)
		return fail(err, EINVAL,
			P "priority '" SHOW
			  "': expected -1 or 0 (opportunistic), or 1 to 100 (guarantee)",
			SHOWN(*text));
	spec->priority = (uint32_t)priority;
	return 0;
}

/*
 * The label gpu_model has the model's whole name with '-' for blanks, such as
 * "NVIDIA-GeForce-GTX-1080".
 */
static int kubeshare2_read_model(
	const struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	const struct str *model = draft_label(draft, P "gpu_model");
	char text[DIALECT_VALUE_MAX + 1] = "=";
	int r;

	if (!model || !model->n)
		return 0;
	r = draft_text(P "gpu_model", *model, text + 1, err);
	r = r < 0 ? r : spec_set(spec, "model", text, err);
	return r < 0 ? fail_within(err, r, P "gpu_model") : 0;
}

/*
 * Reads the key of older versions, which has the number of members that must fit instead of a
 * threshold.
 */
static int read_least(
	struct dialect_draft *draft, struct str name, struct str least, struct error *err)
{
	uint64_t n;

	if (parse_uint(least, 1, SPEC_GROUP_SIZE_MAX, &n, NULL) < 0)
		return fail(err, EINVAL, P "min_available '" SHOW "': expected 1 to %u members",
			SHOWN(least), SPEC_GROUP_SIZE_MAX);
	return draft_group(draft, P "group_name", name, (uint32_t)n, SPEC_SHARE_ONE, NULL, err);
}

static int kubeshare2_read_group(struct dialect_draft *draft, struct error *err)
{
	const struct str *name = draft_label(draft, P "group_name"),
			 *size = draft_label(draft, P "group_headcount"),
			 *threshold = draft_label(draft, P "group_threshold"),
			 *least = draft_label(draft, P "min_available");
	uint32_t permille;
	uint64_t n;

	name = name ? name : draft_label(draft, P "pod_group_name");
	if (name && least && !size && !threshold)
		return read_least(draft, *name, *least, err);
	if (!name || !size || !threshold) {
		if (name || size || threshold)
			draft_note(draft,
				P "group_name, group_headcount and group_threshold: the "
				  "pod joins a group only with all three");
		return 0;
	}
	if (parse_uint(*size, 1, SPEC_GROUP_SIZE_MAX, &n, NULL) < 0)
		return fail(err, EINVAL, P "group_headcount '" SHOW "': expected 1 to %u members",
			SHOWN(*size), SPEC_GROUP_SIZE_MAX);
	if (draft_share(P "group_threshold", *threshold, SPEC_SHARE_ONE, &permille, err) < 0)
		return -EINVAL;
	if (!permille) /* threshold 0: no member waits for other members */
		return 0;
	return draft_group(draft, P "group_name", *name, (uint32_t)n, permille, NULL, err);
}

static int kubeshare2_translate(struct dialect_draft *draft, struct error *err)
{
	bool is_none = false;
	struct spec spec;
	int r;

	spec_init(&spec);
	r = read_shares(draft, &spec, &is_none, err);
	r = r < 0 ? r : kubeshare2_read_memory(draft, &spec, err);
	r = r < 0 ? r : kubeshare2_read_priority(draft, &spec, err);
	r = r < 0 ? r : kubeshare2_read_model(draft, &spec, err);
	r = r < 0 ? r : kubeshare2_read_group(draft, err);
	return r < 0 || is_none ? r : draft_add_pod(draft, &spec, err);
}

static int kubeshare2_write_back(struct dialect_writer *w)
{
	const uint32_t i = writer_next(w, 0);
	const struct dialect_grant *g = &w->given->grant[i];
	char model[SPEC_PATTERN];
	int r = writer_put_list(
		w, i, WRITER_UUIDS, DIALECT_ANNOTATION, MANIFEST_NONE, P "gpu_uuid");

	if (r < 0 || !g->n_devices)
		return r;
	snprintf(model, sizeof(model), "%s", g->device[0].model);
	for (char *p = model; *p; p++)
		*p = *p == ' ' ? '-' : *p;
	r = writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "gpu_model", "%s", model);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, P "gpu_mem", "%llu",
			    (unsigned long long)g->device[0].granted_bytes);
	if (r >= 0 && g->device[0].cell)
		r = writer_put(
			w, DIALECT_ANNOTATION, MANIFEST_NONE, P "cell_id", "%s", g->device[0].cell);
	return r;
}

static const struct dialect_key keys[] = {
	{P "gpu_request", DIALECT_LABEL, DIALECT_REQUESTS,
		"request, 0 to 1, or a whole number of devices; missing or 0: 0.001"},
	{P "gpu_limit", DIALECT_LABEL, DIALECT_REQUESTS,
		"limit, request to 1, or the same whole number; 0: no GPU"},
	{P "gpu_mem", DIALECT_LABEL, DIALECT_REQUESTS,
		"memory, in bytes; missing or 0: request x the device's"},
	{P "gpu_model", DIALECT_LABEL, DIALECT_READS, "model: the whole name, with '-' for blanks"},
	{P "priority", DIALECT_LABEL, DIALECT_READS,
		"priority: -1 and 0 are opportunistic, 1 to 100 are guaranteed; missing: 0"},
	{P "group_name", DIALECT_LABEL, DIALECT_READS, "group"},
	{P "pod_group_name", DIALECT_LABEL, DIALECT_READS, "group, the name in KubeShare's README"},
	{P "group_headcount", DIALECT_LABEL, DIALECT_READS, "group-size"},
	{P "group_threshold", DIALECT_LABEL, DIALECT_READS,
		"group-threshold: floor(threshold x headcount + 0.5) pods, at least one, start "
		"together"},
	{P "min_available", DIALECT_LABEL, DIALECT_READS,
		"group-size with threshold 1, from older versions"},
	{P "gpu_uuid", DIALECT_ANNOTATION, DIALECT_GIVES, "UUIDs of the devices"},
	{P "gpu_model", DIALECT_ANNOTATION, DIALECT_GIVES,
		"model of the devices, with '-' for blanks"},
	{P "gpu_mem", DIALECT_ANNOTATION, DIALECT_GIVES, "memory on each device, in bytes"},
	{P "cell_id", DIALECT_ANNOTATION, DIALECT_GIVES, "place in the cell tree"},
	{P "gpu_manager_port", DIALECT_ANNOTATION, DIALECT_GIVES,
		"never written: divvy has no pod manager"},
	{NULL},
};

static const char *const differs[] = {
	"divvy enforces the limits. KubeShare wrote limit and request in the wrong order into the"
	" file that its library reads.",
	"Numbers may have any spelling. KubeShare refused \"10\", \"0\" and \".5\".",
	"divvy refuses gpu_limit above 1 without gpu_request. KubeShare ran such a pod with a "
	"share of nothing.",
	"divvy binds the pod itself. KubeShare deleted and recreated pods, so that Jobs and "
	"owners lost them.",
	"If the threshold of a group does not fit, no pod of the group starts. KubeShare started "
	"each pod as soon as it fitted.",
	"Shares and thresholds are in steps of 0.001.",
	"The default container gets the share, or each of the containers that divvy.gpu/container"
	" names gets as much.",
	NULL,
};

static const char *const schedulers[] = {"kubeshare-scheduler", NULL};

const struct dialect dialect_kubeshare2 = {
	.name = "kubeshare2",
	.title = "KubeShare 2.0",
	.coming = "Switch the dialect on. schedulerName kubeshare-scheduler may stay: divvy "
		  "replaces it. divvy reads the cell file unchanged and needs no Prometheus.",
	.prefix = P,
	.schedulers = schedulers,
	.keys = keys,
	.differs = differs,
	.translate = kubeshare2_translate,
	.write_back = kubeshare2_write_back,
};
