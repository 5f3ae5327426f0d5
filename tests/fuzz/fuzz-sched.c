/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler with objects as JSON, [["pod", {...}], ["gone", "pod", "ns", "name"], ["pass", 5],
 * ["served", "kubegroup"], ...], in any order. Each action is about a present pod and has a message
 * or a place. Bindings may fail. The number of actions is bounded.
 */
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "place/place-policy.h"
#include "fuzz.h"
#include "scheduler/decide.h"
#include "scheduler/sched.h"

#define STEPS_MAX 64u
#define ACTIONS_MAX 4096u /* most actions that may follow one step */
#define SECOND UINT64_C(1000000000)

static int kind_of(const char *name)
{
	static const char *const own[] = {"gpunode", "lease", "gpupolicy", "budget", "podgroup",
		"sigsgroup", "volcanogroup", "kubegroup", "jobset", "raycluster", "slice",
		"deviceclass", "resourceclaim", "taintrule"};
	enum object_kind kind;

	for (size_t i = 0; name && i < ARRAY_SIZE(own); i++)
		if (!strcmp(name, own[i]))
			return CLUSTER_GPU_NODE + (int)i;
	return name && object_kind_parse(name, &kind) == 0 ? (int)kind : -1;
}

static void check_bind(struct sched *sched, const struct cpod *pod)
{
	json_t *annotations = NULL;

	FUZZ_CHECK(cpod_state(pod) == CPOD_ASSUMED && cpod_node(pod)[0]);
	FUZZ_CHECK(cpod_assigned(pod)->n == cpod_requested(pod)->n);
	FUZZ_CHECK(decide_annotations(sched_cluster(sched), pod, 1, &annotations) == 0);
	json_decref(annotations);
}

static void drain(struct sched *sched, size_t step)
{
	struct sched_action a;
	uint32_t n = 0;

	while (sched_next(sched, &a, NULL) > 0) {
		FUZZ_CHECK(n++ < ACTIONS_MAX);
		if (a.act == SCHED_CONDITION || a.act == SCHED_DENY || a.act == SCHED_EVENT)
			FUZZ_CHECK(a.sentence[0]);
		if (a.act == SCHED_CLAIM)
			FUZZ_CHECK(a.claims->node && a.claims->n);
		if (a.act != SCHED_BIND)
			continue;
		check_bind(sched, a.pod);
		/* Some actions fail; the scheduler retries them after a pause. */
		if ((step + n) % 3 == 0) {
			_cleanup_buf_ struct buf ns = BUF_INIT(512), name = BUF_INIT(512),
						 uid = BUF_INIT(8192);

			buf_add_text(&ns, cpod_ns(a.pod));
			buf_add_text(&name, cpod_name(a.pod));
			buf_add_text(&uid, cpod_uid(a.pod));
			if ((step + n) % 2)
				sched_refused(sched, buf_text(&ns), buf_text(&name), buf_text(&uid),
					"403 Forbidden: not here");
			else
				sched_bound(sched, buf_text(&ns), buf_text(&name), buf_text(&uid),
					false);
		}
	}
}

static void step(struct sched *sched, json_t *one, uint64_t *now_ns)
{
	const char *what = json_string_value(json_array_get(one, 0));
	json_t *second = json_array_get(one, 1);
	struct error err = {0};

	if (what && !strcmp(what, "pass")) {
		*now_ns += (uint64_t)(json_integer_value(second) & 1023) * SECOND;
		sched_set_time(sched, *now_ns, *now_ns);
	} else if (what && !strcmp(what, "gone")) {
		const char *ns = json_string_value(json_array_get(one, 2));
		const char *name = json_string_value(json_array_get(one, 3));

		if (kind_of(json_string_value(second)) >= 0)
			sched_remove(sched, kind_of(json_string_value(second)), ns ? ns : "",
				name ? name : "");
	} else if (what && !strcmp(what, "served")) {
		cluster_note_served(sched_cluster(sched), kind_of(json_string_value(second)));
	} else if (kind_of(what) >= 0 && json_is_object(second)) {
		FUZZ_CHECK(sched_set(sched, kind_of(what), second, &err) == 0 || err.msg[0]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct sched_config config = {
		.cluster = {"divvy-scheduler", 30, &place_best_fit, NULL}, .seed = 1};
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	json_t *json = json_loadb((const char *)data, n, 0, NULL), *one;
	uint64_t now_ns = 1000 * SECOND;
	size_t i;

	FUZZ_CHECK(sched_new(&config, &sched, NULL) == 0);
	sched_set_time(sched, now_ns, now_ns);
	json_array_foreach(json, i, one) {
		if (i == STEPS_MAX)
			break;
		step(sched, one, &now_ns);
		drain(sched, i);
	}
	json_decref(json);
	return 0;
}
