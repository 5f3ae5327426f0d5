/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the facts that pool-view.h makes of the cluster's objects. */
#include "controller/controller-placeholder.h"
#include "controller/pool-view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit-json.h"

#define NS "divvy-system"
#define NOW (UINT64_C(1700000100) * NSEC_PER_SEC) /* 2023-11-14T22:15:00Z */
#define OBJECTS_MAX 64

struct world {
	struct pool_view *view;
	json_t *object[OBJECTS_MAX]; /* objects from which the view borrows */
	size_t n;
};

static json_t *object(struct world *w, const char *fmt, ...)
{
	char text[2048];
	json_error_t error;
	json_t *json;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++)
		if (*p == '\'')
			*p = '"';
	json = json_loads(text, 0, &error);
	if (!json || w->n == OBJECTS_MAX)
		fail_msg("%s: %s", error.text, text);
	w->object[w->n++] = json;
	return json;
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	*state = w;
	return w ? pool_view_new(NS, NOW, &w->view) : -1;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	pool_view_free(w->view);
	while (w->n)
		json_decref(w->object[--w->n]);
	free(w);
	return 0;
}

static int add_node(struct world *w, const char *name, const char *owner, const char *spec,
	const char *devices, struct error *err)
{
	const json_t *labels = object(w, "{'divvy.gpu/owner':'%s'}", owner);
	const json_t *gpu_node = object(
		w, "{'spec':{%s},'status':{'owner':'%s','devices':[%s]}}", spec, owner, devices);

	assert_true(pool_view_has(labels, gpu_node));
	return pool_view_add_node(w->view, name, labels, gpu_node,
		object(w, "{'spec':{'renewTime':'2023-11-14T22:15:00.000000Z'}}"), err);
}

static enum pool_pod add_tenant(
	struct world *w, const char *name, const char *node, const char *devices, const char *more)
{
	return pool_view_add_pod(w->view,
		object(w,
			"{'metadata':{'name':'%s','namespace':'a','annotations':{"
			"'divvy.gpu/devices':'%s'}},'spec':{'nodeName':'%s'}%s}",
			name, devices, node, more));
}

static enum pool_pod add_placeholder(
	struct world *w, const char *name, const char *ns, const char *node, const char *more)
{
	return pool_view_add_pod(w->view,
		object(w,
			"{'metadata':{'name':'%s','namespace':'%s','creationTimestamp':"
			"'2023-11-14T22:14:20Z','labels':{'app.kubernetes.io/name':"
			"'divvy-placeholder','divvy.gpu/placeholder-of':'meant'}},'spec':{%s}%s}",
			name, ns, node, more));
}

/* The value of a label has 63 characters at most, and the name of a node 253. */
static void a_placeholder_names_its_node(void **state)
{
	struct world *w = *state;
	char node[254];
	_cleanup_json_ json_t *pod = NULL;
	const char *key;
	json_t *value;

	memset(node, 'n', sizeof(node) - 1);
	node[sizeof(node) - 1] = '\0';
	pod = placeholder_pod("p", "image", node);
	json_object_foreach(kube_json_at(pod, "metadata", "labels", NULL), key, value)
		assert_true(json_string_length(value) <= 63);
	assert_ok(json_object_set_new(
		json_object_get(pod, "metadata"), "namespace", json_string(NS)));
	assert_int_equal(pool_view_add_pod(w->view, pod), POOL_POD_STAYS);
	assert_string_equal(pool_view_facts(w->view, 5)->placeholder[0].node, node);
}

static const char *const two = "{'uuid':'GPU-1','owner':'pool','placeholder':'p1'},"
			       "{'uuid':'GPU-2','owner':'pool','placeholder':'p2'}";

static const struct pool_placeholder *find(const struct pool_facts *f, const char *name)
{
	for (size_t i = 0; i < f->n_placeholders; i++)
		if (!strcmp(f->placeholder[i].name, name))
			return &f->placeholder[i];
	return NULL;
}

static void a_pod_with_the_device_uses_the_placeholder(void **state)
{
	struct world *w = *state;
	const struct pool_facts *f;

	assert_ok(add_node(w, "n1", "pool", "'pool':{'policy':'hybrid','reserve':2}", two, NULL));
	/* Devices with the same UUIDs on another node are other devices. */
	assert_ok(add_node(w, "n2", "pool", "'pool':{}", two, NULL));
	assert_int_equal(add_placeholder(w, "p1", NS, "'nodeName':'n1'", ""), POOL_POD_STAYS);
	assert_int_equal(add_placeholder(w, "p2", NS, "'nodeName':'n1'", ""), POOL_POD_STAYS);
	assert_int_equal(add_placeholder(w, "waits", NS, "", ""), POOL_POD_STAYS);
	assert_int_equal(add_placeholder(w, "forged", "a", "'nodeName':'n1'", ""), POOL_POD_STAYS);
	assert_int_equal(add_tenant(w, "t", "n1", "main=GPU-2", ""), POOL_POD_STAYS);
	assert_int_equal(add_tenant(w, "elsewhere", "n2", "main=GPU-1", ""), POOL_POD_STAYS);
	assert_int_equal(
		add_tenant(w, "over", "n1", "main=GPU-1", ",'status':{'phase':'Succeeded'}"),
		POOL_POD_STAYS);
	f = pool_view_facts(w->view, 5);
	assert_int_equal(f->now_ns, 5);
	assert_int_equal(f->n_nodes, 2);
	assert_int_equal(f->node[0].policy, POOL_HYBRID);
	assert_int_equal(f->node[0].reserve, 2);
	assert_int_equal(f->node[1].policy, POOL_ON_DEMAND);
	assert_int_equal(f->n_placeholders, 3);
	assert_false(find(f, "p1")->is_used);
	assert_true(find(f, "p2")->is_used);
	assert_true(find(f, "p2")->is_bound);
	assert_string_equal(find(f, "p2")->node, "n1");
	assert_int_equal(find(f, "p2")->age_ns, 40 * NSEC_PER_SEC);
	assert_string_equal(find(f, "waits")->node, "meant");
	assert_false(find(f, "waits")->is_bound);
}

static void a_device_is_not_the_one_whose_uuid_begins_alike(void **state)
{
	static const char *const alike = "{'uuid':'GPU-1','owner':'native'},"
					 "{'uuid':'GPU-12','owner':'pool','placeholder':'p'}";
	struct world *w = *state;

	assert_ok(add_node(w, "n1", "pool", "'pool':{}", alike, NULL));
	assert_int_equal(add_tenant(w, "a", "n1", "main=GPU-12", ""), POOL_POD_STAYS);
	assert_int_equal(
		add_tenant(w, "b", "n1", "main=GPU-12 side=GPU-3,GPU-1", ""), POOL_POD_LOST);
}

/* A kubelet rejects the placeholders of a restarted node; divvyd's last report still names them. */
static void an_ended_placeholder_holds_no_device(void **state)
{
	static const char *const failed =
		",'status':{'phase':'Failed','reason':'UnexpectedAdmissionError'}";
	struct world *w = *state;
	const struct pool_facts *f;

	assert_ok(add_node(
		w, "n1", "pool", "'pool':{'policy':'reservation','reserve':2}", two, NULL));
	assert_int_equal(add_placeholder(w, "p1", NS, "'nodeName':'n1'", failed), POOL_POD_STAYS);
	assert_int_equal(
		add_placeholder(w, "p2", NS, "'nodeName':'n1'", ",'status':{'phase':'Succeeded'}"),
		POOL_POD_STAYS);
	/* Only a finalizer keeps this deleted placeholder, so nothing is left to do. */
	assert_int_equal(pool_view_add_pod(w->view,
				 object(w,
					 "{'metadata':{'name':'p3','namespace':'" NS
					 "','deletionTimestamp':'2023-11-14T22:14:20Z','labels':{"
					 "'app.kubernetes.io/name':'divvy-placeholder'}},'spec':{},"
					 "'status':{'phase':'Failed'}}")),
		POOL_POD_STAYS);
	assert_int_equal(add_tenant(w, "t", "n1", "main=GPU-1", ""), POOL_POD_STAYS);
	f = pool_view_facts(w->view, 0);
	assert_int_equal(f->n_placeholders, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(f->placeholder[i].has_ended);
		assert_false(f->placeholder[i].is_used);
		assert_false(f->placeholder[i].is_unknown);
		assert_int_equal(f->placeholder[i].age_ns, 40 * NSEC_PER_SEC);
	}
}

static void tenants_of_a_returned_device_are_deleted(void **state)
{
	static const char *const back = "{'uuid':'GPU-1','owner':'native'},"
					"{'uuid':'GPU-2','owner':'native','placeholder':'leaves'}";
	struct world *w = *state;

	assert_ok(add_node(w, "n1", "pool", "'pool':{}", back, NULL));
	assert_int_equal(add_tenant(w, "a", "n1", "main=GPU-1", ""), POOL_POD_LOST);
	assert_int_equal(add_tenant(w, "b", "n1", "main=GPU-2", ""), POOL_POD_STAYS);
	assert_int_equal(add_tenant(w, "c", "n2", "main=GPU-1", ""), POOL_POD_STAYS);
	assert_int_equal(add_tenant(w, "d", "n1", "main=GPU-1", ",'status':{'phase':'Failed'}"),
		POOL_POD_STAYS);
}

static enum pool_pod add_waiting(struct world *w, const char *uid, const char *reason)
{
	return pool_view_add_pod(w->view,
		object(w,
			"{'metadata':{'name':'w','namespace':'a','uid':'%s'},'spec':{'containers':["
			"{'resources':{'requests':{'divvy.gpu/milli':'300'}}},"
			"{'resources':{'requests':{'divvy.gpu/milli':'1k'}}}]},'status':{"
			"'conditions':[{'type':'PodScheduled','reason':'%s'},"
			"{'type':'divvy.gpu/NeedsDevice','status':'True'}]}}",
			uid, reason));
}

/* The conditions of a pod for which the scheduler found no device. */
#define NEEDS_DEVICE \
	"{'type':'PodScheduled','status':'False','reason':'Unschedulable'}," \
	"{'type':'divvy.gpu/NeedsDevice','status':'True'}"

static void add_told(
	struct world *w, const char *milli, const char *annotations, const char *conditions)
{
	pool_view_add_pod(w->view,
		object(w,
			"{'metadata':{'name':'w','namespace':'a','uid':'u','annotations':{%s}},"
			"'spec':{'containers':[{'resources':{'requests':{'divvy.gpu/"
			"milli':'%s'}}}]}"
			",'status':{'conditions':[%s]}}",
			annotations, milli, conditions));
}

/* The condition's type and status decide, and no text does. */
static void a_pod_that_no_device_helps_is_no_source(void **state)
{
	static const char *const hopeless[] = {
		"",
		"{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
		"'message':'0/1 nodes: 1 no GPU with 0.5 free'}",
		"{'type':'PodScheduled','status':'False','reason':'Unschedulable'},"
		"{'type':'divvy.gpu/NeedsDevice','status':'False','reason':'WaitsForNoDevice'}",
		"{'type':'PodScheduled','status':'False','reason':'SchedulerError'},"
		"{'type':'divvy.gpu/NeedsDevice','status':'True','reason':'NoDeviceFits'}",
		"{'type':'divvy.gpu/NeedsDevice','status':'True','reason':'NoDeviceFits'}",
	};
	static const char *const hopeful[] = {
		NEEDS_DEVICE,
		"{'type':'divvy.gpu/NeedsDevice','status':'True','reason':'NoDeviceFits'},"
		"{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
		"'message':'any text'}",
	};
	struct world *w = *state;

	assert_ok(add_node(w, "n1", "pool", "'pool':{}", "", NULL));
	for (size_t i = 0; i < ARRAY_SIZE(hopeless); i++)
		add_told(w, "300", "", hopeless[i]);
	assert_int_equal(pool_view_facts(w->view, 0)->n_sources, 0);
	for (size_t i = 0; i < ARRAY_SIZE(hopeful); i++)
		add_told(w, "300", "", hopeful[i]);
	assert_int_equal(pool_view_facts(w->view, 0)->n_sources, ARRAY_SIZE(hopeful));
}

/* An init container or a sidecar may be the only container with a share. */
static void init_containers_wait_for_devices_too(void **state)
{
#define INIT(more, milli) "{" more "'resources':{'requests':{'divvy.gpu/milli':'" milli "'}}}"
	static const struct {
		const char *spec;
		uint64_t milli;
	} pods[] = {
		{"'initContainers':[" INIT("", "200") "],'containers':[{}]", 200},
		{"'initContainers':[" INIT("'restartPolicy':'Always',", "100") "," INIT(
			 "", "200") "],'containers':[" INIT("", "150") "]",
			300},
		{"'initContainers':[" INIT(
			 "'restartPolicy':'Always',", "100") "],'containers':[" INIT("", "250") "]",
			350},
	};
	struct world *w = *state;
	const struct pool_facts *f;

	assert_ok(add_node(w, "n1", "pool", "'pool':{}", "", NULL));
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
		pool_view_add_pod(w->view,
			object(w,
				"{'metadata':{'name':'w','namespace':'a','uid':'u'},'spec':{%s},"
				"'status':{'conditions':[%s]}}",
				pods[i].spec, NEEDS_DEVICE));
	f = pool_view_facts(w->view, 0);
	assert_int_equal(f->n_sources, ARRAY_SIZE(pods));
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
		assert_int_equal(f->source[i].milli, pods[i].milli);
}

static void large_requests_count_as_whole_devices(void **state)
{
	struct world *w = *state;
	const struct pool_facts *f;

	assert_ok(add_node(w, "n1", "pool", "'pool':{}", "", NULL));
	add_told(w, "500", "", NEEDS_DEVICE);
	add_told(w, "501", "", NEEDS_DEVICE);
	add_told(w, "600", "'divvy.gpu/count':'2'", NEEDS_DEVICE);
	f = pool_view_facts(w->view, 0);
	assert_int_equal(f->source[0].milli, 500);
	assert_int_equal(f->source[1].milli, 1000);
	assert_int_equal(f->source[2].milli, 2000);
}

static void no_more_is_reserved_than_there_is(void **state)
{
	struct world *w = *state;

	pool_view_add_node(w->view, "n1", object(w, "{'divvy.gpu/owner':'pool'}"),
		object(w,
			"{'spec':{'pool':{'policy':'reservation','reserve':100}},'status':{'owner':"
			"'pool','deviceCount':6}}"),
		NULL, NULL);
	assert_int_equal(pool_view_facts(w->view, 0)->node[0].reserve, 6);
}

/*
 * If the GPUNode is missing or does not name the placeholder's device, any tenant of the node may
 * use that device.
 */
static void an_unknown_device_may_be_used(void **state)
{
	struct world *w = *state;
	const struct pool_facts *f;

	add_placeholder(w, "p1", NS, "'nodeName':'n1'", "");
	add_placeholder(w, "p2", NS, "'nodeName':'n2'", "");
	add_placeholder(w, "p3", NS, "'nodeName':'n3'", "");
	add_tenant(w, "a", "n1", "main=GPU-1", "");
	add_tenant(w, "b", "n2", "main=GPU-1", "");
	add_tenant(w, "over", "n3", "main=GPU-1", ",'status':{'phase':'Failed'}");
	f = pool_view_facts(w->view, 0);
	for (int i = 1; i < 4; i++) {
		const char name[] = {'p', (char)('0' + i), '\0'};

		assert_int_equal(find(f, name)->is_unknown, i < 3);
		assert_int_equal(find(f, name)->may_go, i == 3);
	}
}

/*
 * The status of a live daemon decides whether a placeholder may go. A silent daemon does not keep a
 * placeholder.
 */
static void a_silent_daemon_keeps_no_placeholder(void **state)
{
	struct world *w = *state;
	const json_t *gpu_node = object(w,
		"{'spec':{'pool':{},'cordoned':[{'uuid':'GPU-2'}]},'status':{'owner':'pool',"
		"'devices':[{'uuid':'GPU-1','health':'Healthy','owner':'pool','placeholder':'p1'},"
		"{'uuid':'GPU-2','health':'Healthy','owner':'pool','placeholder':'p2'}]}}");
	const struct pool_facts *f;

	assert_ok(pool_view_add_node(w->view, "n1", object(w, "{'divvy.gpu/owner':'pool'}"),
		gpu_node, object(w, "{'spec':{'renewTime':'2023-11-14T22:12:00.000000Z'}}"), NULL));
	assert_ok(add_node(w, "n2", "pool", "'pool':{}", two, NULL));
	add_placeholder(w, "p1", NS, "'nodeName':'n1'", "");
	add_placeholder(w, "p2", NS, "'nodeName':'n1'", "");
	add_tenant(w, "a", "n1", "main=GPU-1", "");
	f = pool_view_facts(w->view, 0);
	assert_false(find(f, "p1")->may_go);
	assert_false(find(f, "p1")->is_useless);
	assert_true(find(f, "p2")->may_go);
	assert_true(find(f, "p2")->is_useless);
}

static void a_pod_that_waits_for_a_device_is_a_source(void **state)
{
	struct world *w = *state;
	const struct pool_facts *f;

	/* there is no pool node yet, so the pod does not count */
	add_waiting(w, "before", "Unschedulable");
	assert_ok(add_node(w, "n1", "pool", "'pool':{}", "", NULL));
	add_waiting(w, "u1", "Unschedulable");
	add_waiting(w, "u2", "SchedulerError");
	f = pool_view_facts(w->view, 0);
	assert_int_equal(f->n_sources, 1);
	assert_string_equal(f->source[0].uid, "u1");
	assert_int_equal(f->source[0].milli, 1300);
}

static void a_wrong_policy_is_named_and_left_out(void **state)
{
	struct world *w = *state;
	struct error err;

	assert_int_equal(add_node(w, "n1", "pool", "'pool':{'policy':'often'}", "", &err), -EINVAL);
	assert_contains(err.msg, "GPUNode n1");
	assert_contains(err.msg, "often");
	assert_int_equal(pool_view_facts(w->view, 0)->n_nodes, 0);
}

static void nodes_without_a_pool_do_not_matter(void **state)
{
	struct world *w = *state;
	const json_t *pool = object(w, "{'divvy.gpu/owner':'pool'}"),
		     *divvy = object(w, "{'divvy.gpu/owner':'divvy'}"),
		     *wish = object(w, "{'spec':{'pool':{}}}"), *none = object(w, "{'spec':{}}"),
		     *left = object(w, "{'spec':{},'status':{'owner':'pool'}}");

	assert_true(pool_view_has(pool, wish));
	assert_true(pool_view_has(divvy, left)); /* its tenants may have lost their devices */
	assert_false(pool_view_has(pool, none));
	assert_false(pool_view_has(divvy, wish));
	assert_false(pool_view_has(NULL, NULL));
}

#define SHARES(milli) \
	"'nodeName':'n1','containers':[{'resources':{'requests':{'divvy.gpu/milli':'" milli "'}}}" \
	"]"

static void the_free_share_of_a_device_is_counted(void **state)
{
	struct world *w = *state;
	const struct pool_facts *f;
	static const struct {
		const char *name, *devices, *spec;
	} tenants[] = {{"a", "main=GPU-1", SHARES("300")}, {"b", "main=GPU-1", SHARES("250")},
		{"c", "main=GPU-1,GPU-2", SHARES("800")}};

	assert_ok(add_node(w, "n1", "pool", "'pool':{}", two, NULL));
	add_placeholder(w, "p1", NS, "'nodeName':'n1'", "");
	add_placeholder(w, "p2", NS, "'nodeName':'n1'", "");
	for (size_t i = 0; i < ARRAY_SIZE(tenants); i++)
		pool_view_add_pod(w->view,
			object(w,
				"{'metadata':{'name':'%s','namespace':'a','annotations':{"
				"'divvy.gpu/devices':'%s'}},'spec':{%s}}",
				tenants[i].name, tenants[i].devices, tenants[i].spec));
	f = pool_view_facts(w->view, 0);
	assert_int_equal(find(f, "p1")->free_milli, 50);
	assert_int_equal(find(f, "p2")->free_milli, 600);
}

static void the_image_is_that_of_the_controllers_container(void **state)
{
	struct world *w = *state;

	assert_string_equal(pool_view_image(object(w,
				    "{'spec':{'containers':[{'name':'proxy','image':'other'},"
				    "{'name':'controller','image':'ours'}]}}")),
		"ours");
	assert_string_equal(
		pool_view_image(object(w, "{'spec':{'containers':[{'name':'c','image':'i'}]}}")),
		"i");
	assert_null(pool_view_image(object(w, "{'spec':{}}")));
	assert_null(pool_view_image(NULL));
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* So that an autoscaler does not keep the node. A pod that has no node yet may cause a new node. */
static void a_bound_placeholder_is_marked_once(void **state)
{
	static const struct {
		const char *metadata, *spec, *node;
		bool is_marked;
	} cases[] = {
		{"'uid':'u'", "'nodeName':'n'", "{'metadata':{'uid':'node-uid'}}", true},
		{"'uid':'u','annotations':{'a':'b'}", "'nodeName':'n'",
			"{'metadata':{'uid':'node-uid'}}", true},
		{"'uid':'u'", "'hostNetwork':false", "{'metadata':{'uid':'node-uid'}}", false},
		{"'uid':'u'", "'nodeName':'n'", "{}", false},
		{"'uid':'u','deletionTimestamp':'t'", "'nodeName':'n'",
			"{'metadata':{'uid':'node-uid'}}", false},
		{"'uid':'u','annotations':{'cluster-autoscaler.kubernetes.io/daemonset-pod':'true'}",
			"'nodeName':'n'", "{'metadata':{'uid':'node-uid'}}", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *pod = NULL, *node = unit_json(cases[i].node), *patch = NULL;
		const json_t *owner;
		char text[512];

		snprintf(text, sizeof(text), "{'metadata':{%s},'spec':{%s}}", cases[i].metadata,
			cases[i].spec);
		pod = unit_json(text);
		patch = placeholder_bound_patch(pod, node);
		if (!patch != !cases[i].is_marked)
			fail_msg("case %zu", i);
		if (!patch)
			continue;
		owner = json_array_get(kube_json_at(patch, "metadata", "ownerReferences", NULL), 0);
		assert_string_equal(kube_json_text(owner, "kind"), "Node");
		assert_string_equal(kube_json_text(owner, "name"), "n");
		assert_string_equal(kube_json_text(owner, "uid"), "node-uid");
		assert_string_equal(kube_json_text_at(patch, "metadata", "uid", NULL), "u");
	}
}

UNIT_MAIN(IN_WORLD(a_placeholder_names_its_node),
	IN_WORLD(a_pod_with_the_device_uses_the_placeholder),
	IN_WORLD(a_device_is_not_the_one_whose_uuid_begins_alike),
	IN_WORLD(an_ended_placeholder_holds_no_device),
	IN_WORLD(tenants_of_a_returned_device_are_deleted),
	IN_WORLD(a_pod_that_waits_for_a_device_is_a_source),
	IN_WORLD(a_pod_that_no_device_helps_is_no_source),
	IN_WORLD(init_containers_wait_for_devices_too),
	IN_WORLD(large_requests_count_as_whole_devices),
	IN_WORLD(no_more_is_reserved_than_there_is), IN_WORLD(an_unknown_device_may_be_used),
	IN_WORLD(a_silent_daemon_keeps_no_placeholder),
	IN_WORLD(a_wrong_policy_is_named_and_left_out),
	IN_WORLD(nodes_without_a_pool_do_not_matter),
	IN_WORLD(the_free_share_of_a_device_is_counted),
	IN_WORLD(the_image_is_that_of_the_controllers_container),
	UNIT(a_bound_placeholder_is_marked_once))
