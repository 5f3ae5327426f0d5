/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how a pod is read from JSON: its request, refused fields, and each limit. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "kuberules/pod.h"
#include "kuberules/view.h"
#include "rules.h"
#include "unit-json.h"

static struct object *pod_new(unsigned minor, json_t *json)
{
	struct object *object = NULL;
	struct error err = {0};

	if (object_new(OBJECT_POD, minor, json, &object, &err) < 0)
		fail_msg("%s", err.msg);
	json_decref(json);
	return object;
}

static struct object *pod_of_release(unsigned minor, const char *spec)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);

	buf_addf(&text, "{'metadata':{'name':'q','namespace':'a'},%s}", spec);
	return pod_new(minor, unit_json(buf_text(&text)));
}

static struct object *pod_from(const char *spec)
{
	return pod_of_release(VIEW_MINOR_OLDEST, spec);
}

#define C(name, cpu, more) "{'name':'" name "','resources':{'requests':{'cpu':'" cpu "'}}" more "}"
#define SIDECAR ",'restartPolicy':'Always'"

static void requests_add_up_as_containers_run(void **state)
{
	static const struct {
		const char *what, *spec;
		int64_t cpu_milli;
	} cases[] = {
		{"containers run together",
			"'spec':{'containers':[" C("a", "1", "") "," C("b", "2", "") "]}", 3000},
		{"init containers one after the other",
			"'spec':{'containers':[" C("a", "1", "") "],'initContainers':[" C(
				"i", "2", "") "," C("j", "3", "") "]}",
			3000},
		{"sidecars stay beside the containers",
			"'spec':{'containers':[" C("a", "1", "") "],'initContainers':[" C(
				"i", "2", SIDECAR) "]}",
			3000},
		{"an init container runs beside the sidecars before it",
			"'spec':{'containers':[" C("a", "1", "") "],'initContainers':[" C(
				"i", "2", SIDECAR) "," C("j", "3", "") "]}",
			5000},
		{"... not beside those after it",
			"'spec':{'containers':[" C("a", "1", "") "],'initContainers':[" C(
				"j", "3", "") "," C("i", "2", SIDECAR) "]}",
			3000},
		{"sidecars add up",
			"'spec':{'containers':[" C("a", "1", "") "],'initContainers':[" C("i", "2",
				SIDECAR) "," C("j", "2", SIDECAR) "," C("k", "0.5", "") "]}",
			5000},
		{"the overhead comes on top",
			"'spec':{'overhead':{'cpu':'250m'},'containers':[" C(
				"a", "1", "") "],"
					      "'initContainers':[" C("j", "3", "") "]}",
			3250},
		{"a limit stands for a request that is not there",
			"'spec':{'containers':[{'name':'a','resources':{'limits':{'cpu':'2'}}},{'"
			"name':"
			"'b','resources':{'limits':{'cpu':'2'},'requests':{'cpu':'1'}}}]}",
			3000},
		{"the pod's own requests stand in place of its containers'",
			"'spec':{'resources':{'requests':{'cpu':'7'}},'overhead':{'cpu':'1'},"
			"'containers':[" C("a", "1", "") "]}",
			8000},
		{"each container's is rounded up",
			"'spec':{'containers':[" C("a", "0.0001", "") "," C("b", "0.0001", "") "]}",
			2},
		{"what the status holds counts where it is more",
			"'spec':{'containers':[" C(
				"a", "1", "") "]},'status':{'containerStatuses':[{"
					      "'name':'a','allocatedResources':{'cpu':'2'},'"
					      "resources':{'requests':{'cpu':"
					      "'3'}}}]}",
			3000},
		{"... where it is less, the wish does",
			"'spec':{'containers':[" C(
				"a", "5", "") "]},'status':{'containerStatuses':[{"
					      "'name':'a','resources':{'requests':{'cpu':'3'}}}]}",
			5000},
		{"... unless it can never be granted",
			"'spec':{'containers':[" C(
				"a", "5", "") "]},'status':{'conditions':[{'type':"
					      "'PodResizePending','reason':'Infeasible'}],'"
					      "containerStatuses':[{'name':'a',"
					      "'resources':{'requests':{'cpu':'3'}}}]}",
			3000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(object_free_p) struct object *object = pod_from(cases[i].spec);

		if (object->refusal.code ||
			pod_from_object(object)->request.cpu_milli != cases[i].cpu_milli)
			fail_msg("%s: %lld, refusal '%s'", cases[i].what,
				(long long)pod_from_object(object)->request.cpu_milli,
				object->refusal.msg);
	}
}

#define CPU(n) "{'cpu':'" n "'}"
#define ALLOCATED(n) "'allocatedResources':" CPU(n)
#define ACTUATED(n) "'resources':{'requests':" CPU(n) "}"
#define HELD(name, held) "{'name':'" name "'," held "}"
#define STATUSES(list) "'containerStatuses':[" list "]"
#define INIT_STATUSES(list) "'initContainerStatuses':[" list "]"
#define PENDING_RESIZE(reason) "'conditions':[{'type':'PodResizePending','reason':'" reason "'}]"
#define ONE "'containers':[" C("a", "1", "") "]"
#define RESIZED(spec, status) "'spec':{" spec "},'status':{" status "}"

static void statuses_count_by_the_release(void **state)
{
	static const unsigned releases[] = {35, 36, 37};
	static const struct {
		const char *what, *spec;
		int64_t cpu_milli[ARRAY_SIZE(releases)];
	} cases[] = {
		{"statuses have the order of the names",
			RESIZED("'containers':[" C("b", "1", "") "," C("a", "1", "") "]",
				STATUSES(HELD("a", ACTUATED("3")) "," HELD("b", ACTUATED("1")))),
			{4000, 4000, 4000}},
		{"a status of no container is ignored",
			RESIZED(ONE, STATUSES(HELD("x", ACTUATED("3")) ",{}")), {1000, 1000, 1000}},
		{"an init container's status",
			RESIZED(ONE ",'initContainers':[" C("i", "1", "") "]",
				INIT_STATUSES(HELD("i", ACTUATED("5")))),
			{1000, 1000, 5000}},
		{"a sidecar's status",
			RESIZED(ONE ",'initContainers':[" C("i", "1", SIDECAR) "]",
				INIT_STATUSES(HELD("i", ACTUATED("5")))),
			{6000, 6000, 6000}},
		{"allocated amounts alone", RESIZED(ONE, STATUSES(HELD("a", ALLOCATED("3")))),
			{1000, 1000, 3000}},
		{"one container grows and one shrinks",
			RESIZED("'containers':[" C("a", "5", "") "," C("b", "1", "") "]",
				STATUSES(HELD("a", ACTUATED("1")) "," HELD("b", ACTUATED("4")))),
			{9000, 9000, 6000}},
		{"a deferred resize counts",
			RESIZED(ONE,
				STATUSES(HELD("a", ACTUATED("0.5"))) "," PENDING_RESIZE(
					"Deferred")),
			{1000, 1000, 1000}},
		{"an infeasible one does not",
			RESIZED(ONE,
				STATUSES(HELD("a", ACTUATED("0.5"))) "," PENDING_RESIZE(
					"Infeasible")),
			{500, 500, 500}},
		{"amounts of the whole pod that are in force",
			RESIZED(ONE ",'resources':{'requests':" CPU("2") "}", ACTUATED("5")),
			{2000, 5000, 5000}},
		{"... that are allocated",
			RESIZED(ONE ",'resources':{'requests':" CPU("2") "}",
				"'resources':{}," ALLOCATED("6")),
			{2000, 6000, 6000}},
		{"... and a resize of it that is infeasible",
			RESIZED(ONE ",'resources':{'requests':" CPU("9") "}",
				ACTUATED("5") "," ALLOCATED("6") "," PENDING_RESIZE("Infeasible")),
			{9000, 6000, 6000}},
		{"... without any amount in its status",
			RESIZED(ONE ",'resources':{'requests':" CPU("9") "}",
				"'resources':{}," PENDING_RESIZE("Infeasible")),
			{9000, 0, 0}},
		{"a resource that only the pod's status names",
			RESIZED(ONE ",'resources':{'requests':{'memory':'1Gi'}}", ACTUATED("7")),
			{1000, 1000, 7000}},
		{"the pod's status in place of its containers'",
			RESIZED(ONE,
				STATUSES(HELD("a", ACTUATED("4"))) "," ACTUATED("2") "," ALLOCATED(
					"2")),
			{4000, 4000, 2000}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t k = 0; k < ARRAY_SIZE(releases); k++) {
			_cleanup_(object_free_p) struct object *object = pod_of_release(
				releases[k], cases[i].spec);
			int64_t cpu_milli = pod_from_object(object)->request.cpu_milli;

			if (object->refusal.code || cpu_milli != cases[i].cpu_milli[k])
				fail_msg("%s: 1.%u: %lld, refusal '%s'", cases[i].what, releases[k],
					(long long)cpu_milli, object->refusal.msg);
		}
}

static void all_resources_are_read(void **state)
{
	_cleanup_(object_free_p) struct object *object = pod_from(
		"'spec':{'containers':[{'name':'a','resources':{'requests':{'memory':'1Gi',"
		"'ephemeral-storage':'1k','example.com/x':'2','hugepages-1Gi':'1Gi'}}},{'name':'b',"
		"'resources':{'requests':{'memory':'500m','example.com/x':'3'}}}],'initContainers':"
		"[{'name':'i','resources':{'requests':{'example.com/x':'4','example.com/"
		"y':'0'}}}]}");
	const struct resources *r = &pod_from_object(object)->request;

	assert_int_equal(object->refusal.code, 0);
	assert_int_equal(r->memory_bytes, (1 << 30) + 1);
	assert_int_equal(r->ephemeral_bytes, 1000);
	assert_int_equal(resources_other(r, "example.com/x"), 5);
	assert_int_equal(resources_other(r, "hugepages-1Gi"), 1 << 30);
	assert_int_equal(r->n_others, 2);
}

static void fields_for_schedulers_are_kept(void **state)
{
	_cleanup_(object_free_p) struct object *object = pod_from(
		"'spec':{'priority':7,'preemptionPolicy':'Never','schedulerName':'s',"
		"'terminationGracePeriodSeconds':9,'containers':[]},"
		"'status':{'nominatedNodeName':'n'}");
	_cleanup_(object_free_p) struct object *plain = pod_from("'spec':{'containers':[]}");
	const struct pod *pod = pod_from_object(object);

	assert_int_equal(pod->priority, 7);
	assert_true(pod->is_never_preempting);
	assert_string_equal(pod->scheduler, "s");
	assert_string_equal(pod->nominated_node, "n");
	assert_int_equal(pod->grace_s, 9);
	assert_int_equal(pod_from_object(plain)->grace_s, 30);
	assert_false(pod_from_object(plain)->is_never_preempting);
}

static void unknown_values_are_reported(void **state)
{
	static const struct {
		const char *spec, *said;
	} cases[] = {
		{"'x':1", "spec: is not an object"},
		{"'spec':[]", "spec: is not an object"},
		{"'spec':{'containers':{}}", "spec: containers: is not a list"},
		{"'spec':{'containers':[1]}", "spec: containers: 0: is not an object"},
		{"'spec':{'containers':[{'name':'c','resources':{'requests':{'cpu':'x'}}}]}",
			"spec: containers: 0: resources: requests: cpu: 'x' is not a quantity"},
		{"'spec':{'containers':[{'name':'c','resources':{'requests':{'cpu':true}}}]}",
			"requests: cpu: is no quantity"},
		{"'spec':{'containers':[{'name':'c','resources':{'requests':{'cpu':'-1'}}}]}",
			"'-1' is negative"},
		{"'spec':{'containers':[{'name':'c','resources':{'shares':{}}}]}",
			"resources: shares: this scheduler does not know"},
		{"'spec':{'containers':[{'name':'c','ports':[{'hostPort':'80'}]}]}",
			"ports: 0: hostPort: is not a whole number"},
		{"'spec':{'containers':[{'name':'c','ports':[{'protocol':'QUIC'}]}]}",
			"'QUIC' is not known"},
		{"'spec':{'initContainers':[{'name':'c','restartPolicy':'Sometimes'}]}",
			"initContainers: 0: restartPolicy: 'Sometimes' is not known"},
		{"'spec':{'overhead':{'gpu':'1'}}", "overhead: gpu: is no resource"},
		{"'spec':{'resources':{'requests':{'example.com/x':'1'}}}",
			"resources: example.com/x: a pod may request only cpu"},
		{"'spec':{'nodeSelector':{'a':1}}", "nodeSelector: a: is not a text"},
		{"'spec':{'nodeSelector':[]}", "nodeSelector: is no map"},
		{"'spec':{'tolerations':[{'effect':'Sometimes'}]}",
			"tolerations: 0: effect: 'Sometimes'"},
		{"'spec':{'tolerations':[{'forever':true}]}", "tolerations: 0: forever: this"},
		{"'spec':{'affinity':{'gpuAffinity':{}}}", "affinity: gpuAffinity: this"},
		{"'spec':{'affinity':{'nodeAffinity':{'requiredDuringSchedulingRequiredDuring"
		 "Execution':{}}}}",
			"nodeAffinity: requiredDuringSchedulingRequiredDuringExecution: this"},
		{"'spec':{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuring"
		 "Execution':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a','operator':"
		 "'Near'}]}]}}}}",
			"matchExpressions: 0: operator: 'Near' is not known"},
		{"'spec':{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuring"
		 "Execution':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a'}]}]}}}}",
			"needs a key and an operator"},
		{"'spec':{'topologySpreadConstraints':[{'topologyKey':'z','maxSkew':1,"
		 "'labelSelector':{'matchLabels':{'a':'-'}}}]}",
			"labelSelector: a: '-' is no value that a label can have"},
		{"'spec':{'topologySpreadConstraints':[{'topologyKey':'z','maxSkew':1,"
		 "'labelSelector':{'matchLabels':{'a':'0123456789012345678901234567890123456789"
		 "012345678901234567890123'}}}]}",
			"is no value that a label can have"},
		{"'spec':{'topologySpreadConstraints':[{'topologyKey':'z','maxSkew':1,"
		 "'minDomains':0}]}",
			"minDomains: must be 1"},
		{"'spec':{'preemptionPolicy':'Maybe'}", "preemptionPolicy: 'Maybe' is not known"},
		{"'spec':{'priority':'high'}", "priority: is not a whole number"},
		{"'spec':{'nodeName':'a\\u0000b'}", "nodeName: has a zero byte"},
		{"'spec':{'volumes':[{'name':'x','persistentVolumeClaim':{'claimName':1}}]}",
			"volumes: 0: persistentVolumeClaim: claimName: is not a text"},
		{"'spec':{},'status':{'nominatedNodeName':1}",
			"status: nominatedNodeName: is not a text"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(object_free_p) struct object *object = pod_from(cases[i].spec);

		assert_true(object->refusal.code > 0);
		assert_contains(object->refusal.msg, cases[i].said);
	}
}

static void valid_fields_count_beside_refused_ones(void **state)
{
	_cleanup_(object_free_p) struct object *object = pod_from(
		"'spec':{'tolerations':[{'zzz':1}],'nodeName':'n','containers':[{'name':'a','resources':{"
		"'requests':{'cpu':'1','memory':'x'}}}]}");

	assert_contains(object->refusal.msg, "spec: tolerations: 0: zzz");
	assert_string_equal(pod_from_object(object)->node, "n");
	assert_int_equal(pod_from_object(object)->request.cpu_milli, 1000);
}

static void a_later_servers_fields_are_ignored(void **state)
{
	_cleanup_(object_free_p) struct object *object = pod_from(
		"'spec':{'zzz':{'a':[1]},'containers':[{'name':'a','new':1,'resources':{"
		"'requests':{'cpu':'1'}}}]}");

	assert_int_equal(object->refusal.code, 0);
	assert_int_equal(pod_from_object(object)->request.cpu_milli, 1000);
}

static void an_object_needs_a_name(void **state)
{
	static const char *const texts[] = {"{}", "[]", "{'metadata':1}", "{'metadata':{}}",
		"{'metadata':{'name':''}}", "{'metadata':{'name':1}}",
		"{'metadata':{'name':'x','labels':{'a':1}}}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (int kind = 0; kind < OBJECT_KINDS; kind++) {
			json_t *json = unit_json(texts[i]);
			struct object *object = NULL;
			struct error err = {0};

			assert_int_equal(object_new((enum object_kind)kind, VIEW_MINOR_OLDEST, json,
						 &object, &err),
				-EINVAL);
			assert_contains(err.msg, "metadata: ");
			json_decref(json);
		}
}

/* Makes a pod whose spec has, at the path `field`, a list of n copies of the item. */
static struct object *pod_with_many(const char *field, const char *item, size_t n)
{
	json_t *json = unit_json("{'metadata':{'name':'q'},'spec':{}}"), *list = json_array();
	json_t *one = unit_json(item);

	for (size_t i = 0; i < n; i++)
		json_array_append(list, one);
	json_decref(one);
	json_object_set_new(json_object_get(json, "spec"), field, list);
	return pod_new(VIEW_MINOR_OLDEST, json);
}

static void every_limit_holds(void **state)
{
	static const struct {
		const char *field, *item;
		size_t most;
		const char *said;
	} cases[] = {
		{"containers", "{'name':'c'}", POD_CONTAINERS_MAX, "containers: at most 1024"},
		{"initContainers", "{'name':'c'}", POD_CONTAINERS_MAX, "at most 1024"},
		{"tolerations", "{'operator':'Exists'}", READ_LIST_MAX, "4097 items; at most 4096"},
		{"volumes", "{'name':'x','emptyDir':{}}", READ_LIST_MAX, "at most 4096"},
		{"containers",
			"{'name':'c','ports':[{'hostPort':1},{'hostPort':2},{'hostPort':3},"
			"{'hostPort':4}]}",
			POD_PORTS_MAX / 4, "more than 4096 ports"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(object_free_p) struct object *fits = pod_with_many(
			cases[i].field, cases[i].item, cases[i].most);
		_cleanup_(object_free_p) struct object *over = pod_with_many(
			cases[i].field, cases[i].item, cases[i].most + 1);

		assert_string_equal(fits->refusal.msg, "");
		/* The last case exceeds the limit of containers before that of their ports. */
		if (i + 1 < ARRAY_SIZE(cases))
			assert_contains(over->refusal.msg, cases[i].said);
		else
			assert_int_equal(over->refusal.code, E2BIG);
	}
}

static void ports_have_a_limit_of_their_own(void **state)
{
	static const char item[] =
		"{'name':'c','ports':[{'hostPort':1},{'hostPort':2},{'hostPort':3},{'hostPort':4},"
		"{'hostPort':5}]}";
	_cleanup_(object_free_p) struct object *object = pod_with_many(
		"containers", item, POD_PORTS_MAX / 5 + 1);

	assert_contains(object->refusal.msg, "more than 4096 ports");
	assert_int_equal(pod_from_object(object)->ports.n, POD_PORTS_MAX);
}

static void texts_maps_and_resources_have_limits(void **state)
{
	for (size_t over = 0; over <= 1; over++) {
		json_t *json = unit_json(
			"{'metadata':{'name':'q'},'spec':{'nodeSelector':{},"
			"'containers':[{'name':'c','resources':{'requests':{}}}]}}");
		json_t *spec = json_object_get(json, "spec");
		json_t *first = json_array_get(json_object_get(spec, "containers"), 0);
		json_t *requests = json_object_get(json_object_get(first, "resources"), "requests");
		_cleanup_(object_free_p) struct object *object = NULL;
		char name[READ_TEXT_MAX + 2];

		for (size_t i = 0; i < RESOURCES_OTHER_MAX + over; i++) {
			snprintf(name, sizeof(name), "example.com/%zu", i);
			json_object_set_new(requests, name, json_string("1"));
		}
		object = pod_new(VIEW_MINOR_OLDEST, json);
		assert_int_equal(object->refusal.code, over ? E2BIG : 0);
		assert_int_equal(pod_from_object(object)->request.n_others, RESOURCES_OTHER_MAX);
	}
	for (size_t over = 0; over <= 1; over++) {
		json_t *json = unit_json("{'metadata':{'name':'q'},'spec':{'nodeSelector':{}}}");
		json_t *spec = json_object_get(json, "spec");
		json_t *labels = json_object_get(spec, "nodeSelector");
		_cleanup_(object_free_p) struct object *object = NULL;
		char text[READ_TEXT_MAX + 2];

		memset(text, 'x', sizeof(text));
		text[READ_TEXT_MAX + over] = '\0';
		json_object_set_new(spec, "schedulerName", json_string(text));
		object = pod_new(VIEW_MINOR_OLDEST, json_incref(json));
		assert_int_equal(object->refusal.code, over ? E2BIG : 0);
		object_free(TAKE_PTR(object));
		json_object_del(spec, "schedulerName");
		for (size_t i = 0; i < READ_LIST_MAX + over; i++) {
			snprintf(text, sizeof(text), "%zu", i);
			json_object_set_new(labels, text, json_string(""));
		}
		object = pod_new(VIEW_MINOR_OLDEST, json);
		assert_int_equal(object->refusal.code, over ? E2BIG : 0);
	}
}

UNIT_MAIN(UNIT(requests_add_up_as_containers_run), UNIT(statuses_count_by_the_release),
	UNIT(all_resources_are_read), UNIT(fields_for_schedulers_are_kept),
	UNIT(unknown_values_are_reported), UNIT(valid_fields_count_beside_refused_ones),
	UNIT(a_later_servers_fields_are_ignored), UNIT(an_object_needs_a_name),
	UNIT(every_limit_holds), UNIT(ports_have_a_limit_of_their_own),
	UNIT(texts_maps_and_resources_have_limits))
