/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook's answers about ResourceClaims, their templates and DeviceClasses: a table of objects
 * with policies, and what the answer says.
 */
#include "unit-json.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/admit.h"

#define SHARE "'apiVersion':'divvy.gpu/v1','kind':'ShareConfig'"
#define CONFIG(fields) \
	"'config':[{'opaque':{'driver':'divvy.gpu','parameters':{" SHARE fields "}}}]"
#define GPU(capacity) \
	"'requests':[{'name':'gpu','exactly':{'deviceClassName':'share.divvy.gpu','capacity':{" \
	"'requests':{" capacity "}}}}]"
#define HALF GPU("'share':'500','memory':'4Gi'")
#define TWO \
	"'requests':[{'name':'gpu','exactly':{'deviceClassName':'share.divvy.gpu','count':2," \
	"'capacity':{'requests':{'share':'500','memory':'4Gi'}}}}]"
#define CLAIM(devices) "{'spec':{'devices':{" devices "}}}"
#define TEMPLATE(devices) "{'spec':{'spec':{'devices':{" devices "}}}}"
#define CLASS(spec) "{'spec':{" spec "}}"

#define CLAIMS "resourceclaims"
#define TEMPLATES "resourceclaimtemplates"
#define CLASSES "deviceclasses"

static const struct admit_rules rules = {
	.scheduler_name = "divvy-scheduler", .ns = "divvy-system", .lease_ns = "divvy-node-lease"};

static json_t *claim_answer_at(const char *path_name, const char *resource, const char *policy,
	const char *object, const char *old)
{
	_cleanup_json_ json_t *limits = policy ? unit_json(policy) : NULL, *new = unit_json(object),
			      *was = old ? unit_json(old) : NULL;
	_cleanup_json_ json_t *review = json_pack(
		"{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s, s:s}, s:s, s:O, s:O?}}", "apiVersion",
		"admission.k8s.io/v1", "kind", "AdmissionReview", "request", "uid", "u-1",
		"operation", old ? "UPDATE" : "CREATE", "userInfo", "username", "alice", "resource",
		"group", "resource.k8s.io", "resource", resource, "namespace",
		strcmp(resource, CLASSES) ? "ns1" : "", "object", new, "oldObject", was);
	const json_t *policies[] = {limits};
	const struct admit_facts facts = {.ns = {NULL, policies, limits ? 1 : 0}};
	const struct admit_path *path = admit_path_find(path_name ? path_name
			: strcmp(resource, CLASSES)               ? "/validate/claims"
								  : "/validate/deviceclasses");
	struct admit_request request;
	json_t *out;

	assert_non_null(review);
	assert_ok(admit_parse(review, &request, NULL));
	assert_int_equal(admit_needs(path, &rules, &request),
		strcmp(resource, CLASSES) && !path_name ? ADMIT_NEEDS_NAMESPACE
							: ADMIT_NEEDS_NOTHING);
	out = admit_answer(path, &rules, &request, &facts);
	assert_non_null(out);
	return out;
}

static json_t *claim_answer(
	const char *resource, const char *policy, const char *object, const char *old)
{
	return claim_answer_at(NULL, resource, policy, object, old);
}

static const char *message_of(const json_t *review)
{
	const char *text = kube_json_text_at(review, "response", "status", "message", NULL);

	return text ? text : "";
}

static const char *warning_of(const json_t *review)
{
	const char *text = json_string_value(
		json_array_get(kube_json_at(review, "response", "warnings", NULL), 0));

	return text ? text : "";
}

static const struct {
	const char *resource, *policy, *object;
	const char *says, *warns; /* says "": allowed */
} cases[] = {
	{CLAIMS, NULL, CLAIM(HALF), "", ""},
	{CLAIMS, NULL, CLAIM(HALF "," CONFIG(",'limit':0.8,'class':'latency'")), "", ""},
	{TEMPLATES, NULL, TEMPLATE(HALF "," CONFIG(",'memoryPolicy':'wait'")), "", ""},
	{CLASSES, NULL, CLASS(CONFIG(",'limit':0.8")), "", ""},
	{CLASSES, NULL, CLASS("'selectors':[]"), "", ""},
	{CLAIMS, NULL, CLAIM(HALF "," CONFIG(",'limit':'x'")),
		"spec.devices: config[0].opaque.parameters: limit 'x': expected 0.001 to 1", ""},
	{TEMPLATES, NULL, TEMPLATE(HALF "," CONFIG(",'limits':1")),
		"spec.spec.devices: config[0].opaque.parameters: 'limits': unknown field; did you "
		"mean limit?",
		""},
	{CLASSES, NULL, CLASS(CONFIG(",'limit':2.5")), "spec: config[0].opaque.parameters: limit",
		""},
	{CLAIMS, NULL, CLAIM(HALF "," CONFIG(",'request':0.7")),
		"request 'gpu': request 0.7: the claim's capacity share is 0.5", ""},
	{CLAIMS, NULL, CLAIM(GPU("'share':'2000'")), "capacity share '2000': expected 1 to 1000",
		""},
	/* policies of the namespace, as for pods */
	{CLAIMS, "{'classes':['standard']}", CLAIM(HALF "," CONFIG(",'class':'latency'")),
		"class latency: the policy of this namespace allows standard", ""},
	{CLAIMS, "{'highestPriority':60}", CLAIM(HALF "," CONFIG(",'priority':61")),
		"allows 0 to 60", ""},
	{TEMPLATES, "{'highestPriority':40}", TEMPLATE(HALF), "priority 50", ""},
	{CLAIMS, "{'classes':['opportunistic']}",
		CLAIM("'requests':[{'name':'nic','exactly':{'deviceClassName':'nic.example.com'}}]"),
		"", ""},
	/* a claim that takes more than its author may think */
	{CLAIMS, NULL, CLAIM(GPU("'share':'500'")), "",
		"request 'gpu' states no capacity memory, and takes all of its device"},
	{CLAIMS, NULL, CLAIM(GPU("'memory':'4Gi'")), "", "states no capacity share"},
	{CLAIMS, NULL, CLAIM(TWO), "", "request 'gpu': parts may be of one device"},
	{CLAIMS, NULL,
		CLAIM(TWO ",'constraints':[{'requests':['gpu'],'distinctAttribute':"
			  "'divvy.gpu/uuid'}]"),
		"", ""},
	{CLAIMS, NULL,
		CLAIM(TWO ",'constraints':[{'requests':['nic'],'distinctAttribute':"
			  "'divvy.gpu/uuid'},{'matchAttribute':'divvy.gpu/model'}]"),
		"", "distinctAttribute: divvy.gpu/uuid"},
	{CLAIMS, NULL,
		CLAIM("'requests':[{'name':'gpu','exactly':{'deviceClassName':'gpu.divvy.gpu'}}]"),
		"", ""},
};

static void claims_are_judged(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *got = claim_answer(
			cases[i].resource, cases[i].policy, cases[i].object, NULL);
		const bool is_allowed = json_is_true(
			kube_json_at(got, "response", "allowed", NULL));

		if (is_allowed != !cases[i].says[0] || !strstr(message_of(got), cases[i].says) ||
			!strstr(warning_of(got), cases[i].warns) ||
			(!cases[i].warns[0] && warning_of(got)[0]))
			fail_msg("%s: '%s', warning '%s'", cases[i].object, message_of(got),
				warning_of(got));
	}
}

/* An allocated claim gets finalizers and labels although a later policy would refuse the claim. */
static void an_unchanged_claim_passes(void **state)
{
	static const char *const claim = CLAIM(HALF "," CONFIG(",'class':'latency'"));
	_cleanup_json_ json_t *same = claim_answer(
				      CLAIMS, "{'classes':['standard']}", claim, claim),
			      *changed = claim_answer(
				      CLAIMS, "{'classes':['standard']}", claim, CLAIM(HALF));

	assert_true(json_is_true(kube_json_at(same, "response", "allowed", NULL)));
	assert_contains(message_of(changed), "class latency");
}

#define ANNOTATED(annotations, labels) \
	"{'metadata':{'annotations':{" annotations "}" labels "},'spec':{'devices':{" HALF "}}}"
#define LATENCY "'divvy.gpu/class':'latency'"

static void annotations_are_judged(void **state)
{
	static const struct {
		const char *policy, *object, *old, *says;
	} changes[] = {
		{NULL, ANNOTATED(LATENCY, ""), NULL, ""},
		{NULL, ANNOTATED(LATENCY, ""), ANNOTATED("", ""), ""},
		{"{'classes':['standard']}", ANNOTATED(LATENCY, ""), ANNOTATED("", ""),
			"class latency: the policy of this namespace allows standard"},
		/* unchanged annotations pass, whatever a later policy says */
		{"{'classes':['standard']}", ANNOTATED(LATENCY, ",'labels':{'a':'b'}"),
			ANNOTATED(LATENCY, ""), ""},
		{"{'classes':['standard']}", ANNOTATED("", ""), ANNOTATED(LATENCY, ""), ""},
		{NULL, ANNOTATED("'divvy.gpu/limit':'0.4'", ""), ANNOTATED("", ""),
			"request 'gpu': limit"},
		{NULL, ANNOTATED("'divvy.gpu/memory':'1Gi'", ""), ANNOTATED("", ""),
			"annotation divvy.gpu/memory: stays"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		_cleanup_json_ json_t *got = claim_answer(
			CLAIMS, changes[i].policy, changes[i].object, changes[i].old);

		if (json_is_true(kube_json_at(got, "response", "allowed", NULL)) !=
				!changes[i].says[0] ||
			!strstr(message_of(got), changes[i].says))
			fail_msg("%s: '%s'", changes[i].object, message_of(got));
	}
}

static bool gets_label(const char *object)
{
	_cleanup_json_ json_t *got = claim_answer_at(
		"/mutate/claims", CLAIMS, NULL, object, ANNOTATED("", ""));

	assert_true(json_is_true(kube_json_at(got, "response", "allowed", NULL)));
	return kube_json_at(got, "response", "patch", NULL) != NULL;
}

static void annotated_claims_get_a_label(void **state)
{
	assert_true(gets_label(ANNOTATED(LATENCY, "")));
	assert_true(gets_label(ANNOTATED(LATENCY, ",'labels':{'a':'b'}")));
	assert_false(gets_label(ANNOTATED(LATENCY, ",'labels':{'divvy.gpu/live':'true'}")));
	assert_false(gets_label(ANNOTATED("'other.example/class':'x'", "")));
}

UNIT_MAIN(UNIT(claims_are_judged), UNIT(an_unchanged_claim_passes), UNIT(annotations_are_judged),
	UNIT(annotated_claims_get_a_label))
