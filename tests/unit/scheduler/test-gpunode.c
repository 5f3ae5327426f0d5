/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests GPUNodes of a broken or hostile divvyd: which entries are left out, and the error messages.
 */
#include <errno.h>

#include "acts.h"
#include "kube/kube-json.h"
#include "scheduler/gpunode.h"
#include "unit.h"

#define DEVICE(uuid, more) "{'uuid':'" uuid "','memoryBytes':1000," more "'health':'Healthy'}"
#define NETWORK(name, kind, mbps) "{'name':'" name "','kind':" kind ",'capacityMbps':" mbps "}"
#define PEER(name, us) "{'name':'" name "','roundTripMicroseconds':" us "}"
#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
	const char *status;
	uint32_t n_devices, n_tenants;
	const char *said; /* part of the error message; NULL: no entry is left out */
	uint32_t n_networks, n_peers;
} cases[] = {
	{"'devices':[" DEVICE("GPU-a", "") "," DEVICE("GPU-b", "") "]", 2, 0, NULL},
	{"", 0, 0, NULL},
	{"'devices':[" DEVICE("GPU-a", "") ",{'memoryBytes':1}," DEVICE("GPU-b", "") "]", 2, 0,
		"status.devices[1].uuid nothing: 1 to 63 characters are possible"},
	{"'devices':[" DEVICE(X64, "") "]", 0, 0,
		"status.devices[0].uuid \"" X64 "\": 1 to 63 characters are possible"},
	{"'devices':[" DEVICE("GPU-a", "") "," DEVICE("GPU-a", "") "]", 1, 0,
		"status.devices[1].uuid \"GPU-a\": occurs twice, but must be unique"},
	{"'devices':[{'uuid':'GPU-a','memoryBytes':4000000000000000000}," DEVICE("GPU-b", "") "]",
		1, 0,
		"status.devices[0].memoryBytes 4000000000000000000: 0 to 307445734561825 are "
		"possible"},
	{"'devices':[{'uuid':'GPU-a','memoryBytes':-1}]", 0, 0,
		"status.devices[0].memoryBytes -1: 0 to 307445734561825 are possible"},
	{"'devices':[{'uuid':'GPU-a','memoryBytes':'80Gi'},{'uuid':7}]", 0, 0,
		"status.devices[0].memoryBytes \"80Gi\": 0 to 307445734561825 are possible"},
	{"'devices':[" DEVICE("GPU-a", "") "],'tenants':[{'podUID':'u','container':'c',"
					   "'devices':['GPU-a'],'memoryBytes':[1]}]",
		1, 1, NULL},
	{"'devices':[" DEVICE("GPU-a", "") "],'tenants':[{'podUID':'u','container':'c',"
					   "'devices':[7]},{'podUID':'u','devices':['GPU-a']}]",
		1, 1, "status.tenants[0].devices [7]: 1 to 16 UUIDs are possible"},
	{"'tenants':[{'podUID':'u','container':'" X64 "','devices':['GPU-a']}]", 0, 0,
		"status.tenants[0].container \"" X64 "\": up to 63 characters are possible"},
	{"'network':{'devices':[" NETWORK("a", "'host'", "1") "," NETWORK(
		 "b", "'rdma'", "40000") "]}",
		0, 0, NULL, 2},
	{"'network':{'devices':[{'name':'a','kind':'host'}," NETWORK("b", "'sriov'", "1") "]}", 0,
		0, "status.network.devices[0].capacityMbps nothing: 1 to 1000000000 are possible",
		1},
	{"'network':{'peers':[" PEER("n1", "180") "," PEER("n2", "1,'bitsPerSecond':9") "]}", 0, 0,
		NULL, 0, 2},
	{"'network':{'peers':[" PEER("n1", "0") "," PEER("n2", "5") "]}", 0, 0,
		"status.network.peers[0].roundTripMicroseconds 0: 1 to 1000000000 are possible", 0,
		1},
	{"'network':{'peers':[" PEER("n1", "1000000001") "]}", 0, 0,
		"status.network.peers[0].roundTripMicroseconds 1000000001: 1 to 1000000000 are "
		"possible"},
	{"'network':{'peers':[{'name':'n1'}]}", 0, 0,
		"status.network.peers[0].roundTripMicroseconds nothing: 1 to 1000000000 are "
		"possible"},
	{"'network':{'peers':[" PEER("n1", "5,'bitsPerSecond':2000000000000000") "]}", 0, 0,
		"status.network.peers[0].bitsPerSecond 2000000000000000: up to 1000000000000000 "
		"are possible"},
	{"'network':{'peers':[" PEER("", "5") "]}", 0, 0,
		"status.network.peers[0].name \"\": 1 to 253 characters are possible"},
	{"'network':{'peers':[" PEER("n1", "5") "," PEER("n1", "6") "]}", 0, 0,
		"status.network.peers[1].name \"n1\": occurs twice, but must be unique", 0, 1},
	{"'network':{'devices':[" NETWORK("a", "'host'", "0") "]}", 0, 0,
		"status.network.devices[0].capacityMbps 0: 1 to 1000000000 are possible"},
	{"'network':{'devices':[" NETWORK("a", "'host'", "-5") "]}", 0, 0,
		"status.network.devices[0].capacityMbps -5: 1 to 1000000000 are possible"},
	{"'network':{'devices':[" NETWORK("a", "'host'", "1000000001") "]}", 0, 0,
		"status.network.devices[0].capacityMbps 1000000001: 1 to 1000000000 are possible"},
	{"'network':{'devices':[" NETWORK("a", "'host'", "'fast'") "]}", 0, 0,
		"status.network.devices[0].capacityMbps \"fast\": 1 to 1000000000 are possible"},
	{"'network':{'devices':[" NETWORK("a", "'token ring'", "4") "]}", 0, 0,
		"status.network.devices[0].kind \"token ring\": rdma, sriov, host and overlay are "
		"possible"},
	{"'network':{'devices':[" NETWORK("a b", "'host'", "4") "]}", 0, 0,
		"status.network.devices[0].name \"a b\": no name of a network device"},
	{"'network':{'devices':[" NETWORK(X64, "'host'", "4") "]}", 0, 0,
		"status.network.devices[0].name \"" X64 "\": no name of a network device"},
	{"'network':{'devices':[" NETWORK("a", "'host','link':'b/c'", "4") "]}", 0, 0,
		"status.network.devices[0].link \"b/c\": no name of a network device"},
	{"'network':{'devices':[7,null,[]]}", 0, 0,
		"status.network.devices[0].name nothing: no name of a network device"},
	{"'network':7", 0, 0, NULL},
	{"'network':{'devices':[" NETWORK("a", "'host'", "4") "," NETWORK("a", "'rdma'", "4") "]}",
		0, 0, "status.network.devices[1].name \"a\": occurs twice, but must be unique", 1},
	{"'network':{'devices':[7]},'tenants':[{'podUID':'u','container':'c','devices':['GPU-a']}]",
		0, 1, "status.network.devices[0].name nothing: no name of a network device"},
};

__attribute__((format(printf, 1, 2))) static json_t *rules_json(const char *fmt, ...)
{
	json_t *json;
	va_list ap;

	va_start(ap, fmt);
	json = rules_jsonv(fmt, ap);
	va_end(ap);
	return json;
}

static void omitted_entries_are_reported(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *json = rules_json("{'status':{%s}}", cases[i].status);
		struct error err = {0};
		struct gpunode g;
		int r = gpunode_read(json, &g, &err);

		if (r != (cases[i].said ? -EINVAL : 0) ||
			strcmp(err.msg, cases[i].said ? cases[i].said : ""))
			fail_msg("%s: %d, '%s'", cases[i].status, r, err.msg);
		if (g.n_devices != cases[i].n_devices || g.n_tenants != cases[i].n_tenants ||
			g.n_networks != cases[i].n_networks || g.n_peers != cases[i].n_peers)
			fail_msg("%s: %u devices, %u tenants, %u networks, %u peers",
				cases[i].status, g.n_devices, g.n_tenants, g.n_networks, g.n_peers);
		gpunode_done(&g);
	}
}

static void a_list_that_is_too_long_is_cut_with_a_message(void **state)
{
	_cleanup_json_ json_t *json = rules_json("{'status':{'devices':[],'tenants':[]}}");
	json_t *status = json_object_get(json, "status");
	struct error err = {0};
	struct gpunode g;

	for (uint32_t i = 0; i <= PLACE_NODE_DEVICES_MAX; i++)
		json_array_append_new(json_object_get(status, "devices"),
			json_pack(
				"{s:o, s:i}", "uuid", json_sprintf("GPU-%u", i), "memoryBytes", 1));
	for (uint32_t i = 0; i <= GPUNODE_TENANTS_MAX; i++)
		json_array_append_new(json_object_get(status, "tenants"),
			json_pack("{s:s, s:[s]}", "podUID", "u", "devices", "GPU-1"));
	assert_int_equal(gpunode_read(json, &g, &err), -EINVAL);
	assert_string_equal(
		err.msg, "status.devices[64].uuid \"GPU-64\": a node has up to 64 devices");
	assert_int_equal(g.n_devices, PLACE_NODE_DEVICES_MAX);
	assert_int_equal(g.n_tenants, GPUNODE_TENANTS_MAX);
	gpunode_done(&g);
	json_object_set_new(status, "devices", json_array());
	assert_int_equal(gpunode_read(json, &g, &err), -EINVAL);
	assert_string_equal(err.msg, "status.tenants: 4097 of them, up to 4096 are possible");
	gpunode_done(&g);
	json_object_set_new(status, "network", json_pack("{s:[]}", "devices"));
	for (uint32_t i = 0; i <= GPUNODE_NETWORKS_MAX; i++)
		json_array_append_new(
			json_object_get(json_object_get(status, "network"), "devices"),
			json_pack("{s:o, s:s, s:i}", "name", json_sprintf("eth%u", i), "kind",
				"host", "capacityMbps", 1));
	assert_int_equal(gpunode_read(json, &g, &err), -EINVAL);
	assert_string_equal(err.msg, "status.network.devices: 65 of them, up to 64 are possible");
	assert_int_equal(g.n_networks, GPUNODE_NETWORKS_MAX);
	gpunode_done(&g);
	json_object_set_new(status, "network", json_pack("{s:[]}", "peers"));
	for (uint32_t i = 0; i <= GPUNODE_PEERS_MAX; i++)
		json_array_append_new(json_object_get(json_object_get(status, "network"), "peers"),
			json_pack("{s:o, s:i}", "name", json_sprintf("n%u", i),
				"roundTripMicroseconds", 1));
	assert_int_equal(gpunode_read(json, &g, &err), -EINVAL);
	assert_string_equal(err.msg, "status.network.peers: 65 of them, up to 64 are possible");
	assert_int_equal(g.n_peers, GPUNODE_PEERS_MAX);
	gpunode_done(&g);
}

#define E8 "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
#define E63 E8 E8 E8 E8 E8 E8 E8 "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"

/* A text that ended within a character would make the message of an Event invalid. */
static void a_taint_is_shown_whole(void **state)
{
	_cleanup_json_ json_t *json = rules_json("{'status':{'devices':[" DEVICE("GPU-a",
		"'taints':[{'key':'" E63 "','value':'" E63
		"','effect':'NoExecute'}],") "," DEVICE("GPU-b", "") "]}}");
	struct gpunode g;

	assert_ok(gpunode_read(json, &g, NULL));
	assert_int_equal(g.n_devices, 2);
	for (unsigned e = GPUNODE_NO_SCHEDULE; e <= GPUNODE_NO_EXECUTE; e++)
		assert_string_equal(g.device[0].taint[e].text, E63 "=" E63 ":NoExecute");
	assert_null(g.device[1].taint);
	gpunode_done(&g);
}

/* The other devices of the node are used despite one invalid device. */
static void the_rest_of_the_node_is_used(void **state)
{
	_cleanup_json_ json_t *json = rules_json(
		"{'metadata':{'name':'n'},'status':{'owner':'divvy','slots':{'total':64},'devices':"
		"["
		"{'uuid':'GPU-a','memoryBytes':4000000000000000000,'health':'Healthy'}," DEVICE(
			"GPU-b", "") "]}}");
	const struct cpod *pod;
	struct error err;

	add_node("n", 0);
	add_lease("n", "2026-01-02T03:04:05Z");
	assert_int_equal(sched_set(sched, CLUSTER_GPU_NODE, json, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "status.devices[0].memoryBytes 4000000000000000000"));
	add_pod("p", SHARE("0.5"), "");
	pod = next(SCHED_BIND, "p", NULL);
	assert_string_equal(device_of(pod), "GPU-b");
}

UNIT_MAIN(UNIT(omitted_entries_are_reported), UNIT(a_list_that_is_too_long_is_cut_with_a_message),
	UNIT(a_taint_is_shown_whole),
	cmocka_unit_test_setup_teardown(the_rest_of_the_node_is_used, acts_begin, acts_end))
