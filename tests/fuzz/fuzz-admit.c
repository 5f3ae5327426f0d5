/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdmissionReviews, and SharePods. The input has three lines: the number of a webhook path, facts
 * about the namespace, the review. Every review gets an answer with its uid. A refusal has a
 * message. A patch can be applied, and the patched pod is valid and needs no patch.
 */
#include <stdlib.h>
#include <string.h>

#include "controller/admit.h"
#include "controller/share-pod.h"
#include "fuzz.h"
#include "patch.h"

static const char *const names[] = {"/mutate/pods", "/validate/pods", "/validate/templates",
	"/validate/objects", "/validate/gpunodes", "/validate/leases", "/validate/claims",
	"/validate/deviceclasses"};

static const struct admit_rules rules = {
	.scheduler_name = "divvy-scheduler", .ns = "divvy-system", .lease_ns = "divvy-node-lease"};

static json_t *answer(const char *path, const struct admit_request *request,
	const struct admit_facts *facts, bool *ret_is_allowed)
{
	json_t *out = admit_answer(admit_path_find(path), &rules, request, facts);

	FUZZ_CHECK(out && !strcmp(kube_json_text_at(out, "response", "uid", NULL), request->uid));
	*ret_is_allowed = json_is_true(kube_json_at(out, "response", "allowed", NULL));
	FUZZ_CHECK(*ret_is_allowed ||
		kube_json_text_at(out, "response", "status", "message", NULL)[0]);
	return out;
}

static void check_mutated(
	struct admit_request *request, const struct admit_facts *facts, const json_t *first)
{
	_cleanup_json_ json_t *patch = patch_of_review(first), *pod = NULL, *again = NULL;
	bool is_allowed;

	if (!patch || strcmp(request->operation, "CREATE"))
		return;
	pod = json_deep_copy(request->object);
	/*
	 * Without metadata or spec, which every API server requires, the patch cannot be applied.
	 */
	if (!json_is_object(json_object_get(pod, "metadata")) ||
		!json_is_object(json_object_get(pod, "spec")))
		return;
	FUZZ_CHECK(patch_apply(pod, patch));
	request->object = pod;
	again = answer("/mutate/pods", request, facts, &is_allowed);
	FUZZ_CHECK(is_allowed && !kube_json_at(again, "response", "patch", NULL));
	json_decref(again);
	again = answer("/validate/pods", request, facts, &is_allowed);
	FUZZ_CHECK(is_allowed);
}

static void check_share_pod(const json_t *object)
{
	const struct share_pod_facts facts = {.tenants = json_object_get(object, "tenants"),
		.pod = json_object_get(object, "pod")};

	for (enum share_pod_kind kind = 0; kind < SHARE_POD_N_KINDS; kind++) {
		_cleanup_json_ json_t *pod = NULL, *patch = NULL, *status = NULL;

		if (share_pod_make(object, kind, &pod, NULL) == 0)
			FUZZ_CHECK(share_pod_carry(object, kind, pod, &patch) == 0);
		status = share_pod_status(object, kind, &facts);
		json_decref(share_pod_status_patch(object, status));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str rest = {(const char *)data, n}, path, dialects;
	_cleanup_json_ json_t *review = NULL, *out = NULL;
	_cleanup_free_ char *list = NULL;
	struct admit_request request;
	struct admit_facts facts = {.author = {"u", "n"}};
	const char *name;
	bool is_allowed;

	if (n > 1 << 16 || !str_split(&rest, '\n', &path) || !str_split(&rest, '\n', &dialects) ||
		!rest.p)
		return 0;
	name = names[path.n ? (uint8_t)path.p[0] % ARRAY_SIZE(names) : 0];
	list = str_dup(dialects);
	facts.ns.dialects = list;
	facts.ns.has_claims = dialects.n % 2 == 0;
	if (kube_json_parse(rest, &review, NULL) < 0 || admit_parse(review, &request, NULL) < 0)
		return 0;
	admit_needs(admit_path_find(name), &rules, &request);
	out = answer(name, &request, &facts, &is_allowed);
	check_share_pod(request.object);
	if (!strcmp(name, "/mutate/pods"))
		check_mutated(&request, &facts, out);
	return 0;
}
