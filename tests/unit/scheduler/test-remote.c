/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests pods with devices of other nodes: the choice of device node and network, the bandwidth
 * left, and the messages.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "acts.h"
#include "base/cleanup.h"
#include "place/place-policy.h"
#include "scheduler/cluster-internal.h"
#include "unit.h"

#define REMOTE(more) SHARE("0.5") ",'divvy.gpu/mode':'remote'" more
#define ETH(mbps) "{'name':'eth0','kind':'host','capacityMbps':" #mbps "}"
#define SERVES "'remote':{'address':'10.0.0.1:7007'},"

/* Sets the GPUNode of a node with n devices. more: JSON members of its status, such as SERVES. */
static void set_gpus(
	const char *name, int n, const char *more, const char *networks, const char *tenants)
{
	_cleanup_buf_ struct buf devices = BUF_INIT(4096);

	for (int i = 0; i < n; i++)
		buf_addf(&devices,
			"%s{'uuid':'GPU-%s-%d','index':%d,'model':'A','memoryBytes':1000000,"
			"'health':'Healthy'}",
			i ? "," : "", name, i, i);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'%s'},'status':{'owner':'divvy','slots':{'total':64},%s"
		"'devices':[%s],'network':{'devices':[%s]},'tenants':[%s]}}",
		name, more, buf_text(&devices), networks, tenants);
}

static void add(const char *name, int n, const char *more, const char *networks)
{
	add_node(name, 0);
	add_lease(name, "2026-01-02T03:04:05Z");
	set_gpus(name, n, more, networks, "");
}

static uint32_t free_mbit(const char *node, uint32_t network)
{
	struct cluster *c = sched_cluster(sched);

	return place_network_free_mbit(c->place, cnode_find(c, node)->network[network]);
}

static uint32_t share_free(const char *node)
{
	struct cluster *c = sched_cluster(sched);
	struct place_node_view view;
	struct place_device_view device;

	assert_true(place_node_get(c->place, cnode_find(c, node)->at, &view));
	place_device_get(c->place, view.first_device, &device);
	return device.share_free;
}

static void a_remote_pod_waits_for_a_serving_node(void **state)
{
	add("n1", 1, "", ETH(10000));
	add("n2", 0, "", ETH(10000));
	add_pod("a", REMOTE(""), "");
	told("a", "mode remote: no node serves its devices over the network");
	add_pod("full", SHARE("1"), "");
	next(SCHED_BIND, "full", NULL);
	add_pod("b", SHARE("0.5"), "");
	told("b", "0/2 nodes: 1 no GPU with 0.5 free, 1 no GPU");
	/* n3 serves its device, so both pods get a place there. */
	add("n3", 1, SERVES, ETH(10000));
	pass(20);
	assert_string_equal(cpod_node(next(SCHED_BIND, "a", NULL)), "n3");
	assert_string_equal(cpod_node(next(SCHED_BIND, "b", NULL)), "n3");
}

static void local_devices_come_before_remote_ones(void **state)
{
	const struct cpod *pod;

	add("n1", 1, "", ETH(10000));
	add("n2", 1, SERVES, ETH(10000));
	add_pod("a", SHARE("0.7"), "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_int_equal(cpod_assigned(pod)->v[0].mode, SPEC_MODE_LOCAL);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "");
}

/* Adds a node without devices, for client halves; the node selector HERE selects it. */
static void add_client(const char *name, const char *networks)
{
	set(OBJECT_NODE,
		"{'metadata':{'name':'%s','labels':{'room':'y'}},'status':{'allocatable':{'cpu':'8'"
		",'memory':'16Gi','pods':'110','divvy.gpu/slot':'64'}}}",
		name);
	add_lease(name, "2026-01-02T03:04:05Z");
	set_gpus(name, 0, "", networks, "");
}

#define HERE ",'nodeSelector':{'room':'y'}"

static void a_remote_pod_gets_keys_for_both_ends(void **state)
{
	const struct cpod *pod;
	const struct assigned_container *g;

	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, "{'name':'ens1','kind':'host','capacityMbps':25000}");
	add_pod("a", SHARE("0.4") ",'divvy.gpu/network':'4Gbps'", HERE);
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_node(pod), "c1");
	assert_string_equal(cpod_why(pod),
		"remote: runs on c1, device on g1 over the host's network, 2 hops, load 56%");
	g = &cpod_assigned(pod)->v[0];
	assert_int_equal(g->mode, SPEC_MODE_REMOTE);
	assert_string_equal(g->remote_node, "g1");
	assert_string_equal(g->device[0], "GPU-g1-0");
	assert_int_equal(g->memory_bytes[0], 400000);
	assert_string_equal(g->network[0], "eth0");
	assert_string_equal(g->network[1], "ens1");
	assert_int_equal(g->network_mbit, 4000);
	assert_int_equal(share_free("g1"), 600);
	assert_int_equal(free_mbit("c1", 0), 6000);
	assert_int_equal(free_mbit("g1", 0), 21000);
	confirm(pod, SHARE("0.4") ",'divvy.gpu/network':'4Gbps'");
	assert_int_equal(share_free("g1"), 600);
	assert_int_equal(free_mbit("g1", 0), 21000);
}

/*
 * The two halves of a remote pod still count after an update of either node, and each is removed
 * once.
 */
static void both_halves_are_removed_together(void **state)
{
	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	add_pod("a", SHARE("0.4") ",'divvy.gpu/network':'4Gbps'", HERE);
	confirm(next(SCHED_BIND, "a", NULL), SHARE("0.4") ",'divvy.gpu/network':'4Gbps'");
	set_gpus("g1", 1, SERVES, ETH(10000), "");
	assert_int_equal(share_free("g1"), 600);
	assert_int_equal(free_mbit("c1", 0), 6000);
	set_gpus("c1", 0, "", ETH(10000), "");
	assert_int_equal(share_free("g1"), 600);
	assert_int_equal(free_mbit("g1", 0), 6000);
	/* The device node confirms the tenant, which must not count twice. */
	set_gpus("g1", 1, SERVES, ETH(10000),
		"{'podUID':'u-a','container':'c','devices':['GPU-g1-0'],'request':400,'limit':1000,"
		"'memoryBytes':[400000],'mode':'remote'}");
	assert_int_equal(share_free("g1"), 600);
	/* The pod's own node is removed and added again. */
	assert_ok(sched_remove(sched, OBJECT_NODE, "", "c1"));
	assert_int_equal(share_free("g1"), 600);
	add_client("c1", ETH(10000));
	assert_int_equal(free_mbit("c1", 0), 6000);
	/* The device node is removed and added again. */
	assert_ok(sched_remove(sched, OBJECT_NODE, "", "g1"));
	assert_int_equal(free_mbit("c1", 0), 10000);
	add_node("g1", 0);
	assert_int_equal(share_free("g1"), 600);
	assert_int_equal(free_mbit("c1", 0), 6000);
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	/* The device node still confirms the deleted pod's tenant, so its share stays taken. */
	assert_int_equal(share_free("g1"), 600);
	assert_int_equal(free_mbit("c1", 0), 10000);
	set_gpus("g1", 1, SERVES, ETH(10000), "");
	assert_int_equal(share_free("g1"), 1000);
	assert_int_equal(free_mbit("g1", 0), 10000);
}

/* The pod "high" needs the device of g1, so both halves of the remote pod "low" are evicted. */
static void a_preemptor_evicts_both_halves(void **state)
{
	static const char asked[] = SHARE("0.8") ",'divvy.gpu/priority':'10'";

	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	add_pod("low", asked, HERE);
	confirm(next(SCHED_BIND, "low", NULL), asked);
	add_pod("high", SHARE("0.8") ",'divvy.gpu/priority':'60'", "");
	next(SCHED_EVICT, "low", "s/high");
	next(SCHED_NOMINATE, "high", "waits for 1 pod to terminate on g1");
	nothing();
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "low"));
	assert_string_equal(cpod_node(next(SCHED_BIND, "high", NULL)), "g1");
	assert_int_equal(share_free("g1"), 200);
	assert_string_equal(cpod_why(cluster_pod(sched_cluster(sched), "s", "high")), "");
}

static void a_gang_can_have_remote_devices(void **state)
{
	static const char member[] = SHARE(
		"0.5") ",'divvy.gpu/group':'g','divvy.gpu/group-size':'2'"
		       ",'divvy.gpu/network':'4Gbps'";

	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	add_pod("m1", member, HERE);
	nothing();
	assert_int_equal(share_free("g1"), 1000);
	add_pod("m2", member, HERE);
	next(SCHED_BIND, "m1", NULL);
	next(SCHED_BIND, "m2", NULL);
	assert_int_equal(share_free("g1"), 0);
	assert_int_equal(free_mbit("c1", 0), 2000);
	/* A failed Binding frees the pod's device share and bandwidth. */
	sched_bound(sched, "s", "m2", "u-m2", false);
	assert_int_equal(free_mbit("c1", 0), 6000);
	assert_int_equal(share_free("g1"), 500);
}

static void a_refused_binding_frees_both_ends(void **state)
{
	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	add_pod("r", REMOTE(",'divvy.gpu/network':'4Gbps'"), HERE);
	next(SCHED_BIND, "r", NULL);
	assert_int_equal(share_free("g1"), 500);
	sched_refused(sched, "s", "r", "u-r", "403 Forbidden: no");
	told("r", "the API server refused the Binding to c1: 403 Forbidden: no");
	assert_int_equal(free_mbit("c1", 0), 10000);
	assert_int_equal(share_free("g1"), 1000);
}

static void a_remote_pod_can_be_resized(void **state)
{
	struct cluster *c;
	const struct cpod *pod;

	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	c = sched_cluster(sched);
	add_pod("a", REMOTE(""), HERE);
	confirm(next(SCHED_BIND, "a", NULL), REMOTE(""));
	nothing();
	confirm(cluster_pod(c, "s", "a"), SHARE("0.7") ",'divvy.gpu/mode':'remote'");
	pod = next(SCHED_GRANT, "a", NULL);
	assert_int_equal(cpod_assigned(pod)->v[0].request, 700);
	assert_int_equal(cpod_assigned(pod)->v[0].memory_bytes[0], 700000);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "g1");
	assert_int_equal(share_free("g1"), 300);
}

static void the_best_network_is_preferred(void **state)
{
	const struct cpod *pod;

	add_client("c1",
		ETH(100000) ",{'name':'mlx5_0','kind':'rdma','capacityMbps':40000},"
			    "{'name':'flannel.1','kind':'overlay','link':'eth0',"
			    "'capacityMbps':100000}");
	add("g1", 1, SERVES, ETH(100000));
	add("g2", 1, SERVES,
		"{'name':'ib0','kind':'sriov','capacityMbps':40000},"
		"{'name':'flannel.1','kind':'overlay','capacityMbps':100000}");
	add_pod("a", SHARE("0.6") ",'divvy.gpu/network':'30Gbps'", HERE);
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "g2");
	assert_string_equal(cpod_assigned(pod)->v[0].network[0], "mlx5_0");
	/*
	 * Too little bandwidth is left on the RDMA device, so the next pod uses the host's network.
	 */
	add_pod("b", SHARE("0.3") ",'divvy.gpu/network':'30Gbps'", HERE);
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "g1");
	assert_string_equal(cpod_assigned(pod)->v[0].network[0], "eth0");
	/* The overlay network uses the same port as eth0, so both have the same bandwidth left. */
	assert_int_equal(free_mbit("c1", 0), 70000);
	assert_int_equal(free_mbit("c1", 2), 70000);
}

static void too_little_bandwidth_is_a_reason(void **state)
{
	add_client("c1", ETH(10000));
	add("g1", 2, SERVES, ETH(10000));
	add_pod("a", SHARE("0.4") ",'divvy.gpu/network':'7Gbps'", HERE);
	next(SCHED_BIND, "a", NULL);
	add_pod("b", SHARE("0.4") ",'divvy.gpu/network':'7Gbps'", HERE);
	told("b",
		"0/2 nodes: 1 no GPU, 1 not selected by the pod's node selector or "
		"affinity; over the "
		"network 0/1 nodes that serve: 1 no network device with 7Gbps free");
	add_pod("c", SHARE("0.4") ",'divvy.gpu/network':'50us'", HERE);
	told("c",
		"0/2 nodes: 1 no GPU, 1 not selected by the pod's node selector or affinity; over "
		"the network 0/1 nodes that serve: 1 no round trip measured to a node for the "
		"pod, at most 50us requested");
	add_pod("d", REMOTE(",'divvy.gpu/model':'B'"), HERE);
	told("d",
		"0/2 nodes: 1 serves no devices to others, 1 not selected by the pod's node "
		"selector or affinity; over the network 0/1 nodes that serve: 1 with another "
		"model than B; the cluster has model A");
	/* The pod's node has only an overlay network, and the device node only a host network. */
	set_gpus("c1", 0, "", "{'name':'x','kind':'overlay','capacityMbps':10000}", "");
	add_pod("e", REMOTE(""), HERE);
	told("e",
		"0/2 nodes: 1 serves no devices to others, 1 not selected by the pod's node "
		"selector or affinity; over the network 0/1 nodes that serve: 1 no network of the "
		"same kind on a node for the pod");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
}

/* JSON that follows a node's network devices: its measurement to another node, in us and bit/s. */
#define MEASURED(name, us, bits) \
	"],'peers':[{'name':'" name "','roundTripMicroseconds':" #us ",'bitsPerSecond':" #bits "}"
#define AND_MEASURED(name, us, bits) \
	",{'name':'" name "','roundTripMicroseconds':" #us ",'bitsPerSecond':" #bits "}"

static void the_nearest_node_is_preferred(void **state)
{
	const struct cpod *pod;

	add("g1", 1, SERVES, ETH(10000));
	add("g2", 1, SERVES, ETH(10000));
	add_client("c1", ETH(10000) MEASURED("g1", 400, 9000000000) AND_MEASURED("g2", 90, 0));
	add_pod("a", SHARE("0.4"), HERE);
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "g2");
	assert_string_equal(cpod_why(pod),
		"remote: runs on c1, device on g2 over the host's network, 2 hops, 90 us, load 0%");
	/*
	 * g2 is now farther than g1. Measurements refer to nodes by name, in whatever order the
	 * GPUNodes arrive.
	 */
	set_gpus("c1", 0, "", ETH(10000) MEASURED("g1", 400, 9000000000) AND_MEASURED("g2", 900, 0),
		"");
	set_gpus("g1", 1, SERVES, ETH(10000), "");
	add_pod("b", SHARE("0.4"), HERE);
	pod = next(SCHED_BIND, "b", NULL);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "g1");
	assert_string_equal(cpod_why(pod),
		"remote: runs on c1, device on g1 over the host's network, 2 hops, 400 us and "
		"9000 Mbit/s measured, load 0%");
}

#define NOT_ELSEWHERE \
	"0/2 nodes: 1 no GPU, 1 not selected by the pod's node selector or affinity; " \
	"over the network 0/1 nodes that serve: 1 "

static void a_measured_path_can_be_the_reason(void **state)
{
	static const char near[] = SHARE("0.4") ",'divvy.gpu/network':'50us'",
			  wide[] = SHARE("0.4") ",'divvy.gpu/network':'4Gbps'";

	add_client("c1", ETH(10000) MEASURED("g1", 180, 2000000000));
	add("g1", 2, SERVES, ETH(10000));
	add_pod("near", near, HERE);
	told("near", NOT_ELSEWHERE "round trip 180 us to node c1, at most 50 us requested");
	add_pod("wide", wide, HERE);
	told("wide", NOT_ELSEWHERE "bandwidth 2Gbps to node c1, at least 4Gbps requested");
	/*
	 * The scheduler uses the measurement by the pod's node. If the pod's node has none, the
	 * scheduler uses the measurement by the device node.
	 */
	set_gpus("g1", 2, SERVES, ETH(10000) MEASURED("c1", 40, 5000000000), "");
	pass(20);
	nothing();
	set_gpus("c1", 0, "", ETH(10000), "");
	pass(20);
	assert_string_equal(cpod_node(next(SCHED_BIND, "near", NULL)), "c1");
	assert_string_equal(cpod_node(next(SCHED_BIND, "wide", NULL)), "c1");
	assert_int_equal(free_mbit("c1", 0), 6000);
}

/*
 * The node of a client half may lack a resource that counts devices; but if the resource exists, it
 * must have enough, as for the kubelet.
 */
static void a_client_needs_a_slot_and_no_share(void **state)
{
	const char *const pod = "{'metadata':{'name':'%s','namespace':'s','uid':'u-%s'," TENANT
				"'annotations':{" REMOTE(
					"") "}},'spec':{'schedulerName':'divvy-scheduler',"
					    "'containers':[{'name':'c','resources':{'requests':{'"
					    "divvy.gpu/slot':'1',"
					    "'divvy.gpu/milli':'500'}}}]}}";

	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	set(OBJECT_POD, pod, "a", "a");
	assert_string_equal(cpod_node(next(SCHED_BIND, "a", NULL)), "c1");
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "a"));
	set(OBJECT_NODE,
		"{'metadata':{'name':'c1'},'status':{'allocatable':{'cpu':'8','memory':'16Gi',"
		"'pods':'110','divvy.gpu/slot':'64','divvy.gpu/milli':'0'}}}");
	set(OBJECT_POD, pod, "b", "b");
	told("b",
		"0/2 nodes: 1 too little divvy.gpu/milli, 1 too little divvy.gpu/slot; over the "
		"network 0/1 nodes that serve: 1 no network of the same kind on a node for the "
		"pod");
}

static void a_local_pod_uses_no_network(void **state)
{
	const struct cpod *pod;

	add("n1", 1, "", ETH(10000));
	add("n2", 1, SERVES, ETH(10000));
	add_pod("a", REMOTE(""), "");
	pod = next(SCHED_BIND, "a", NULL);
	assert_string_equal(cpod_node(pod), "n2");
	assert_string_equal(cpod_why(pod),
		"remote, as asked: devices and tenant are on n2, through shared memory");
	assert_int_equal(cpod_assigned(pod)->v[0].mode, SPEC_MODE_REMOTE);
	assert_string_equal(cpod_assigned(pod)->v[0].remote_node, "n2");
	assert_string_equal(cpod_assigned(pod)->v[0].network[0], "");
	assert_int_equal(free_mbit("n2", 0), 10000);
}

static void a_policy_can_deny_remote_devices(void **state)
{
	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	set(CLUSTER_POLICY, "{'metadata':{'name':'p'},'spec':{'remote':'denied'}}");
	add_pod("a", SHARE("0.5"), HERE);
	told("a", "0/2 nodes: 1 no GPU, 1 not selected by the pod's node selector or affinity");
	add_pod("b", REMOTE(""), HERE);
	told("b", "mode remote: a policy of the namespace denies devices of other nodes");
	add_pod("c", SHARE("0.1") ",'divvy.gpu/mode':'local'", HERE);
	told("c", "0/2 nodes: 1 no GPU, 1 not selected by the pod's node selector or affinity");
}

static void an_equal_reason_of_all_nodes_is_reported_once(void **state)
{
	add("g1", 1, SERVES, ETH(10000));
	add("g2", 1, SERVES, ETH(10000));
	add_pod("full1", SHARE("1"), "");
	next(SCHED_BIND, "full1", NULL);
	add_pod("full2", SHARE("1"), "");
	next(SCHED_BIND, "full2", NULL);
	add_pod("a", REMOTE(""), "");
	told("a", "0/2 nodes: 2 no GPU with 0.5 free");
	/* Now the reasons of all nodes and of the serving nodes differ, so the message has both. */
	add("n3", 0, "", ETH(10000));
	pass(20);
	told("a",
		"0/3 nodes: 2 no GPU with 0.5 free, 1 serves no devices to others; over the "
		"network 0/2 nodes that serve: 2 no GPU with 0.5 free");
}

/* Neither end of a remote pod may be on a node whose divvyd does not answer. */
static void a_silent_daemon_takes_no_part(void **state)
{
	add_client("c1", ETH(10000));
	add("g1", 1, SERVES, ETH(10000));
	pass(60);
	add_lease("c1", "2026-01-02T03:05:05Z");
	add_pod("a", REMOTE(""), HERE);
	told("a",
		"0/2 nodes: 1 serves no devices to others, 1 not selected by the pod's node "
		"selector or "
		"affinity; over the network 0/1 nodes that serve: 1 divvyd does not answer");
	add_lease("g1", "2026-01-02T03:05:05Z");
	pass(20);
	assert_string_equal(cpod_node(next(SCHED_BIND, "a", NULL)), "c1");
}

/* The links of network devices name one another, themselves, or no device. */
static void any_links_of_network_devices_are_accepted(void **state)
{
	add("n2", 1, SERVES,
		"{'name':'a','link':'b','kind':'host','capacityMbps':4},{'name':'b','link':'a',"
		"'kind':'host','capacityMbps':4},{'name':'c','link':'c','kind':'host',"
		"'capacityMbps':4},{'name':'d','link':'x','kind':'host','capacityMbps':4},"
		"{'name':'e','link':'x','kind':'host','capacityMbps':2}");
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(free_mbit("n2", i), 4);
	assert_int_equal(free_mbit("n2", 4), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, acts_begin, acts_end)
	const struct CMUnitTest tests[] = {
		TEST(a_remote_pod_waits_for_a_serving_node),
		TEST(a_refused_binding_frees_both_ends),
		TEST(local_devices_come_before_remote_ones),
		TEST(a_remote_pod_gets_keys_for_both_ends),
		TEST(both_halves_are_removed_together),
		TEST(a_preemptor_evicts_both_halves),
		TEST(a_gang_can_have_remote_devices),
		TEST(a_remote_pod_can_be_resized),
		TEST(the_best_network_is_preferred),
		TEST(too_little_bandwidth_is_a_reason),
		TEST(the_nearest_node_is_preferred),
		TEST(a_measured_path_can_be_the_reason),
		TEST(a_client_needs_a_slot_and_no_share),
		TEST(a_local_pod_uses_no_network),
		TEST(a_policy_can_deny_remote_devices),
		TEST(an_equal_reason_of_all_nodes_is_reported_once),
		TEST(a_silent_daemon_takes_no_part),
		TEST(any_links_of_network_devices_are_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
