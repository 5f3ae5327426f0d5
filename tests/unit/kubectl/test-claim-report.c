/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the descriptions of a pod's ResourceClaims. */
#include "../unit.h"

#include "cmdline/json-member.h"
#include "fields/yaml.h"
#include "kube/kube-json.h"
#include "kubectl/claim-report.h"

static const char claims_text[] =
	"metadata: {name: waits, namespace: s}\nspec: {}\n"
	"---\nmetadata: {name: has, namespace: s}\nstatus:\n  reservedFor: [{name: p, uid: u1}]\n"
	"  allocation: {devices: {results: [{driver: divvy.gpu, pool: n1, device: share-a, "
	"consumedCapacity: {share: '300', memory: 8Gi}}]}}\n"
	"---\nmetadata: {name: ends, namespace: s, deletionTimestamp: '2026-01-01T00:00:00Z'}\n"
	"status: {reservedFor: [{name: a}, {name: b}, {name: c}]}\n";
static const char slices_text[] = "spec: {driver: divvy.gpu, nodeName: n1, pool: {name: n1}}\n"
				  "---\nspec: {driver: nic, nodeName: n2, pool: {name: n2}}\n";
static const char gpunodes_text[] =
	"metadata: {name: n1}\nstatus: {tenants: [{namespace: s, claim: has, podUID: u1}]}\n";
static const char events_text[] =
	"reason: FailedPrepareDynamicResources\nlastTimestamp: '2026-01-01T00:00:02Z'\n"
	"message: no slot is free\ninvolvedObject: {uid: u1}\n"
	"---\nreason: FailedPrepareDynamicResources\nlastTimestamp: '2026-01-01T00:00:01Z'\n"
	"message: earlier\ninvolvedObject: {uid: u1}\n"
	"---\nreason: FailedPrepareDynamicResources\nlastTimestamp: '2026-01-01T00:00:03Z'\n"
	"message: of another pod\ninvolvedObject: {uid: u2}\n"
	"---\nreason: Scheduled\nlastTimestamp: '2026-01-01T00:00:04Z'\nmessage: yes\n"
	"involvedObject: {uid: u1}\n";

static json_t *of(const char *text)
{
	json_t *list = NULL;

	assert_ok(yaml_parse(str_from(text), &list, NULL));
	return list;
}

/* The row of the only claim of a pod, as "state: sentence". */
static const char *said(const struct claim_facts *facts, const char *pod_text)
{
	static char text[512];
	_cleanup_json_ json_t *pods = of(pod_text);
	_cleanup_json_ json_t *rows = claim_report(facts, json_array_get(pods, 0));
	const json_t *row = json_array_get(rows, 0);

	assert_int_equal(json_array_size(rows), 1);
	snprintf(text, sizeof(text), "%s: %s", json_text_or_empty(row, "state"),
		json_text_or_empty(row, "sentence"));
	return text;
}

#define POD(more, claim) \
	"metadata: {name: p, namespace: s, uid: u1}\nspec: {" more \
	"resourceClaims: [{name: gpu, " claim "}]}\n"

static void a_claim_without_devices_waits(void **state)
{
	_cleanup_json_ json_t *claims = of(claims_text);
	const struct claim_facts facts = {.claims = claims};

	assert_string_equal(said(&facts, POD("", "resourceClaimName: waits")), "Pending: ");
	assert_string_equal(said(&facts, POD("", "resourceClaimName: absent")),
		"Missing: ResourceClaim absent does not exist");
	assert_string_equal(said(&facts, POD("", "resourceClaimTemplateName: third")),
		"Missing: Kubernetes has not made the claim from ResourceClaimTemplate third yet");
	assert_string_equal(said(&facts, POD("", "resourceClaimName: ends")),
		"Deleting: the claim is being deleted, and ends with pods a, b and c");
}

static void a_lone_claim_waits_for_a_pod(void **state)
{
	_cleanup_json_ json_t *claims = of(claims_text);
	const struct claim_facts facts = {.claims = claims};
	_cleanup_json_ json_t *row = claim_report_one(&facts, NULL, json_array_get(claims, 0));
	_cleanup_json_ json_t *used = claim_report_one(&facts, NULL, json_array_get(claims, 1));

	assert_string_equal(json_text_or_empty(row, "sentence"),
		"no pod uses the claim; a scheduler chooses its devices together with the node of "
		"a pod");
	assert_string_equal(json_text_or_empty(used, "sentence"), "pod p uses the claim");
}

static void devices_are_named_with_their_node(void **state)
{
	_cleanup_json_ json_t *claims = of(claims_text), *slices = of(slices_text);
	const struct claim_facts facts = {.claims = claims, .slices = slices};
	_cleanup_json_ json_t *row = claim_report_one(&facts, NULL, json_array_get(claims, 1));
	const json_t *device = json_array_get(json_object_get(row, "devices"), 0);

	assert_string_equal(json_text_or_empty(device, "device"), "share-a");
	assert_string_equal(json_text_or_empty(device, "node"), "n1");
	assert_string_equal(
		json_text_or_empty(json_object_get(device, "consumed"), "share"), "300");
}

#define ON(node) POD("nodeName: " node ", ", "resourceClaimName: has")

static void a_node_that_has_not_prepared_a_claim_says_why(void **state)
{
	_cleanup_json_ json_t *claims = of(claims_text), *slices = of(slices_text),
			      *gpunodes = of(gpunodes_text), *events = of(events_text),
			      *none = json_array();
	struct claim_facts facts = {claims, slices, none, events};

	assert_string_equal(said(&facts, ON("n1")),
		"Allocated: node n1 has not prepared the claim: no slot is free");
	facts.events = none;
	assert_string_equal(said(&facts, ON("n1")),
		"Allocated: divvyd of node n1 has not prepared the claim yet");
	assert_string_equal(said(&facts, ON("n2")),
		"Allocated: node n2 has no ResourceSlice of driver divvy.gpu: the driver does not "
		"run there, or has not registered with the kubelet");
	facts.gpunodes = gpunodes;
	assert_string_equal(said(&facts, ON("n1")), "Running: ");
}

static void a_pod_names_its_claims(void **state)
{
	_cleanup_json_ json_t *pods = of(
		POD("", "resourceClaimTemplateName: t") "status: {resourceClaimStatuses: [{name: "
							"gpu, resourceClaimName: p-gpu-x}]}\n");
	const json_t *pod = json_array_get(pods, 0);

	assert_true(claim_report_has_claims(pod));
	assert_true(claim_report_is_user(pod, "p-gpu-x"));
	assert_false(claim_report_is_user(pod, "t"));
}

UNIT_MAIN(UNIT(a_claim_without_devices_waits), UNIT(a_lone_claim_waits_for_a_pod),
	UNIT(devices_are_named_with_their_node),
	UNIT(a_node_that_has_not_prepared_a_claim_says_why), UNIT(a_pod_names_its_claims))
