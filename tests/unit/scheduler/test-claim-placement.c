/* SPDX-License-Identifier: Apache-2.0 */
/* How divvy-scheduler places claims of divvy's driver: packing, topology, gangs and preemption. */
#include <stdio.h>
#include <string.h>

#include "acts.h"
#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "place/place-policy.h"
#include "unit.h"

#define CLASS(name, selector) \
	"{'metadata':{'name':'" name "'},'spec':{'selectors':[{'cel':{'expression':'" selector \
	"'}}]}}"

/* Writes the two devices of GPU number i of the node, as divvyd does. */
static int write_gpu(char *text, size_t size, const char *node, int i, int group)
{
	return snprintf(text, size,
		"%s{'name':'gpu-%s-%d','attributes':{'model':{'string':'H'},'uuid':{'string':"
		"'%s-%d'},'nvlinkGroup':{'int':%d}},'capacity':{'memory':{'value':'80Gi'}},"
		"'consumesCounters':[{'counterSet':'%d','counters':{'device':{'value':'1'}}}]},"
		"{'name':'share-%s-%d','attributes':{'model':{'string':'H'},'uuid':{'string':"
		"'%s-%d'},'nvlinkGroup':{'int':%d}},'allowMultipleAllocations':true,'capacity':{"
		"'share':{'value':'1k','requestPolicy':{'default':'1k','validRange':{'min':'1',"
		"'step':'1'}}},'memory':{'value':'80Gi','requestPolicy':{'default':'80Gi',"
		"'validRange':{'min':'1Gi','step':'1Gi'}}}},'consumesCounters':[{'counterSet':'%d'"
		",'counters':{'device':{'value':'1'}}}]}",
		i ? "," : "", node, i, node, i, group, i, node, i, node, i, group, i);
}

/* A node whose divvyd is a DRA driver, with n GPUs; groups[i] is the NVLink group of GPU i. */
static void add_dra_node(const char *name, const char *groups)
{
	char devices[16384], counters[2048];
	size_t at = 0, n = 0;

	add_node(name, 0);
	for (int i = 0; groups[i]; i++) {
		at += (size_t)write_gpu(
			devices + at, sizeof(devices) - at, name, i, groups[i] - '0');
		n += (size_t)snprintf(counters + n, sizeof(counters) - n,
			"%s{'name':'%d','counters':{'device':{'value':'1'}}}", i ? "," : "", i);
	}
	set(CLUSTER_SLICE,
		"{'metadata':{'name':'%s-0'},'spec':{'driver':'divvy.gpu','nodeName':'%s','pool':{"
		"'name':'%s','generation':1,'resourceSliceCount':2},'sharedCounters':[%s]}}",
		name, name, name, counters);
	set(CLUSTER_SLICE,
		"{'metadata':{'name':'%s-1'},'spec':{'driver':'divvy.gpu','nodeName':'%s','pool':{"
		"'name':'%s','generation':1,'resourceSliceCount':2},'devices':[%s]}}",
		name, name, name, devices);
}

static void add_classes(void)
{
	cluster_note_served(sched_cluster(sched), CLUSTER_RESOURCE_CLAIM);
	set(CLUSTER_DEVICE_CLASS,
		CLASS("share",
			"device.driver == \\\"divvy.gpu\\\" && "
			"device.allowMultipleAllocations"));
	set(CLUSTER_DEVICE_CLASS,
		CLASS("gpu",
			"device.driver == \\\"divvy.gpu\\\" && "
			"!device.allowMultipleAllocations"));
}

/* A claim of pod `name`: milli of one device's share, or with milli 0 `count` whole devices. */
static void add_claim(const char *name, int milli, int count)
{
	char capacity[96] = "";

	if (milli)
		snprintf(capacity, sizeof(capacity),
			",'capacity':{'requests':{'share':'%d','memory':'1Gi'}}", milli);
	set(CLUSTER_RESOURCE_CLAIM,
		"{'metadata':{'name':'%s','namespace':'s','uid':'c-%s','resourceVersion':'1'},"
		"'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'%s',"
		"'count':%d%s}}]}}}",
		name, name, milli ? "share" : "gpu", count, capacity);
}

static void add_claim_pod(const char *name, const char *more)
{
	char spec[512];

	snprintf(spec, sizeof(spec), ",'resourceClaims':[{'name':'x','resourceClaimName':'%s'}]%s",
		name, more);
	add_pod(name, "", spec);
}

static json_t *results_of(const struct cpod *pod)
{
	return json_object_get(
		json_object_get(cpod_claim(pod, 0).allocation, "devices"), "results");
}

static const char *device(const struct cpod *pod, size_t i)
{
	return json_string_value(json_object_get(json_array_get(results_of(pod), i), "device"));
}

/* The API server has the allocation and the Binding. */
static void confirm_claims(const struct cpod *pod)
{
	const char *name = cpod_name(pod);
	_cleanup_free_ char *allocation = json_dumps(cpod_claim(pod, 0).allocation, 0);
	_cleanup_free_ char *node = strdup(cpod_node(pod));
	_cleanup_free_ char *own = strdup(name);
	char more[160];

	for (char *p = allocation; *p; p++)
		*p = *p == '"' ? '\'' : *p;
	set(CLUSTER_RESOURCE_CLAIM,
		"{'metadata':{'name':'%s','namespace':'s','uid':'c-%s','resourceVersion':'2'},"
		"'spec':{},'status':{'reservedFor':[{'resource':'pods','name':'%s','uid':'u-%s'}],"
		"'allocation':%s}}",
		own, own, own, own, allocation);
	snprintf(more, sizeof(more), ",'nodeName':'%s'", node);
	add_claim_pod(own, more);
}

/* Places a pod with a new claim, and returns its first device. */
static const char *place(const char *name, int milli, int count, const char *node)
{
	static char first[64];
	const struct cpod *pod;

	add_claim(name, milli, count);
	add_claim_pod(name, "");
	pod = next(SCHED_BIND, name, NULL);
	assert_string_equal(cpod_node(pod), node);
	snprintf(first, sizeof(first), "%s", device(pod, 0));
	confirm_claims(pod);
	return first;
}

static void end_pod(const char *name)
{
	assert_ok(sched_remove(sched, OBJECT_POD, "s", name));
	assert_ok(sched_remove(sched, CLUSTER_RESOURCE_CLAIM, "s", name));
}

static void shares_fill_used_devices_first(void **state)
{
	add_dra_node("n1", "00");
	add_dra_node("n2", "00");
	add_classes();
	assert_string_equal(place("a", 600, 1, "n1"), "share-n1-0");
	assert_string_equal(place("b", 300, 1, "n1"), "share-n1-0");
	/* The other devices are still whole. */
	assert_string_equal(place("c", 0, 2, "n2"), "gpu-n2-0");
	assert_string_equal(place("d", 100, 1, "n1"), "share-n1-0");
	assert_string_equal(place("e", 0, 1, "n1"), "gpu-n1-1");
	nothing();
}

/* As after a start of the scheduler: the API has allocations before the first decision. */
static void claims_of_the_past_count(void **state)
{
	add_dra_node("n1", "00");
	add_classes();
	set(CLUSTER_RESOURCE_CLAIM,
		"{'metadata':{'name':'a','namespace':'s','uid':'c-a','resourceVersion':'2'},'spec':"
		"{},'status':{'reservedFor':[{'resource':'pods','name':'a','uid':'u-a'}],"
		"'allocation':{'devices':{'results':[{'request':'r','driver':'divvy.gpu','pool':"
		"'n1','device':'share-n1-1','shareID':'x','consumedCapacity':{'share':'600',"
		"'memory':'1Gi'}}]},'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':"
		"'metadata.name','operator':'In','values':['n1']}]}]}}}}");
	add_claim_pod("a", ",'nodeName':'n1'");
	assert_string_equal(place("b", 300, 1, "n1"), "share-n1-1");
	nothing();
}

static void whole_devices_come_from_the_smallest_group_that_suffices(void **state)
{
	const struct cpod *pod;

	add_dra_node("n1", "00001122");
	add_classes();
	assert_string_equal(place("a", 0, 1, "n1"), "gpu-n1-4");
	/* Group 1 has one device left: one device comes from there, and two come from group 2. */
	add_claim("b", 0, 2);
	add_claim_pod("b", "");
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(device(pod, 0), "gpu-n1-6");
	assert_string_equal(device(pod, 1), "gpu-n1-7");
	confirm_claims(pod);
	assert_string_equal(place("c", 200, 1, "n1"), "share-n1-5");
	add_claim("d", 0, 4);
	add_claim_pod("d", "");
	pod = next(SCHED_BIND, "d", NULL);
	assert_string_equal(device(pod, 0), "gpu-n1-0");
	nothing();
}

static void a_node_with_one_group_is_better_than_one_with_two(void **state)
{
	add_dra_node("n1", "0011");
	add_dra_node("n2", "0000");
	add_classes();
	assert_string_equal(place("a", 0, 3, "n2"), "gpu-n2-0");
	nothing();
}

static void the_message_names_what_is_missing(void **state)
{
	add_dra_node("n1", "0");
	add_node("n2", 0);
	add_classes();
	place("a", 600, 1, "n1");
	add_claim("b", 600, 1);
	add_claim_pod("b", "");
	told("b",
		"0/2 nodes: 1 without a device of class share with share 600 free, "
		"1 without a device of class share");
	add_claim("c", 0, 1);
	add_claim_pod("c", "");
	told("c",
		"0/2 nodes: 1 with devices of class gpu in use, "
		"1 without a device of class gpu");
}

static void an_important_pod_evicts_pods_that_have_its_devices(void **state)
{
	add_dra_node("n1", "0");
	add_classes();
	place("a", 300, 1, "n1");
	place("b", 600, 1, "n1");
	add_claim("c", 700, 1);
	add_claim_pod("c", ",'priority':10");
	/* Without "b" the share suffices, without "a" alone it does not. */
	next(SCHED_EVICT, "b", "s/c");
	next(SCHED_NOMINATE, "c", NULL);
	pass(1);
	nothing();
	/* The pod has ended, and its claim still has the devices. */
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b"));
	pass(1);
	nothing();
	assert_ok(sched_remove(sched, CLUSTER_RESOURCE_CLAIM, "s", "b"));
	pass(1);
	next(SCHED_BIND, "c", NULL);
	nothing();
}

static void equal_pods_evict_nobody(void **state)
{
	add_dra_node("n1", "0");
	add_classes();
	place("a", 600, 1, "n1");
	add_claim("b", 600, 1);
	add_claim_pod("b", "");
	told("b", "0/1 nodes: 1 without a device of class share with share 600 free");
	nothing();
}

/* Nobody else gets the devices that a nominated pod waits for. */
static void a_nominated_pod_keeps_its_devices(void **state)
{
	add_dra_node("n1", "0");
	add_classes();
	place("a", 0, 1, "n1");
	add_claim("b", 0, 1);
	add_claim_pod("b", ",'priority':10");
	next(SCHED_EVICT, "a", "s/b");
	next(SCHED_NOMINATE, "b", NULL);
	add_claim("c", 0, 1);
	add_claim_pod("c", "");
	end_pod("a");
	pass(1);
	next(SCHED_BIND, "b", NULL);
	told("c", "0/1 nodes: 1 with devices of class gpu in use");
	nothing();
}

static void a_gang_gets_all_its_devices_or_none(void **state)
{
	add_dra_node("n1", "00");
	add_classes();
	place("a", 0, 1, "n1");
	cluster_note_served(sched_cluster(sched), CLUSTER_KUBE_GROUP);
	set(CLUSTER_KUBE_GROUP,
		"{'apiVersion':'scheduling.k8s.io/v1alpha2','metadata':{'name':'g','namespace':'s'"
		"},'spec':{'schedulingPolicy':{'gang':{'minCount':2}}}}");
	add_claim("b", 0, 1);
	add_claim("c", 0, 1);
	add_claim_pod("b", ",'schedulingGroup':{'podGroupName':'g'}");
	add_claim_pod("c", ",'schedulingGroup':{'podGroupName':'g'}");
	told("b",
		"group s/g: 1 of 2 pods fit, 2 are needed; 0/1 nodes: "
		"1 with devices of class gpu in use");
	end_pod("a");
	pass(2);
	next(SCHED_BIND, "b", NULL);
	next(SCHED_BIND, "c", NULL);
	nothing();
}

/* Each of the two pods needs the device of a less important pod. */
static void a_gang_evicts_together(void **state)
{
	static const char member[] = ",'priority':10,'schedulingGroup':{'podGroupName':'g'}";

	add_dra_node("n1", "00");
	add_classes();
	place("a", 0, 1, "n1");
	place("b", 0, 1, "n1");
	cluster_note_served(sched_cluster(sched), CLUSTER_KUBE_GROUP);
	set(CLUSTER_KUBE_GROUP,
		"{'metadata':{'name':'g','namespace':'s'},'spec':{'schedulingPolicy':{'gang':{"
		"'minCount':2}}}}");
	add_claim("c", 0, 1);
	add_claim("d", 0, 1);
	add_claim_pod("c", member);
	add_claim_pod("d", member);
	next(SCHED_NOMINATE, "c", NULL);
	next(SCHED_NOMINATE, "d", NULL);
	next(SCHED_EVICT, "a", "s/c");
	next(SCHED_EVICT, "b", "s/c");
	end_pod("a");
	pass(1);
	nothing();
	end_pod("b");
	pass(1);
	next(SCHED_BIND, "c", NULL);
	next(SCHED_BIND, "d", NULL);
	nothing();
}

static void a_total_counts_claims(void **state)
{
	add_dra_node("n1", "00");
	add_node("n2", 1);
	add_classes();
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'totalShare':1.2,"
		"'totalMemory':'100Gi'}}");
	place("a", 600, 1, "n1");
	add_claim("b", 700, 1);
	add_claim_pod("b", "");
	told("b",
		"0/2 nodes: 1 policy p: the namespace has 0.6 of 1.2 GPUs, 0.7 requested, "
		"1 without a device of class share");
	add_claim("c", 0, 1);
	add_claim_pod("c", "");
	told("c",
		"0/2 nodes: 1 policy p: the namespace has 0.6 of 1.2 GPUs, 1 requested, "
		"1 without a device of class gpu");
	/* Pods with shares by annotations count together with claims. */
	add_pod("d", SHARE("0.7"), "");
	told("d", "policy p: the namespace has 0.6 of 1.2 GPUs, 0.7 requested");
	end_pod("a");
	pass(2);
	next(SCHED_BIND, "b", NULL);
	nothing();
}

static void a_queue_counts_claims(void **state)
{
	const struct cluster *c = sched_cluster(sched);

	add_dra_node("n1", "00");
	add_node("n2", 2);
	add_classes();
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'queue':{'name':'q',"
		"'guaranteedShare':1,'limitShare':1.5}}}");
	place("a", 900, 1, "n1");
	add_claim("b", 700, 1);
	add_claim_pod("b", "");
	told("b",
		"0/2 nodes: 1 queue q has 0.9 of the 1.5 devices that it may have, 0.7 asked, "
		"1 without a device of class share");
	assert_int_equal(cluster_queue_is_below_guarantee(c, 1), 1);
	/* Shares by annotations and claims have one limit. */
	add_pod("c", SHARE("0.7"), "");
	told("c",
		"0/2 nodes: 1 no GPU, 1 above the queue's limit; queue q has 0.9 of the 1.5 devices that "
		"it may have, 0.7 asked");
	place("d", 200, 1, "n1");
	nothing();
	assert_int_equal(cluster_queue_is_below_guarantee(c, 1), 0);
	end_pod("a");
	pass(60);
	next(SCHED_BIND, "b", NULL);
	nothing();
}

/* The pods of one queue: an important one keeps the limit by evicting another. */
static void a_limit_can_be_kept_by_evictions(void **state)
{
	add_dra_node("n1", "000");
	add_classes();
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'queue':{'name':'q',"
		"'guaranteedShare':1,'limitShare':1.5}}}");
	place("a", 300, 1, "n1");
	place("b", 900, 1, "n1");
	add_claim("c", 0, 1);
	add_claim_pod("c", ",'priority':10");
	next(SCHED_EVICT, "b", "s/c");
	next(SCHED_NOMINATE, "c", NULL);
	end_pod("b");
	pass(1);
	next(SCHED_BIND, "c", NULL);
	nothing();
}

/* The same for a total of the namespace. */
static void a_total_can_be_kept_by_evictions(void **state)
{
	add_dra_node("n1", "000");
	add_classes();
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'totalShare':1.5}}");
	place("a", 300, 1, "n1");
	place("b", 900, 1, "n1");
	add_claim("c", 0, 1);
	add_claim_pod("c", ",'priority':10");
	next(SCHED_EVICT, "b", "s/c");
	next(SCHED_NOMINATE, "c", NULL);
	end_pod("b");
	pass(1);
	next(SCHED_BIND, "c", NULL);
	nothing();
}

/* Sets the allocated claim "b" with one condition of its device; type "": none. */
static void set_condition(int version, const char *type)
{
	set(CLUSTER_RESOURCE_CLAIM,
		"{'metadata':{'name':'b','namespace':'s','uid':'c-b','resourceVersion':'%d'},"
		"'spec':{},'status':{'reservedFor':[{'resource':'pods','name':'b','uid':'u-b'}],"
		"'devices':[{'driver':'d','pool':'n1','device':'x','conditions':[{'type':'%s',"
		"'status':'True'}]}],'allocation':{'allocationTimestamp':'2026-01-02T03:04:05Z',"
		"'devices':{'results':[{'request':'r','driver':'d','pool':'n1','device':'x',"
		"'bindingConditions':['Attached'],'bindingFailureConditions':['Broken']}]},"
		"'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name',"
		"'operator':'In','values':['n1']}]}]}}}}",
		version, type);
}

/* Places the pod "b" with a device that its driver attaches to the node before the Binding. */
static void place_attached(void)
{
	const struct cpod *pod;

	add_node("n1", 0);
	cluster_note_served(sched_cluster(sched), CLUSTER_RESOURCE_CLAIM);
	set(CLUSTER_DEVICE_CLASS, CLASS("gpu", "device.driver == \\\"d\\\""));
	set(CLUSTER_SLICE,
		"{'metadata':{'name':'n1'},'spec':{'driver':'d','nodeName':'n1','pool':{'name':"
		"'n1','generation':1,'resourceSliceCount':1},'devices':[{'name':'x',"
		"'bindingConditions':['Attached'],'bindingFailureConditions':['Broken']}]}}");
	add_claim("b", 0, 1);
	add_claim_pod("b", "");
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(
		json_string_value(json_array_get(
			json_object_get(json_array_get(results_of(pod), 0), "bindingConditions"),
			0)),
		"Attached");
	set_condition(2, "");
	assert_false(cpod_claims_are_ready(sched_cluster(sched), pod));
	sched_defer(sched, "s", "b", "u-b");
	pass(2);
	told("b", "ResourceClaim b waits until device x is ready: Attached");
	nothing();
}

static void a_pod_waits_until_its_device_is_ready(void **state)
{
	place_attached();
	set_condition(3, "Attached");
	pass(30);
	assert_true(cpod_claims_are_ready(sched_cluster(sched), next(SCHED_BIND, "b", NULL)));
	nothing();
}

static void a_device_that_cannot_be_ready_is_freed(void **state)
{
	place_attached();
	set_condition(3, "Broken");
	pass(30);
	told("b", "ResourceClaim b: device x is not ready: Broken");
	next(SCHED_FREE_CLAIMS, "b", NULL);
}

static void a_device_that_is_not_ready_in_time_is_freed(void **state)
{
	place_attached();
	pass(700);
	set_condition(3, "");
	told("b", "ResourceClaim b: device x is not ready: Attached");
	next(SCHED_FREE_CLAIMS, "b", NULL);
}

/* The policy of divvy-scheduler. */
static int begin(void **state)
{
	const int r = acts_begin(state);

	acts_use(&place_scarcity);
	return r;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, acts_end)
	const struct CMUnitTest tests[] = {
		TEST(shares_fill_used_devices_first),
		TEST(claims_of_the_past_count),
		TEST(whole_devices_come_from_the_smallest_group_that_suffices),
		TEST(a_node_with_one_group_is_better_than_one_with_two),
		TEST(the_message_names_what_is_missing),
		TEST(an_important_pod_evicts_pods_that_have_its_devices),
		TEST(equal_pods_evict_nobody),
		TEST(a_nominated_pod_keeps_its_devices),
		TEST(a_gang_gets_all_its_devices_or_none),
		TEST(a_gang_evicts_together),
		TEST(a_total_counts_claims),
		TEST(a_queue_counts_claims),
		TEST(a_limit_can_be_kept_by_evictions),
		TEST(a_total_can_be_kept_by_evictions),
		TEST(a_pod_waits_until_its_device_is_ready),
		TEST(a_device_that_cannot_be_ready_is_freed),
		TEST(a_device_that_is_not_ready_in_time_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
