/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares that pods request as resources: what the webhook makes of the pod, and the template that
 * the claim's name stands for.
 */
#include "unit-json.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/admit.h"
#include "controller/claim-template.h"
#include "patch.h"

static const struct admit_rules rules = {
	.scheduler_name = "divvy-scheduler", .ns = "divvy-system", .lease_ns = "divvy-node-lease"};

/* The answer of the webhook to the creation of a pod. */
static json_t *claim_review(const char *path, const json_t *pod, bool has_claims)
{
	_cleanup_json_ json_t *review = json_pack(
		"{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s, s:s}, s:s, s:O}}", "apiVersion",
		"admission.k8s.io/v1", "kind", "AdmissionReview", "request", "uid", "u-1",
		"operation", "CREATE", "userInfo", "username", "alice", "resource", "group", "",
		"resource", strcmp(path, "/validate/templates") ? "pods" : "deployments",
		"namespace", "ns1", "object", pod);
	const struct admit_facts facts = {.ns = {.has_claims = has_claims}};
	struct admit_request request;
	json_t *out;

	assert_non_null(review);
	assert_ok(admit_parse(review, &request, NULL));
	out = admit_answer(admit_path_find(path), &rules, &request, &facts);
	assert_non_null(out);
	return out;
}

static const char *claim_message(const json_t *review)
{
	const char *text = kube_json_text_at(review, "response", "status", "message", NULL);

	return text ? text : "";
}

#define BOTH(share, memory) \
	"'resources':{'limits':{'divvy.gpu/share':'" share "','divvy.gpu/memory':'" memory \
	"'},'requests':{'divvy.gpu/share':'" share "','divvy.gpu/memory':'" memory "'}}"
#define POD(containers) "{'metadata':{'name':'p'},'spec':{'containers':[" containers "]}}"

static const struct {
	const char *pod, *made;
} replaced[] = {
	{POD("{'name':'a'," BOTH("500", "8Gi") "}"),
		"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a','resources':{"
		"'limits':{},'requests':{},'claims':[{'name':'divvy-share-0'}]}}],"
		"'resourceClaims':[{'name':'divvy-share-0','resourceClaimTemplateName':"
		"'divvy-share-500-memory-8192mi'}]}}"},
	/* whole devices, in pods of divvy-scheduler alone */
	{"{'metadata':{'name':'p'},'spec':{'schedulerName':'divvy-scheduler','containers':[{'name':"
	 "'a','resources':{'limits':{'divvy.gpu/gpu':'2'}}}]}}",
		"{'metadata':{'name':'p'},'spec':{'schedulerName':'divvy-scheduler','containers':[{"
		"'name':'a','resources':{'limits':{},'claims':[{'name':'divvy-share-0'}]}}],"
		"'resourceClaims':[{'name':'divvy-share-0','resourceClaimTemplateName':"
		"'divvy-gpu-2'}]}}"},
	/* other resources and claims stay; each container has a claim of its own */
	{"{'metadata':{'name':'p'},'spec':{'resourceClaims':[{'name':'nic','resourceClaimName':'n'}"
	 ",{'name':'divvy-share-0','resourceClaimName':'mine'}],'containers':[{'name':'a',"
	 "'resources':{'claims':[{'name':'nic'}],'limits':{'cpu':'1','divvy.gpu/share':'1k',"
	 "'divvy.gpu/memory':'1'}}},{'name':'b'},{'name':'c'," BOTH("1", "3Mi") "}]}}",
		"{'metadata':{'name':'p'},'spec':{'resourceClaims':[{'name':'nic',"
		"'resourceClaimName':'n'},{'name':'divvy-share-0','resourceClaimName':'mine'},{"
		"'name':'divvy-share-1','resourceClaimTemplateName':'divvy-share-1000-memory-2mi'},"
		"{'name':'divvy-share-2','resourceClaimTemplateName':'divvy-share-1-memory-4mi'}],"
		"'containers':[{'name':'a','resources':{'claims':[{'name':'nic'},{'name':"
		"'divvy-share-1'}],'limits':{'cpu':'1'}}},{'name':'b'},{'name':'c','resources':{"
		"'limits':{},'requests':{},'claims':[{'name':'divvy-share-2'}]}}]}}"},
};

static void shares_become_claims(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(replaced); i++) {
		_cleanup_json_ json_t *pod = unit_json(replaced[i].pod),
				      *want = unit_json(replaced[i].made),
				      *review = claim_review("/mutate/pods", pod, true),
				      *patch = patch_of_review(review), *again = NULL;
		_cleanup_free_ char *text = NULL;

		assert_non_null(patch);
		assert_true(patch_apply(pod, patch));
		text = json_dumps(pod, JSON_COMPACT);
		if (!json_equal(pod, want))
			fail_msg("%s", text);
		/* the webhook also sees what it has made */
		again = claim_review("/mutate/pods", pod, true);
		assert_null(kube_json_at(again, "response", "patch", NULL));
		json_decref(again);
		again = claim_review("/validate/pods", pod, true);
		assert_string_equal(claim_message(again), "");
	}
}

static const struct {
	const char *pod, *says;
} refused[] = {
	{POD("{'name':'a','resources':{'limits':{'divvy.gpu/share':'500'}}}"),
		"container a: resource divvy.gpu/share without divvy.gpu/memory; state both"},
	{POD("{'name':'a','resources':{'limits':{'divvy.gpu/memory':'8Gi'}}}"),
		"resource divvy.gpu/memory without divvy.gpu/share"},
	{POD("{'name':'a'," BOTH("1500", "8Gi") "}"),
		"container a: resource divvy.gpu/share '1500': expected 1 to 1000, in thousandths "
		"of a device; for whole devices use divvy.gpu/gpu"},
	{POD("{'name':'a'," BOTH("500m", "8Gi") "}"), "divvy.gpu/share"},

	{POD("{'name':'a','resources':{'limits':{'divvy.gpu/share':'500','divvy.gpu/memory':'1Gi'},"
	     "'requests':{'divvy.gpu/share':'400','divvy.gpu/memory':'1Gi'}}}"),
		"divvy.gpu/share: request '400' and limit '500' must be equal"},
	/* a share by annotations has another scheduler */
	{"{'metadata':{'name':'p','annotations':{'divvy.gpu/request':'0.3'}},'spec':{'containers':["
	 "{'name':'a'," BOTH("500", "8Gi") "}]}}",
		"divvy.gpu/share '500': divvy writes it"},
};

static void wrong_shares_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		_cleanup_json_ json_t *pod = unit_json(refused[i].pod),
				      *template = json_pack("{s:{s:O}}", "spec", "template", pod),
				      *review = claim_review("/mutate/pods", pod, true),
				      *early = claim_review("/validate/templates", template, true);

		if (!strstr(claim_message(review), refused[i].says) ||
			!strstr(claim_message(early), refused[i].says))
			fail_msg("%s: %s, %s", refused[i].pod, claim_message(review),
				claim_message(early));
	}
}

static void nothing_changes_without_the_option(void **state)
{
	_cleanup_json_ json_t *pod = unit_json(replaced[0].pod),
			      *review = claim_review("/mutate/pods", pod, false);

	assert_contains(claim_message(review), "divvy.gpu/share '500': divvy writes it");
}

static void a_name_says_its_template(void **state)
{
	_cleanup_json_ json_t *made = claim_template_make("divvy-share-500-memory-8192mi"),
			      *want = unit_json(
				      "{'apiVersion':'resource.k8s.io/v1','kind':"
				      "'ResourceClaimTemplate','metadata':{'name':"
				      "'divvy-share-500-memory-8192mi','labels':{"
				      "'app.kubernetes.io/managed-by':'divvy-controller'}},'spec':{"
				      "'spec':{'devices':{'requests':[{'name':'gpu','exactly':{"
				      "'deviceClassName':'share.divvy.gpu','capacity':{'requests':{"
				      "'share':'500','memory':'8192Mi'}}}}]}}}}");

	assert_true(json_equal(made, want));
}

static void whole_devices_have_templates_too(void **state)
{
	_cleanup_json_ json_t *made = claim_template_make("divvy-gpu-2"),
			      *want = unit_json("{'apiVersion':'resource.k8s.io/v1','kind':"
						"'ResourceClaimTemplate','metadata':{'name':"
						"'divvy-gpu-2','labels':{"
						"'app.kubernetes.io/managed-by':'divvy-controller'}"
						"},'spec':{'spec':{'devices':{'requests':[{'name':"
						"'gpu','exactly':{'deviceClassName':"
						"'gpu.divvy.gpu','count':2}}]}}}}");

	assert_true(json_equal(made, want));
}

static void other_names_are_no_templates(void **state)
{
	static const char *const names[] = {"", "third", "divvy-gpu-", "divvy-gpu-0",
		"divvy-gpu-17", "divvy-gpu-02", "divvy-gpu-2x", "divvy-share-",
		"divvy-share-0-memory-2mi", "divvy-share-1001-memory-2mi",
		"divvy-share-0500-memory-2mi", "divvy-share-500-memory-1mi",
		"divvy-share-500-memory-3x", "divvy-share-500-memory-mi",
		"divvy-share-500-memory-99999999999999mi", "divvy-share--memory-2mi",
		"divvy-share-memory-2mi", "divvy-share-5-memory-6-memory-2mi",
		"xdivvy-share-5-memory-2mi"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_json_ json_t *made = claim_template_make(names[i]);

		if (made)
			fail_msg("%s", names[i]);
	}
}

static void a_pod_waits_for_its_templates(void **state)
{
	_cleanup_json_ json_t *pod = unit_json(
		"{'spec':{'resourceClaims':[{'name':'a','resourceClaimTemplateName':'third'},"
		"{'name':'b','resourceClaimTemplateName':'divvy-share-1-memory-2mi'},"
		"{'name':'c','resourceClaimTemplateName':'divvy-share-2-memory-2mi'},"
		"{'name':'d','resourceClaimName':'divvy-share-3-memory-2mi'}]},"
		"'status':{'resourceClaimStatuses':[{'name':'b','resourceClaimName':'x'}]}}");
	size_t at = 0;

	assert_string_equal(claim_template_next(pod, &at), "divvy-share-2-memory-2mi");
	assert_null(claim_template_next(pod, &at));
}

/* A pod with a share and n claims of its user, whose names are those that the webhook would try. */
static json_t *pod_of_claims(size_t n)
{
	json_t *pod = unit_json(POD("{'name':'a'," BOTH("500", "8Gi") "}")), *claims = json_array();
	char name[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "divvy-share-%zu", i);
		json_array_append_new(claims,
			json_pack("{s:s, s:s}", "name", name, "resourceClaimTemplateName",
				"divvy-share-1-memory-2mi"));
	}
	json_object_set_new(json_object_get(pod, "spec"), "resourceClaims", claims);
	return pod;
}

static void a_pod_has_few_claims(void **state)
{
	_cleanup_json_ json_t *most = pod_of_claims(CLAIM_ENTRIES_MAX),
			      *more = pod_of_claims(CLAIM_ENTRIES_MAX + 1),
			      *much = pod_of_claims(CLAIM_ENTRIES_SEEN + 1),
			      *taken = claim_review("/mutate/pods", most, true),
			      *review = claim_review("/mutate/pods", more, true),
			      *patch = patch_of_review(taken);
	size_t at = 0, n = 0;

	assert_true(patch_apply(most, patch));
	assert_int_equal(json_array_size(kube_json_at(most, "spec", "resourceClaims", NULL)),
		CLAIM_ENTRIES_MAX + 1);
	assert_contains(claim_message(review), "spec.resourceClaims: 257 entries");
	while (claim_template_next(much, &at))
		n++;
	assert_int_equal(n, CLAIM_ENTRIES_SEEN);
}

UNIT_MAIN(UNIT(shares_become_claims), UNIT(wrong_shares_are_refused), UNIT(a_pod_has_few_claims),
	UNIT(nothing_changes_without_the_option), UNIT(a_name_says_its_template),
	UNIT(whole_devices_have_templates_too), UNIT(other_names_are_no_templates),
	UNIT(a_pod_waits_for_its_templates))
