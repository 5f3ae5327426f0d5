/* SPDX-License-Identifier: Apache-2.0 */
/* Why nowhere: one reason for each node, the most frequent first. */
#include "scheduler/decide-internal.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"

#define REASONS_MAX 64u /* kinds that are told apart; the rest is counted together */
#define SHOWN_MAX 8u
#define REASON_MAX 160u

struct reasons {
	char text[REASONS_MAX][REASON_MAX];
	uint32_t n_of[REASONS_MAX];
	uint32_t n, n_others;
};

static void count(struct reasons *r, const char *text)
{
	uint32_t i = 0;

	while (i < r->n && strcmp(r->text[i], text))
		i++;
	if (i == REASONS_MAX) {
		r->n_others++;
		return;
	}
	if (i == r->n) {
		str_copy(r->text[i], REASON_MAX, str_from(text));
		r->n++;
	}
	r->n_of[i]++;
}

static const char *const node_texts[NODE_WHYS] = {
	[NODE_NO_GPUS] = "no GPU",
	[NODE_STALE] = "divvyd does not answer",
	[NODE_NO_SLOTS] = "no slots",
};

static const char *plural(uint32_t n, char buf[static 32])
{
	if (n == 1)
		return "no GPU";
	snprintf(buf, 32, "less than %u GPUs", n);
	return buf;
}

/* What of a container's wish the node's devices do not have. */
static void device_text(const struct spec *spec, enum place_reason reason, char *ret, size_t size)
{
	char gpus[32];

	switch (reason) {
	case PLACE_NO_DEVICES: snprintf(ret, size, "less than %u GPUs", spec->count); break;
	case PLACE_OTHER_MODEL:
		if (spec->model[0])
			snprintf(ret, size, "model %.64s wanted", spec->model);
		else
			snprintf(ret, size, "no model that a policy allows");
		break;
	case PLACE_OTHER_DEVICE: snprintf(ret, size, "device %.64s wanted", spec->device); break;
	case PLACE_LABELS: snprintf(ret, size, "kept off by labels of others"); break;
	case PLACE_OVER_LIMIT: snprintf(ret, size, "above the queue's limit"); break;
	case PLACE_CLEARING: snprintf(ret, size, "GPUs that others are leaving"); break;
	case PLACE_CLOSED: snprintf(ret, size, "GPUs cordoned or unhealthy"); break;
	case PLACE_NO_CPU: snprintf(ret, size, "too little cpu"); break;
	case PLACE_NO_MEMORY: snprintf(ret, size, "too little memory"); break;
	case PLACE_NO_DEVICE_MEMORY:
		if (spec->memory_bytes)
			snprintf(ret, size, "%s with %s free", plural(spec->count, gpus),
				format_bytes(spec->memory_bytes).s);
		else
			snprintf(ret, size, "%s with %s of its memory free",
				plural(spec->count, gpus),
				format_percent(spec->memory_permille ? spec->memory_permille
								     : spec->request)
					.s);
		break;
	case PLACE_NO_SHARE:
		snprintf(ret, size, "%s with %s free", plural(spec->count, gpus),
			format_share(spec->exclusive ? SPEC_SHARE_ONE : spec->request).s);
		break;
	default: snprintf(ret, size, "no room for its containers together"); break;
	}
}

/* Each device of the node is refused by its name. */
static bool is_named_elsewhere(const struct spec *spec, const struct cnode *node)
{
	uint32_t n = 0;

	for (uint32_t i = 0; spec->device[0] && i < node->gpus.n_devices; i++)
		n += spec_device_fits(spec, node->gpus.device[i].uuid);
	return spec->device[0] && n < spec->count;
}

/* The first container that the node has no room for. */
static void gpu_reason(struct attempt *a, const struct cnode *node, char *ret, size_t size)
{
	const struct cpod *pod = a->pod;

	for (uint32_t i = 0; i < pod->asked.n; i++) {
		const struct spec *spec = &pod->asked.v[i].spec;
		enum place_reason reason = PLACE_OTHER_MODEL;
		struct place_spec place;
		enum node_why why;

		a->asked = spec;
		why = attempt_node(a, node);
		if (why != NODE_FITS) {
			snprintf(ret, size, "%s", node_texts[why]);
			return;
		}
		if (cluster_spec(a->cluster, pod, i, &place) == 0)
			reason = place_reason_of(a->cluster->place, &place, node->at);
		if (reason == PLACE_FITS && is_named_elsewhere(spec, node))
			reason = PLACE_OTHER_DEVICE;
		if (reason == PLACE_FITS && !attempt_has_memory(a, node))
			reason = PLACE_NO_DEVICE_MEMORY;
		if (reason != PLACE_FITS || i + 1 == pod->asked.n) {
			device_text(spec, reason, ret, size);
			return;
		}
	}
	snprintf(ret, size, "no room");
}

static void node_reason(struct attempt *a, uint32_t at, char *ret, size_t size)
{
	const struct view *view = a->cluster->view;
	const struct fit_answer answer = fit_node(a->fit, at);
	const struct cnode *node;

	if (answer.why != FIT_OK) {
		_cleanup_buf_ struct buf text = BUF_INIT(REASON_MAX - 1);

		fit_format(answer, &text);
		snprintf(ret, size, "%s", buf_text(&text));
		return;
	}
	node = cnode_find(a->cluster, view_node(view, at)->object.name);
	if (!node || node->at == PLACE_NONE)
		snprintf(ret, size, "not known yet");
	else
		gpu_reason(a, node, ret, size);
}

void decide_explain(struct attempt *a, struct buf *why)
{
	const uint32_t n = view_n_nodes(a->cluster->view);
	struct reasons reasons = {.n = 0};
	uint32_t shown = 0, left;

	for (uint32_t i = 0; i < n; i++) {
		char text[REASON_MAX];

		node_reason(a, i, text, sizeof(text));
		count(&reasons, text);
	}
	buf_addf(why, "0/%u nodes", n);
	for (left = n; shown < SHOWN_MAX; shown++) {
		uint32_t most = 0;

		for (uint32_t i = 1; i < reasons.n; i++)
			if (reasons.n_of[i] > reasons.n_of[most])
				most = i;
		if (!reasons.n || !reasons.n_of[most])
			break;
		buf_addf(
			why, "%s %u %s", shown ? "," : ":", reasons.n_of[most], reasons.text[most]);
		left -= reasons.n_of[most];
		reasons.n_of[most] = 0;
	}
	if (left)
		buf_addf(why, ", %u for other reasons", left);
}
