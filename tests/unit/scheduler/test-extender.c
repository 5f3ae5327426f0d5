/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the answers to kube-scheduler's extender requests, as JSON, in virtual time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "acts.h"
#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "place/place-policy.h"
#include "rules.h"
#include "scheduler/extender.h"
#include "unit.h"

/* Adds a pod that kube-scheduler places. */
static void add_guest(const char *name, const char *annotations, const char *more)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s'," TENANT
		"'annotations':{%s}},"
		"'spec':{'schedulerName':'default-scheduler','containers':[{'name':'c','resources':"
		"{"
		"'requests':{'cpu':'1'}}}]%s}}",
		name, name, annotations, more);
}

static json_t *args_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static json_t *args_of(const char *fmt, ...)
{
	json_t *json;
	va_list ap;

	va_start(ap, fmt);
	json = rules_jsonv(fmt, ap);
	va_end(ap);
	return json;
}

#define OF(x) "'Pod':{'metadata':{'namespace':'s','name':'" x "','uid':'u-" x "'}}"

/* Sends a request, takes over `args`, and expects the answer, with ' for ". */
static void answers(enum extender_verb verb, json_t *args, const char *want)
{
	_cleanup_json_ json_t *question = args, *answer = NULL;
	_cleanup_free_ char *text = NULL;
	struct error err = {0};

	if (extender_answer(sched, verb, question, &answer, &err) < 0)
		fail_msg("%s", err.msg);
	text = json_dumps(answer, JSON_COMPACT);
	for (char *p = text; *p; p++)
		*p = *p == '"' ? '\'' : *p;
	assert_string_equal(text, want);
}

static void is_refused(enum extender_verb verb, json_t *args, int code, const char *sentence)
{
	_cleanup_json_ json_t *question = args, *answer = NULL;
	const struct cpod *pod;
	struct error err = {0};

	assert_int_equal(verb == EXTENDER_BIND
			? extender_bind(sched, question, &pod, &err)
			: extender_answer(sched, verb, question, &answer, &err),
		-code);
	assert_contains(err.msg, sentence);
}

/* Sends a bind request, takes over `args`, and returns the pod. */
static const struct cpod *binds(json_t *args)
{
	_cleanup_json_ json_t *question = args;
	const struct cpod *pod;
	struct error err = {0};

	if (extender_bind(sched, question, &pod, &err) != 0)
		fail_msg("not to be bound: %s", err.msg);
	assert_int_equal(cpod_state(pod), CPOD_ASSUMED);
	return pod;
}

static json_t *binding(const char *name, const char *node)
{
	return args_of("{'PodName':'%s','PodNamespace':'s','PodUID':'u-%s','Node':'%s'}", name,
		name, node);
}

static json_t *names(const char *pod, const char *list)
{
	return args_of(
		"{'Pod':{'metadata':{'namespace':'s','name':'%s','uid':'u-%s'}},'NodeNames':[%s]}",
		pod, pod, list);
}

#define FITS(list) \
	"{'NodeNames':[" list "],'FailedNodes':{},'FailedAndUnresolvableNodes':{},'Error':''}"

/* Confirms the decided Binding, and sets the pod with its node and assigned keys. */
static void confirm_guest(const struct cpod *pod, const char *annotations)
{
	_cleanup_buf_ struct buf given = BUF_INIT(8192);
	_cleanup_json_ json_t *keys = NULL;
	char more[256], name[256];
	const char *key;
	json_t *value;

	snprintf(name, sizeof(name), "%s", cpod_name(pod));
	assert_ok(decide_annotations(sched_cluster(sched), pod, 7, &keys));
	buf_add_text(&given, annotations);
	json_object_foreach(keys, key, value)
		buf_addf(&given, ",'%s':'%s'", key, json_string_value(value));
	snprintf(more, sizeof(more), ",'nodeName':'%s'", cpod_node(pod));
	sched_bound(sched, "s", name, cpod_uid(pod), true);
	add_guest(name, buf_text(&given), more);
}

/*
 * A pod that fits on no node gets a condition if a further device might help, and only once. A pod
 * with that condition that waits for something else later gets the opposite.
 */
static void a_guest_says_whether_it_needs_a_device(void **state)
{
	_cleanup_json_ json_t *answer = NULL, *none = NULL;
	_cleanup_json_ json_t *question = names("a", "'n1'"), *again = names("a", "'n9'");
	const struct cpod *pod;

	add_node("n1", 1);
	add_guest("a", SHARE("0.5") ",'divvy.gpu/model':'H100'", "");
	nothing();
	assert_ok(extender_answer(sched, EXTENDER_FILTER, question, &answer, NULL));
	pod = next(SCHED_NEEDS_DEVICE, "a", NULL);
	assert_true(cpod_needs_device(pod));
	nothing();
	set(OBJECT_POD,
		"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT
		"'annotations':{" SHARE(
			"0.5") ",'divvy.gpu/model':'H100'}},'spec':{'schedulerName':"
			       "'default-scheduler','containers':[{'name':'c'}]},'status':{"
			       "'conditions':[{'type':'divvy.gpu/NeedsDevice','status':'True'}]}}");
	json_decref(TAKE_PTR(answer));
	assert_ok(extender_answer(sched, EXTENDER_FILTER, question, &answer, NULL));
	nothing();
	/* The scheduler knows no node n9, and a device does not change that. */
	assert_ok(extender_answer(sched, EXTENDER_FILTER, again, &none, NULL));
	assert_false(cpod_needs_device(next(SCHED_NEEDS_DEVICE, "a", NULL)));
	nothing();
}

static void fitting_and_other_nodes_are_told_apart(void **state)
{
	add_node("n1", 1);
	add_node("n2", 0);
	add_guest("a", SHARE("0.5"), "");
	nothing();
	answers(EXTENDER_FILTER, names("a", "'n1','n2','n9'"),
		"{'NodeNames':['n1'],'FailedNodes':{'n2':'no GPU','n9':'not known yet'},"
		"'FailedAndUnresolvableNodes':{'n2':'no GPU','n9':'not known yet'},'Error':''}");
	/* Nodes that come as objects are answered as objects. Keys may be in lower case. */
	answers(EXTENDER_FILTER,
		args_of("{'pod':{'metadata':{'namespace':'s','name':'a','uid':'u-a'}},'nodenames':"
			"null,'nodes':{'items':[{'metadata':{'name':'n1','labels':{'x':'y'}}}]}}"),
		"{'Nodes':{'apiVersion':'v1','kind':'NodeList','metadata':{},'items':[{'metadata':"
		"{'name':'n1','labels':{'x':'y'}}}]},'FailedNodes':{},"
		"'FailedAndUnresolvableNodes':{},'Error':''}");
}

static void a_place_is_reserved_and_bound(void **state)
{
	const struct cpod *pod;

	add_node("n1", 1);
	add_node("n2", 1);
	add_guest("a", SHARE("0.6"), "");
	add_guest("b", SHARE("0.6"), "");
	add_guest("d", SHARE("0.6"), "");
	answers(EXTENDER_FILTER, names("a", "'n1','n2'"), FITS("'n1','n2'"));
	answers(EXTENDER_PRIORITIZE, names("a", "'n2','n1'"),
		"[{'Host':'n2','Score':0},{'Host':'n1','Score':10}]");
	/* kube-scheduler asks about the next pods before the first one is bound. */
	answers(EXTENDER_FILTER, names("b", "'n1','n2'"),
		"{'NodeNames':['n2'],'FailedNodes':{'n1':'no GPU with 0.6 free'},"
		"'FailedAndUnresolvableNodes':{},'Error':''}");
	answers(EXTENDER_FILTER, names("d", "'n1','n2'"),
		"{'NodeNames':[],'FailedNodes':{'n1':'no GPU with 0.6 free','n2':'no GPU with 0.6 "
		"free'},'FailedAndUnresolvableNodes':{},'Error':''}");
	pod = binds(binding("a", "n1"));
	assert_string_equal(device_of(pod), "GPU-n1-0");
	is_refused(EXTENDER_BIND, binding("a", "n1"), EBUSY, "in progress");
	confirm_guest(pod, SHARE("0.6"));
	/* A repeated bind request for a bound pod succeeds. */
	{
		_cleanup_json_ json_t *again = binding("a", "n1");

		assert_int_equal(extender_bind(sched, again, &pod, NULL), 1);
	}
	is_refused(EXTENDER_BIND, binding("a", "n2"), EBUSY, "bound to n1");
	/* A pod can also be bound to another node than the reserved one, if it fits there. */
	is_refused(EXTENDER_BIND, binding("b", "n1"), ENOSPC, "n1: no GPU with 0.6 free");
	confirm_guest(binds(binding("b", "n2")), SHARE("0.6"));
	/* The capacity of a deleted pod is free. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	answers(EXTENDER_FILTER, names("d", "'n1'"), FITS("'n1'"));
}

static void extender_pods_and_own_pods_share_devices(void **state)
{
	add_node("n1", 1);
	add_guest("a", SHARE("0.6"), "");
	answers(EXTENDER_FILTER, names("a", "'n1'"), FITS("'n1'"));
	add_pod("own", SHARE("0.6"), "");
	told("own", "0/1 nodes: 1 no GPU with 0.6 free");
	/* kube-scheduler does not bind the pod in time, so its reservation expires. */
	pass(30);
	add_lease("n1", "2026-01-02T03:04:35Z");
	nothing();
	pass(31);
	add_lease("n1", "2026-01-02T03:05:05Z");
	assert_int_equal(sched_counts(sched).n_expired, 1);
	next(SCHED_BIND, "own", NULL);
	answers(EXTENDER_FILTER, names("a", "'n1'"),
		"{'NodeNames':[],'FailedNodes':{'n1':'no GPU with 0.6 free'},"
		"'FailedAndUnresolvableNodes':{},'Error':''}");
	is_refused(EXTENDER_FILTER, names("own", "'n1'"), EBUSY, "which places it");
}

static void a_failed_bind_frees_the_reservation(void **state)
{
	add_node("n1", 1);
	add_guest("a", SHARE("0.6"), "");
	add_guest("b", SHARE("0.6"), "");
	binds(binding("a", "n1"));
	is_refused(EXTENDER_BIND, binding("b", "n1"), ENOSPC, "no GPU with 0.6 free");
	sched_bound(sched, "s", "a", "u-a", false);
	nothing();
	binds(binding("b", "n1"));
}

/* kube-scheduler reports the refusal of its pod, so divvy-scheduler only frees the place. */
static void a_refused_bind_frees_the_reservation(void **state)
{
	add_node("n1", 1);
	add_guest("a", SHARE("0.6"), "");
	add_guest("b", SHARE("0.6"), "");
	binds(binding("a", "n1"));
	sched_refused(sched, "s", "a", "u-a", "403 Forbidden: no");
	nothing();
	binds(binding("b", "n1"));
}

static void a_former_leader_drops_its_reservations(void **state)
{
	add_node("n1", 1);
	add_guest("a", SHARE("1"), "");
	add_guest("b", SHARE("1"), "");
	answers(EXTENDER_FILTER, names("a", "'n1'"), FITS("'n1'"));
	sched_stand_down(sched);
	answers(EXTENDER_FILTER, names("b", "'n1'"), FITS("'n1'"));
	assert_int_equal(sched_counts(sched).n_reserved, 1);
	/* The reservation ends with its pod. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b"));
	assert_int_equal(sched_counts(sched).n_reserved, 0);
	answers(EXTENDER_FILTER, names("a", "'n1'"), FITS("'n1'"));
	/* A change of the pod's object does not end its reservation. */
	add_guest("a", SHARE("1") ",'x':'y'", "");
	assert_int_equal(sched_counts(sched).n_reserved, 1);
}

static void groups_are_refused(void **state)
{
	add_node("n1", 1);
	add_guest("g", SHARE("0.5") ",'divvy.gpu/group':'g','divvy.gpu/group-size':'2'", "");
	is_refused(EXTENDER_BIND, binding("g", "n1"), ENOSPC,
		"group s/g: an extender places no groups; give its pods the schedulerName "
		"divvy-scheduler");
}

/* kube-scheduler has gathered the group, so no node holds a member back either. */
static void kube_scheduler_gathers_kubernetes_own_groups(void **state)
{
	const struct cpod *pod;
	json_t *annotations = NULL;

	add_node("n1", 1);
	cluster_note_served(sched_cluster(sched), CLUSTER_KUBE_GROUP);
	set(CLUSTER_KUBE_GROUP,
		"{'metadata':{'name':'job','namespace':'s'},'spec':{'schedulingPolicy':{'gang':{"
		"'minCount':2}}}}");
	add_guest("a", SHARE("0.5"), ",'schedulingGroup':{'podGroupName':'job'}");
	pod = binds(binding("a", "n1"));
	assert_ok(decide_annotations(sched_cluster(sched), pod, 1, &annotations));
	assert_null(json_object_get(annotations, "divvy.gpu/granted-group"));
	json_decref(annotations);
}

static void policies_are_enforced(void **state)
{
	add_node("n1", 1);
	set(CLUSTER_POLICY, "{'metadata':{'name':'p'},'spec':{'classes':['standard']}}");
	add_guest("a", SHARE("0.5") ",'divvy.gpu/class':'latency'", "");
	is_refused(EXTENDER_BIND, binding("a", "n1"), ENOSPC,
		"n1: policy p: c: class latency is not allowed");
}

static void requests_and_labels_of_extender_pods_are_checked(void **state)
{
	const struct cpod *pod;

	add_node("n1", 1);
	add_guest("bad", SHARE("1.5"), "");
	is_refused(EXTENDER_BIND, binding("bad", "n1"), ENOSPC, "request '1.5'");
	add_guest("a", SHARE("0.3") ",'divvy.gpu/anti-affinity':'x'", "");
	pod = binds(binding("a", "n1"));
	confirm_guest(pod, SHARE("0.3") ",'divvy.gpu/anti-affinity':'x'");
	add_guest("b", SHARE("0.3") ",'divvy.gpu/anti-affinity':'x'", "");
	is_refused(EXTENDER_BIND, binding("b", "n1"), ENOSPC,
		"kept away by affinity or exclusion labels");
	/* A bound extender pod can be resized. */
	{
		struct cluster *c = sched_cluster(sched);
		_cleanup_json_ json_t *keys = NULL;
		_cleanup_buf_ struct buf given = BUF_INIT(8192);
		const char *key;
		json_t *value;

		assert_ok(decide_annotations(c, cluster_pod(c, "s", "a"), 7, &keys));
		buf_add_text(&given, SHARE("0.4") ",'divvy.gpu/anti-affinity':'x'");
		json_object_foreach(keys, key, value)
			if (strcmp(key, "divvy.gpu/request"))
				buf_addf(&given, ",'%s':'%s'", key, json_string_value(value));
		add_guest("a", buf_text(&given), ",'nodeName':'n1'");
		assert_int_equal(cpod_assigned(next(SCHED_GRANT, "a", NULL))->v[0].request, 400);
	}
}

static void preempted_victims_must_free_enough(void **state)
{
	add_node("n1", 2);
	add_node("n2", 1);
	for (int i = 0; i < 3; i++) {
		char name[8];

		snprintf(name, sizeof(name), "low%d", i);
		add_guest(name, SHARE("0.7"), "");
		confirm_guest(binds(binding(name, i < 2 ? "n1" : "n2")), SHARE("0.7"));
	}
	add_guest("high", SHARE("0.7"), ",'priority':100");
	answers(EXTENDER_PREEMPT,
		args_of("{" OF("high") ",'NodeNameToMetaVictims':{'n1':{'Pods':[{'UID':'u-low1'}],"
				       "'NumPDBViolations':1},'n2':{'Pods':[{'UID':'u-none'}]}}}"),
		"{'NodeNameToMetaVictims':{'n1':{'Pods':[{'UID':'u-low1'}],'NumPDBViolations':1}}"
		"}");
	/*
	 * Victims can come as objects. The pod needs two whole devices, so both victims have to
	 * leave.
	 */
	add_guest("two", "'divvy.gpu/request':'2'", ",'priority':100");
	answers(EXTENDER_PREEMPT,
		args_of("{" OF("two") ",'NodeNameToVictims':{'n1':{'Pods':[{'metadata':{'uid':"
				      "'u-low1'}}]}}}"),
		"{'NodeNameToMetaVictims':{}}");
	answers(EXTENDER_PREEMPT,
		args_of("{" OF("two") ",'NodeNameToVictims':{'n1':{'Pods':[{'metadata':{'uid':"
				      "'u-low1'}},{'metadata':{'uid':'u-low0'}}]}}}"),
		"{'NodeNameToMetaVictims':{'n1':{'Pods':[{'UID':'u-low1'},{'UID':'u-low0'}],"
		"'NumPDBViolations':0}}}");
	/* The requests have changed nothing: the victims still use the devices. */
	is_refused(EXTENDER_BIND, binding("high", "n2"), ENOSPC, "no GPU with 0.7 free");
}

static void a_pod_without_a_request_fits_on_every_node(void **state)
{
	const struct cpod *pod;

	add_node("n1", 0);
	add_guest("plain", "", "");
	answers(EXTENDER_FILTER, names("plain", "'n1','n7'"), FITS("'n1','n7'"));
	pod = binds(binding("plain", "n1"));
	assert_string_equal(cpod_node(pod), "n1");
	assert_int_equal(cpod_assigned(pod)->n, 0);
}

static void malformed_requests_are_refused(void **state)
{
	add_node("n1", 1);
	add_guest("a", SHARE("0.5"), "");
	is_refused(EXTENDER_FILTER, args_of("{}"), EINVAL, "namespace, name or uid is missing");
	is_refused(EXTENDER_FILTER, args_of("[1]"), EINVAL, "is missing");
	is_refused(
		EXTENDER_FILTER, args_of("{" OF("b") "}"), EAGAIN, "s/b with uid u-b is unknown");
	is_refused(
		EXTENDER_FILTER, args_of("{" OF("a") "}"), EINVAL, "neither NodeNames nor Nodes");
	is_refused(EXTENDER_FILTER, names("a", "'n1',7"), EINVAL, "node 1 of the list has no name");
	is_refused(EXTENDER_BIND, args_of("{'PodName':'a','PodNamespace':'s','PodUID':'u-a'}"),
		EINVAL, "Node is missing");
	is_refused(EXTENDER_BIND,
		args_of("{'PodName':'a','PodNamespace':'s','PodUID':'u-z','Node':'n1'}"), EAGAIN,
		"uid u-z");
}

static void the_number_of_nodes_is_limited(void **state)
{
	json_t *args = names("a", ""), *list = json_object_get(args, "NodeNames");

	add_guest("a", SHARE("0.5"), "");
	for (uint32_t i = 0; i < EXTENDER_NODES_MAX; i++)
		json_array_append_new(list, json_string("n"));
	{
		_cleanup_json_ json_t *answer = NULL;

		assert_ok(extender_answer(sched, EXTENDER_FILTER, args, &answer, NULL));
	}
	json_array_append_new(list, json_string("n"));
	is_refused(EXTENDER_FILTER, args, EINVAL, "65537 nodes: at most 65536");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, acts_begin, acts_end)
	const struct CMUnitTest tests[] = {
		TEST(a_guest_says_whether_it_needs_a_device),
		TEST(fitting_and_other_nodes_are_told_apart),
		TEST(a_place_is_reserved_and_bound),
		TEST(extender_pods_and_own_pods_share_devices),
		TEST(a_failed_bind_frees_the_reservation),
		TEST(a_refused_bind_frees_the_reservation),
		TEST(a_former_leader_drops_its_reservations),
		TEST(groups_are_refused),
		TEST(kube_scheduler_gathers_kubernetes_own_groups),
		TEST(policies_are_enforced),
		TEST(requests_and_labels_of_extender_pods_are_checked),
		TEST(preempted_victims_must_free_enough),
		TEST(a_pod_without_a_request_fits_on_every_node),
		TEST(malformed_requests_are_refused),
		TEST(the_number_of_nodes_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
