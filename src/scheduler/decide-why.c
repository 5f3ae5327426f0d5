/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why a pod fits nowhere: one reason for each node, the most frequent first. */
#include "scheduler/decide-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "claims/claims.h"

#define REASONS_MAX 64u /* most distinct reasons; further reasons are counted as one */
#define SHOWN_MAX 8u
#define MODELS_SHOWN_MAX 6u

struct reasons {
	char text[REASONS_MAX][DECIDE_REASON_MAX];
	uint32_t n_of[REASONS_MAX];
	uint32_t n, n_others;
};

static void decide_why_count(struct reasons *r, const char *text)
{
	uint32_t i = 0;

	while (i < r->n && strcmp(r->text[i], text))
		i++;
	if (i == REASONS_MAX) {
		r->n_others++;
		return;
	}
	if (i == r->n) {
		str_copy(r->text[i], DECIDE_REASON_MAX, str_from(text));
		r->n++;
	}
	r->n_of[i]++;
}

static const char *const node_texts[NODE_WHYS] = {
	[NODE_NO_GPUS] = "no GPU",
	[NODE_STALE] = "divvyd does not answer",
	[NODE_NO_SLOTS] = "no slots",
	[NODE_NOT_SERVING] = "serves no devices to others",
};

/*
 * Returns the beginning of a reason such as "no GPU with 0.5 free" or "with fewer than 2 GPUs with
 * 0.5 free".
 */
static const char *too_few(uint32_t n, char buf[static 32])
{
	if (n == 1)
		return "no GPU";
	snprintf(buf, 32, "with fewer than %u GPUs", n);
	return buf;
}

/* Returns the pattern without the '=' by which a spec marks a name that has to match as a whole. */
static const char *pattern_text(const char *pattern, char buf[static SPEC_PATTERN])
{
	size_t n = 0;

	for (const char *p = pattern; *p && n + 1 < SPEC_PATTERN; p++)
		if (*p != '=' || (p > pattern && !strchr(",! ", p[-1])))
			buf[n++] = *p;
	buf[n] = '\0';
	return buf;
}

static const char *memory_text(const struct spec *spec, char buf[static 64])
{
	const uint32_t permille = spec->memory_permille ? spec->memory_permille : spec->request;

	if (spec->memory_bytes)
		snprintf(buf, 64, "%s", format_bytes(spec->memory_bytes).s);
	else
		snprintf(buf, 64, "%s of its memory", format_percent(permille).s);
	return buf;
}

/*
 * Describes which part of a container's request the node's devices cannot meet. is_short: a device
 * has enough share free, but too little memory.
 */
static void device_text(
	const struct spec *spec, enum place_reason reason, bool is_short, char *ret, size_t size)
{
	char gpus[32], memory[64], pattern[SPEC_PATTERN];

	switch (reason) {
	case PLACE_NO_DEVICES: snprintf(ret, size, "%s", too_few(spec->count, gpus)); break;
	case PLACE_OTHER_MODEL:
		if (spec->model[0])
			snprintf(ret, size, "with another model than %.64s",
				pattern_text(spec->model, pattern));
		else
			snprintf(ret, size, "no model that a policy allows");
		break;
	case PLACE_OTHER_DEVICE:
		snprintf(ret, size, "with another device than %.64s",
			pattern_text(spec->device, pattern));
		break;
	case PLACE_LABELS: snprintf(ret, size, "kept away by affinity or exclusion labels"); break;
	case PLACE_OVER_LIMIT: snprintf(ret, size, "above the queue's limit"); break;
	case PLACE_TERMINATING:
		snprintf(ret, size, "with GPUs whose tenants are terminating");
		break;
	case PLACE_CLOSED:
		snprintf(ret, size,
			"with GPUs that are cordoned, unhealthy or not managed by divvy");
		break;
	case PLACE_NO_CPU: snprintf(ret, size, "too little cpu"); break;
	case PLACE_NO_MEMORY: snprintf(ret, size, "too little memory"); break;
	case PLACE_NO_DEVICE_MEMORY:
		snprintf(ret, size, "%s with %s free", too_few(spec->count, gpus),
			memory_text(spec, memory));
		break;
	case PLACE_NO_SHARE:
		snprintf(ret, size, "%s with %s%s%s free", too_few(spec->count, gpus),
			format_share(spec->exclusive ? SPEC_SHARE_ONE : spec->request).s,
			is_short ? " and " : "", is_short ? memory_text(spec, memory) : "");
		break;
	default: snprintf(ret, size, "no room for all its containers together"); break;
	}
}

/*
 * Judges the devices that the request names. Returns PLACE_FITS if enough of them fit or the
 * request names none, PLACE_OTHER_DEVICE if the node has too few of them, else the most frequent
 * reason. ret_closed: why one of them is closed.
 */
static enum place_reason named_reason(const struct place *place, const struct place_spec *spec,
	const struct spec *requested, const struct cnode *node, enum gpunode_closed *ret_closed)
{
	uint32_t n[PLACE_N_REASONS] = {0}, n_named = 0, most = PLACE_FITS;
	struct place_node_view view;

	*ret_closed = GPUNODE_OPEN;
	if (!requested->device[0] || !place_node_get(place, node->at, &view))
		return PLACE_FITS;
	for (uint32_t d = view.first_device; d < view.first_device + view.n_devices; d++) {
		const struct gpunode_device *own;
		struct place_device_view device;
		enum place_reason reason;

		place_device_get(place, d, &device);
		if (!spec_device_fits(requested, device.uuid))
			continue;
		reason = place_device_reason(place, spec, d);
		own = gpunode_find(&node->gpus, device.uuid);
		if (reason == PLACE_CLOSED && own && own->closed)
			*ret_closed = own->closed;
		n_named++;
		n[reason]++;
		if (reason != PLACE_FITS && (most == PLACE_FITS || n[reason] > n[most]))
			most = reason;
	}
	if (n_named < requested->count)
		return PLACE_OTHER_DEVICE;
	return n[PLACE_FITS] >= requested->count ? PLACE_FITS : (enum place_reason)most;
}

/* Returns whether each device of the node has less memory than memory_bytes in all. */
static bool is_beyond_memory(
	const struct place *place, const struct cnode *node, uint64_t memory_bytes)
{
	struct place_node_view view;
	struct place_device_view device;

	if (!memory_bytes || !place_node_get(place, node->at, &view) || !view.n_devices)
		return false;
	for (uint32_t d = view.first_device; d < view.first_device + view.n_devices; d++) {
		place_device_get(place, d, &device);
		if (device.memory_all >= memory_bytes)
			return false;
	}
	return true;
}

/* Returns whether the request could fit if other tenants left the devices. */
static bool is_of_others(enum place_reason reason)
{
	return reason == PLACE_FITS || reason == PLACE_LABELS || reason == PLACE_NO_DEVICE_MEMORY ||
		reason == PLACE_NO_SHARE || reason == PLACE_TERMINATING;
}

/*
 * Whether a further device might help a pod that does not fit a node for this reason. Processors,
 * host memory, labels and limits do not change with another device.
 */
static const bool is_helped[PLACE_N_REASONS] = {
	[PLACE_CLOSED] = true,
	[PLACE_NO_DEVICES] = true,
	[PLACE_OTHER_MODEL] = true,
	[PLACE_OTHER_DEVICE] = true,
	[PLACE_NO_DEVICE_MEMORY] = true,
	[PLACE_NO_SHARE] = true,
	[PLACE_TERMINATING] = true,
};

static bool is_short_of_memory(
	const struct place *place, const struct place_spec *spec, const struct cnode *node)
{
	struct place_node_view view;

	if (!place_node_get(place, node->at, &view))
		return false;
	for (uint32_t i = view.first_device; i < view.first_device + view.n_devices; i++)
		if (place_device_reason(place, spec, i) == PLACE_NO_DEVICE_MEMORY)
			return true;
	return false;
}

/*
 * Returns the largest values of the requests of a container and of the init containers that use its
 * devices.
 */
static struct spec decide_why_needed_spec(const struct cpod *pod, uint32_t host)
{
	struct spec most = pod->requested.v[host].spec;

	for (uint32_t i = 0; i < pod->requested.n; i++) {
		const struct spec *one = &pod->requested.v[i].spec;

		if (pod->requested.v[i].host != host)
			continue;
		most.exclusive |= one->exclusive;
		most.request = MAX(most.request, one->request);
		most.memory_bytes = MAX(most.memory_bytes, one->memory_bytes);
		most.memory_permille = MAX(most.memory_permille, one->memory_permille);
	}
	return most;
}

bool attempt_gpu_reason(
	struct attempt *a, const struct cnode *node, char ret[static DECIDE_REASON_MAX])
{
	const struct cpod *pod = a->pod;
	uint32_t next;

	for (uint32_t i = attempt_next_host(pod, 0); i < pod->requested.n; i = next) {
		const struct spec *spec = &pod->requested.v[i].spec,
				  most = decide_why_needed_spec(pod, i);
		enum place_reason reason = PLACE_OTHER_MODEL, named;
		struct place_spec place = {.share = 0};
		enum gpunode_closed closed;
		enum node_why why;

		next = attempt_next_host(pod, i + 1);
		a->requested = spec;
		why = attempt_node(a, node);
		if (why != NODE_FITS) {
			a->needs_device |= why == NODE_NO_GPUS;
			snprintf(ret, DECIDE_REASON_MAX, "%s", node_texts[why]);
			return false;
		}
		if (cluster_spec(a->cluster, pod, i, &place) == 0)
			reason = place_reason_of(a->cluster->place, &place, node->at);
		named = named_reason(a->cluster->place, &place, spec, node, &closed);
		if (reason == PLACE_FITS && named == PLACE_OTHER_DEVICE)
			reason = PLACE_OTHER_DEVICE;
		if (reason == PLACE_FITS && pod->requested.vgpu[0]) {
			a->needs_device = true;
			snprintf(ret, DECIDE_REASON_MAX,
				vgpu_devices(a->cluster, node, pod->requested.vgpu)
					? "no room on vGPU %.63s"
					: "no unused GPU for vGPU %.63s",
				pod->requested.vgpu);
			return true;
		}
		if (reason != PLACE_OTHER_DEVICE && reason != PLACE_OTHER_MODEL &&
			named != PLACE_FITS && named != PLACE_OTHER_DEVICE)
			reason = named;
		if (named == PLACE_CLOSED) {
			/* The pool may take the named device, but it uncordons and heals none. */
			a->needs_device |= closed == GPUNODE_NOT_TAKEN ||
				closed == GPUNODE_NOT_OURS;
			snprintf(ret, DECIDE_REASON_MAX, "%s", gpunode_closed_text(closed));
			return false;
		}
		if ((reason == PLACE_NO_SHARE || reason == PLACE_NO_DEVICE_MEMORY) &&
			is_beyond_memory(a->cluster->place, node, most.memory_bytes)) {
			a->needs_device = true;
			snprintf(ret, DECIDE_REASON_MAX, "no GPU that has %s",
				format_bytes(most.memory_bytes).s);
			return false;
		}
		if (reason == PLACE_FITS && !attempt_has_memory(a, node))
			reason = PLACE_NO_DEVICE_MEMORY;
		if (is_helped[reason] || (reason == PLACE_FITS && next == pod->requested.n))
			a->needs_device = true;
		if (reason == PLACE_CLOSED && gpunode_closed(&node->gpus)) {
			snprintf(ret, DECIDE_REASON_MAX, "%s",
				gpunode_closed_text(gpunode_closed(&node->gpus)));
			return false;
		}
		if (reason != PLACE_FITS || next == pod->requested.n) {
			device_text(&most, reason,
				reason == PLACE_NO_SHARE &&
					is_short_of_memory(a->cluster->place, &place, node),
				ret, DECIDE_REASON_MAX);
			return is_of_others(reason);
		}
	}
	snprintf(ret, DECIDE_REASON_MAX, "no room");
	return true;
}

/*
 * Returns the first container that the node's devices do not fit; PLACE_NONE if devices are not the
 * reason. If no earlier container is the reason, the function returns the last container.
 */
static uint32_t container_in_question(struct attempt *a, const struct cnode *node)
{
	const struct tenancy *requested = &a->pod->requested;
	uint32_t next;

	for (uint32_t i = attempt_next_host(a->pod, 0); i < requested->n; i = next) {
		struct place_spec spec;
		enum gpunode_closed closed;

		next = attempt_next_host(a->pod, i + 1);
		a->requested = &requested->v[i].spec;
		if (attempt_node(a, node) != NODE_FITS)
			return PLACE_NONE;
		if (next == requested->n || cluster_spec(a->cluster, a->pod, i, &spec) < 0 ||
			place_reason_of(a->cluster->place, &spec, node->at) != PLACE_FITS ||
			named_reason(a->cluster->place, &spec, a->requested, node, &closed) ==
				PLACE_OTHER_DEVICE)
			return i;
	}
	return PLACE_NONE;
}

/*
 * Returns whether a pod with one container fits the node's devices, so that the node's devices do
 * not make the pod wait.
 */
static bool decide_why_fits_now(struct attempt *a, const struct cnode *node)
{
	const struct tenancy *requested = &a->pod->requested;
	const uint32_t host = attempt_next_host(a->pod, 0);
	struct place_spec spec;
	enum gpunode_closed closed;

	return host < requested->n && attempt_next_host(a->pod, host + 1) == requested->n &&
		cluster_spec(a->cluster, a->pod, host, &spec) == 0 &&
		place_reason_of(a->cluster->place, &spec, node->at) == PLACE_FITS &&
		named_reason(a->cluster->place, &spec, &requested->v[host].spec, node, &closed) ==
		PLACE_FITS;
}

static bool is_short_of_gpus(struct attempt *a, const struct cnode *node)
{
	if (!node || node->at == PLACE_NONE || !a->pod->requested.n)
		return false;
	a->requested = &a->pod->requested.v[attempt_next_host(a->pod, 0)].spec;
	if (attempt_node(a, node) != NODE_FITS)
		return true;
	return container_in_question(a, node) != PLACE_NONE && !decide_why_fits_now(a, node);
}

static bool is_sum_of_devices(struct fit_answer answer)
{
	bool is = false;

	for (uint32_t i = 0; answer.why == FIT_RESOURCE && remote_skipped_rules[i] && !is; i++)
		is = !strcmp(answer.what, remote_skipped_rules[i]);
	return is;
}

/*
 * Applies Kubernetes' rules. If only a resource that sums over the devices is exhausted, returns
 * FIT_OK: the reasons of single devices then explain more.
 */
static struct fit_answer decide_why_test_node(struct attempt *a, uint32_t at)
{
	const char *name = view_node(a->cluster->view, at)->object.name;
	const struct fit_answer answer = fit_node(a->fit, at);

	if (is_sum_of_devices(answer) && !decide_remote_is_requested(a->pod) &&
		is_short_of_gpus(a, cnode_find(a->cluster, name)))
		return (struct fit_answer){FIT_OK, NULL};
	return answer;
}

/*
 * Writes why the pod does not fit the node. Returns whether the pod might fit if other pods left
 * the node.
 */
static bool node_reason(struct attempt *a, uint32_t at, char ret[static DECIDE_REASON_MAX])
{
	const struct view *view = a->cluster->view;
	const struct fit_answer answer = decide_why_test_node(a, at);
	const struct cnode *node;

	if (answer.why != FIT_OK) {
		_cleanup_buf_ struct buf text = BUF_INIT(DECIDE_REASON_MAX - 1);

		fit_format(answer, &text);
		snprintf(ret, DECIDE_REASON_MAX, "%s", buf_text(&text));
		return answer.why == FIT_RESOURCE || answer.why == FIT_CLAIM_DEVICES;
	}
	node = cnode_find(a->cluster, view_node(view, at)->object.name);
	if (!node || node->at == PLACE_NONE)
		snprintf(ret, DECIDE_REASON_MAX, "not known yet");
	else
		return attempt_gpu_reason(a, node, ret);
	return false;
}

static uint32_t nodes_with(const struct reasons *r, const char *text)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (!strcmp(r->text[i], text))
			return r->n_of[i];
	return 0;
}

/* Returns whether both have the same reasons with the same counts. */
static bool are_same(const struct reasons *a, const struct reasons *b)
{
	if (a->n != b->n || a->n_others != b->n_others)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (nodes_with(b, a->text[i]) != a->n_of[i])
			return false;
	return true;
}

/* Prints ": 8 no GPU, 1 cordoned" for n nodes, and clears the counts. */
static void decide_why_print(struct reasons *reasons, uint32_t n, struct buf *why)
{
	uint32_t left = n;

	for (uint32_t shown = 0; shown < SHOWN_MAX; shown++) {
		uint32_t most = 0;

		for (uint32_t i = 1; i < reasons->n; i++)
			if (reasons->n_of[i] > reasons->n_of[most])
				most = i;
		if (!reasons->n || !reasons->n_of[most])
			break;
		buf_addf(why, "%s %u %s", shown ? "," : ":", reasons->n_of[most],
			reasons->text[most]);
		left -= reasons->n_of[most];
		reasons->n_of[most] = 0;
	}
	if (left)
		buf_addf(why, ", %u for other reasons", left);
}

static bool has_network(const struct cluster *c, const struct cnode *node, uint32_t mbit)
{
	for (uint32_t i = 0; i < node->gpus.n_networks; i++)
		if (node->network[i] && place_network_free_mbit(c->place, node->network[i]) >= mbit)
			return true;
	return false;
}

/* ---- devices of other nodes ---- */

struct reason_visit {
	struct attempt *attempt;
	decide_reason_fn *tell;
	void *data;
};

/*
 * Writes why the pod cannot use the node's devices over the network. Returns whether a measured
 * path is the reason.
 */
static bool server_reason(struct attempt *a, const struct cnode *node,
	const struct nearest *nearest, char ret[static DECIDE_REASON_MAX])
{
	const uint32_t host = attempt_next_host(a->pod, 0);
	const struct spec *requested = &a->pod->requested.v[host].spec;
	struct spec bandwidth = {.network_mbit = requested->network_mbit};
	char network[SPEC_NETWORK];
	struct place_spec spec;

	a->requested = requested;
	if (node->at == PLACE_NONE)
		snprintf(ret, DECIDE_REASON_MAX, "not known yet");
	else if (attempt_node(a, node) != NODE_FITS ||
		cluster_spec(a->cluster, a->pod, host, &spec) < 0 ||
		place_reason_of(a->cluster->place, &spec, node->at) != PLACE_FITS ||
		!attempt_has_memory(a, node))
		attempt_gpu_reason(a, node, ret);
	else if (!has_network(a->cluster, node, requested->network_mbit))
		snprintf(ret, DECIDE_REASON_MAX, "no network device%s%s%s",
			requested->network_mbit ? " with " : "",
			spec_network_format(&bandwidth, network),
			requested->network_mbit ? " free" : "");
	else if (nearest && nearest_text(requested, &nearest[node->at], ret, DECIDE_REASON_MAX))
		return true;
	else
		snprintf(ret, DECIDE_REASON_MAX,
			"no network of the same kind on a node for the pod");
	return false;
}

/*
 * Counts why the pod cannot use devices of each node that serves them. Returns false if no node
 * does, or the pod may not use devices of other nodes. If t is not NULL, the function also reports
 * each node whose measured path is the reason.
 */
static bool count_remote(struct attempt *a, const struct reason_visit *t, struct reasons *reasons)
{
	const uint32_t host = attempt_next_host(a->pod, 0);
	_cleanup_free_ struct nearest *nearest = NULL;
	const struct cnode *node;

	if (remote_refusal(a->cluster, a->pod))
		return false;
	/*
	 * If memory is exhausted, `nearest` stays NULL, and only the reasons about measured paths
	 * are missing.
	 */
	nearest_find(a, &a->pod->requested.v[host].spec, &nearest);
	for (node = a->cluster->nodes; node; node = node->hh.next) {
		char text[DECIDE_REASON_MAX];

		if (!node->gpus.is_serving)
			continue;
		if (server_reason(a, node, nearest, text) && t)
			t->tell(t->data,
				&(struct decide_reason){.node = node->name,
					.device = "",
					.model = "",
					.text = text});
		decide_why_count(reasons, text);
	}
	return true;
}

static void print_remote(const struct attempt *a, struct reasons *reasons, struct buf *why)
{
	buf_addf(why, "over the network 0/%u nodes that serve", a->cluster->n_serving);
	decide_why_print(reasons, a->cluster->n_serving, why);
}

/* If no device has the requested model, lists the models of the cluster. */
static void explain_models(const struct attempt *a, struct buf *why)
{
	const struct spec *requested = &a->pod->requested.v[attempt_next_host(a->pod, 0)].spec;
	_cleanup_buf_ struct buf names = BUF_INIT(DECIDE_WHY_MAX);
	uint32_t n = 0;

	for (uint32_t i = 0; i < PLACE_MODELS_MAX; i++) {
		const char *name = place_model_name(a->cluster->place, i);

		if (*name && spec_model_fits(requested, name))
			return;
		if (*name && n++ < MODELS_SHOWN_MAX)
			buf_addf(&names, "%s%s", n > 1 ? ", " : "", name);
	}
	if (!n)
		return;
	buf_addf(why, "; the cluster has model%s %s", n == 1 ? "" : "s", buf_text(&names));
	if (n > MODELS_SHOWN_MAX)
		buf_addf(why, " and %u more", n - MODELS_SHOWN_MAX);
}

void decide_explain(struct attempt *a, struct buf *why)
{
	const uint32_t n = view_n_nodes(a->cluster->view);
	_cleanup_buf_ struct buf remote = BUF_INIT(DECIDE_WHY_MAX);
	struct reasons reasons = {.n = 0}, of_remote = {.n = 0};

	for (uint32_t i = 0; i < n; i++) {
		char text[DECIDE_REASON_MAX];

		if (node_reason(a, i, text))
			cpod_note_keeper(a->pod,
				cnode_find(
					a->cluster, view_node(a->cluster->view, i)->object.name));
		decide_why_count(&reasons, text);
	}
	/* The message gives the reasons about remote devices only if they differ. */
	if (count_remote(a, NULL, &of_remote) && reasons.n && !are_same(&reasons, &of_remote))
		print_remote(a, &of_remote, &remote);
	buf_addf(why, "0/%u nodes", n);
	decide_why_print(&reasons, n, why);
	if (remote.n)
		buf_addf(why, "; %s", buf_text(&remote));
	if (a->pod->requested.n && a->pod->requested.v[attempt_next_host(a->pod, 0)].spec.model[0])
		explain_models(a, why);
	if (a->is_budget_kept)
		buf_add_text(why, "; a PodDisruptionBudget forbids the evictions that it needs");
}

/* ---- reasons by node and device ---- */

/* Writes why the device does not fit; "" if it fits. */
static void reason_of_device(const struct spec *requested, const struct place_spec *spec,
	enum place_reason reason, const struct place_device_view *device, const struct cnode *node,
	char ret[static DECIDE_REASON_MAX])
{
	const struct gpunode_device *own = gpunode_find(&node->gpus, device->uuid);
	struct spec one = *requested;

	ret[0] = '\0';
	one.count = 1;
	if (reason == PLACE_NO_SHARE)
		snprintf(ret, DECIDE_REASON_MAX, "%s free, %s requested",
			format_share(device->share_free).s,
			format_share(spec->is_exclusive ? SPEC_SHARE_ONE : spec->share).s);
	else if (reason == PLACE_NO_DEVICE_MEMORY)
		snprintf(ret, DECIDE_REASON_MAX, "%s of memory free, %s requested",
			format_bytes(device->memory_free).s,
			format_bytes(spec_memory_on(requested, device->memory_all)).s);
	else if (reason == PLACE_CLOSED)
		snprintf(ret, DECIDE_REASON_MAX, "%s",
			gpunode_closed_text(own ? own->closed : GPUNODE_OPEN));
	else if (reason != PLACE_FITS)
		device_text(&one, reason, false, ret, DECIDE_REASON_MAX);
}

static void decide_why_visit_devices(
	const struct reason_visit *t, const struct cnode *node, uint32_t container)
{
	struct attempt *a = t->attempt;
	const struct spec most = decide_why_needed_spec(a->pod, container), *requested = &most;
	struct place *place = a->cluster->place;
	struct place_node_view view;
	struct place_spec spec;
	const bool has_model = cluster_spec(a->cluster, a->pod, container, &spec) == 0;

	if (!place_node_get(place, node->at, &view))
		return;
	for (uint32_t d = view.first_device; d < view.first_device + view.n_devices; d++) {
		struct place_device_view device;
		enum place_reason reason = PLACE_OTHER_MODEL;
		const struct gpunode_device *own;
		char text[DECIDE_REASON_MAX];

		place_device_get(place, d, &device);
		own = gpunode_find(&node->gpus, device.uuid);
		if (has_model)
			reason = place_device_reason(place, &spec, d);
		if (requested->device[0] && !spec_device_fits(requested, device.uuid))
			reason = PLACE_OTHER_DEVICE;
		reason_of_device(requested, &spec, reason, &device, node, text);
		t->tell(t->data,
			&(struct decide_reason){.node = node->name,
				.device = device.uuid,
				.index = own ? own->index : 0,
				.model = place_model_name(place, device.model),
				.text = text,
				.share_free = device.share_free,
				.memory_free = device.memory_free});
	}
}

struct claims_visit {
	const struct reason_visit *visit;
	const char *node;
	uint32_t n; /* devices so far */
};

static void decide_why_tell_claims(void *data, const struct claims_reason *reason)
{
	struct claims_visit *v = data;

	v->visit->tell(v->visit->data,
		&(struct decide_reason){.node = v->node,
			.device = reason->device,
			.index = reason->device[0] ? v->n++ : 0,
			.model = reason->model,
			.text = reason->text,
			.is_unmeasured = !reason->has_free,
			.share_free = (uint32_t)MIN(reason->free_share, UINT64_C(1000)),
			.memory_free = reason->free_bytes});
}

static void decide_why_visit_node(const struct reason_visit *t, uint32_t at)
{
	struct attempt *a = t->attempt;
	const char *name = view_node(a->cluster->view, at)->object.name;
	const struct cnode *node = cnode_find(a->cluster, name);
	uint32_t container = PLACE_NONE;
	char text[DECIDE_REASON_MAX];

	if (decide_why_test_node(a, at).why == FIT_CLAIM_DEVICES) {
		struct claims_visit visit = {t, name, 0};

		cluster_explain_claims(a->fit, view_node(a->cluster->view, at),
			&(struct claims_teller){decide_why_tell_claims, &visit});
		return;
	}
	node_reason(a, at, text);
	if (node && node->at != PLACE_NONE && decide_why_test_node(a, at).why == FIT_OK)
		container = container_in_question(a, node);
	if (container != PLACE_NONE && decide_why_fits_now(a, node))
		text[0] = '\0';
	t->tell(t->data,
		&(struct decide_reason){.node = name, .device = "", .model = "", .text = text});
	if (container != PLACE_NONE)
		decide_why_visit_devices(t, node, container);
}

static void decide_why_visit_nodes(
	struct attempt *a, decide_reason_fn *tell, void *data, const char *why)
{
	const struct reason_visit t = {a, tell, data};

	if (why[0]) {
		tell(data,
			&(struct decide_reason){
				.node = "", .device = "", .model = "", .text = why});
		return;
	}
	for (uint32_t i = 0; i < view_n_nodes(a->cluster->view); i++)
		decide_why_visit_node(&t, i);
}

int decide_reasons(
	struct cluster *c, struct cpod *pod, decide_reason_fn *tell, void *data, struct error *err)
{
	_cleanup_buf_ struct buf why = BUF_INIT(DECIDE_WHY_MAX);
	_cleanup_buf_ struct buf remote = BUF_INIT(DECIDE_WHY_MAX);
	struct attempt a = {.cluster = c, .pod = pod};
	struct reasons of_remote = {.n = 0};
	struct error unfit = {0};
	int r = 0;

	if (decide_refusal(c, pod))
		buf_add_text(&why, decide_refusal(c, pod));
	else if (cluster_allows(c, pod, &why))
		r = fit_new(c->view, cpod_view(c, pod), &a.fit, &unfit);
	if (r == -ENOMEM)
		return fail(err, ENOMEM, "out of memory");
	if (r < 0)
		buf_add_text(&why, unfit.msg);
	decide_why_visit_nodes(&a, tell, data, buf_text(&why));
	if (a.fit && count_remote(&a, &(struct reason_visit){&a, tell, data}, &of_remote))
		print_remote(&a, &of_remote, &remote);
	if (remote.n)
		tell(data,
			&(struct decide_reason){
				.node = "", .device = "", .model = "", .text = buf_text(&remote)});
	fit_free(a.fit);
	return 0;
}
