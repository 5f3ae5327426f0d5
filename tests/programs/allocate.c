/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers questions about devices as src/claims does, for tests that compare the answers with those
 * of Kubernetes' own allocator (tests/k8s/modules/with/allocator, which describes questions and
 * answers). Each line of stdin is a question, and stdout has one line for each answer.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/cel.h"
#include "claims/claims.h"
#include "claims/slice.h"

static json_t *report(const char *stage, const struct error *err)
{
	return json_pack("{ss, ss}", "stage", stage, "error", err->msg);
}

/* The device alone in a slice. */
static json_t *slice_with(const json_t *question)
{
	return json_pack("{s:{ss}, s:{sO, s:{ss}, s:[O]}}", "metadata", "name", "s", "spec",
		"driver", json_object_get(question, "driver"), "pool", "name", "p", "devices",
		json_object_get(question, "device"));
}

static json_t *evaluate(const json_t *question)
{
	const json_t *text = json_object_get(question, "expression");
	_cleanup_(slice_free_p) struct slice *slice = NULL;
	_cleanup_(cel_free_p) struct cel *cel = NULL;
	json_t *json = slice_with(question);
	struct error err = {0};
	uint64_t steps = CEL_STEPS_MAX;
	bool matches;
	int r = slice_new(json, &slice, &err);

	json_decref(json);
	if (r < 0 || slice->is_unclear || !slice->n_devices)
		return report("device", &err);
	r = cel_parse((struct str){json_string_value(text), json_string_length(text)}, &cel, &err);
	if (r < 0)
		return report(r == -ENOTSUP ? "unsupported" : "compile", &err);
	if (slice->devices[0].cel_fault)
		return json_pack("{ss, ss}", "stage", "run", "error", slice->devices[0].cel_fault);
	if (cel_match(cel, &slice->devices[0].cel, &steps, &matches, &err) < 0)
		return report("run", &err);
	return json_pack("{sb}", "matches", matches);
}

static int fill(struct claims *claims, const json_t *question, struct error *err)
{
	static const struct {
		const char *key;
		enum claims_kind kind;
	} lists[] = {
		{"slices", CLAIMS_SLICE},
		{"classes", CLAIMS_CLASS},
		{"allocated", CLAIMS_CLAIM},
		{"claims", CLAIMS_CLAIM},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const json_t *list = json_object_get(question, lists[i].key);

		for (size_t k = 0; r == 0 && k < json_array_size(list); k++)
			r = claims_set(claims, lists[i].kind, json_array_get(list, k), err);
	}
	return r;
}

/* A question may name a driver whose devices divvy packs: {"packed": {"driver": D, "group": A}}. */
static void pack(struct claims *claims, const json_t *question)
{
	const json_t *packed = json_object_get(question, "packed");

	claims_pack(claims,
		(struct claims_packing){json_string_value(json_object_get(packed, "driver")),
			json_string_value(json_object_get(packed, "group"))});
}

static json_t *allocations_of(const struct claims_place *place)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < claims_place_count(place); i++) {
		struct claims_write write;

		claims_place_get(place, i, &write);
		json_array_append(list, write.allocation);
	}
	return json_pack("{so}", "allocations", list);
}

static json_t *allocate(const json_t *question)
{
	_cleanup_(claims_free_p) struct claims *claims = NULL;
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
	const json_t *metadata = json_object_get(json_object_get(question, "node"), "metadata");
	const json_t *list = json_object_get(question, "claims");
	struct claims_pod pod = {
		.ns = "default", .name = "", .uid = "", .n = (uint32_t)json_array_size(list)};
	_cleanup_free_ struct claims_name *names = calloc(pod.n + 1ul, sizeof(*names));
	struct arena arena = {.total = 0};
	struct claims_place *place = NULL;
	struct labels labels = {0};
	struct claims_node node = {json_string_value(json_object_get(metadata, "name")), &labels};
	struct error err = {0};
	json_t *answer;
	int r = claims_new(1, &claims, &err);

	if (!names)
		abort();
	pod.v = names;
	for (uint32_t i = 0; i < pod.n; i++)
		names[i].name = json_string_value(json_object_get(
			json_object_get(json_array_get(list, i), "metadata"), "name"));
	r = r < 0 ? r : fill(claims, question, &err);
	if (r == 0)
		pack(claims, question);
	if (r == 0 && json_object_get(metadata, "labels"))
		r = labels_read(&arena, json_object_get(metadata, "labels"), &labels, &err);
	r = r < 0 ? r : claims_search_new(claims, &pod, &search, &err);
	r = r < 0 ? r : claims_assume(search, &node, NULL, &place, &err);
	if (r == 0)
		answer = allocations_of(place);
	else if (r == -ENOSPC)
		answer = json_pack("{sn}", "allocations");
	else
		answer = report("allocate", &err);
	claims_release(claims, place);
	arena_done(&arena);
	return answer;
}

int main(void)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		json_t *question = json_loads(line, JSON_ALLOW_NUL, NULL), *answer;

		if (!question) {
			fprintf(stderr, "allocate: a line is not JSON\n");
			return 1;
		}
		answer = json_object_get(question, "expression") ? evaluate(question)
								 : allocate(question);
		json_dumpf(answer, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(answer);
		json_decref(question);
	}
	return 0;
}
