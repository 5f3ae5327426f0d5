/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evicts pods through the Eviction API and waits until they are removed. The state of a pod goes
 * from TO_GO to GOING, or to HELD while a disruption budget refuses, and ends at DELETED.
 * go_round() takes one step for each pod, about once a second. With `is_in_order`, go_round() stops
 * at the first pod that still exists. The UID identifies a pod: if a new pod has the name, the old
 * one counts as DELETED, and the new pod is never evicted. A pod that has ended also counts as
 * DELETED.
 */
#include "kubectl/evict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/format.h"
#include "cmdline/json-member.h"
#include "kubectl/report.h"

#define LOOK_NS (1 * NSEC_PER_SEC)  /* interval of checks whether a pod still exists */
#define AGAIN_NS (5 * NSEC_PER_SEC) /* pause after an eviction that a disruption budget refused */

enum state { TO_GO, HELD, GOING, DELETED };

struct eviction {
	const char *ns, *name, *uid;
	enum state state;
	uint64_t again_ns;
};

static bool evict_has_device(const json_t *pod, const char *uuid)
{
	struct assigned assigned;
	bool has = false;

	if (report_assigned(pod, &assigned) == 0)
		for (uint32_t i = 0; i < assigned.n; i++)
			for (uint32_t k = 0; k < assigned.v[i].n; k++)
				has |= !strcmp(assigned.v[i].device[k], uuid);
	assigned_done(&assigned);
	return has;
}

static bool is_confirmed(const json_t *gpunodes, const char *uid, const char *uuid)
{
	for (size_t i = 0; i < json_array_size(gpunodes); i++) {
		const json_t *all = kube_json_at(
			json_array_get(gpunodes, i), "status", "tenants", NULL);

		for (size_t t = 0; t < json_array_size(all); t++) {
			const json_t *one = json_array_get(all, t);

			if (kube_json_list_has(json_object_get(one, "devices"), uuid) &&
				!strcmp(json_text_or_empty(one, "podUID"), uid))
				return true;
		}
	}
	return false;
}

json_t *evict_tenants_of(const json_t *gpunodes, const json_t *pods, const char *uuid)
{
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(pods); i++) {
		json_t *pod = json_array_get(pods, i);
		const char *uid = kube_json_text_at(pod, "metadata", "uid", NULL);

		if (!kube_json_is_over(pod) && kube_json_text_at(pod, "spec", "nodeName", NULL) &&
			(evict_has_device(pod, uuid) ||
				is_confirmed(gpunodes, uid ? uid : "", uuid)))
			json_array_append(made, pod);
	}
	return made;
}

json_t *evict_made(const json_t *pods, bool is_made)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(pods); i++)
		if (!kube_json_controller(json_array_get(pods, i)) != is_made)
			json_array_append(list, json_array_get(pods, i));
	return list;
}

/* ---- one pod ---- */

static int evict_request_eviction(struct access *a, struct eviction *l,
	const struct evict_options *options, struct error *err)
{
	const struct kube_delete what = {.uid = l->uid, .grace_s = options->grace_s};
	struct kube_ask answer = {.is_done = false};
	const struct kube_write write = {.target = {"v1", "pods", l->ns, l->name, NULL},
		.field_manager = "kubectl-divvy",
		.is_tried_once = true,
		.is_dry_run = options->is_dry_run,
		.done = kube_ask_done,
		.data = &answer};
	int r = kube_evict(a->client, &write, kube_discovery_eviction(a->discovery), &what, err);

	r = r < 0 ? r : access_await(a, &answer, NULL, err);
	switch (r) {
	case 0:
		l->state = options->is_dry_run ? DELETED : GOING;
		printf("%s/%s: %s\n", l->ns, l->name,
			options->is_dry_run ? "would be evicted" : "evicted");
		return 0;
	case -ENOENT:
	case -EBUSY: /* another pod has this name now */ l->state = DELETED; return 0;
	case -EAGAIN:
		if (l->state != HELD)
			printf("%s/%s: its PodDisruptionBudget blocks the eviction%s\n", l->ns,
				l->name, options->is_dry_run ? " now" : "; retrying");
		l->state = options->is_dry_run ? DELETED : HELD;
		l->again_ns = clock_now_ns() + AGAIN_NS;
		return 0;
	default: return r;
	}
}

static int evict_check_pod(struct access *a, struct eviction *l, struct error *err)
{
	const struct kube_target target = {"v1", "pods", l->ns, l->name, NULL};
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX);
	_cleanup_json_ json_t *pod = NULL;
	const char *uid;
	int r = kube_path(&path, &target, err);

	r = r < 0 ? r : access_get(a, buf_text(&path), NULL, &pod, err);
	if (r < 0 && r != -ENOENT)
		return r;
	uid = kube_json_text_at(pod, "metadata", "uid", NULL);
	if (r == 0 && uid && !strcmp(uid, l->uid) && !kube_json_is_over(pod))
		return 0;
	l->state = DELETED;
	printf("%s/%s: deleted\n", l->ns, l->name);
	return 0;
}

static int evict_step(struct access *a, struct eviction *l, const struct evict_options *options,
	struct error *err)
{
	switch (l->state) {
	case TO_GO: return evict_request_eviction(a, l, options, err);
	case HELD:
		return clock_now_ns() < l->again_ns ? 0
						    : evict_request_eviction(a, l, options, err);
	case GOING: return evict_check_pod(a, l, err);
	case DELETED: break;
	}
	return 0;
}

static uint32_t go_round(struct access *a, struct eviction *list, uint32_t n,
	const struct evict_options *options, int *ret, struct error *err)
{
	uint32_t left = 0;

	*ret = 0;
	for (uint32_t i = 0; *ret == 0 && i < n; i++) {
		*ret = evict_step(a, &list[i], options, err);
		left += list[i].state != DELETED;
		if (options->is_in_order && list[i].state != DELETED)
			return left + n - i - 1;
	}
	fflush(stdout);
	return left;
}

static bool is_ended(const struct evict_options *options)
{
	return options->is_ended && *options->is_ended;
}

int evict_pods(struct access *a, const json_t *pods, const struct evict_options *options,
	struct error *err)
{
	const uint32_t n = (uint32_t)json_array_size(pods);
	const uint64_t give_up_ns = clock_now_ns() + options->timeout_ns;
	_cleanup_free_ struct eviction *list = calloc(n + 1ul, sizeof(*list));
	uint32_t left;
	int r = list ? access_discover(a, err) : fail(err, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		const json_t *metadata = json_object_get(json_array_get(pods, i), "metadata");

		list[i] = (struct eviction){.ns = json_text_or_empty(metadata, "namespace"),
			.name = json_text_or_empty(metadata, "name"),
			.uid = json_text_or_empty(metadata, "uid")};
	}
	for (;;) {
		const uint64_t next_ns = MIN(clock_now_ns() + LOOK_NS, give_up_ns);

		left = go_round(a, list, n, options, &r, err);
		if (r < 0)
			return r;
		if (is_ended(options))
			return -EINTR;
		if (!left || clock_now_ns() >= give_up_ns)
			break;
		while (r >= 0 && clock_now_ns() < next_ns && !is_ended(options))
			r = loop_run_once(a->loop, next_ns);
		if (r < 0)
			return fail_errno(err, -r, "event loop");
	}
	for (uint32_t i = 0; i < n; i++)
		if (list[i].state != DELETED)
			printf("%s/%s: still there after %s\n", list[i].ns, list[i].name,
				format_duration(options->timeout_ns).s);
	return (int)left;
}
