/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of an extender client, [["filter", {...}], ["bind", {...}], ["pass", 70], ...], to a
 * scheduler with two nodes and some pods. Checks: each named node is in one list of the answer, no
 * device is allocated beyond its capacity, and each answer can be written as JSON.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-policy.h"
#include "spec/dialect.h"
#include "fuzz.h"
#include "kube/kube-json.h"
#include "scheduler/decide.h"
#include "scheduler/extender.h"

#define STEPS_MAX 32u
#define SECOND UINT64_C(1000000000)
#define PODS 6

static void put(struct sched *sched, int kind, json_t *json)
{
	FUZZ_CHECK(json && sched_set(sched, kind, json, NULL) == 0);
	json_decref(json);
}

static void add_node(struct sched *sched, const char *name)
{
	put(sched, OBJECT_NODE,
		json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}}}", "metadata", "name", name, "status",
			"allocatable", "cpu", "8", "memory", "16Gi", "pods", "110"));
	put(sched, CLUSTER_LEASE,
		json_pack("{s:{s:s}, s:{s:s, s:i}}", "metadata", "name", name, "spec", "renewTime",
			"1970-01-01T00:16:40Z", "leaseDurationSeconds", 86000));
	put(sched, CLUSTER_GPU_NODE,
		json_pack("{s:{s:s}, s:{s:s, s:{s:i}, s:[{s:s, s:s, s:I, s:s}]}}", "metadata",
			"name", name, "status", "owner", "divvy", "slots", "total", 64, "devices",
			"uuid", name, "model", "A", "memoryBytes", (json_int_t)1000000, "health",
			"Healthy"));
}

/* Pods a to f request shares of 0.2 to 0.7; the last pod requests no GPU. */
static void add_pod(struct sched *sched, int i)
{
	const char name[2] = {(char)('a' + i), '\0'};
	char request[8];
	json_t *annotations = json_object();

	snprintf(request, sizeof(request), "0.%d", i + 2);
	if (i < PODS - 1)
		json_object_set_new(annotations, "divvy.gpu/request", json_string(request));
	put(sched, OBJECT_POD,
		json_pack("{s:{s:s, s:s, s:s, s:{s:s}, s:o}, s:{s:s, s:[{s:s}]}}", "metadata",
			"name", name, "namespace", "s", "uid", name, "labels", DIALECT_TENANT_LABEL,
			"true", "annotations", annotations, "spec", "schedulerName", "other",
			"containers", "name", "c"));
}

static const json_t *nodes_of(const json_t *args)
{
	return json_object_get(args, "NodeNames");
}

/* Each node that the request names is in exactly one of the two lists. */
static void check_filter(const json_t *args, const json_t *answer)
{
	const json_t *fit = json_object_get(answer, "NodeNames");
	const json_t *failed = json_object_get(answer, "FailedNodes");

	FUZZ_CHECK(json_is_object(failed));
	for (size_t i = 0; fit && i < json_array_size(nodes_of(args)); i++) {
		const char *name = json_string_value(json_array_get(nodes_of(args), i));
		bool is_fit = false;

		for (size_t k = 0; k < json_array_size(fit); k++)
			is_fit |= !strcmp(json_string_value(json_array_get(fit, k)), name);
		FUZZ_CHECK(is_fit != (json_object_get(failed, name) != NULL));
	}
}

/* Reserved and bound shares of a device never exceed the device. */
static void check_shares(struct sched *sched)
{
	struct cluster *c = sched_cluster(sched);
	static const char *const devices[] = {"n1", "n2"};

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		struct cpod *pod = NULL;
		uint32_t share = 0;

		while ((pod = cluster_next_pod(c, pod)))
			for (uint32_t k = 0; k < cpod_assigned(pod)->n; k++)
				if (!strcmp(cpod_assigned(pod)->v[k].device[0], devices[i]))
					share += cpod_assigned(pod)->v[k].request;
		FUZZ_CHECK(share <= SPEC_SHARE_ONE);
	}
}

static void bind(struct sched *sched, const json_t *args, size_t step)
{
	const struct cpod *pod;
	struct error err = {0};
	int r = extender_bind(sched, args, &pod, &err);

	FUZZ_CHECK(r >= 0 || err.msg[0]);
	if (r != 0)
		return;
	FUZZ_CHECK(cpod_state(pod) == CPOD_ASSUMED && cpod_node(pod)[0]);
	/* Some Bindings fail. */
	if (step % 2) {
		char name[2] = {cpod_name(pod)[0], '\0'};

		sched_bound(sched, "s", name, name, false);
	}
}

static void step(struct sched *sched, json_t *one, size_t i, uint64_t *now_ns)
{
	static const struct {
		const char *name;
		enum extender_verb verb;
	} verbs[] = {{"filter", EXTENDER_FILTER}, {"prioritize", EXTENDER_PRIORITIZE},
		{"preempt", EXTENDER_PREEMPT}};
	const char *what = json_string_value(json_array_get(one, 0));
	const json_t *args = json_array_get(one, 1);

	if (what && !strcmp(what, "pass")) {
		*now_ns += (uint64_t)(json_integer_value(args) & 127) * SECOND;
		sched_set_time(sched, *now_ns, *now_ns);
	}
	if (what && !strcmp(what, "bind"))
		bind(sched, args, i);
	for (size_t k = 0; what && k < ARRAY_SIZE(verbs); k++) {
		_cleanup_json_ json_t *answer = NULL;
		_cleanup_free_ char *text = NULL;
		struct error err = {0};

		if (strcmp(what, verbs[k].name))
			continue;
		if (extender_answer(sched, verbs[k].verb, args, &answer, &err) < 0) {
			FUZZ_CHECK(err.msg[0]);
			json_decref(extender_refusal(verbs[k].verb, err.msg));
			continue;
		}
		if (verbs[k].verb == EXTENDER_FILTER)
			check_filter(args, answer);
		text = kube_json_format(answer);
		FUZZ_CHECK(text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct sched_config config = {
		.cluster = {"divvy-scheduler", 30, &place_best_fit, NULL}, .seed = 1};
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	_cleanup_json_ json_t *json = NULL;
	uint64_t now_ns = 1000 * SECOND;
	json_t *one;
	size_t i;

	if (kube_json_parse((struct str){(const char *)data, n}, &json, NULL) < 0)
		return 0;
	FUZZ_CHECK(sched_new(&config, &sched, NULL) == 0);
	sched_set_time(sched, now_ns, now_ns);
	add_node(sched, "n1");
	add_node(sched, "n2");
	for (int k = 0; k < PODS; k++)
		add_pod(sched, k);
	json_array_foreach(json, i, one) {
		if (i == STEPS_MAX)
			break;
		step(sched, one, i, &now_ns);
		check_shares(sched);
	}
	return 0;
}
