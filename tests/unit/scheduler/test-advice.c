/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests decide_reasons(), which explains decisions for each device, and cluster_find_moves(), which
 * plans moves.
 */
#include <stdio.h>

#include "base/cleanup.h"
#include "place/place-policy.h"
#include "rules.h"
#include "scheduler/cluster-move.h"
#include "scheduler/decide.h"
#include "unit-json.h"

#define REAL_NS (UINT64_C(1767323045) * 1000000000) /* 2026-01-02T03:04:05Z */

static struct cluster *cluster;

static int begin_with(const struct place_policy *policy)
{
	const struct cluster_config config = {"divvy-scheduler", 30, policy, NULL};

	assert_ok(cluster_new(&config, &cluster, NULL));
	cluster_set_time(cluster, 1000, REAL_NS);
	return 0;
}

static int begin(void **state)
{
	return begin_with(&place_best_fit);
}

static int begin_default(void **state)
{
	return begin_with(&place_scarcity);
}

static int end(void **state)
{
	cluster_free(cluster);
	return 0;
}

static void set(int kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set(int kind, const char *fmt, ...)
{
	struct error err = {0};
	json_t *json;
	va_list ap;

	va_start(ap, fmt);
	json = rules_jsonv(fmt, ap);
	va_end(ap);
	if (cluster_set(cluster, kind, json, &err) < 0)
		fail_msg("%s", err.msg);
	json_decref(json);
}

/* Adds a node with two GPUs of 1,000,000 bytes. more: JSON members of the Node's spec. */
static void add_node(const char *name, const char *cordoned, const char *more)
{
	set(OBJECT_NODE,
		"{'metadata':{'name':'%s'},'spec':{%s},'status':{'allocatable':{'cpu':'8','memory'"
		":'16Gi','pods':'110'}}}",
		name, more);
	set(CLUSTER_LEASE, "{'metadata':{'name':'%s'},'spec':{'renewTime':'2026-01-02T03:04:05Z'}}",
		name);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'%s'},'spec':{'cordoned':[%s]},'status':{'slots':{'total':64},"
		"'devices':[{'uuid':'GPU-%s-0','index':0,'model':'A','memoryBytes':1000000,"
		"'health':'Healthy'},{'uuid':'GPU-%s-1','index':1,'model':'A','memoryBytes':"
		"1000000,"
		"'health':'Healthy'}]}}",
		name, cordoned, name, name);
}

/*
 * Adds a pod that requests the share `asked`. device: its assigned device; NULL: the pod waits.
 * more: JSON members of its metadata.
 */
static void add_pod(
	const char *name, const char *asked, const char *node, const char *device, const char *more)
{
	_cleanup_buf_ struct buf given = BUF_INIT(4096);

	if (device)
		buf_addf(&given,
			",'divvy.gpu/devices':'c=%s','divvy.gpu/granted-request':'c=%s',"
			"'divvy.gpu/granted-limit':'c=1','divvy.gpu/granted-memory':'c=1000',"
			"'divvy.gpu/granted-memory-policy':'c=fail','divvy.gpu/granted-class':"
			"'c=standard','divvy.gpu/granted-priority':'c=50','divvy.gpu/granted-mode'"
			":'c=local','divvy.gpu/epoch':'1'",
			device, asked);
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'s','uid':'u-%s'," TENANT "'annotations':{"
		"'divvy.gpu/request':'%s'%s}%s},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'c'}]%s%s%s}}",
		name, name, asked, buf_text(&given), more, node ? ",'nodeName':'" : "",
		node ? node : "", node ? "'" : "");
}

#define OWNED ",'ownerReferences':[{'uid':'o','controller':true}]"

static void collect(void *data, const struct decide_reason *r)
{
	buf_addf(data, "%s %s %u: %s\n", r->node, r->device, r->share_free, r->text);
}

static const char *reasons_of(const char *name)
{
	static char text[4096];
	_cleanup_buf_ struct buf out = BUF_INIT(sizeof(text) - 1);
	struct cpod *pod = cluster_pod(cluster, "s", name);
	struct error err = {0};

	assert_non_null(pod);
	assert_ok(decide_reasons(cluster, pod, collect, &out, &err));
	snprintf(text, sizeof(text), "%s", buf_text(&out));
	return text;
}

static void each_device_has_its_reason(void **state)
{
	add_node("n1", "{'uuid':'GPU-n1-1'}", "");
	add_pod("a", "0.7", "n1", "GPU-n1-0", "");
	add_pod("w", "0.5", NULL, NULL, "");
	assert_string_equal(reasons_of("w"),
		"n1  0: no GPU with 0.5 free\nn1 GPU-n1-0 300: 0.3 free, 0.5 requested\nn1 "
		"GPU-n1-1 1000: cordoned\n");
}

static void a_device_that_fits_has_no_reason(void **state)
{
	add_node("n1", "", "");
	add_pod("a", "0.7", "n1", "GPU-n1-0", "");
	add_pod("w", "0.5", NULL, NULL, "");
	assert_string_equal(reasons_of("w"),
		"n1  0: \nn1 GPU-n1-0 300: 0.3 free, 0.5 requested\nn1 GPU-n1-1 1000: \n");
}

/*
 * An init container uses the device of the main container, so the device needs the larger of both
 * shares.
 */
static void an_init_container_adds_no_second_request(void **state)
{
	add_node("n1", "", "");
	add_pod("a", "0.7", "n1", "GPU-n1-0", "");
	set(OBJECT_POD,
		"{'metadata':{'name':'w','namespace':'s','uid':'u-w'," TENANT "'annotations':{"
		"'divvy.gpu/container':'before,c','divvy.gpu/request':'0.3',"
		"'before.divvy.gpu/request':'0.6'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'initContainers':[{'name':'before'}],'containers':[{'name':'c'}]}}");
	assert_string_equal(reasons_of("w"),
		"n1  0: \nn1 GPU-n1-0 300: 0.3 free, 0.6 requested\nn1 GPU-n1-1 1000: \n");
	add_pod("b", "0.5", "n1", "GPU-n1-1", "");
	assert_string_equal(reasons_of("w"),
		"n1  0: no GPU with 0.6 free\nn1 GPU-n1-0 300: 0.3 free, 0.6 requested\nn1 "
		"GPU-n1-1 500: 0.5 free, 0.6 requested\n");
}

static void an_excluded_node_lists_no_devices(void **state)
{
	add_node("n1", "", "'unschedulable':true");
	add_pod("w", "0.5", NULL, NULL, "");
	assert_string_equal(reasons_of("w"), "n1  0: cordoned\n");
}

static void a_reason_for_all_devices_is_reported_once(void **state)
{
	add_node("n1", "", "");
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['s'],'totalShare':'0.2'}}");
	add_pod("w", "0.5", NULL, NULL, "");
	assert_string_equal(
		reasons_of("w"), "  0: policy p: the namespace has 0 of 0.2 GPUs, 0.5 requested\n");
}

/* ---- moves ---- */

static void plan(uint32_t n, struct cluster_moves *ret)
{
	struct error err = {0};

	if (cluster_find_moves(cluster, ret, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(ret->n, n);
}

static void two_halves_become_one_device(void **state)
{
	struct cluster_moves moves;

	add_node("n1", "", "");
	add_pod("a", "0.3", "n1", "GPU-n1-0", OWNED);
	add_pod("b", "0.4", "n1", "GPU-n1-1", OWNED);
	plan(1, &moves);
	assert_string_equal(cpod_name(moves.v[0].pod), "a");
	assert_string_equal(moves.v[0].device, "GPU-n1-0");
	assert_string_equal(moves.v[0].to_device, "GPU-n1-1");
	assert_int_equal(moves.whole_before, 0);
	assert_int_equal(moves.whole_after, 1);
	cluster_moves_done(&moves);
}

static void a_pod_without_an_owner_stays(void **state)
{
	struct cluster_moves moves;

	add_node("n1", "", "");
	add_pod("a", "0.3", "n1", "GPU-n1-0", "");
	add_pod("b", "0.4", "n1", "GPU-n1-1", OWNED);
	plan(1, &moves);
	assert_string_equal(cpod_name(moves.v[0].pod), "b");
	cluster_moves_done(&moves);
	add_pod("b", "0.4", "n1", "GPU-n1-1", "");
	plan(0, &moves);
	cluster_moves_done(&moves);
}

static void disruption_budgets_protect_their_pods(void **state)
{
	struct cluster_moves moves;

	add_node("n1", "", "");
	add_pod("a", "0.3", "n1", "GPU-n1-0", OWNED);
	add_pod("b", "0.4", "n1", "GPU-n1-1", OWNED);
	set(CLUSTER_BUDGET,
		"{'metadata':{'name':'b','namespace':'s'},'spec':{'selector':{}},"
		"'status':{'disruptionsAllowed':0}}");
	plan(0, &moves);
	cluster_moves_done(&moves);
}

static void a_pod_that_names_a_device_stays_there(void **state)
{
	struct cluster_moves moves;

	add_node("n1", "", "");
	set(OBJECT_POD,
		"{'metadata':{'name':'a','namespace':'s','uid':'u-a'," TENANT "'annotations':{"
		"'divvy.gpu/request':'0.3','divvy.gpu/device':'GPU-n1-0','divvy.gpu/devices':"
		"'c=GPU-n1-0','divvy.gpu/granted-request':'c=0.3','divvy.gpu/granted-limit':'c=1',"
		"'divvy.gpu/granted-memory':'c=1000','divvy.gpu/granted-memory-policy':'c=fail',"
		"'divvy.gpu/granted-class':'c=standard','divvy.gpu/granted-priority':'c=50',"
		"'divvy.gpu/granted-mode':'c=local','divvy.gpu/epoch':'1'}" OWNED
		"},'spec':{'schedulerName':'divvy-scheduler','containers':[{'name':'c'}],"
		"'nodeName':'n1'}}");
	add_pod("b", "0.4", "n1", "GPU-n1-1", "");
	plan(0, &moves);
	cluster_moves_done(&moves);
}

/* A device of n2 has enough share free, but n2 is cordoned. */
static void a_pod_is_not_moved_to_a_node_that_it_does_not_fit(void **state)
{
	struct cluster_moves moves;

	add_node("n1", "", "");
	add_node("n2", "", "'unschedulable':true");
	add_pod("a", "0.3", "n1", "GPU-n1-0", OWNED);
	add_pod("b", "0.5", "n2", "GPU-n2-0", "");
	plan(0, &moves);
	cluster_moves_done(&moves);
	add_node("n2", "", "");
	plan(1, &moves);
	assert_string_equal(moves.v[0].to_node, "n2");
	cluster_moves_done(&moves);
}

/*
 * The default policy has seen many requests for 0.6 and keeps space for them. It would place the
 * successor of a moved pod on an empty device, so no move helps.
 */
static void a_pod_whose_successor_would_spread_stays(void **state)
{
	struct cluster_moves moves;
	char name[16];

	add_node("n1", "", "");
	add_node("n2", "", "");
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		add_pod(name, "0.6", NULL, NULL, "");
		reasons_of(name);
		assert_ok(cluster_remove(cluster, OBJECT_POD, "s", name));
	}
	add_pod("a", "0.4", "n1", "GPU-n1-0", OWNED);
	add_pod("b", "0.4", "n1", "GPU-n1-1", OWNED);
	add_pod("c", "0.4", "n2", "GPU-n2-0", OWNED);
	plan(0, &moves);
	cluster_moves_done(&moves);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_device_has_its_reason),
		TEST(a_device_that_fits_has_no_reason),
		TEST(an_init_container_adds_no_second_request),
		TEST(an_excluded_node_lists_no_devices),
		TEST(a_reason_for_all_devices_is_reported_once),
		TEST(two_halves_become_one_device),
		TEST(a_pod_without_an_owner_stays),
		TEST(disruption_budgets_protect_their_pods),
		TEST(a_pod_that_names_a_device_stays_there),
		TEST(a_pod_is_not_moved_to_a_node_that_it_does_not_fit),
		cmocka_unit_test_setup_teardown(
			a_pod_whose_successor_would_spread_stays, begin_default, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
