/* SPDX-License-Identifier: Apache-2.0 */
#include "unit-json.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/share-pod.h"

static void assert_json(const json_t *got, const char *want)
{
	_cleanup_json_ json_t *wanted = unit_json(want);
	_cleanup_free_ char *text = json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY);

	if (!json_equal(got, wanted))
		fail_msg("%s\nis not\n%s", text ? text : "(null)", want);
}

#define META "'metadata':{'name':'s','namespace':'ns1','uid':'u-1','generation':3}"
#define OWNER(version) \
	"'ownerReferences':[{'apiVersion':'" version "','kind':'SharePod','name':'s','uid':'u-1'," \
	"'controller':true,'blockOwnerDeletion':true}]"
#define SHARE \
	"{" META \
	",'spec':{'request':0.3,'limit':'0.6','memoryPolicy':'swap','groupSize':5,'group':'g'," \
	"'containers':['main','side'],'template':{'metadata':{'labels':{'a':'b'},'annotations':{'" \
	"c':'d'," \
	"'side.divvy.gpu/" \
	"limit':'1'}},'spec':{'containers':[{'name':'main','x-unknown':{'y':1.50}},{'name':'side'" \
	"}]}}}}"

static void the_pod_is_the_template_with_the_requested_keys(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(SHARE), *pod = NULL;
	struct error err;

	if (share_pod_make(share_pod, SHARE_POD_OURS, &pod, &err) < 0)
		fail_msg("%s", err.msg);
	assert_json(pod,
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'s','namespace':'ns1','labels':"
		"{'a':'b'},"
		"'annotations':{'c':'d','side.divvy.gpu/limit':'1','divvy.gpu/"
		"request':'0.3','divvy.gpu/limit':'0.6',"
		"'divvy.gpu/memory-policy':'swap','divvy.gpu/group-size':'5','divvy.gpu/group':'g',"
		"'divvy.gpu/container':'main,side'}," OWNER(
			"divvy.gpu/v1") "},"
					"'spec':{'containers':[{'name':'main','x-unknown':{'y':1."
					"50}},{'name':'side'}]}}");
	assert_true(share_pod_owns(share_pod, pod));
	json_object_set_new(kube_json_at(share_pod, "metadata", NULL), "uid", json_string("u-2"));
	assert_false(share_pod_owns(share_pod, pod));
}

static void divvy_places_a_pinned_kubeshare_pod(void **state)
{
	_cleanup_json_ json_t
		*pod = NULL,
		*share_pod = unit_json(
			"{'metadata':{'name':'s','namespace':'ns1','uid':'u-1',"
			"'annotations':{'kubeshare/GPUID':'abcde','kubectl.kubernetes.io/"
			"last-applied-configuration':'x'}},"
			"'spec':{'nodeName':'n7','containers':[{'name':'main'}]}}");

	assert_ok(share_pod_make(share_pod, SHARE_POD_KUBESHARE, &pod, NULL));
	assert_json(pod,
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'s','namespace':'ns1','labels':"
		"{},"
		"'annotations':{'kubeshare/GPUID':'abcde'}," OWNER(
			"kubeshare.nthu/v1") "},"
					     "'spec':{'nodeSelector':{'kubernetes.io/"
					     "hostname':'n7'},'containers':[{'name':'main'}]}}");
}

static void the_alternative_name_is_stable(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(SHARE);
	char a[SHARE_POD_NAME_MAX + 1], b[SHARE_POD_NAME_MAX + 1];

	assert_ok(share_pod_other_name(share_pod, a));
	assert_ok(share_pod_other_name(share_pod, b));
	assert_string_equal(a, b);
	assert_int_equal(strlen(a), strlen("s-xxxxx"));
	json_object_set_new(kube_json_at(share_pod, "metadata", NULL), "uid", json_string("u-2"));
	assert_ok(share_pod_other_name(share_pod, b));
	assert_string_not_equal(a, b);
}

static void a_change_is_copied_to_the_pod(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(SHARE), *pod = NULL, *patch = NULL;

	assert_ok(share_pod_make(share_pod, SHARE_POD_OURS, &pod, NULL));
	json_object_set_new(kube_json_at(pod, "metadata", "annotations", NULL), "divvy.gpu/devices",
		json_string("main=GPU-1"));
	assert_ok(share_pod_carry(share_pod, SHARE_POD_OURS, pod, &patch));
	assert_null(patch);
	json_object_set_new(kube_json_at(share_pod, "spec", NULL), "limit", json_real(0.7));
	/* Helm writes large numbers of its values as floating-point numbers. */
	json_object_set_new(
		kube_json_at(share_pod, "spec", NULL), "memory", json_real(1.7179869184e+10));
	json_object_del(kube_json_at(share_pod, "spec", NULL), "memoryPolicy");
	assert_ok(share_pod_carry(share_pod, SHARE_POD_OURS, pod, &patch));
	assert_json(patch,
		"{'metadata':{'annotations':{'divvy.gpu/limit':'0.7','divvy.gpu/memory':"
		"'17179869184','divvy.gpu/memory-policy':null}}}");
}

#define T0 (UINT64_C(1700000000) * 1000000000)
#define SINCE "'lastTransitionTime':'2023-11-14T22:13:20Z'"
#define ACCEPTED "{'type':'Accepted','status':'True','reason':'Accepted'," SINCE "}"

static void the_status_comes_from_pod_and_node(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(SHARE), *pod = NULL, *waiting = NULL,
			      *running = NULL, *tenants = NULL, *patch = NULL, *same = NULL;
	struct share_pod_facts facts = {.real_ns = T0};

	assert_ok(share_pod_make(share_pod, SHARE_POD_OURS, &pod, NULL));
	json_object_set_new(kube_json_at(pod, "metadata", NULL), "uid", json_string("p-1"));
	json_object_set_new(pod, "status",
		unit_json("{'phase':'Pending','conditions':[{'type':'PodScheduled','status':"
			  "'False','message':'0/1 nodes: 1 no GPU'}]}"));
	facts.pod = pod;
	waiting = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_json(waiting,
		"{'observedGeneration':3,'phase':'Pending','requested':'0.3-0.6','asked':'0.3-0.6','podName':'s','podUID'"
		":'p-1',"
		"'conditions':[" ACCEPTED
		",{'type':'PodCreated','status':'True','reason':'Created'," SINCE "},"
		"{'type':'Granted','status':'False','reason':'Waiting'," SINCE
		",'message':'0/1 nodes: 1 no GPU'}]}");
	json_object_set(share_pod, "status", waiting);
	/* A second later nothing has changed, so there is nothing to write. */
	facts.real_ns += UINT64_C(1000000000);
	same = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_null(share_pod_status_patch(share_pod, same));

	tenants = unit_json(
		"[{'podUID':'p-0','container':'main'},{'podUID':'p-1','container':'side','"
		"request':1,'limit':1},"
		"{'podUID':'p-1','container':'main','devices':['GPU-1'],'request':300,'"
		"limit':600,'memoryBytes':[4294967296]}]");
	facts.tenants = tenants;
	json_object_set_new(pod, "status", unit_json("{'phase':'Running'}"));
	json_object_set_new(kube_json_at(pod, "spec", NULL), "nodeName", json_string("n1"));
	running = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	patch = share_pod_status_patch(share_pod, running);
	assert_json(patch,
		"{'status':{'phase':'Running','nodeName':'n1','device':'GPU-1','devices':['GPU-1'],"
		"'granted':{'share':'0.3-0.6','request':300,'limit':600,'memoryBytes':4294967296,'"
		"memory':'4Gi'},"
		"'conditions':[" ACCEPTED
		",{'type':'PodCreated','status':'True','reason':'Created'," SINCE "},"
		"{'type':'Granted','status':'True','reason':'Granted','lastTransitionTime':'2023-"
		"11-14T22:13:21Z'}]}}");
}

static void the_used_share_is_the_measured_one(void **state)
{
	static const struct {
		const char *was, *measured, *got;
	} cases[] = {
		{NULL, "p-1/main=312:5 p-1/side=9:9", "0.312"},
		/* the difference is too small to be written */
		{"0.312", "p-1/main=321:5", "0.312"},
		{"0.312", "p-1/main=322:5", "0.322"},
		{"0.312", "p-1/main=302:5", "0.302"},
		{"0.31", "p-1/main=0:5", "0"},
		{"0.31", "p-1/main=300:5,500:5", "2x0.4"},
		{"2x0.4", "p-1/main=300:5,490:5", "2x0.4"},
		{"2x0.4", "p-1/main=400:5", "0.4"},
		{"what", "p-1/main=5000:5", "1"},
		/* Without a new measurement the old value stays. */
		{"0.31", "", "0.31"},
		{"0.31", "p-2/main=9:9 p-1/side=9:9", "0.31"},
	};
	_cleanup_json_ json_t *share_pod = unit_json(SHARE), *pod = NULL, *ended = NULL;
	_cleanup_json_ json_t *tenants = unit_json(
		"[{'podUID':'p-1','container':'main','devices':['GPU-"
		"1'],'request':300,'limit':600}]");
	struct share_pod_facts facts = {.real_ns = T0, .tenants = tenants};

	assert_ok(share_pod_make(share_pod, SHARE_POD_OURS, &pod, NULL));
	json_object_set_new(kube_json_at(pod, "metadata", NULL), "uid", json_string("p-1"));
	facts.pod = pod;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *status = NULL;
		const char *got;

		/* A controller of the previous release has written only `got`. */
		json_object_set_new(share_pod, "status",
			json_pack("{s:s*}", i % 2 ? "used" : "got", cases[i].was));
		facts.measured = cases[i].measured;
		status = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
		got = kube_json_text_at(status, "used", NULL);
		assert_true(json_equal(
			json_object_get(status, "used"), json_object_get(status, "got")));
		if (!got || strcmp(got, cases[i].got))
			fail_msg("%s: got %s, expected %s", cases[i].measured, got, cases[i].got);
	}
	/* After the container has ended there is no used share. */
	facts.tenants = NULL;
	ended = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_null(json_object_get(ended, "used"));
	assert_null(json_object_get(ended, "got"));
}

static void a_refusal_is_a_phase(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(SHARE), *status = NULL;
	const struct share_pod_facts facts = {
		.real_ns = T0, .verdict = SHARE_POD_INVALID_SPEC, .message = "limit 0.2: is below"};

	status = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_json(status,
		"{'observedGeneration':3,'phase':'Refused','requested':'0.3-0.6','asked':'0.3-0.6','conditions':["
		"{'type':'Accepted','status':'False','reason':'InvalidSpec'," SINCE
		",'message':'limit 0.2: is below'}]}");
}

static void a_pod_that_another_pod_replaces_does_not_end_the_share_pod(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(SHARE), *pod = NULL, *waiting = NULL,
			      *ended = NULL, *refused = NULL;
	struct share_pod_facts facts = {
		.real_ns = T0, .trouble = "BackOff", .message = "pod s failed"};

	assert_ok(share_pod_make(share_pod, SHARE_POD_OURS, &pod, NULL));
	json_object_set_new(kube_json_at(pod, "metadata", NULL), "uid", json_string("p-1"));
	json_object_set_new(pod, "status", unit_json("{'phase':'Failed','reason':'Evicted'}"));
	facts.pod = pod;
	waiting = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_json(waiting,
		"{'observedGeneration':3,'phase':'Pending','requested':'0.3-0.6','asked':'0.3-0.6',"
		"'conditions':[" ACCEPTED
		",{'type':'PodCreated','status':'False','reason':'BackOff'," SINCE
		",'message':'pod s failed'}]}");
	facts.verdict = SHARE_POD_POLICY_DENIED;
	refused = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_string_equal(kube_json_text_at(refused, "phase", NULL), "Refused");
	facts.verdict = SHARE_POD_ACCEPTED;
	json_object_set_new(kube_json_at(pod, "spec", NULL), "restartPolicy", json_string("Never"));
	ended = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
	assert_string_equal(kube_json_text_at(ended, "phase", NULL), "Failed");
	assert_string_equal(kube_json_text_at(ended, "podUID", NULL), "p-1");
}

static void each_verdict_has_its_reason(void **state)
{
	static const char *const reasons[SHARE_POD_VERDICTS] = {
		"Accepted", "InvalidSpec", "TemplateConflict", "PolicyDenied"};
	_cleanup_json_ json_t *share_pod = unit_json(SHARE);

	for (int i = 0; i < SHARE_POD_VERDICTS; i++) {
		const struct share_pod_facts facts = {.verdict = (enum share_pod_verdict)i};
		_cleanup_json_ json_t *status = share_pod_status(share_pod, SHARE_POD_OURS, &facts);
		const json_t *accepted = json_array_get(json_object_get(status, "conditions"), 0);

		assert_string_equal(kube_json_text_at(accepted, "type", NULL), "Accepted");
		assert_string_equal(kube_json_text_at(accepted, "reason", NULL), reasons[i]);
		assert_string_equal(
			kube_json_text_at(accepted, "status", NULL), i ? "False" : "True");
	}
}

static void kubeshares_tools_read_their_own_fields(void **state)
{
	_cleanup_json_ json_t
		*share_pod = unit_json("{" META ",'spec':{}}"),
		*status = NULL,
		*pod = unit_json(
			"{'metadata':{'name':'s','annotations':{'divvy.gpu/devices':'main=GPU-1'}},"
			"'status':{'phase':'Running'}}");
	const struct share_pod_facts facts = {.real_ns = T0, .pod = pod};

	status = share_pod_status(share_pod, SHARE_POD_KUBESHARE, &facts);
	assert_json(status,
		"{'PodManagerPort':0,'BoundDeviceID':'GPU-1','PodStatus':{'phase':'Running'},"
		"'PodObjectMeta':{'name':'s','annotations':{'divvy.gpu/devices':'main=GPU-1'}}}");
	assert_true(share_pod_is_kubeshare_on("hami, kubeshare"));
	assert_false(share_pod_is_kubeshare_on("kubeshare2"));
	assert_false(share_pod_is_kubeshare_on(NULL));
}

static void a_text_with_a_nul_is_refused(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json(
				      "{" META
				      ",'spec':{'request':'0.3\\u0000','template':{'spec':{}}}}"),
			      *pod = NULL;
	struct error err;

	assert_int_equal(share_pod_make(share_pod, SHARE_POD_OURS, &pod, &err), -EINVAL);
	assert_contains(err.msg, "spec.request: has to be text or a number");
}

UNIT_MAIN(UNIT(the_pod_is_the_template_with_the_requested_keys),
	UNIT(divvy_places_a_pinned_kubeshare_pod), UNIT(the_alternative_name_is_stable),
	UNIT(a_change_is_copied_to_the_pod), UNIT(the_status_comes_from_pod_and_node),
	UNIT(the_used_share_is_the_measured_one), UNIT(a_refusal_is_a_phase),
	UNIT(a_pod_that_another_pod_replaces_does_not_end_the_share_pod),
	UNIT(a_text_with_a_nul_is_refused), UNIT(each_verdict_has_its_reason),
	UNIT(kubeshares_tools_read_their_own_fields))
