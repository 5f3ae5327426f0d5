/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the scheduler without a server: objects and virtual time go in, actions come out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "acts.h"
#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "place/place-policy.h"
#include "unit.h"

static void a_pod_gets_a_share(void **state)
{
	const struct cpod *pod;

	add_node("n1", 2);
	add_pod("a", SHARE("0.3") ",'divvy.gpu/limit':'0.6'", "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_node(pod), "n1");
	assert_int_equal(cpod_assigned(pod)->v[0].request, 300);
	assert_int_equal(cpod_assigned(pod)->v[0].limit, 600);
	assert_int_equal(cpod_assigned(pod)->v[0].memory_bytes[0], 300000);
	nothing();
}

static void a_long_model_name_is_cut(void **state)
{
	add_node("n1", 1);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n1'},'status':{'slots':{'total':64},'devices':[{'uuid':'GPU-"
		"n1-0','index':0,'model':'NVIDIA %080d','memoryBytes':1000000,'health':"
		"'Healthy'}]}}",
		7);
	add_pod("a", SHARE("0.3") ",'divvy.gpu/model':'nvidia'", "");
	next(SCHED_BIND, "a", NULL);
}

/*
 * With preferred-anti-affinity pods avoid each other's devices. If no other device has enough free
 * share, the pods share a device, and the reason mentions that.
 */
static void preferred_anti_affinity_yields_to_capacity(void **state)
{
#define PREFERS SHARE("0.3") ",'divvy.gpu/preferred-anti-affinity':'x'"
	const struct cpod *pod;

	add_node("n1", 2);
	add_pod("a", PREFERS, "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(device_of(pod), "GPU-n1-0");
	confirm(pod, PREFERS);
	/* Best fit alone would place "b" on the device of "a". */
	add_pod("b", PREFERS, "");
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(device_of(pod), "GPU-n1-1");
	assert_string_equal(cpod_why(pod), "");
	confirm(pod, PREFERS);
	add_pod("c", PREFERS, "");
	pod = next(SCHED_BIND, "c", NULL);
	assert_string_equal(device_of(pod), "GPU-n1-0");
	assert_string_equal(cpod_why(pod),
		"c beside 1 tenant that preferred-anti-affinity 'x' would keep apart");
	confirm(pod, PREFERS);
	/* The labels of another namespace are separate, so "d" has no conflict. */
	space = "other";
	add_pod("d", PREFERS, "");
	pod = next(SCHED_BIND, "d", NULL);
	assert_string_equal(device_of(pod), "GPU-n1-0");
	assert_string_equal(cpod_why(pod), "");
	nothing();
}

/*
 * The webhook has not labelled these pods. The keys of such a pod do not count, even if it has a
 * node.
 */
static void keys_without_the_webhooks_label_do_not_count(void **state)
{
	add_node("n1", 1);
	set(OBJECT_POD,
		"{'metadata':{'name':'thief','namespace':'s','uid':'u-thief','annotations':{"
		"'divvy.gpu/devices':'c=GPU-n1-0','divvy.gpu/granted-request':'c=1','divvy.gpu/"
		"granted-limit':'c=1','divvy.gpu/granted-memory':'c=1000000'}},'spec':{'nodeName':"
		"'n1','schedulerName':'divvy-scheduler','containers':[{'name':'c'}]}}");
	set(OBJECT_POD,
		"{'metadata':{'name':'late','namespace':'s','uid':'u-late','annotations':{" SHARE(
			"0.5") "}},'spec':{'schedulerName':'divvy-scheduler','containers':[{"
			       "'name':'c'}]}}");
	told("late",
		"label divvy.gpu/tenant=true is missing: the pod requests a share but was created "
		"without divvy's webhook; create it again");
	add_pod("a", SHARE("1"), "");
	assert_string_equal(device_of(next(SCHED_BIND, "a", NULL)), "GPU-n1-0");
	nothing();
}

static void a_full_device_gets_no_further_pod(void **state)
{
	add_node("n1", 1);
	add_pod("a", SHARE("0.7"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.7"));
	add_pod("b", SHARE("0.5"), "");
	told("b", "0/1 nodes: 1 no GPU with 0.5 free");
	nothing();
	/* When "a" has been removed, "b" gets the device after its pause. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	pass(2);
	next(SCHED_BIND, "b", NULL);
}

static void reasons_are_counted_by_node(void **state)
{
	add_node("n1", 1);
	add_node("n2", 1);
	add_node("n3", 0);
	set(OBJECT_NODE,
		"{'metadata':{'name':'n4'},'spec':{'unschedulable':true},'status':{'allocatable':{"
		"'cpu':'8','memory':'16Gi','pods':'110'}}}");
	add_pod("a", SHARE("0.5") ",'divvy.gpu/model':'H100'", "");
	told("a",
		"0/4 nodes: 2 with another model than H100, 1 no GPU, 1 cordoned; the cluster has "
		"model A");
}

/* The message repeats the models as the user wrote them, and lists the cluster's models. */
static void a_missing_model_is_reported_with_the_present_ones(void **state)
{
	add_node("n1", 1);
	add_node("n2", 1);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n2'},'status':{'slots':{'total':64},'devices':[{'uuid':"
		"'GPU-x','index':0,'model':'B','memoryBytes':5,'health':'Healthy'}]}}");
	add_pod("a", SHARE("0.3") ",'divvy.gpu/model':'=NVIDIA-C,=D'", "");
	told("a", "0/2 nodes: 2 with another model than NVIDIA-C,D; the cluster has models A, B");
	add_pod("b", SHARE("2") ",'divvy.gpu/model':'=B'", "");
	told("b", "0/2 nodes: 2 with fewer than 2 GPUs");
}

static void objects_come_in_any_order(void **state)
{
	const struct cpod *pod;

	/* The bound pod arrives first, then its node's GPUNode, then the Node. */
	add_pod("a",
		SHARE("0.6") ",'divvy.gpu/devices':'c=GPU-n1-0','divvy.gpu/"
			     "granted-request':'c=0.6',"
			     "'divvy.gpu/granted-limit':'c=1','divvy.gpu/"
			     "granted-memory':'c=600000',"
			     "'divvy.gpu/granted-memory-policy':'c=fail','divvy.gpu/granted-class':"
			     "'c=standard','divvy.gpu/granted-priority':'c=50','divvy.gpu/"
			     "granted-mode'"
			     ":'c=local','divvy.gpu/epoch':'3'",
		",'nodeName':'n1'");
	add_pod("b", SHARE("0.5"), "");
	nothing();
	add_gpus("n1", 2, "");
	add_lease("n1", "2026-01-02T03:04:05Z");
	pass(2);
	nothing();
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1'},'status':{'allocatable':{'cpu':'8','memory':'16Gi','"
		"pods'"
		":'110'}}}");
	pass(20);
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(device_of(pod), "GPU-n1-1");
}

/* If a node has several obstacles, the message names the one that has to change. */
static void the_message_names_the_obstacle(void **state)
{
#define APART SHARE("0.3") ",'divvy.gpu/exclusion':'x'"
#define GPU(i) \
	"{'uuid':'GPU-n1-" i "','index':" i ",'model':'A','memoryBytes':1000000," \
	"'health':'Healthy'}"
	add_node("n1", 4);
	add_pod("a", APART, "");
	confirm(next(SCHED_BIND, "a", NULL), APART);
	for (int i = 0; i < 2; i++) {
		char name[] = "b0";

		name[1] = (char)('0' + i);
		add_pod(name, SHARE("1"), "");
		confirm(next(SCHED_BIND, name, NULL), SHARE("1"));
	}
	add_pod("all", SHARE("4"), "");
	told("all", "0/1 nodes: 1 with fewer than 4 GPUs with 1 free");
	add_pod("large", SHARE("0.1") ",'divvy.gpu/memory':'500Gi'", "");
	told("large", "0/1 nodes: 1 no GPU that has 500Gi");
	add_pod("here", SHARE("0.2") ",'divvy.gpu/device':'GPU-n1-0'", "");
	told("here", "0/1 nodes: 1 kept away by affinity or exclusion labels");
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n1'},'spec':{'cordoned':[{'uuid':'GPU-n1-3'}]},'status':{"
		"'slots':{'total':64},'devices':[" GPU("0") "," GPU("1") "," GPU("2") "," GPU(
			"3") "]}}");
	add_pod("there", SHARE("0.2") ",'divvy.gpu/device':'GPU-n1-3'", "");
	told("there", "0/1 nodes: 1 cordoned");
#undef APART
#undef GPU
}

static void a_failed_binding_frees_the_place(void **state)
{
	add_node("n1", 1);
	add_pod("a", SHARE("1"), "");
	next(SCHED_BIND, "a", NULL);
	add_pod("b", SHARE("1"), "");
	told("b", "0/1 nodes: 1 no GPU with 1 free");
	sched_bound(sched, "s", "a", "u-a", false);
	/* The place is free again. Both pods pause before the next try. */
	nothing();
	pass(2);
	next(SCHED_BIND, "a", NULL);
}

#define NO_WEBHOOK "403 Forbidden: admission webhook \"no.example\" denied the request: no"
#define REFUSED_A "the API server refused the Binding to n1: " NO_WEBHOOK
#define LOW_PART SHARE("0.6") ",'divvy.gpu/priority':'10'"
#define HIGH_PART SHARE("0.6") ",'divvy.gpu/priority':'60'"

/* Expects an Event with that reason for that pod; skips other actions. */
static void has_event(const char *name, enum reason reason, const char *part)
{
	struct sched_action a;

	for (;;) {
		if (sched_next(sched, &a, NULL) <= 0)
			fail_msg("no Event %s for %s", reason_name(reason), name);
		if (a.act == SCHED_EVENT && a.reason == reason && !strcmp(cpod_name(a.pod), name))
			break;
	}
	assert_contains(a.sentence, part);
}

/* Lets time pass while the node's divvyd renews its Lease. */
static void pass_alive(uint64_t seconds)
{
	char renewed[64];

	pass(seconds);
	snprintf(renewed, sizeof(renewed), "2026-01-03T00:00:00.%09lluZ",
		(unsigned long long)(acts_now_ns / SECOND));
	add_lease("n1", renewed);
}

/*
 * Sets a pending pod with a nomination in its status, which stays until the scheduler removes it.
 */
static void nominate_in_api(const char *name, const char *annotations)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s','creationTimestamp':'2026-"
		"01-02T03:04:05Z'," TENANT "'annotations':{%s}},'spec':{'schedulerName':"
		"'divvy-scheduler','containers':[{'name':'c','resources':{'requests':{'cpu':'1'%s}}"
		"}]},'status':{'nominatedNodeName':'n1'}}",
		name, name, annotations, requests_of_all);
}

/*
 * The pod "a" preempts "b0", and then its Binding is refused. Other pods get the place, and "a"
 * evicts no second pod.
 */
static void a_refused_binding_frees_the_place(void **state)
{
	add_node("n1", 1);
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1'},'status':{'allocatable':{'cpu':'8','memory':'16Gi',"
		"'pods':'110','divvy.gpu/milli':'1000'}}}");
	requests_of_all = ",'divvy.gpu/milli':'600'";
	add_pod("b0", LOW_PART, "");
	confirm(next(SCHED_BIND, "b0", NULL), LOW_PART);
	add_pod("a", HIGH_PART, "");
	next(SCHED_EVICT, "b0", "s/a");
	next(SCHED_NOMINATE, "a", NULL);
	nominate_in_api("a", HIGH_PART);
	add_pod("b1", LOW_PART, "");
	nothing();
	pass_alive(2);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b0"));
	next(SCHED_BIND, "a", NULL);
	sched_refused(sched, "s", "a", "u-a", NO_WEBHOOK);
	told("a", REFUSED_A);
	has_event("b1", REASON_RESERVATION_RELEASED,
		"waited for the reservation of pod s/a on node n1; the API server refused the "
		"Binding of that pod: " NO_WEBHOOK);
	confirm(next(SCHED_BIND, "b1", NULL), LOW_PART);
	/* While the pause lasts, "a" is tried again only where it fits, and evicts no pod. */
	for (int i = 0; i < 20; i++) {
		pass_alive(2);
		nothing();
	}
	add_pod("b2", LOW_PART, "");
	told("b2", "0/1 nodes: 1 no GPU with 0.6 free");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b1"));
	pass_alive(12);
	next(SCHED_BIND, "a", NULL);
	sched_refused(sched, "s", "a", "u-a", NO_WEBHOOK);
	confirm(next(SCHED_BIND, "b2", NULL), LOW_PART);
	pass_alive(12);
	told("a", "0/1 nodes: 1 no GPU with 0.6 free; " REFUSED_A);
	/* After the pause "a" preempts again, because the cause of the refusal may have ended. */
	pass_alive(3600);
	pass_alive(12);
	next(SCHED_EVICT, "b2", "s/a");
	next(SCHED_NOMINATE, "a", NULL);
}

#define CLAIM_OF_D(name) \
	"{'metadata':{'name':'" name "','namespace':'s','uid':'c-" name \
	"','resourceVersion':'1'},'spec':{'devices':{'requests':[{'name':'r','exactly':{" \
	"'deviceClassName':'d'}}]}}}"
#define USES(name) ",'resourceClaims':[{'name':'x','resourceClaimName':'" name "'}]"

/*
 * Kubernetes makes the claim first, and names it in the pod's status later. Only the change of the
 * status helps the pod.
 */
static void a_pod_is_tried_when_its_status_names_the_claim(void **state)
{
#define OF_TEMPLATE(status) \
	"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT "'annotations':{" SHARE( \
		"0.3") "}},'spec':{'schedulerName':'divvy-scheduler','containers':[{'name':'c'}]," \
		       "'resourceClaims':[{'name':'x','resourceClaimTemplateName':'t'}]}," \
		       "'status':{" status "}}"
	add_node("n1", 1);
	cluster_note_served(sched_cluster(sched), CLUSTER_RESOURCE_CLAIM);
	set(CLUSTER_DEVICE_CLASS, "{'metadata':{'name':'d'},'spec':{}}");
	set(CLUSTER_SLICE,
		"{'metadata':{'name':'n1'},'spec':{'driver':'d','nodeName':'n1','pool':{'name':"
		"'n1','generation':1,'resourceSliceCount':1},'devices':[{'name':'x'}]}}");
	set(OBJECT_POD, OF_TEMPLATE(""));
	told("a", "waits for Kubernetes to make the ResourceClaim for x");
	set(CLUSTER_RESOURCE_CLAIM,
		"{'metadata':{'name':'a-x','namespace':'s','uid':'c-a-x','resourceVersion':'1',"
		"'ownerReferences':[{'apiVersion':'v1','kind':'Pod','name':'a','uid':'u-a',"
		"'controller':true}]},'spec':{'devices':{'requests':[{'name':'r','exactly':{"
		"'deviceClassName':'d'}}]}}}");
	pass_alive(12);
	nothing();
	set(OBJECT_POD,
		OF_TEMPLATE("'resourceClaimStatuses':[{'name':'x','resourceClaimName':'a-x'}]"));
	pass_alive(2);
	next(SCHED_BIND, "a", NULL);
#undef OF_TEMPLATE
}

/* Node n2 alone has a device of the driver d, and so one pod at a time gets the device. */
static void a_pod_with_a_claim_goes_where_its_devices_are(void **state)
{
	static const char no_devices[] =
		"0/2 nodes: 1 without a device of class d, 1 with devices of class d in use";
	const struct cpod *pod;

	add_node("n1", 1);
	add_node("n2", 1);
	set(CLUSTER_RESOURCE_CLAIM, CLAIM_OF_D("a"));
	set(CLUSTER_RESOURCE_CLAIM, CLAIM_OF_D("b"));
	add_pod("a", SHARE("0.3"), USES("a"));
	told("a",
		"spec: resourceClaims: the API server has no dynamic resource allocation of "
		"version v1; use divvy.gpu annotations");
	cluster_note_served(sched_cluster(sched), CLUSTER_RESOURCE_CLAIM);
	set(CLUSTER_DEVICE_CLASS, "{'metadata':{'name':'d'},'spec':{}}");
	set(CLUSTER_SLICE,
		"{'metadata':{'name':'n2'},'spec':{'driver':'d','nodeName':'n2','pool':{'name':"
		"'n2','generation':1,'resourceSliceCount':1},'devices':[{'name':'x'}]}}");
	pass_alive(2);
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_node(pod), "n2");
	assert_int_equal(cpod_n_claims(pod), 1);
	assert_string_equal(cpod_claim(pod, 0).name, "a");
	assert_non_null(cpod_claim(pod, 0).allocation);
	add_pod("b", SHARE("0.3"), USES("b"));
	told("b", no_devices);
	/* A failed Binding frees the devices, which the pod or another one gets later. */
	sched_bound(sched, "s", "a", "u-a", false);
	assert_int_equal(cpod_n_claims(cluster_pod(sched_cluster(sched), "s", "a")), 0);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	pass_alive(12);
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(cpod_node(pod), "n2");
	assert_int_equal(cpod_n_claims(pod), 1);
	nothing();
}

#define ALLOCATED(more) \
	"{'metadata':{'name':'a','namespace':'s','uid':'c-a','resourceVersion':'1'},'spec':{}," \
	"'status':{" more "'allocation':{'devices':{'results':[]},'nodeSelector':{" \
	"'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name','operator':'In','values':" \
	"['n9']}]}]}}}}"

/* An earlier scheduler allocated the claim on a node that the pod does not fit now. */
static void unused_devices_of_another_node_are_freed(void **state)
{
	static const char elsewhere[] = "0/1 nodes: 1 a ResourceClaim has devices of another node";
	struct claims_unused claim;
	const struct cpod *pod;
	uint32_t at = 0;

	add_node("n1", 1);
	cluster_note_served(sched_cluster(sched), CLUSTER_RESOURCE_CLAIM);
	set(CLUSTER_RESOURCE_CLAIM, ALLOCATED("'reservedFor':[{'uid':'u-a'},{'uid':'u-b'}],"));
	add_pod("a", SHARE("0.3"), USES("a"));
	told("a", elsewhere);
	nothing();
	assert_ok(sched_remove(sched, CLUSTER_RESOURCE_CLAIM, "s", "a"));
	set(CLUSTER_RESOURCE_CLAIM, ALLOCATED("'reservedFor':[{'uid':'u-a'}],"));
	pass_alive(2);
	told("a", elsewhere);
	pod = next(SCHED_FREE_CLAIMS, "a", NULL);
	assert_true(cpod_next_unused_claim(sched_cluster(sched), pod, &at, &claim));
	assert_string_equal(claim.name, "a");
	assert_string_equal(claim.version, "1");
	assert_false(cpod_next_unused_claim(sched_cluster(sched), pod, &at, &claim));
	nothing();
}

/* Returns the next eviction, which must be of that pod. */
static struct sched_action next_eviction(const char *name)
{
	struct sched_action a;

	do
		if (sched_next(sched, &a, NULL) <= 0)
			fail_msg("no eviction of %s", name);
	while (a.act != SCHED_EVICT);
	assert_string_equal(cpod_name(a.pod), name);
	return a;
}

/* Sets node n with one device that has the taint. Its time is START_NS plus `seconds`. */
static void add_tainted(const char *key, const char *effect, int seconds)
{
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n'},'status':{'owner':'divvy','slots':{'total':64},"
		"'devices':[{'uuid':'GPU-n-0','index':0,'model':'A','memoryBytes':1000000,"
		"'health':'Unhealthy','taints':[{'key':'divvy.gpu/%s','value':'48','effect':'%s',"
		"'timeAdded':'2026-01-02T03:04:%02dZ'}]}]}}",
		key, effect, 5 + seconds);
}

static void add_policy(const char *name, const char *namespaces, const char *taints)
{
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'%s'},'spec':{'namespaces':[%s],'deviceTaints':{%s}}}", name,
		namespaces, taints);
}

static void a_policy_evicts_pods_from_a_tainted_device(void **state)
{
	add_node("n", 1);
	add_pod("a", SHARE("0.5"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.5"));
	nothing();
	add_tainted("xid", "NoExecute", 0);
	nothing();
	add_pod("b", SHARE("0.2"), "");
	told("b", "0/1 nodes: 1 unhealthy");

	/* Neither a policy of other namespaces nor one without eviction is enough. */
	add_policy("other", "'t'", "'eviction':'Any'");
	add_policy("p", "'s'", "'eviction':'Never'");
	nothing();
	add_policy("p", "'s'", "'eviction':'NoExecute','graceSeconds':30");
	nothing();
	pass(29);
	nothing();
	pass(1);
	next(SCHED_EVICT_TAINTED, "a",
		"device GPU-n-0 of node n has the taint divvy.gpu/xid=48:NoExecute; policy p "
		"requires the eviction");
	nothing();
	/* A refused eviction is sent again, without an Event. */
	pass(6);
	next(SCHED_EVICT_TAINTED, "a", "");
	assert_int_equal(sched_counts(sched).n_taint_evictions, 1);
	/* The device returns, so the pod may stay. */
	add_gpus("n", 1, "");
	next(SCHED_BIND, "b", NULL);
	pass(60);
	nothing();
	/* A new taint leads to a new eviction, with an Event. */
	add_tainted("xid", "NoExecute", 0);
	next(SCHED_EVICT_TAINTED, "a",
		"device GPU-n-0 of node n has the taint divvy.gpu/xid=48:NoExecute; policy p "
		"requires the eviction");
	assert_int_equal(sched_counts(sched).n_taint_evictions, 2);
}

/* Returns whether pods on tainted devices need a check, and the name of the first of these pods. */
static const char *first_tainted(void)
{
	const struct cpod *pod;

	if (!cluster_must_check_taints(sched_cluster(sched)))
		return "no check";
	pod = cluster_next_tainted(sched_cluster(sched), NULL);
	return pod ? cpod_name(pod) : "no pod";
}

static void a_removed_gpunode_has_no_taint(void **state)
{
	add_node("n", 1);
	add_pod("a", SHARE("0.5"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.5"));
	add_policy("p", "'s'", "'eviction':'NoExecute','graceSeconds':30");
	add_tainted("xid", "NoExecute", 0);
	assert_string_equal(first_tainted(), "a");
	assert_ok(sched_remove(sched, CLUSTER_GPU_NODE, "", "n"));
	assert_string_equal(first_tainted(), "no check");
	add_tainted("xid", "NoExecute", 0);
	assert_string_equal(first_tainted(), "a");
	add_gpus("n", 1, "");
	assert_string_equal(first_tainted(), "no check");
}

/* A tainted device must not make the scheduler visit pods at each event and each second. */
static void pods_on_tainted_devices_are_checked_when_they_may_leave(void **state)
{
	add_node("m", 1);
	add_pod("other", SHARE("0.5"), "");
	confirm(next(SCHED_BIND, "other", NULL), SHARE("0.5"));
	add_node("n", 1);
	add_pod("a", SHARE("0.8"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.8"));
	add_tainted("xid", "NoExecute", 0);
	assert_string_equal(first_tainted(), "no check");
	add_policy("p", "'s'", "'eviction':'Never'");
	assert_string_equal(first_tainted(), "no check");
	add_policy("p", "'s'", "'eviction':'NoExecute','graceSeconds':30");
	nothing();
	assert_string_equal(first_tainted(), "no check");
	add_lease("n", "2026-01-02T03:04:15Z");
	add_node("m", 0);
	pass(29);
	assert_string_equal(first_tainted(), "no check");
	pass(1);
	next(SCHED_EVICT_TAINTED, "a", NULL);
	nothing();
	pass(4);
	assert_string_equal(first_tainted(), "no check");
	pass(1);
	next(SCHED_EVICT_TAINTED, "a", "");
	set(OBJECT_NAMESPACE, "{'metadata':{'name':'s'}}");
	assert_string_equal(first_tainted(), "a");
}

static void the_effect_and_the_shortest_grace_decide(void **state)
{
	add_node("n", 1);
	add_pod("a", SHARE("0.5"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.5"));
	add_tainted("silent", "NoSchedule", 0);
	add_policy("p", "'s'", "'eviction':'NoExecute'");
	pass(10);
	nothing();
	add_policy("q", "'s'", "'eviction':'Any','graceSeconds':20");
	add_policy("r", "'s'", "'eviction':'Any','graceSeconds':15");
	nothing();
	pass(5);
	next(SCHED_EVICT_TAINTED, "a",
		"device GPU-n-0 of node n has the taint divvy.gpu/silent=48:NoSchedule; policy r "
		"requires the eviction");
}

#define TAINT(key, effect, second) \
	"{'key':'" key "','effect':'" effect "','timeAdded':'2026-01-02T03:04:" second "Z'}"

static void set_taints(const char *taints)
{
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n'},'status':{'owner':'divvy','slots':{'total':64},"
		"'devices':[{'uuid':'GPU-n-0','index':0,'model':'A','memoryBytes':1000000,"
		"'health':'Unhealthy','taints':[%s]}]}}",
		taints);
}

/* The pod would stay on a device with several faults for longer than with one. */
static void a_later_taint_postpones_no_eviction(void **state)
{
	add_node("n", 1);
	add_pod("a", SHARE("0.5"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.5"));
	add_policy("p", "'s'", "'eviction':'Any','graceSeconds':30");
	add_policy("q", "'s'", "'eviction':'NoExecute','graceSeconds':25");
	set_taints(TAINT("slow", "NoSchedule", "05"));
	pass(20);
	set_taints(TAINT("slow", "NoSchedule", "05") "," TAINT("xid", "NoExecute", "25"));
	pass(9);
	nothing();
	pass(1);
	next(SCHED_EVICT_TAINTED, "a",
		"device GPU-n-0 of node n has the taint slow:NoSchedule; policy p requires the "
		"eviction");
}

/* The first of several NoExecute taints begins the time of a policy for that effect. */
static void a_policy_counts_from_the_first_taint_of_its_effect(void **state)
{
	add_node("n", 1);
	add_pod("a", SHARE("0.5"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.5"));
	add_policy("q", "'s'", "'eviction':'NoExecute','graceSeconds':10");
	set_taints(TAINT("slow", "NoSchedule", "05") "," TAINT("lost", "NoExecute", "25") "," TAINT(
		"xid", "NoExecute", "15"));
	pass(19);
	nothing();
	pass(1);
	next(SCHED_EVICT_TAINTED, "a",
		"device GPU-n-0 of node n has the taint xid:NoExecute; policy q requires the "
		"eviction");
}

static void an_eviction_names_its_preemptor(void **state)
{
	struct sched_action a;

	add_node("n1", 1);
	add_pod("low", LOW_PART, "");
	confirm(next(SCHED_BIND, "low", NULL), LOW_PART);
	add_pod("high", HIGH_PART, "");
	a = next_eviction("low");
	assert_int_equal(a.reason, REASON_PREEMPTED);
	assert_string_equal(a.preemptor->ns, "s");
	assert_string_equal(a.preemptor->name, "high");
	assert_string_equal(a.preemptor->queue, "");
	next(SCHED_NOMINATE, "high", NULL);
	/* While the victim exists, its eviction is repeated without an Event. */
	pass_alive(6);
	a = next_eviction("low");
	assert_int_equal(a.reason, REASON_NONE);
	assert_null(a.preemptor);
}

/* Expects the next action to be a condition of that pod. */
static void has_condition(const char *name, enum reason reason, const char *sentence)
{
	struct sched_action a;

	assert_int_equal(sched_next(sched, &a, NULL), 1);
	assert_int_equal(a.act, SCHED_CONDITION);
	assert_string_equal(cpod_name(a.pod), name);
	assert_int_equal(a.reason, reason);
	assert_contains(a.sentence, sentence);
}

/*
 * The reason SchedulerError, which keeps an autoscaler from adding a node, lasts as long as the
 * pause. Then the reason is Unschedulable if no device is free.
 */
static void a_pod_that_was_refused_may_lack_a_device_later(void **state)
{
	add_node("n1", 1);
	add_pod("a", HIGH_PART, "");
	next(SCHED_BIND, "a", NULL);
	sched_refused(sched, "s", "a", "u-a", NO_WEBHOOK);
	has_condition("a", REASON_SCHEDULER_ERROR, REFUSED_A);
	add_pod("b", HIGH_PART, "");
	confirm(next(SCHED_BIND, "b", NULL), HIGH_PART);
	pass_alive(12);
	has_condition("a", REASON_SCHEDULER_ERROR, "0/1 nodes: 1 no GPU with 0.6 free");
	add_pod("c", HIGH_PART, "");
	has_condition("c", REASON_UNSCHEDULABLE, "0/1 nodes: 1 no GPU with 0.6 free");
	pass_alive(60);
	/* after a new node all pods are tried again */
	set(OBJECT_NODE, "{'metadata':{'name':'n2'}}");
	pass_alive(12);
	has_condition("a", REASON_UNSCHEDULABLE, "no GPU with 0.6 free");
	/* The message no longer mentions the old refusal. */
	pass_alive(600);
	told("a", "0/2 nodes: 1 no GPU with 0.6 free, 1 no room for one more pod");
}

/*
 * A pod that waited for a reservation reports once that the reservation was released, and later
 * only why it waits.
 */
static void a_released_reservation_is_reported_once(void **state)
{
	add_node("n1", 1);
	add_pod("b0", LOW_PART, "");
	confirm(next(SCHED_BIND, "b0", NULL), LOW_PART);
	add_pod("a", HIGH_PART, "");
	next(SCHED_EVICT, "b0", "s/a");
	next(SCHED_NOMINATE, "a", NULL);
	add_pod("b1", LOW_PART, "");
	nothing();
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b0"));
	next(SCHED_BIND, "a", NULL);
	add_pod("c", HIGH_PART, "");
	nothing();
	sched_refused(sched, "s", "a", "u-a", NO_WEBHOOK);
	has_event("b1", REASON_RESERVATION_RELEASED,
		"waited for the reservation of pod s/a on node n1");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	pass_alive(12);
	confirm(next(SCHED_BIND, "c", NULL), HIGH_PART);
	has_condition("b1", REASON_UNSCHEDULABLE, "Binding of that pod: " NO_WEBHOOK);
	pass_alive(600);
	told("b1", "0/1 nodes: 1 no GPU with 0.6 free");
}

static bool needs_device(const char *name)
{
	return cpod_needs_device(cluster_pod(sched_cluster(sched), space, name));
}

/* The pool takes a device for a pod only if a further device might help the pod. */
static void a_waiting_pod_says_whether_it_needs_a_device(void **state)
{
	static const struct {
		const char *annotations, *more, *why;
		bool needs_device;
	} cases[] = {
		{SHARE("0.5"), "", "0/2 nodes: 1 no GPU with 0.5 free, 1 cordoned", true},
		{SHARE("0.2") ",'divvy.gpu/memory':'900000'", "",
			"0/2 nodes: 1 no GPU with 878.9Ki free, 1 cordoned", true},
		{SHARE("0.1") ",'divvy.gpu/model':'H100'", "",
			"0/2 nodes: 1 with another model than H100, 1 cordoned; the cluster has "
			"model A",
			true},
		{SHARE("0.1"), ",'nodeSelector':{'a':'b'}",
			"0/2 nodes: 1 not selected by the pod's node selector or affinity, 1 cordoned",
			false},
		{SHARE("0.1"),
			",'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'no'}}]",
			"claim no does not exist", false},
	};

	add_node("n1", 1);
	set(OBJECT_NODE,
		"{'metadata':{'name':'n2'},'spec':{'unschedulable':true},'status':{'allocatable':{"
		"'cpu':'8','memory':'16Gi','pods':'110'}}}");
	add_pod("first", SHARE("0.7"), "");
	confirm(next(SCHED_BIND, "first", NULL), SHARE("0.7"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char name[] = {'p', (char)('0' + i), '\0'};

		add_pod(name, cases[i].annotations, cases[i].more);
		told(name, cases[i].why);
		if (needs_device(name) != cases[i].needs_device)
			fail_msg("case %zu: %s", i, cases[i].why);
	}
	/* After its decision has changed, a pod needs no device any more. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "first"));
	pass_alive(2);
	next(SCHED_BIND, "p0", NULL);
	assert_false(needs_device("p0"));
}

/* The members of a gang need a device if the first member without a place needs one. */
static void a_gang_says_whether_it_needs_a_device(void **state)
{
#define OF_GANG SHARE("0.6") ",'divvy.gpu/group':'g','divvy.gpu/group-size':'2'"
	add_node("n1", 1);
	add_pod("a", OF_GANG, "");
	told("a", "group s/g: 1 of 2 pods exist, 2 are needed");
	assert_false(needs_device("a"));
	add_pod("b", OF_GANG, "");
	told("a", "group s/g: 1 of 2 pods fit, 2 are needed; 0/1 nodes: 1 no GPU with 0.6 free");
	assert_true(needs_device("a"));
	assert_true(needs_device("b"));
#undef OF_GANG
}

/* Only a condition with the status True says that the pod needs a device. */
static void a_need_is_reported_by_its_condition(void **state)
{
	static const struct {
		const char *conditions;
		bool is_true;
	} cases[] = {
		{"", false},
		{"{'type':'divvy.gpu/NeedsDevice','status':'False'}", false},
		{"{'type':'divvy.gpu/NeedsDevice','status':'True'}", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cpod *pod;

		set(OBJECT_POD,
			"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT
			"'annotations':{" HIGH_PART "}},'spec':{'schedulerName':'divvy-scheduler',"
			"'containers':[{'name':'c'}]},'status':{'conditions':[%s]}}",
			cases[i].conditions);
		pod = cluster_pod(sched_cluster(sched), "s", "a");
		cpod_set_needs_device(pod, true);
		assert_int_equal(cpod_is_need_reported(pod), cases[i].is_true);
		cpod_set_needs_device(pod, false);
		assert_int_equal(cpod_is_need_reported(pod), !cases[i].is_true);
	}
}

/* A condition with the same message but another reason is not reported yet. */
static void a_condition_is_its_reason_and_its_message(void **state)
{
	const struct cpod *pod;

	set(OBJECT_POD,
		"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT
		"'annotations':{" HIGH_PART "}},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'c'}]},'status':{'conditions':[{'type':'PodScheduled',"
		"'status':'False','reason':'SchedulerError','message':'no'}]}}");
	pod = cluster_pod(sched_cluster(sched), "s", "a");
	assert_non_null(pod);
	assert_true(cpod_is_reported(pod, REASON_SCHEDULER_ERROR, "no"));
	assert_false(cpod_is_reported(pod, REASON_UNSCHEDULABLE, "no"));
	assert_false(cpod_is_reported(pod, REASON_SCHEDULER_ERROR, "yes"));
}

/*
 * The API server writes the condition of a gated pod. The scheduler writes none, because
 * autoscalers would add nodes for an Unschedulable pod.
 */
static void a_gated_pod_gets_no_condition(void **state)
{
#define GATED(gates) \
	"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT "'annotations':{" HIGH_PART \
	"}},'spec':{'schedulerName':'divvy-scheduler'," gates "'containers':[{'name':'c'}]}}"
	struct sched_action a;

	add_node("n1", 1);
	set(OBJECT_POD, GATED("'schedulingGates':[{'name':'quota'}],"));
	assert_int_equal(sched_next(sched, &a, NULL), 0);
	pass_alive(600);
	assert_int_equal(sched_next(sched, &a, NULL), 0);
	set(OBJECT_POD, GATED(""));
	next(SCHED_BIND, "a", NULL);
#undef GATED
}

/* After a change of its annotations a refused pod may preempt at once. */
static void a_changed_pod_is_not_refused_any_more(void **state)
{
	add_node("n1", 1);
	add_pod("b0", LOW_PART, "");
	confirm(next(SCHED_BIND, "b0", NULL), LOW_PART);
	add_pod("a", HIGH_PART, "");
	next(SCHED_EVICT, "b0", "s/a");
	next(SCHED_NOMINATE, "a", NULL);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b0"));
	next(SCHED_BIND, "a", NULL);
	sched_refused(sched, "s", "a", "u-a", NO_WEBHOOK);
	add_pod("b1", LOW_PART, "");
	confirm(next(SCHED_BIND, "b1", NULL), LOW_PART);
	add_pod("a", HIGH_PART ",'owner':'known'", "");
	next(SCHED_EVICT, "b1", "s/a");
}

/* After a refused Binding of a member the whole group evicts no pod for a while. */
static void a_group_pauses_after_a_refused_binding(void **state)
{
	const char *const member = SHARE("0.6") ",'divvy.gpu/group':'g','divvy.gpu/"
						"group-size':'2','divvy.gpu/priority':'60'";

	add_node("n1", 2);
	add_pod("m0", member, "");
	add_pod("m1", member, "");
	confirm(next(SCHED_BIND, "m0", NULL), member);
	next(SCHED_BIND, "m1", NULL);
	sched_refused(sched, "s", "m1", "u-m1", NO_WEBHOOK);
	told("m1", REFUSED_A);
	nothing();
	add_pod("low", LOW_PART, "");
	confirm(next(SCHED_BIND, "low", NULL), LOW_PART);
	for (int i = 0; i < 20; i++) {
		pass_alive(2);
		nothing();
	}
}

static void the_larger_of_both_counts(void **state)
{
	add_node("n1", 1);
	/* The node confirms a tenant that belongs to no known pod. */
	add_gpus("n1", 1,
		"{'podUID':'gone','container':'c','devices':['GPU-n1-0'],'request':400,'limit':"
		"1000,"
		"'memoryBytes':[400000]}");
	add_pod("a", SHARE("0.7"), "");
	told("a", "0/1 nodes: 1 no GPU with 0.7 free");
	add_gpus("n1", 1, "");
	pass(2);
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.7"));
	/* The node confirms more than the assigned keys: the confirmed amount counts. */
	add_gpus("n1", 1,
		"{'podUID':'u-a','container':'c','devices':['GPU-n1-0'],'request':900,'limit':1000,"
		"'memoryBytes':[700000]}");
	add_pod("b", SHARE("0.2"), "");
	told("b", "0/1 nodes: 1 no GPU with 0.2 free");
	/* The node confirms less than the assigned keys: the assigned amount counts. */
	add_gpus("n1", 1,
		"{'podUID':'u-a','container':'c','devices':['GPU-n1-0'],'request':100,'limit':1000,"
		"'memoryBytes':[100000]}");
	pass(20);
	next(SCHED_BIND, "b", NULL);
	add_pod("d", SHARE("0.2"), "");
	told("d", "0/1 nodes: 1 no GPU with 0.2 free");
}

static void a_node_with_a_silent_daemon_gets_no_pod(void **state)
{
	add_node("n1", 1);
	pass(41);
	add_pod("a", SHARE("0.3"), "");
	told("a", "0/1 nodes: 1 divvyd does not answer");
	add_lease("n1", "2026-01-02T03:04:46Z");
	pass(2);
	next(SCHED_BIND, "a", NULL);
}

static void each_lease_becomes_stale_at_its_own_time(void **state)
{
	add_node("n1", 1);
	pass(20);
	add_node("n2", 1);
	add_lease("n2", "2026-01-02T03:04:25Z");
	pass(21);
	add_pod("a", SHARE("1"), "");
	assert_string_equal(cpod_node(next(SCHED_BIND, "a", NULL)), "n2");
	add_pod("b", SHARE("1"), "");
	told("b", "0/2 nodes: 1 divvyd does not answer, 1 no GPU with 1 free");
	pass(20);
	told("b", "0/2 nodes: 2 divvyd does not answer");
	add_lease("n1", "2026-01-02T03:05:06Z");
	pass(2);
	assert_string_equal(cpod_node(next(SCHED_BIND, "b", NULL)), "n1");
}

static void a_lease_that_was_old_at_the_start_is_stale(void **state)
{
	add_node("n1", 0);
	add_gpus("n1", 1, "");
	add_lease("n1", "2026-01-02T03:03:00Z");
	add_pod("a", SHARE("0.3"), "");
	told("a", "0/1 nodes: 1 divvyd does not answer");
}

static void cordoned_devices_keep_their_tenants(void **state)
{
	add_node("n1", 1);
	add_pod("a", SHARE("0.3"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.3"));
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n1'},'spec':{'cordoned':[{'uuid':'GPU-n1-0'}]},'status':{"
		"'slots':{'total':64},'devices':[{'uuid':'GPU-n1-0','index':0,'model':'A',"
		"'memoryBytes':1000000,'health':'Healthy'}]}}");
	add_pod("b", SHARE("0.3"), "");
	told("b", "0/1 nodes: 1 cordoned");
	add_gpus("n1", 1, "");
	pass(2);
	confirm(next(SCHED_BIND, "b", NULL), SHARE("0.3"));
	add_pod("d", SHARE("0.5"), "");
	told("d", "0/1 nodes: 1 no GPU with 0.5 free");
}

static void set_owner(const char *owner)
{
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n1'},'status':{'slots':{'total':64},'devices':[{'uuid':'GPU-"
		"n1-0','index':0,'model':'A','memoryBytes':1000000,'health':'Healthy','owner':"
		"'%s'}]}}",
		owner);
}

static void a_new_device_ends_the_pause_of_waiting_pods(void **state)
{
	add_node("n1", 1);
	set_owner("native");
	for (const char *name = "ab"; *name; name++) {
		add_pod((char[]){*name, '\0'}, SHARE("0.3"), "");
		told((char[]){*name, '\0'}, "0/1 nodes: 1 GPUs not managed by divvy");
	}
	/* A write of the GPUNode makes pods active only if divvy may use a further device. */
	set_owner("native");
	nothing();
	set_owner("pool");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.3"));
	confirm(next(SCHED_BIND, "b", NULL), SHARE("0.3"));
	/* divvy could use the device before this write of the GPUNode, so no pod becomes active. */
	add_pod("d", SHARE("0.5"), "");
	told("d", "0/1 nodes: 1 no GPU with 0.5 free");
	set_owner("pool");
	nothing();
}

static void two_containers_go_to_one_node(void **state)
{
	const struct cpod *pod;

	add_node("n1", 1);
	add_node("n2", 2);
	set(OBJECT_POD,
		"{'metadata':{'name':'two','namespace':'s','uid':'u-two'," TENANT
		"'annotations':{'c."
		"divvy.gpu/request':'0.8','d.divvy.gpu/request':'0.8'}},'spec':{'schedulerName':"
		"'divvy-scheduler','containers':[{'name':'c'},{'name':'d'}]}}");
	pod = next(SCHED_BIND, "two", NULL);
	assert_string_equal(cpod_node(pod), "n2");
	assert_int_equal(cpod_assigned(pod)->n, 2);
	assert_string_not_equal(
		cpod_assigned(pod)->v[0].device[0], cpod_assigned(pod)->v[1].device[0]);
}

static void cpu_counts_with_devices(void **state)
{
	add_node("n1", 1);
	set(OBJECT_POD,
		"{'metadata':{'name':'other','namespace':'s','uid':'u-o'},'spec':{'schedulerName':"
		"'default-scheduler','nodeName':'n1','containers':[{'name':'c','resources':{"
		"'requests':{'cpu':'7500m'}}}]}}");
	add_pod("a", SHARE("0.3"), "");
	told("a", "0/1 nodes: 1 too little cpu");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "other"));
	pass(2);
	next(SCHED_BIND, "a", NULL);
}

/* Its successor has the same name, and only the uid differs. */
static void a_replaced_pod_gives_back_what_it_had(void **state)
{
	add_node("n1", 1);
	set(OBJECT_POD,
		"{'metadata':{'name':'other','namespace':'s','uid':'u-1'},'spec':{'schedulerName':"
		"'default-scheduler','nodeName':'n1','containers':[{'name':'c','resources':{"
		"'requests':{'cpu':'7500m'}}}]}}");
	add_pod("a", SHARE("0.3"), "");
	told("a", "0/1 nodes: 1 too little cpu");
	set(OBJECT_POD,
		"{'metadata':{'name':'other','namespace':'s','uid':'u-2'},'spec':{'schedulerName':"
		"'default-scheduler','containers':[{'name':'c'}]}}");
	pass(2);
	next(SCHED_BIND, "a", NULL);
}

static void more_important_pods_are_placed_first(void **state)
{
	add_node("n1", 1);
	add_pod("a", SHARE("0.1") ",'divvy.gpu/priority':'10'", "");
	add_pod("b", SHARE("0.1") ",'divvy.gpu/priority':'90'", "");
	add_pod("d", SHARE("0.1") ",'divvy.gpu/priority':'1'", ",'priority':5");
	next(SCHED_BIND, "d", NULL);
	next(SCHED_BIND, "b", NULL);
	next(SCHED_BIND, "a", NULL);
}

#define MEMBER(x, size, part) \
	SHARE(x) \
	",'divvy.gpu/group':'g','divvy.gpu/group-size':'" size \
	"','divvy.gpu/group-threshold':'" part "'"

/* Checks the granted group: its name and how many members the node waits for. */
static void assert_group(const struct cpod *pod, const char *want)
{
	_cleanup_json_ json_t *keys = NULL;

	assert_ok(decide_annotations(sched_cluster(sched), pod, 7, &keys));
	assert_string_equal(
		json_string_value(json_object_get(keys, "divvy.gpu/granted-group")), want);
}

/* All members have the same anti-affinity label, as they have if a template makes them. */
static void anti_affinity_separates_the_members_of_a_group(void **state)
{
#define APART MEMBER("0.2", "3", "1") ",'divvy.gpu/anti-affinity':'g'"
	char device[3][64];
	static const char *const names[] = {"m1", "m2", "m3"};

	add_node("n1", 2);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add_pod(names[i], APART, "");
	next(SCHED_CONDITION, "m1",
		"group s/g: 2 of 3 pods fit, 3 are needed; 0/1 nodes: 1 kept away by affinity or "
		"exclusion labels");
	add_node("n2", 1);
	pass(20);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		snprintf(device[i], sizeof(device[i]), "%s",
			device_of(next(SCHED_BIND, names[i], NULL)));
	assert_string_not_equal(device[0], device[1]);
	assert_string_not_equal(device[0], device[2]);
	assert_string_not_equal(device[1], device[2]);
}

static void a_group_waits_for_its_threshold(void **state)
{
	add_node("n1", 2);
	add_pod("m1", MEMBER("0.9", "3", "0.7"), "");
	next(SCHED_CONDITION, "m1", "group s/g: 1 of 3 pods exist, 2 are needed");
	nothing();
	add_pod("m2", MEMBER("0.9", "3", "0.7"), "");
	assert_group(next(SCHED_BIND, "m1", NULL), "g=2");
	assert_group(next(SCHED_BIND, "m2", NULL), "g=2");
	/* The threshold is reached, so a further member starts alone. */
	add_pod("m3", MEMBER("0.9", "3", "0.7"), "");
	told("m3", "0/1 nodes: 1 no GPU with 0.9 free");
	add_node("n2", 1);
	pass(2);
	next(SCHED_BIND, "m3", NULL);
}

/* The pod as the API server has it between the request to delete it and its end. */
static void delete_bound(const char *name, const char *annotations)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s','deletionTimestamp':"
		"'2026-01-02T03:04:05Z'," TENANT
		"'annotations':{%s}},'spec':{'schedulerName':'divvy-scheduler','nodeName':'n1',"
		"'containers':[{'name':'c'}]}}",
		name, name, annotations);
}

/*
 * A JobSet or Job that is deleted and created again has a new gang of the same name, whose members
 * start together too.
 */
static void deleted_members_count_for_no_threshold(void **state)
{
	static const char *const first[] = {"m1", "m2"};
	const char *member = MEMBER("0.4", "2", "1");

	add_node("n1", 2);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		add_pod(first[i], member, "");
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		confirm(next(SCHED_BIND, first[i], NULL), member);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		delete_bound(first[i], member);
	add_pod("r1", member, "");
	told("r1", "group s/g: 1 of 2 pods exist, 2 are needed");
	nothing();
	add_pod("r2", member, "");
	next(SCHED_BIND, "r1", NULL);
	next(SCHED_BIND, "r2", NULL);
}

/* Lets any pause pass while the node's divvyd renews its Lease. */
static void later(void)
{
	static unsigned n;
	char time[32];

	pass(60);
	snprintf(time, sizeof(time), "2026-01-03T03:04:%02uZ", n++ % 60);
	add_lease("n1", time);
}

static void add_member(const char *name, const char *label)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s','labels':{'divvy.gpu/"
		"tenant':'true'%s},'annotations':"
		"{"
		"'divvy.gpu/"
		"request':'0.4'}},'spec':{'schedulerName':'divvy-scheduler','containers':"
		"[{'name':'c'}]}}",
		name, name, label);
}

static void add_group_object(int kind, int least)
{
	set(kind, "{'metadata':{'name':'job','namespace':'s'},'spec':{'minMember':%d}}", least);
}

static void a_pod_group_object_gives_the_groups_size(void **state)
{
	const char *label = ",'scheduling.x-k8s.io/pod-group':'job'";

	add_node("n1", 2);
	add_member("a", label);
	told("a",
		"group s/job: PodGroup job of scheduling.x-k8s.io does not exist; create it, or "
		"set divvy.gpu/group and divvy.gpu/group-size");
	/* A PodGroup of that name, but of another API group, does not count. */
	add_group_object(CLUSTER_VOLCANO_GROUP, 1);
	later();
	nothing();
	add_group_object(CLUSTER_GROUP, 3);
	later();
	told("a", "group s/job: 1 of 3 pods exist, 3 are needed");
	add_member("b", label);
	later();
	nothing();
	add_group_object(CLUSTER_GROUP, 2);
	later();
	next(SCHED_BIND, "a", NULL);
	next(SCHED_BIND, "b", NULL);
	/* After the PodGroup is deleted a new member waits until it exists again. */
	assert_ok(sched_remove(sched, CLUSTER_GROUP, "s", "job"));
	add_member("d", label);
	later();
	nothing();
	add_group_object(CLUSTER_GROUP, 0);
	later();
	next(SCHED_BIND, "d", NULL);
}

#define JOB_SET_LABELS(part, attempt) \
	",'jobset.sigs.k8s.io/jobset-name':'job','jobset.sigs.k8s.io/replicatedjob-name':'" part \
	"','jobset.sigs.k8s.io/restart-attempt':'" attempt "'"

/* A member of the object's group `by`; without a `share` kube-scheduler places the pod. */
static void add_member_by(const char *name, const char *by, const char *label, const char *share)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s','labels':{'divvy.gpu/"
		"tenant':'true'%s},'annotations':{'divvy.gpu/group-by':'%s'%s}},"
		"'spec':{'schedulerName':'%s-scheduler','containers':[{'name':'c'}]}}",
		name, name, label, by, share, share[0] ? "divvy" : "default");
}

#define BY_JOB_SET "'metadata':{'annotations':{'divvy.gpu/group-by':'jobset'}}"

/* Parts: 1 driver, and `replicas` Jobs of workers with 2 pods each. */
static void add_job_set(const char *driver, const char *workers, int replicas)
{
	set(CLUSTER_JOB_SET,
		"{'metadata':{'name':'job','namespace':'s'},'spec':{'replicatedJobs':[{'name':"
		"'driver','replicas':1,'template':{'spec':{'template':{%s}}}},{'name':'workers',"
		"'replicas':%d,'template':{'spec':{'parallelism':4,'completions':2,'template':{%s}}"
		"}}]}}",
		driver, replicas, workers);
}

static void a_job_set_gives_the_size_of_its_group(void **state)
{
	static const char *const names[] = {"w1", "w2", "w3", "w4"};

	add_node("n1", 4);
	add_member_by("w1", "jobset", JOB_SET_LABELS("workers", "0"), "," SHARE("0.4"));
	told("w1",
		"group s/jobset:job:0: no JobSet 'job' of jobset.x-k8s.io exists; create it, or "
		"set divvy.gpu/group and divvy.gpu/group-size in place of divvy.gpu/group-by");
	add_job_set("", "", 2);
	later();
	told("w1", "group s/jobset:job:0: 1 of 5 pods exist, 5 are needed");
	/* Only templates with the key have members. */
	add_job_set("", BY_JOB_SET, 2);
	later();
	told("w1", "group s/jobset:job:0: 1 of 4 pods exist, 4 are needed");
	for (size_t i = 1; i < ARRAY_SIZE(names); i++)
		add_member_by(names[i], "jobset", JOB_SET_LABELS("workers", "0"), "," SHARE("0.4"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_group(next(SCHED_BIND, names[i], NULL), "jobset:job:0=4");
	/* The pods of a restarted JobSet do not count those of the attempt before. */
	add_member_by("r1", "jobset", JOB_SET_LABELS("workers", "1"), "," SHARE("0.4"));
	told("r1", "group s/jobset:job:1: 1 of 4 pods exist, 4 are needed");
}

static void a_part_of_a_job_set_is_a_group(void **state)
{
	add_node("n1", 4);
	add_job_set("", "", 2);
	add_member_by("d1", "replicatedjob", JOB_SET_LABELS("driver", "0"), "," SHARE("0.4"));
	assert_group(next(SCHED_BIND, "d1", NULL), "replicatedjob:job:driver:0=1");
	add_member_by("w1", "replicatedjob", JOB_SET_LABELS("workers", "0"), "," SHARE("0.4"));
	told("w1", "group s/replicatedjob:job:workers:0: 1 of 4 pods exist, 4 are needed");
	/* With a threshold of a half 2 of 4 are enough. */
	add_member_by("h1", "replicatedjob", JOB_SET_LABELS("workers", "1"),
		"," SHARE("0.4") ",'divvy.gpu/group-threshold':'0.5'");
	told("h1", "group s/replicatedjob:job:workers:1: 1 of 4 pods exist, 2 are needed");
	add_member_by("x1", "replicatedjob", JOB_SET_LABELS("other", "0"), "," SHARE("0.4"));
	told("x1",
		"group s/replicatedjob:job:other:0: no JobSet 'job' of jobset.x-k8s.io with a part "
		"'other' exists; create it, or set divvy.gpu/group and divvy.gpu/group-size in "
		"place of divvy.gpu/group-by");
	/* Each Job of the workers has 2 pods. */
	add_member_by("j1", "jobset-job",
		JOB_SET_LABELS("workers", "0") ",'batch.kubernetes.io/job-name':'job-workers-1'",
		"," SHARE("0.4"));
	told("j1", "group s/jobset-job:job:job-workers-1:0: 1 of 2 pods exist, 2 are needed");
}

/* An object has at most 1024 parts with a size, and a group at most 65536 members. */
static void parts_of_a_job_set_have_limits(void **state)
{
	json_t *jobs = json_array();
	_cleanup_json_ json_t *json = json_pack("{s:{s:s, s:s}, s:{s:o}}", "metadata", "name",
		"job", "namespace", "s", "spec", "replicatedJobs", jobs);

	for (unsigned i = 0; i <= 1024; i++)
		json_array_append_new(jobs,
			json_pack("{s:o, s:i}", "name", json_sprintf("p%u", i), "replicas",
				i ? 1 : 65537));
	add_node("n1", 1);
	assert_ok(sched_set(sched, CLUSTER_JOB_SET, json, NULL));
	add_member_by("last", "replicatedjob", JOB_SET_LABELS("p1023", "0"), "," SHARE("0.1"));
	next(SCHED_BIND, "last", NULL);
	add_member_by("beyond", "replicatedjob", JOB_SET_LABELS("p1024", "0"), "," SHARE("0.1"));
	told("beyond",
		"group s/replicatedjob:job:p1024:0: no JobSet 'job' of jobset.x-k8s.io with a part "
		"'p1024' exists; create it, or set divvy.gpu/group and divvy.gpu/group-size in "
		"place of divvy.gpu/group-by");
	add_member_by("many", "replicatedjob", JOB_SET_LABELS("p0", "0"), "," SHARE("0.1"));
	told("many", "group s/replicatedjob:job:p0:0: 1 of 65536 pods exist, 65536 are needed");
}

static void add_ray_cluster(int replicas)
{
	set(CLUSTER_RAY_CLUSTER,
		"{'metadata':{'name':'ray','namespace':'s'},'spec':{'headGroupSpec':{'template':{}}"
		",'workerGroupSpecs':[{'groupName':'small','replicas':%d,'numOfHosts':2},"
		"{'groupName':'off','replicas':3,'suspend':true}]}}",
		replicas);
}

static void a_ray_cluster_gives_the_size_of_its_groups(void **state)
{
	const char *worker = ",'ray.io/cluster':'ray','ray.io/group':'small'";

	add_node("n1", 4);
	add_ray_cluster(1);
	add_member_by("w1", "raygroup", worker, "," SHARE("0.4"));
	told("w1", "group s/raygroup:ray:small: 1 of 2 pods exist, 2 are needed");
	add_member_by("c1", "raycluster", worker, "," SHARE("0.4"));
	told("c1", "group s/raycluster:ray: 1 of 3 pods exist, 3 are needed");
	/* The head has no share and counts as present. */
	add_member_by(
		"head", "raycluster", ",'ray.io/cluster':'ray','ray.io/group':'headgroup'", "");
	later();
	add_member_by("c2", "raycluster", worker, "," SHARE("0.4"));
	assert_group(next(SCHED_BIND, "c1", NULL), "raycluster:ray=2");
	assert_group(next(SCHED_BIND, "c2", NULL), "raycluster:ray=2");
	/* The autoscaler adds a replica: both of its pods start together. */
	add_ray_cluster(2);
	add_member_by("c3", "raycluster", worker, "," SHARE("0.4"));
	told("c3", "group s/raycluster:ray: 4 of 5 pods exist, 5 are needed");
	/* Without the RayCluster its number of pods is unknown. */
	assert_ok(sched_remove(sched, CLUSTER_RAY_CLUSTER, "s", "ray"));
	later();
	told("c3",
		"group s/raycluster:ray: no RayCluster 'ray' of ray.io exists; create it, or set "
		"divvy.gpu/group and divvy.gpu/group-size in place of divvy.gpu/group-by");
}

/* The first member has the group by the user's own key, and names no object. */
static void an_object_sizes_all_members_that_name_it(void **state)
{
	add_node("n1", 4);
	add_pod("u1",
		SHARE("0.4") ",'divvy.gpu/group':'raygroup:ray:small','divvy.gpu/group-size':'2'",
		"");
	told("u1", "group s/raygroup:ray:small: 1 of 2 pods exist, 2 are needed");
	add_member_by("w1", "raygroup", ",'ray.io/cluster':'ray','ray.io/group':'small'",
		"," SHARE("0.4"));
	next(SCHED_BIND, "w1", NULL);
	next(SCHED_BIND, "u1", NULL);
	add_ray_cluster(2);
	add_member_by("w2", "raygroup", ",'ray.io/cluster':'ray','ray.io/group':'small'",
		"," SHARE("0.4"));
	told("w2", "group s/raygroup:ray:small: 3 of 4 pods exist, 4 are needed");
	add_ray_cluster(3);
	later();
	told("w2", "group s/raygroup:ray:small: 3 of 6 pods exist, 6 are needed");
}

/* KubeRay makes as many replicas as `replicas`, between the least and the most. */
static const struct {
	const char *fields, *message;
} ray_sizes[] = {
	{"'replicas':3", "1 of 3 pods exist, 3 are needed"},
	{"'replicas':1,'minReplicas':4", "1 of 4 pods exist, 4 are needed"},
	{"'replicas':9,'maxReplicas':5", "1 of 5 pods exist, 5 are needed"},
	{"'replicas':3,'minReplicas':1,'maxReplicas':5", "1 of 3 pods exist, 3 are needed"},
	{"'replicas':9,'minReplicas':7,'maxReplicas':2", "1 of 2 pods exist, 2 are needed"},
	{"'minReplicas':2,'maxReplicas':6", "1 of 2 pods exist, 2 are needed"},
	{"'replicas':0,'minReplicas':2", "1 of 2 pods exist, 2 are needed"},
	{"'replicas':1,'minReplicas':2,'numOfHosts':4", "1 of 8 pods exist, 8 are needed"},
	{"'replicas':1,'maxReplicas':2147483647,'numOfHosts':2", "1 of 2 pods exist, 2 are needed"},
#define NO_PODS \
	"RayCluster 'ray' of ray.io states 0 pods for part 'w'; set its replicas to 1 or more, " \
	"or set divvy.gpu/group and divvy.gpu/group-size in place of divvy.gpu/group-by"
	{"'replicas':0", NO_PODS},
	{"'minReplicas':0", NO_PODS},
	{"'replicas':3,'maxReplicas':0", NO_PODS},
	{"'replicas':3,'minReplicas':2,'suspend':true", NO_PODS},
};

static void a_ray_cluster_limits_the_replicas_of_a_group(void **state)
{
	char want[512];

	add_node("n1", 4);
	add_member_by(
		"w1", "raygroup", ",'ray.io/cluster':'ray','ray.io/group':'w'", "," SHARE("0.4"));
	for (size_t i = 0; i < ARRAY_SIZE(ray_sizes); i++) {
		set(CLUSTER_RAY_CLUSTER,
			"{'metadata':{'name':'ray','namespace':'s'},'spec':{'workerGroupSpecs':[{"
			"'groupName':'w',%s}]}}",
			ray_sizes[i].fields);
		later();
		snprintf(want, sizeof(want), "group s/raygroup:ray:w: %s", ray_sizes[i].message);
		told("w1", want);
	}
}

#define IN_JOB ",'schedulingGroup':{'podGroupName':'job'}"

static void add_kube_group(const char *policy)
{
	set(CLUSTER_KUBE_GROUP,
		"{'metadata':{'name':'job','namespace':'s'},'spec':{'schedulingPolicy':%s}}",
		policy);
}

static void serve_kube_groups(void)
{
	cluster_note_served(sched_cluster(sched), CLUSTER_KUBE_GROUP);
}

static void a_pod_group_of_kubernetes_gives_the_size(void **state)
{
	add_node("n1", 2);
	serve_kube_groups();
	add_pod("a", SHARE("0.4"), IN_JOB);
	told("a",
		"group s/job: PodGroup job of scheduling.k8s.io does not exist; create it, or set "
		"divvy.gpu/group and divvy.gpu/group-size");
	add_kube_group("{'gang':{'minCount':1}}");
	later();
	assert_group(next(SCHED_BIND, "a", NULL), "job=1");
	add_kube_group("{'gang':{'minCount':3}}");
	add_pod("b", SHARE("0.4"), IN_JOB);
	told("b", "group s/job: 2 of 3 pods exist, 3 are needed");
	add_pod("c", SHARE("0.4"), IN_JOB);
	assert_group(next(SCHED_BIND, "b", NULL), "job=3");
	assert_group(next(SCHED_BIND, "c", NULL), "job=3");
	nothing();
}

static void assert_no_group(const struct cpod *pod)
{
	_cleanup_json_ json_t *keys = NULL;

	assert_ok(decide_annotations(sched_cluster(sched), pod, 7, &keys));
	assert_null(json_object_get(keys, "divvy.gpu/granted-group"));
}

/* A nominated member, or one that fits nowhere, keeps no other member waiting. */
static void members_of_a_basic_group_start_alone(void **state)
{
	add_node("n1", 1);
	serve_kube_groups();
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("a", SHARE("0.1"), IN_JOB);
	told("a",
		"group s/job: PodGroup job of scheduling.k8s.io does not exist; create it, or set "
		"divvy.gpu/group and divvy.gpu/group-size");
	add_kube_group("{'basic':{}}");
	later();
	assert_no_group(next(SCHED_BIND, "a", NULL));
	assert_string_equal(cpod_group(cluster_pod(sched_cluster(sched), "s", "a")), "");
	add_pod("none", SHARE("0.1") ",'divvy.gpu/model':'B'", IN_JOB);
	told("none", "0/1 nodes: 1 with another model than B; the cluster has model A");
	add_pod("b", SHARE("0.8") ",'divvy.gpu/priority':'60'", IN_JOB);
	next(SCHED_EVICT, "low", "s/b");
	next(SCHED_NOMINATE, "b", "waits for 1 pod to terminate on n1");
	add_node("n2", 1);
	add_lease("n2", "2026-01-04T03:04:05Z");
	add_pod("c", SHARE("0.5"), IN_JOB);
	assert_no_group(next(SCHED_BIND, "c", NULL));
	/* The PodGroup is created again, now as a gang of nine. */
	add_kube_group("{'gang':{'minCount':9}}");
	add_pod("d", SHARE("0.1"), IN_JOB);
	nothing();
	later();
	told("b", "group s/job: 5 of 9 pods exist, 9 are needed");
	nothing();
}

static void group_sizes_of_kubernetes_have_limits(void **state)
{
	static const struct {
		const char *policy, *why;
	} cases[] = {
		{"{'gang':{'minCount':4294967299}}",
			"group s/job: 1 of 65536 pods exist, 65536 are needed"},
		{"{'gang':{'minCount':65536}}",
			"group s/job: 1 of 65536 pods exist, 65536 are needed"},
		{"{'basic':{}}", NULL},
		{"{'gang':{'minCount':-1}}", NULL},
		{"{'gang':{'minCount':'3'}}", NULL},
		{"{'gang':3}", NULL},
		{"[3]", NULL},
	};

	serve_kube_groups();
	add_node("n1", 4);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		add_kube_group(cases[i].policy);
		add_pod("a", SHARE("0.4"), IN_JOB);
		later();
		if (cases[i].why)
			told("a", cases[i].why);
		else
			next(SCHED_BIND, "a", NULL);
		assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
		assert_ok(sched_remove(sched, CLUSTER_KUBE_GROUP, "s", "job"));
	}
}

/* The Job controller names a PodGroup in the pods of users who have chosen another group. */
static void a_group_of_the_user_comes_first(void **state)
{
	add_node("n1", 2);
	serve_kube_groups();
	add_kube_group("{'gang':{'minCount':3}}");
	add_pod("a", SHARE("0.4") ",'divvy.gpu/group':'mine','divvy.gpu/group-size':'1'", IN_JOB);
	assert_group(next(SCHED_BIND, "a", NULL), "mine=1");
}

static void a_group_that_no_server_has_is_ignored(void **state)
{
	add_node("n1", 2);
	add_pod("a", SHARE("0.4"), IN_JOB);
	assert_no_group(next(SCHED_BIND, "a", NULL));
	next(SCHED_EVENT, "a",
		"spec.schedulingGroup has no effect: the API server serves no PodGroup of "
		"scheduling.k8s.io in a version that divvy knows");
	nothing();
	/*
	 * The API server is reconfigured and serves PodGroups from now on, while one of the pods
	 * waits.
	 */
	add_pod("full", SHARE("0.4") ",'divvy.gpu/count':'4'", IN_JOB);
	told("full", "0/1 nodes: 1 with fewer than 4 GPUs");
	serve_kube_groups();
	add_kube_group("{'gang':{'minCount':3}}");
	later();
	told("full", "group s/job: 2 of 3 pods exist, 3 are needed");
	add_pod("b", SHARE("0.4"), IN_JOB);
	later();
	told("b",
		"group s/job: 2 of 3 pods fit, 3 are needed; 0/1 nodes: 1 with fewer than 4 GPUs");
	nothing();
}

static void pods_of_other_schedulers_are_members(void **state)
{
	add_node("n1", 2);
	add_group_object(CLUSTER_VOLCANO_GROUP, 3);
	for (int i = 0; i < 2; i++)
		set(OBJECT_POD,
			"{'metadata':{'name':'w%d','namespace':'s','uid':'u-w%d'," TENANT
			"'annotations':{"
			"'divvy.gpu/request':'0.4','scheduling.k8s.io/group-name':'job'}},'spec':{"
			"'schedulerName':'divvy-scheduler','containers':[{'name':'c'}]}}",
			i, i);
	told("w0", "group s/job: 2 of 3 pods exist, 3 are needed");
	nothing();
	/* A member without a share that another scheduler places also counts. */
	set(OBJECT_POD,
		"{'metadata':{'name':'head','namespace':'s','uid':'u-head','annotations':{"
		"'scheduling.k8s.io/group-name':'job'}},'spec':{'schedulerName':'volcano',"
		"'containers':[{'name':'c'}]}}");
	later();
	next(SCHED_BIND, "w0", NULL);
	next(SCHED_BIND, "w1", NULL);
	nothing();
}

static void put_into_rack(const char *name, const char *rack)
{
	set(OBJECT_NODE,
		"{'metadata':{'name':'%s','labels':{'topology.kubernetes.io/rack':'%s'}},'status':"
		"{'allocatable':{'cpu':'8','memory':'16Gi','pods':'110'}}}",
		name, rack);
}

static void a_group_prefers_its_rack(void **state)
{
	acts_use(&place_scarcity);
	add_node("n1", 1);
	put_into_rack("n1", "r2");
	add_pod("m1", MEMBER("0.9", "3", "0.1"), "");
	assert_string_equal(cpod_node(next(SCHED_BIND, "m1", NULL)), "n1");
	add_node("n2", 1);
	add_node("n3", 1);
	put_into_rack("n2", "r1");
	put_into_rack("n3", "r2");
	add_pod("m2", MEMBER("0.9", "3", "0.1"), "");
	assert_string_equal(cpod_node(next(SCHED_BIND, "m2", NULL)), "n3");
	/* The nodes of the tenants move to another rack. */
	add_node("n4", 1);
	put_into_rack("n1", "r9");
	put_into_rack("n3", "r9");
	put_into_rack("n4", "r9");
	add_pod("m3", MEMBER("0.9", "3", "0.1"), "");
	assert_string_equal(cpod_node(next(SCHED_BIND, "m3", NULL)), "n4");
}

static void a_group_is_never_placed_in_part(void **state)
{
	add_node("n1", 2);
	for (int i = 0; i < 3; i++) {
		char name[8];

		snprintf(name, sizeof(name), "m%d", i);
		add_pod(name, MEMBER("0.9", "3", "1"), "");
	}
	told("m0", "group s/g: 2 of 3 pods fit, 3 are needed; 0/1 nodes: 1 no GPU with 0.9 free");
	nothing();
	/* The group has reserved nothing, so another pod gets both devices. */
	add_pod("x", "'divvy.gpu/request':'2'", "");
	next(SCHED_BIND, "x", NULL);
}

#define KUBESHARE(request) \
	"'kubeshare/gpu_request':'" request "','kubeshare/gpu_limit':'1.0'," \
	"'kubeshare/gpu_mem':'1'"
#define GPUID(x) ",'kubeshare/GPUID':'" x "'"
#define ON_N1 ",'nodeSelector':{'kubernetes.io/hostname':'n1'}"

static void allow_kubeshare(void)
{
	set(OBJECT_NAMESPACE,
		"{'metadata':{'name':'s','annotations':{'divvy.gpu/dialects':'kubeshare'}}}");
	add_node("n1", 2);
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1','labels':{'kubernetes.io/hostname':'n1'}},'status':{"
		"'allocatable':{'cpu':'8','memory':'16Gi','pods':'110'}}}");
}

/* Returns the pod's GPUID in the Binding's annotations; the caller frees it. */
static char *gpuid_of(const struct cpod *pod)
{
	_cleanup_json_ json_t *keys = NULL;
	const char *name;

	assert_ok(decide_annotations(sched_cluster(sched), pod, 7, &keys));
	name = json_string_value(json_object_get(keys, "kubeshare/GPUID"));
	assert_non_null(name);
	return str_dup(str_from(name));
}

static void a_vgpu_is_one_device(void **state)
{
	char first[SPEC_LABEL];

	allow_kubeshare();
	add_pod("a", KUBESHARE("0.3") GPUID("abcde"), ON_N1);
	str_copy(first, sizeof(first), str_from(device_of(next(SCHED_BIND, "a", NULL))));
	confirm(cluster_pod(sched_cluster(sched), "s", "a"), KUBESHARE("0.3"));
	/* Pods with the same GPUID share a device, and another GPUID is another device. */
	add_pod("b", KUBESHARE("0.3") GPUID("other"), ON_N1);
	assert_string_not_equal(device_of(next(SCHED_BIND, "b", NULL)), first);
	add_pod("d", KUBESHARE("0.3") GPUID("abcde"), ON_N1);
	assert_string_equal(device_of(next(SCHED_BIND, "d", NULL)), first);
	add_pod("e", KUBESHARE("0.6") GPUID("abcde"), ON_N1);
	told("e", "0/1 nodes: 1 no room on vGPU abcde");
	add_pod("f", KUBESHARE("0.1") GPUID("third"), ON_N1);
	told("f", "0/1 nodes: 1 no unused GPU for vGPU third");
}

static void a_vgpu_has_a_name_that_others_may_use(void **state)
{
	_cleanup_free_ char *name = NULL, *again = NULL;
	char first[SPEC_LABEL], keys[256];
	const struct cpod *pod;

	allow_kubeshare();
	add_pod("a", KUBESHARE("0.3"), "");
	pod = next(SCHED_BIND, "a", NULL);
	name = gpuid_of(pod);
	assert_int_equal(strlen(name), 5);
	str_copy(first, sizeof(first), str_from(device_of(pod)));
	confirm(pod, KUBESHARE("0.3"));
	snprintf(keys, sizeof(keys), KUBESHARE("0.3") GPUID("%s"), name);
	add_pod("b", keys, ON_N1);
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(device_of(pod), first);
	again = gpuid_of(pod);
	assert_string_equal(again, name);
}

static void members_without_a_share_count_as_bound(void **state)
{
	add_node("n1", 2);
	set(OBJECT_POD,
		"{'metadata':{'name':'head','namespace':'s','uid':'u-head','annotations':{"
		"'scheduling.k8s.io/group-name':'job'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'c'}]}}");
	add_group_object(CLUSTER_VOLCANO_GROUP, 3);
	for (int i = 0; i < 2; i++)
		set(OBJECT_POD,
			"{'metadata':{'name':'w%d','namespace':'s','uid':'u-w%d'," TENANT
			"'annotations':{'divvy.gpu/request':'0.4',"
			"'scheduling.k8s.io/group-name':'job'}},'spec':{"
			"'schedulerName':'divvy-scheduler','containers':[{'name':'c'}]}}",
			i, i);
	/*
	 * The group needs three members. Nodes know only the two with a share, so they wait for
	 * two.
	 */
	assert_int_equal(cpod_assigned(next(SCHED_BIND, "head", NULL))->n, 0);
	assert_group(next(SCHED_BIND, "w0", NULL), "job=2");
	assert_group(next(SCHED_BIND, "w1", NULL), "job=2");
}

static void less_important_pods_are_preempted(void **state)
{
	add_node("n1", 1);
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("high", SHARE("0.8") ",'divvy.gpu/priority':'60'", "");
	next(SCHED_EVICT, "low", "s/high");
	next(SCHED_NOMINATE, "high", "waits for 1 pod to terminate on n1");
	nothing();
	/* The reserved place stays free for "high". */
	add_pod("next", SHARE("0.2") ",'divvy.gpu/priority':'50'", "");
	nothing();
	/* The eviction is repeated while the victim exists. */
	pass(6);
	next(SCHED_EVICT, "low", "");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "low"));
	assert_string_equal(cpod_node(next(SCHED_BIND, "high", NULL)), "n1");
	pass(12);
	next(SCHED_BIND, "next", NULL);
}

static void fill_cpu(const char *node, int but)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'other-%s','namespace':'s','uid':'u-o-%s'},'spec':{"
		"'schedulerName':'default-scheduler','nodeName':'%s','containers':[{'name':'c',"
		"'resources':{'requests':{'cpu':'%d'}}}]}}",
		node, node, node, 8 - but);
}

/*
 * The search tries to evict the three pods of n1 and then evicts "least". The CPU of the three must
 * still count.
 */
static void spared_pods_still_count(void **state)
{
	static const char *const names[] = {"one", "two", "three"};

	add_node("n1", 1);
	fill_cpu("n1", 3);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		add_pod(names[i], SHARE("0.3") ",'divvy.gpu/priority':'10'", "");
		confirm(next(SCHED_BIND, names[i], NULL),
			SHARE("0.3") ",'divvy.gpu/priority':'10'");
	}
	add_node("n2", 1);
	fill_cpu("n2", 1);
	add_pod("least", SHARE("0.9") ",'divvy.gpu/priority':'5'", "");
	confirm(next(SCHED_BIND, "least", NULL), SHARE("0.9") ",'divvy.gpu/priority':'5'");
	add_pod("high", SHARE("0.6") ",'divvy.gpu/priority':'60'", "");
	next(SCHED_EVICT, "least", "s/high");
	next(SCHED_NOMINATE, "high", NULL);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "least"));
	next(SCHED_BIND, "high", NULL);
	add_pod("next", SHARE("0.1") ",'divvy.gpu/priority':'5'", "");
	told("next", "0/2 nodes: 2 too little cpu");
}

/*
 * Fills a node of four devices completely: eight pods request half a device and a CPU each. Like
 * the webhook, fill_with_halves() also requests the half device as a resource of the node.
 */
#define LOW_HALF SHARE("0.5") ",'divvy.gpu/priority':'10'"

static void fill_with_halves(void)
{
	add_node("n1", 4);
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1'},'status':{'allocatable':{'cpu':'8','memory':'16Gi',"
		"'pods':'110','divvy.gpu/milli':'4000'}}}");
	requests_of_all = ",'divvy.gpu/milli':'500'";
	for (int i = 0; i < 8; i++) {
		char name[8];

		snprintf(name, sizeof(name), "low%d", i);
		add_pod(name, LOW_HALF, "");
		confirm(next(SCHED_BIND, name, NULL), LOW_HALF);
	}
}

/* Each new pod evicts one pod, although the node is still full of terminating pods. */
static void each_of_several_preemptors_evicts_one_pod(void **state)
{
	char victim[3][8], name[16];

	fill_with_halves();
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "high%d", i);
		add_pod(name, SHARE("0.5") ",'divvy.gpu/priority':'90'", "");
	}
	for (int i = 0; i < 3; i++) {
		struct sched_action a;

		snprintf(name, sizeof(name), "high%d", i);
		do
			assert_int_equal(sched_next(sched, &a, NULL), 1);
		while (a.act == SCHED_CONDITION || a.act == SCHED_EVENT);
		assert_int_equal(a.act, SCHED_EVICT);
		str_copy(victim[i], sizeof(victim[i]), str_from(cpod_name(a.pod)));
		next(SCHED_NOMINATE, name, "waits for 1 pod to terminate on n1");
	}
	nothing();
	assert_int_equal(cluster_n_nominated(sched_cluster(sched)), 3);
	/* Each pod is bound when its own victim has ended, while the other victims still run. */
	for (int i = 2; i >= 0; i--) {
		snprintf(name, sizeof(name), "high%d", i);
		assert_ok(sched_remove(sched, OBJECT_POD, "s", victim[i]));
		next(SCHED_BIND, name, NULL);
		nothing();
	}
	pass(20);
	nothing();
}

static uint32_t n_evictions(uint32_t *ret_nominations)
{
	struct sched_action a;
	uint32_t n = 0;

	*ret_nominations = 0;
	while (sched_next(sched, &a, NULL) == 1) {
		n += a.act == SCHED_EVICT;
		*ret_nominations += a.act == SCHED_NOMINATE;
	}
	return n;
}

static void budget(int allowed, const char *disrupted)
{
	set(CLUSTER_BUDGET,
		"{'metadata':{'name':'b','namespace':'s'},'spec':{'selector':{}},'status':{"
		"'disruptionsAllowed':%d,'disruptedPods':{%s}}}",
		allowed, disrupted);
}

/*
 * The budget permits three evictions, and each pod needs two. So only one pod evicts its two
 * victims.
 */
static void several_preemptors_respect_one_budget(void **state)
{
	char victim[2][8], disrupted[64];
	uint32_t n_nominations;

	fill_with_halves();
	requests_of_all = "";
	budget(3, "");
	for (int i = 0; i < 2; i++) {
		char name[16];

		snprintf(name, sizeof(name), "high%d", i);
		add_pod(name, SHARE("1") ",'divvy.gpu/priority':'90'", "");
	}
	for (int i = 0; i < 2; i++) {
		struct sched_action a;

		do
			assert_int_equal(sched_next(sched, &a, NULL), 1);
		while (a.act == SCHED_CONDITION || a.act == SCHED_EVENT);
		assert_int_equal(a.act, SCHED_EVICT);
		str_copy(victim[i], sizeof(victim[i]), str_from(cpod_name(a.pod)));
	}
	assert_int_equal(n_evictions(&n_nominations), 0);
	assert_int_equal(n_nominations, 1);
	/* The API server counts one eviction after the other in the budget's status. */
	snprintf(disrupted, sizeof(disrupted), "'%s':'2026-01-02T03:04:05Z'", victim[0]);
	budget(2, disrupted);
	pass(12);
	n_evictions(&n_nominations); /* repeated evictions of victims that still exist */
	assert_int_equal(n_nominations, 0);
	snprintf(disrupted, sizeof(disrupted), "'%s':'2026-01-02T03:04:05Z','%s':''", victim[0],
		victim[1]);
	budget(1, disrupted);
	pass(12);
	n_evictions(&n_nominations);
	assert_int_equal(n_nominations, 0);
	/* Successors of the victims run elsewhere, so the budget permits two further evictions. */
	budget(2, disrupted);
	pass(12);
	n_evictions(&n_nominations);
	assert_int_equal(n_nominations, 1);
}

/* If the devices are full, the message names them, and not the node's resource divvy.gpu/milli. */
static void full_devices_are_reported_before_the_nodes_sum(void **state)
{
	fill_with_halves();
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1'},'status':{'allocatable':{'cpu':'16','memory':'16Gi',"
		"'pods':'110','divvy.gpu/milli':'4000'}}}");
	add_pod("more", LOW_HALF, "");
	told("more", "0/1 nodes: 1 no GPU with 0.5 free");
	/* If only the node's resource is used up, the message names the resource. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "low0"));
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "more"));
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1'},'status':{'allocatable':{'cpu':'16','memory':'16Gi',"
		"'pods':'110','divvy.gpu/milli':'3900'}}}");
	add_pod("again", LOW_HALF, "");
	told("again", "0/1 nodes: 1 too little divvy.gpu/milli");
}

static void each_of_several_groups_evicts_its_victims(void **state)
{
	uint32_t n_nominations;

	fill_with_halves();
	for (int i = 0; i < 4; i++) {
		char name[16], more[128];

		snprintf(name, sizeof(name), "m%d", i);
		snprintf(more, sizeof(more),
			SHARE("0.5") ",'divvy.gpu/priority':'90','divvy.gpu/"
				     "group':'g%d','divvy.gpu/group-size':"
				     "'2'",
			i / 2);
		add_pod(name, more, "");
	}
	assert_int_equal(n_evictions(&n_nominations), 4);
	assert_int_equal(n_nominations, 4);
}

/* Sets a bound pod with HAMi's annotation of the bind phase. */
static void set_hami(const char *bind_phase, const char *phase)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT
		"'annotations':{" SHARE(
			"0.3") ",'divvy.gpu/devices':'c=GPU-n1-0','divvy.gpu/granted-request':"
			       "'c=0.3','divvy.gpu/granted-limit':'c=1','divvy.gpu/granted-memory':"
			       "'c=300000','divvy.gpu/granted-memory-policy':'c=fail','divvy.gpu/"
			       "granted-class':'c=standard','divvy.gpu/granted-priority':'c=50',"
			       "'divvy.gpu/granted-mode':'c=local','divvy.gpu/epoch':'3',"
			       "'hami.io/bind-phase':'%s'}},'spec':{'schedulerName':'divvy-"
			       "scheduler','nodeName':'n1','containers':[{'name':'c'}]},"
			       "'status':{'phase':'%s'}}",
		bind_phase, phase);
}

/*
 * For a running pod the scheduler writes the annotation that HAMi's tools expect, until the pod has
 * it.
 */
static void annotations_for_running_pods_are_written(void **state)
{
	add_node("n1", 1);
	set_hami("allocating", "Pending");
	nothing();
	for (int i = 0; i < 2; i++) {
		const json_t *due;

		set_hami("allocating", "Running");
		due = cpod_running(next(SCHED_RUNS, "a", ""));
		assert_int_equal(json_object_size(due), 1);
		assert_string_equal(
			kube_json_text_at(due, "annotations", "hami.io/bind-phase", NULL),
			"success");
		nothing();
	}
	set_hami("success", "Running");
	nothing();
}

static void equal_pods_are_not_preempted(void **state)
{
	add_node("n1", 1);
	add_pod("one", SHARE("0.8"), "");
	confirm(next(SCHED_BIND, "one", NULL), SHARE("0.8"));
	add_pod("two", SHARE("0.8"), "");
	told("two", "0/1 nodes: 1 no GPU with 0.8 free");
	/* A pod whose preemptionPolicy is Never evicts no pod. */
	add_pod("never", SHARE("0.8") ",'divvy.gpu/priority':'90'", ",'preemptionPolicy':'Never'");
	told("never", "0/1 nodes: 1 no GPU with 0.8 free");
	add_pod("above", SHARE("0.8") ",'divvy.gpu/priority':'1'", ",'priority':1000");
	next(SCHED_EVICT, "one", "s/above");
}

static void disruption_budgets_are_respected(void **state)
{
	add_node("n1", 1);
	set(CLUSTER_BUDGET,
		"{'metadata':{'name':'b','namespace':'s'},'spec':{'selector':{}},'status':{"
		"'disruptionsAllowed':0}}");
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("high", SHARE("0.8") ",'divvy.gpu/priority':'60'", "");
	told("high",
		"0/1 nodes: 1 no GPU with 0.8 free; a PodDisruptionBudget forbids the evictions "
		"that it needs");
	set(CLUSTER_BUDGET,
		"{'metadata':{'name':'b','namespace':'s'},'spec':{'selector':{}},'status':{"
		"'disruptionsAllowed':1}}");
	pass(2);
	next(SCHED_EVICT, "low", "s/high");
}

static void a_deleted_preemptor_ends_its_evictions(void **state)
{
	add_node("n1", 1);
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("high", SHARE("0.8") ",'divvy.gpu/priority':'60'", "");
	next(SCHED_EVICT, "low", NULL);
	next(SCHED_NOMINATE, "high", NULL);
	/* After the preemptor is removed, its victim is not evicted again. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "high"));
	add_pod("small", SHARE("0.2"), "");
	pass(1);
	nothing();
	pass(12);
	nothing();
}

static void a_former_leader_cancels_its_decisions(void **state)
{
	struct cluster *c = sched_cluster(sched);

	add_node("n1", 1);
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("high", SHARE("0.8") ",'divvy.gpu/priority':'60'", "");
	next(SCHED_EVICT, "low", NULL);
	/* The scheduler loses its Lease before it sends the nomination. */
	sched_stand_down(sched);
	assert_int_equal(cpod_state(cluster_pod(c, "s", "high")), CPOD_PENDING);
	assert_int_equal(cluster_n_nominated(c), 0);
	assert_int_equal(cpod_reported_ns(cluster_pod(c, "s", "low")), 0);
	/* When the scheduler leads again, it decides anew. */
	pass(2);
	next(SCHED_EVICT, "low", "s/high");
}

static void a_group_preempts_as_a_whole(void **state)
{
	add_node("n1", 2);
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("m1", MEMBER("0.9", "2", "1"), "");
	add_pod("m2", MEMBER("0.9", "2", "1"), "");
	/* One device is free at once, but the member placed there waits for the other member. */
	next(SCHED_NOMINATE, "m1", NULL);
	next(SCHED_NOMINATE, "m2", NULL);
	next(SCHED_EVICT, "low", "s/m1");
	nothing();
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "low"));
	next(SCHED_BIND, "m1", NULL);
	next(SCHED_BIND, "m2", NULL);
}

/* One victim frees enough for both members, so no second pod is evicted. */
static void a_group_shares_the_freed_capacity(void **state)
{
	add_node("n1", 1);
	add_pod("small", SHARE("0.25") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "small", NULL), SHARE("0.25") ",'divvy.gpu/priority':'10'");
	add_pod("large", SHARE("0.7") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "large", NULL), SHARE("0.7") ",'divvy.gpu/priority':'10'");
	add_pod("m1", MEMBER("0.3", "2", "1"), "");
	add_pod("m2", MEMBER("0.3", "2", "1"), "");
	next(SCHED_NOMINATE, "m1", NULL);
	next(SCHED_NOMINATE, "m2", NULL);
	next(SCHED_EVICT, "large", "s/m1");
	nothing();
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "large"));
	next(SCHED_BIND, "m1", NULL);
	next(SCHED_BIND, "m2", NULL);
}

/*
 * The device has enough share free beside "small", but the anti-affinity of "small" keeps other
 * pods off the node.
 */
static void a_group_evicts_pods_with_anti_affinity(void **state)
{
	add_node("n1", 1);
	set(OBJECT_NODE,
		"{'metadata':{'name':'n1','labels':{'kubernetes.io/hostname':'n1'}},'status':{"
		"'allocatable':{'cpu':'8','memory':'16Gi','pods':'110'}}}");
	spec_of_all = ",'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuring"
		      "Execution':[{'topologyKey':'kubernetes.io/hostname','labelSelector':{}}]}}";
	add_pod("small", SHARE("0.25") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "small", NULL), SHARE("0.25") ",'divvy.gpu/priority':'10'");
	spec_of_all = "";
	space = "other";
	add_pod("large", SHARE("0.7") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "large", NULL), SHARE("0.7") ",'divvy.gpu/priority':'10'");
	space = "s";
	add_pod("m1", MEMBER("0.3", "2", "1"), "");
	add_pod("m2", MEMBER("0.3", "2", "1"), "");
	next(SCHED_NOMINATE, "m1", NULL);
	next(SCHED_NOMINATE, "m2", NULL);
	next(SCHED_EVICT, "large", "s/m1");
	next(SCHED_EVICT, "small", "s/m1");
	nothing();
}

/* If the group does not fit even with evictions, no pod is evicted and nothing changes. */
static void a_group_that_does_not_fit_evicts_no_pod(void **state)
{
	add_node("n1", 1);
	add_pod("low", SHARE("0.7") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.7") ",'divvy.gpu/priority':'10'");
	add_pod("m1", MEMBER("0.6", "2", "1"), "");
	add_pod("m2", MEMBER("0.6", "2", "1"), "");
	told("m1", "group s/g: 1 of 2 pods fit, 2 are needed; 0/1 nodes: 1 no GPU with 0.6 free");
	add_pod("small", SHARE("0.3"), "");
	next(SCHED_BIND, "small", NULL);
	add_pod("next", SHARE("0.1") ",'divvy.gpu/priority':'5'", "");
	told("next", "0/1 nodes: 1 no GPU with 0.1 free");
}

/* A member that succeeded still counts when the successor of a failed member comes. */
static void a_group_counts_members_that_succeeded(void **state)
{
	static const char node[] = ",'nodeName':'n1'},'status':{'phase':'%s'";
	char over[64];

	add_node("n1", 2);
	for (int i = 0; i < 3; i++)
		add_pod(i == 0 ? "m0" : i == 1 ? "m1" : "m2", MEMBER("0.5", "3", "1"), "");
	for (int i = 0; i < 3; i++)
		confirm(next(SCHED_BIND,
				i == 0           ? "m0"
					: i == 1 ? "m1"
						 : "m2",
				NULL),
			MEMBER("0.5", "3", "1"));
	snprintf(over, sizeof(over), node, "Succeeded");
	add_pod("m0", MEMBER("0.5", "3", "1"), over);
	snprintf(over, sizeof(over), node, "Failed");
	add_pod("m2", MEMBER("0.5", "3", "1"), over);
	add_pod("again", MEMBER("0.5", "3", "1"), "");
	next(SCHED_BIND, "again", NULL);
	/* If all members have failed, their successors wait for one another again. */
	add_pod("m0", MEMBER("0.5", "3", "1"), over);
	add_pod("m1", MEMBER("0.5", "3", "1"), over);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "again"));
	add_pod("n0", MEMBER("0.5", "3", "1"), "");
	told("n0", "group s/g: 1 of 3 pods exist, 3 are needed");
}

/*
 * A member is deleted while victims terminate. The remaining members are fewer than the threshold,
 * so the group's reservations end.
 */
static void an_incomplete_group_frees_its_places(void **state)
{
	add_node("n1", 2);
	add_pod("low1", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low1", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("low2", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low2", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("m1", MEMBER("0.9", "2", "1"), "");
	add_pod("m2", MEMBER("0.9", "2", "1"), "");
	next(SCHED_NOMINATE, "m1", NULL);
	next(SCHED_NOMINATE, "m2", NULL);
	next(SCHED_EVICT, "low1", "s/m1");
	next(SCHED_EVICT, "low2", "s/m1");
	nothing();
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "m1"));
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "low1"));
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "low2"));
	pass(1);
	nothing();
	pass(20);
	told("m2", "group s/g: 1 of 2 pods exist, 2 are needed");
	/* The places of the group are free for other pods. */
	add_pod("other", SHARE("0.9"), "");
	confirm(next(SCHED_BIND, "other", NULL), SHARE("0.9"));
	add_pod("m1", MEMBER("0.1", "2", "1"), "");
	next(SCHED_BIND, "m1", NULL);
	next(SCHED_BIND, "m2", NULL);
}

static void a_group_times_out(void **state)
{
	struct sched_action a;
	bool is_said = false;

	add_node("n1", 2);
	add_pod("low", SHARE("0.8") ",'divvy.gpu/priority':'10'", "");
	confirm(next(SCHED_BIND, "low", NULL), SHARE("0.8") ",'divvy.gpu/priority':'10'");
	add_pod("m1", MEMBER("0.9", "2", "1"), "");
	add_pod("m2", MEMBER("0.9", "2", "1"), "");
	next(SCHED_NOMINATE, "m1", NULL);
	next(SCHED_NOMINATE, "m2", NULL);
	next(SCHED_EVICT, "low", "s/m1");
	for (int i = 0; i < 200 && !is_said; i++) {
		pass(1);
		if (i % 30 == 0)
			add_lease("n1", i % 60 ? "2026-01-02T04:00:00Z" : "2026-01-02T04:00:01Z");
		while (sched_next(sched, &a, NULL) > 0)
			is_said |= a.act == SCHED_EVENT && a.reason == REASON_GROUP_TIMED_OUT;
	}
	assert_true(is_said);
}

static void policies_are_enforced(void **state)
{
	add_node("n1", 2);
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'classes':['standard'],"
		"'highestPriority':60,'models':['A'],'totalShare':'1.2','totalMemory':'1300000'}}");
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'q'},'spec':{'namespaces':['t'],'totalShare':0.1}}");
	add_pod("class", SHARE("0.1") ",'divvy.gpu/class':'latency'", "");
	told("class", "policy p: c: class latency is not allowed");
	add_pod("priority", SHARE("0.1") ",'divvy.gpu/priority':'61'", "");
	told("priority", "policy p: c: priority 61: at most 60 is allowed");
	add_pod("a", SHARE("0.8"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.8"));
	add_pod("b", SHARE("0.8"), "");
	told("b", "policy p: the namespace has 0.8 of 1.2 GPUs, 0.8 requested");
	add_pod("d", SHARE("0.1") ",'divvy.gpu/memory':'600000'", "");
	told("d",
		"policy p: the namespace has 781.3Ki of 1.2Mi of device memory, 585.9Ki requested");
	set(CLUSTER_POLICY, "{'metadata':{'name':'p'},'spec':{'models':['H100']}}");
	for (int i = 0; i < 3; i++)
		sched_remove(sched, OBJECT_POD, "s", i ? i == 1 ? "class" : "priority" : "d");
	pass(2);
	told("b", "0/1 nodes: 1 no model that a policy allows");
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "p"));
	pass(20);
	next(SCHED_BIND, "b", NULL);
}

/* Sets the bound pod with other requested keys. */
static void wish(const struct cpod *pod, const char *annotations)
{
	char asked[256];

	snprintf(asked, sizeof(asked), "%s", annotations);
	confirm(pod, asked);
}

static void a_resize_is_granted_if_it_fits(void **state)
{
	struct cluster *c = sched_cluster(sched);
	const struct cpod *pod;

	add_node("n1", 1);
	add_pod("a", SHARE("0.3"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.3"));
	add_pod("b", SHARE("0.3"), "");
	confirm(next(SCHED_BIND, "b", NULL), SHARE("0.3"));
	nothing();
	wish(cluster_pod(c, "s", "a"), SHARE("0.6") ",'divvy.gpu/class':'latency'");
	pod = next(SCHED_GRANT, "a", NULL);
	assert_int_equal(cpod_assigned(pod)->v[0].request, 600);
	assert_int_equal(cpod_assigned(pod)->v[0].class, SPEC_LATENCY);
	assert_int_equal(cpod_assigned(pod)->v[0].memory_bytes[0], 600000);
	confirm(pod, SHARE("0.6") ",'divvy.gpu/class':'latency'");
	nothing();
	wish(cluster_pod(c, "s", "b"), SHARE("0.5"));
	pod = next(SCHED_DENY, "b", NULL);
	assert_int_equal(cpod_assigned(pod)->v[0].request, 300);
	/* The same refusal is reported only once. */
	wish(cluster_pod(c, "s", "b"), SHARE("0.5"));
	nothing();
	wish(cluster_pod(c, "s", "b"), SHARE("0.1"));
	next(SCHED_GRANT, "b", NULL);
	confirm(cluster_pod(c, "s", "b"), SHARE("0.1"));
	add_pod("d", SHARE("0.3"), "");
	next(SCHED_BIND, "d", NULL);
}

/* A refused resize request is tried again after waiting pods have had their turn. */
static void a_refused_resize_is_tried_again_when_capacity_is_freed(void **state)
{
	add_node("n1", 1);
	add_pod("a", SHARE("0.6"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.6"));
	add_pod("b", SHARE("0.3"), "");
	confirm(next(SCHED_BIND, "b", NULL), SHARE("0.3"));
	wish(cluster_pod(sched_cluster(sched), "s", "b"), SHARE("0.7"));
	next(SCHED_DENY, "b", NULL);
	nothing();
	add_pod("d", SHARE("0.4"), "");
	told("d", "0/1 nodes: 1 no GPU with 0.4 free");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	pass(20);
	confirm(next(SCHED_BIND, "d", NULL), SHARE("0.4"));
	next(SCHED_DENY, "b", NULL);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "d"));
	next(SCHED_GRANT, "b", NULL);
	nothing();
}

static void a_resize_beyond_a_policy_is_refused_with_the_sum(void **state)
{
	struct cluster *c = sched_cluster(sched);

	add_node("n1", 1);
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'totalShare':'0.6',"
		"'totalMemory':'600000'}}");
	add_pod("a", SHARE("0.3"), "");
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.3"));
	wish(cluster_pod(c, "s", "a"), SHARE("0.7"));
	next(SCHED_DENY, "a", "policy p: the namespace would have 0.7 of 0.6 GPUs");
	wish(cluster_pod(c, "s", "a"), SHARE("0.3") ",'divvy.gpu/memory':'700000'");
	next(SCHED_DENY, "a",
		"policy p: the namespace would have 683.6Ki of 585.9Ki of device memory");
}

/*
 * A new leader writes its epoch to pods that an earlier leader bound and that may still start
 * containers.
 */
static void a_new_leader_refreshes_the_epoch_of_bound_pods(void **state)
{
	static const char bound[] = SHARE("0.3") ",'divvy.gpu/devices':'c=GPU-n1-0','divvy.gpu/"
						 "granted-request':'c=0.3','divvy.gpu/"
						 "granted-limit':'c=1','divvy.gpu/"
						 "granted-memory':'c=300000','divvy.gpu/epoch':'7'";
	static const char ready[] = ",'nodeName':'n1'},'status':{'phase':'Running','conditions':[{"
				    "'type':'Ready','status':'%s'}]";
	char more[128];

	add_node("n1", 1);
	add_pod("starts", bound, ",'nodeName':'n1'");
	snprintf(more, sizeof(more), ready, "True");
	add_pod("runs", bound, more);
	sched_lead(sched, 8);
	next(SCHED_REFRESH_EPOCH, "starts", NULL);
	nothing();
	/* The pod is not ready any more, for example because its node was restarted. */
	snprintf(more, sizeof(more), ready, "False");
	add_pod("runs", bound, more);
	next(SCHED_REFRESH_EPOCH, "runs", NULL);
	/* A former leader bound "late" after this one began to lead, so its epoch stays old. */
	add_pod("late", bound, ",'nodeName':'n1'");
	nothing();
}

#define CLAIM(spec, status) \
	"{'metadata':{'name':'v','namespace':'s','uid':'v','annotations':{'pv.kubernetes.io/bind-" \
	"completed':'yes'}},'spec':{'storageClassName':'late'" spec \
	",'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'}}}," \
	"'status':{'phase':'" status "'}}"

static void volumes_are_provisioned_before_the_binding(void **state)
{
	add_node("n1", 1);
	set(OBJECT_CLASS,
		"{'metadata':{'name':'late'},'provisioner':'p','volumeBindingMode':"
		"'WaitForFirstConsumer'}");
	set(OBJECT_CLAIM, CLAIM("", "Pending"));
	add_pod("a", SHARE("0.3"),
		",'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'v'}}]");
	next(SCHED_CLAIM, "a", "n1 v");
	nothing();
	/* The pod that waits for its volume has no reservation. */
	add_pod("b", SHARE("0.9"), "");
	next(SCHED_BIND, "b", NULL);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b"));
	set(OBJECT_VOLUME,
		"{'metadata':{'name':'pv'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':["
		"'ReadWriteOnce'],'storageClassName':'late','claimRef':{'namespace':'s','name':'v',"
		"'uid':'v'}},'status':{'phase':'Bound'}}");
	set(OBJECT_CLAIM, CLAIM(",'volumeName':'pv'", "Bound"));
	pass(2);
	next(SCHED_BIND, "a", NULL);
}

/* Together the names are longer than any message may be. */
static void names_of_claims_may_be_long(void **state)
{
	static const char names[] = "abcdefgh";
	_cleanup_buf_ struct buf volumes = BUF_INIT(8192);
	struct sched_action a;

	add_node("n1", 1);
	set(OBJECT_CLASS,
		"{'metadata':{'name':'late'},'provisioner':'p','volumeBindingMode':"
		"'WaitForFirstConsumer'}");
	for (int i = 0; names[i]; i++) {
		char name[251] = "";

		memset(name, names[i], sizeof(name) - 1);
		set(OBJECT_CLAIM,
			"{'metadata':{'name':'%s','namespace':'s','uid':'%c'},'spec':{"
			"'storageClassName':'late','accessModes':['ReadWriteOnce'],'resources':{"
			"'requests':{'storage':'1Gi'}}},'status':{'phase':'Pending'}}",
			name, names[i]);
		buf_addf(&volumes, "%s{'name':'%c','persistentVolumeClaim':{'claimName':'%s'}}",
			i ? "," : ",'volumes':[", names[i], name);
	}
	buf_add_text(&volumes, "]");
	add_pod("a", SHARE("0.3"), buf_text(&volumes));
	assert_int_equal(sched_next(sched, &a, NULL), 1);
	assert_int_equal(a.act, SCHED_CLAIM);
	assert_string_equal(a.claims->node, "n1");
	assert_int_equal(a.claims->n, strlen(names));
	for (uint32_t i = 0; i < a.claims->n; i++) {
		assert_int_equal(strlen(a.claims->name[i]), 250);
		assert_int_equal(a.claims->name[i][0], names[i]);
	}
}

static void existing_volumes_are_not_bound(void **state)
{
	add_node("n1", 1);
	set(OBJECT_CLASS,
		"{'metadata':{'name':'late'},'provisioner':'kubernetes.io/no-provisioner',"
		"'volumeBindingMode':'WaitForFirstConsumer'}");
	set(OBJECT_CLAIM, CLAIM("", "Pending"));
	add_pod("a", SHARE("0.3"),
		",'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'v'}}]");
	told("a",
		"a claim waits for its first consumer and an existing volume matches; "
		"divvy-scheduler only provisions new volumes");
}

/*
 * A node is removed while a Binding to it is in flight; the pod then gets a place on another node.
 */
static void a_pod_of_a_removed_node_is_placed_again(void **state)
{
	const struct cpod *pod;

	add_node("n1", 1);
	add_node("n2", 1);
	add_pod("a", SHARE("1"), "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_node(pod), "n1");
	assert_ok(sched_remove(sched, OBJECT_NODE, "", "n1"));
	sched_bound(sched, "s", "a", "u-a", false);
	pass(2);
	assert_string_equal(cpod_node(next(SCHED_BIND, "a", NULL)), "n2");
}

/*
 * Adds a pod with the init containers "i" and "j" and the main container "c". of_j: JSON members of
 * "j".
 */
static void add_stages(const char *name, const char *annotations, const char *of_j)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s'," TENANT
		"'annotations':{%s}},'spec':{"
		"'schedulerName':'divvy-scheduler','initContainers':[{'name':'i'},{'name':'j'%s}],"
		"'containers':[{'name':'c'}]}}",
		name, name, annotations, of_j);
}

#define ASK(container, share) "'" container ".divvy.gpu/request':'" share "'"

/* Confirms the decided Binding, and sets the pod with its node and assigned keys. */
static void confirm_stages(const struct cpod *pod, const char *annotations, const char *of_j)
{
	_cleanup_buf_ struct buf all = BUF_INIT(16384);
	json_t *json, *value;
	const char *key;
	char name[64];

	snprintf(name, sizeof(name), "%s", cpod_name(pod));
	buf_add_text(&all, annotations);
	assert_ok(decide_annotations(sched_cluster(sched), pod, 7, &json));
	json_object_foreach(json, key, value)
		buf_addf(&all, ",'%s':'%s'", key, json_string_value(value));
	json_decref(json);
	sched_bound(sched, "s", name, cpod_uid(pod), true);
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s'," TENANT
		"'annotations':{%s}},'spec':{"
		"'nodeName':'n1','schedulerName':'divvy-scheduler','initContainers':[{'name':'i'},{"
		"'name':'j'%s}],'containers':[{'name':'c'}]}}",
		name, name, buf_text(&all), of_j);
}

static void free_is(const char *text)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1024);

	cluster_print(sched_cluster(sched), &out);
	assert_contains(buf_text(&out), text);
}

/* One device has the share free and the other one the memory. */
static void the_message_names_share_and_memory_together(void **state)
{
	const char *const memory = SHARE("0.1") ",'divvy.gpu/memory':'900000'";
	const char *const share = SHARE("0.8") ",'divvy.gpu/memory':'200000'";

	add_node("n1", 2);
	add_pod("a", memory, "");
	confirm(next(SCHED_BIND, "a", NULL), memory);
	add_pod("b", share, "");
	confirm(next(SCHED_BIND, "b", NULL), share);
	add_pod("c", SHARE("0.5") ",'divvy.gpu/memory':'300000'", "");
	told("c", "0/1 nodes: 1 no GPU with 0.5 and 293Ki free");
	add_pod("d", SHARE("0.5"), "");
	told("d", "0/1 nodes: 1 no GPU with 0.5 and 50% of its memory free");
}

/*
 * Half of the memory of devices with 1,000,000 and 400,000 bytes counts as 500,000 and 200,000
 * bytes, before and after the pod is bound.
 */
static void a_percentage_applies_to_each_device(void **state)
{
	const char *const half = SHARE("0.1") ",'divvy.gpu/count':'2','divvy.gpu/memory':'50%'";
	const struct cpod *pod;

	add_node("n", 1);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n'},'status':{'owner':'divvy','slots':{'total':64},'devices':"
		"[{'uuid':'GPU-l','index':0,'model':'A','memoryBytes':1000000,'health':'Healthy'},"
		"{'uuid':'GPU-s','index':1,'model':'A','memoryBytes':400000,'health':'Healthy'}]}"
		"}");
	add_pod("half", half, "");
	pod = next(SCHED_BIND, "half", NULL);
	assert_int_equal(cpod_assigned(pod)->v[0].memory_bytes[0], 500000);
	assert_int_equal(cpod_assigned(pod)->v[0].memory_bytes[1], 200000);
	add_pod("much", SHARE("0.1") ",'divvy.gpu/memory':'500001'", "");
	nothing();
	add_pod("rest", SHARE("0.1") ",'divvy.gpu/memory':'500000'", "");
	confirm(next(SCHED_BIND, "rest", NULL), SHARE("0.1") ",'divvy.gpu/memory':'500000'");
	confirm(pod, half);
	nothing();
	add_pod("small", SHARE("0.1") ",'divvy.gpu/memory':'200001'", "");
	nothing();
	add_pod("last", SHARE("0.1") ",'divvy.gpu/memory':'200000'", "");
	assert_string_equal(device_of(next(SCHED_BIND, "last", NULL)), "GPU-s");
}

static void init_containers_use_the_main_containers_capacity(void **state)
{
	const char *asked = ASK("i", "0.7") "," ASK("j", "0.2") "," ASK("c", "0.4");
	const struct cpod *pod;

	add_node("n1", 1);
	add_pod("small", SHARE("0.2"), "");
	confirm(next(SCHED_BIND, "small", NULL), SHARE("0.2"));
	add_stages("a", asked, "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_int_equal(cpod_assigned(pod)->n, 3);
	assert_int_equal(cpod_assigned(pod)->v[0].request, 700);
	assert_int_equal(cpod_assigned(pod)->v[0].memory_bytes[0], 700000);
	assert_int_equal(cpod_assigned(pod)->v[2].request, 400);
	free_is("GPU-n1-0 100/1000");
	/*
	 * The device's free share and memory are the same after the pod is read from the API, and
	 * while the node confirms the init container.
	 */
	confirm_stages(pod, asked, "");
	free_is("GPU-n1-0 100/1000");
	add_gpus("n1", 1,
		"{'podUID':'u-a','container':'i','devices':['GPU-n1-0'],'request':700,'limit':1000,"
		"'memoryBytes':[700000]}");
	free_is("GPU-n1-0 100/1000");
	add_pod("b", SHARE("0.2"), "");
	told("b", "0/1 nodes: 1 no GPU with 0.2 free");
	/* The main container can grow into the capacity that was kept for the init container. */
	confirm_stages(cluster_pod(sched_cluster(sched), "s", "a"),
		ASK("i", "0.7") "," ASK("j", "0.2") "," ASK("c", "0.6"), "");
	pod = next(SCHED_GRANT, "a", NULL);
	assert_int_equal(cpod_assigned(pod)->v[2].request, 600);
	free_is("GPU-n1-0 100/1000");
}

static void sidecars_add_up_with_main_containers(void **state)
{
	const char *asked = ASK("i", "0.5") "," ASK("j", "0.4") "," ASK("c", "0.3");

	add_node("n1", 1);
	add_stages("a", asked, ",'restartPolicy':'Always'");
	next(SCHED_BIND, "a", NULL);
	free_is("GPU-n1-0 300/1000");
	add_stages("b", ASK("i", "0.1") "," ASK("j", "0.2") "," ASK("c", "0.2"),
		",'restartPolicy':'Always'");
	told("b", NULL);
	nothing();
}

static void an_init_container_can_need_a_whole_device(void **state)
{
	const struct cpod *pod;

	add_node("n1", 2);
	add_pod("small", SHARE("0.1"), "");
	next(SCHED_BIND, "small", NULL);
	add_stages("a", ASK("i", "0.5") "," ASK("j", "1") "," ASK("c", "0.2"), "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(device_of(pod), "GPU-n1-1");
	assert_int_equal(cpod_assigned(pod)->v[1].mode, SPEC_MODE_EXCLUSIVE);
	free_is("GPU-n1-1 0/1000");
	confirm_stages(pod, ASK("i", "0.5") "," ASK("j", "1") "," ASK("c", "0.2"), "");
	free_is("GPU-n1-1 0/1000");
}

static void policies_count_containers_that_run_at_once(void **state)
{
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'totalShare':'0.6',"
		"'totalMemory':'600000'}}");
	add_node("n1", 2);
	add_stages("a",
		ASK("i", "0.5") "," ASK("c", "0.4") ",'i.divvy.gpu/memory':'500000',"
						    "'c.divvy.gpu/memory':'300000'",
		"");
	next(SCHED_BIND, "a", NULL);
	add_pod("b", SHARE("0.1") ",'divvy.gpu/memory':'100000'", "");
	next(SCHED_BIND, "b", NULL);
	add_pod("d", SHARE("0.1"), "");
	told("d", "policy p: the namespace has 0.6 of 0.6 GPUs, 0.1 requested");
}

/*
 * A device changes its model again and again, as with MIG profiles: more models than the placement
 * model can hold at once.
 */
static void old_models_are_forgotten(void **state)
{
	add_node("n1", 1);
	add_node("n2", 1);
	for (int i = 0; i < 200; i++) {
		set(CLUSTER_GPU_NODE,
			"{'metadata':{'name':'n2'},'status':{'owner':'divvy','slots':{'total':64},"
			"'devices':[{'uuid':'GPU-%d','index':0,'model':'M%d','memoryBytes':1000000,"
			"'health':'Healthy'}],'tenants':[]}}",
			i, i);
	}
	add_pod("a", SHARE("0.5") ",'divvy.gpu/model':'M199'", "");
	assert_string_equal(cpod_node(next(SCHED_BIND, "a", NULL)), "n2");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, acts_begin, acts_end)
	const struct CMUnitTest tests[] = {
		TEST(a_pod_gets_a_share),
		TEST(a_long_model_name_is_cut),
		TEST(preferred_anti_affinity_yields_to_capacity),
		TEST(keys_without_the_webhooks_label_do_not_count),
		TEST(a_full_device_gets_no_further_pod),
		TEST(reasons_are_counted_by_node),
		TEST(a_missing_model_is_reported_with_the_present_ones),
		TEST(objects_come_in_any_order),
		TEST(a_failed_binding_frees_the_place),
		TEST(a_refused_binding_frees_the_place),
		TEST(a_pod_with_a_claim_goes_where_its_devices_are),
		TEST(unused_devices_of_another_node_are_freed),
		TEST(a_policy_evicts_pods_from_a_tainted_device),
		TEST(a_removed_gpunode_has_no_taint),
		TEST(pods_on_tainted_devices_are_checked_when_they_may_leave),
		TEST(the_effect_and_the_shortest_grace_decide),
		TEST(a_later_taint_postpones_no_eviction),
		TEST(a_policy_counts_from_the_first_taint_of_its_effect),
		TEST(an_eviction_names_its_preemptor),
		TEST(a_pod_that_was_refused_may_lack_a_device_later),
		TEST(a_released_reservation_is_reported_once),
		TEST(a_condition_is_its_reason_and_its_message),
		TEST(a_pod_is_tried_when_its_status_names_the_claim),
		TEST(a_waiting_pod_says_whether_it_needs_a_device),
		TEST(a_gang_says_whether_it_needs_a_device),
		TEST(a_need_is_reported_by_its_condition),
		TEST(a_gated_pod_gets_no_condition),
		TEST(a_changed_pod_is_not_refused_any_more),
		TEST(a_group_pauses_after_a_refused_binding),
		TEST(the_larger_of_both_counts),
		TEST(a_node_with_a_silent_daemon_gets_no_pod),
		TEST(each_lease_becomes_stale_at_its_own_time),
		TEST(a_lease_that_was_old_at_the_start_is_stale),
		TEST(the_message_names_the_obstacle),
		TEST(cordoned_devices_keep_their_tenants),
		TEST(a_new_device_ends_the_pause_of_waiting_pods),
		TEST(two_containers_go_to_one_node),
		TEST(cpu_counts_with_devices),
		TEST(a_replaced_pod_gives_back_what_it_had),
		TEST(more_important_pods_are_placed_first),
		TEST(anti_affinity_separates_the_members_of_a_group),
		TEST(a_group_waits_for_its_threshold),
		TEST(deleted_members_count_for_no_threshold),
		TEST(a_pod_group_object_gives_the_groups_size),
		TEST(a_job_set_gives_the_size_of_its_group),
		TEST(a_part_of_a_job_set_is_a_group),
		TEST(parts_of_a_job_set_have_limits),
		TEST(a_ray_cluster_gives_the_size_of_its_groups),
		TEST(a_ray_cluster_limits_the_replicas_of_a_group),
		TEST(an_object_sizes_all_members_that_name_it),
		TEST(a_pod_group_of_kubernetes_gives_the_size),
		TEST(members_of_a_basic_group_start_alone),
		TEST(group_sizes_of_kubernetes_have_limits),
		TEST(a_group_of_the_user_comes_first),
		TEST(a_group_that_no_server_has_is_ignored),
		TEST(pods_of_other_schedulers_are_members),
		TEST(a_group_prefers_its_rack),
		TEST(members_without_a_share_count_as_bound),
		TEST(a_vgpu_is_one_device),
		TEST(a_vgpu_has_a_name_that_others_may_use),
		TEST(a_group_is_never_placed_in_part),
		TEST(less_important_pods_are_preempted),
		TEST(each_of_several_preemptors_evicts_one_pod),
		TEST(several_preemptors_respect_one_budget),
		TEST(full_devices_are_reported_before_the_nodes_sum),
		TEST(each_of_several_groups_evicts_its_victims),
		TEST(spared_pods_still_count),
		TEST(annotations_for_running_pods_are_written),
		TEST(equal_pods_are_not_preempted),
		TEST(disruption_budgets_are_respected),
		TEST(a_deleted_preemptor_ends_its_evictions),
		TEST(a_former_leader_cancels_its_decisions),
		TEST(a_group_preempts_as_a_whole),
		TEST(a_group_shares_the_freed_capacity),
		TEST(a_group_evicts_pods_with_anti_affinity),
		TEST(a_group_that_does_not_fit_evicts_no_pod),
		TEST(a_group_counts_members_that_succeeded),
		TEST(an_incomplete_group_frees_its_places),
		TEST(a_group_times_out),
		TEST(policies_are_enforced),
		TEST(volumes_are_provisioned_before_the_binding),
		TEST(names_of_claims_may_be_long),
		TEST(existing_volumes_are_not_bound),
		TEST(a_pod_of_a_removed_node_is_placed_again),
		TEST(a_resize_is_granted_if_it_fits),
		TEST(a_refused_resize_is_tried_again_when_capacity_is_freed),
		TEST(a_resize_beyond_a_policy_is_refused_with_the_sum),
		TEST(a_new_leader_refreshes_the_epoch_of_bound_pods),
		TEST(the_message_names_share_and_memory_together),
		TEST(a_percentage_applies_to_each_device),
		TEST(init_containers_use_the_main_containers_capacity),
		TEST(sidecars_add_up_with_main_containers),
		TEST(an_init_container_can_need_a_whole_device),
		TEST(policies_count_containers_that_run_at_once),
		TEST(old_models_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
