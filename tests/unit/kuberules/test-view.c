/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the view: objects in any order, changes, and that a changed view equals a view that is
 * built anew.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "kuberules/fit.h"
#include "rules.h"
#include "unit-json.h"

static void set(struct view *view, enum object_kind kind, const char *text)
{
	json_t *json = unit_json(text);
	struct error err = {0};

	if (view_set(view, kind, json, &err) < 0)
		fail_msg("%s", err.msg);
	json_decref(json);
}

static const char ASKING[] = "{'metadata':{'name':'q','namespace':'a'},'spec':{'containers':[{"
			     "'name':'c','resources':{'requests':{'cpu':'1'}}}]}}";
static const char NODE_1[] = "{'metadata':{'name':'n1'},'status':{'allocatable':{'cpu':'2',"
			     "'memory':'1','pods':'3'}}}";

#define HOLDER(name, node) \
	"{'metadata':{'name':'" name "','namespace':'a'},'spec':{'nodeName':'" node \
	"','containers':[{'name':'c','resources':{'requests':{'cpu':'1','example.com/x':'1'}}}]}}"

static bool fits(struct view *view, uint32_t node)
{
	_cleanup_(fit_free_p) struct fit *fit = NULL;

	assert_ok(
		fit_new(view, pod_from_object(view_find(view, OBJECT_POD, "a", "q")), &fit, NULL));
	return fit_node(fit, node).why == FIT_OK;
}

/* Before 1.27 a pod needed a node with enough of each resource, requested or not. */
static void a_later_release_has_other_rules(void **state)
{
	struct view *view;

	assert_ok(view_new(26, &view, NULL));
	set(view, OBJECT_NODE,
		"{'metadata':{'name':'n1'},'status':{'allocatable':{'memory':'1','pods':'3'}}}");
	set(view, OBJECT_POD, HOLDER("p1", "n1"));
	set(view, OBJECT_POD,
		"{'metadata':{'name':'q','namespace':'a'},'spec':{'containers':[{'name':'c',"
		"'resources':{'requests':{'memory':'1'}}}]}}");
	assert_false(fits(view, 0));
	view_set_minor(view, 27);
	assert_true(fits(view, 0));
	view_free(view);
}

static void objects_may_come_in_any_order(void **state)
{
	struct view *view;

	assert_ok(view_new(30, &view, NULL));
	set(view, OBJECT_POD, ASKING);
	set(view, OBJECT_POD, HOLDER("p1", "n1"));
	assert_int_equal(view_n_nodes(view), 0);
	set(view, OBJECT_NODE, NODE_1);
	assert_int_equal(view_n_nodes(view), 1);
	assert_true(fits(view, 0));
	set(view, OBJECT_POD, HOLDER("p2", "n1"));
	assert_false(fits(view, 0));
	set(view, OBJECT_POD, HOLDER("p2", "n2"));
	assert_true(fits(view, 0));
	set(view, OBJECT_POD, HOLDER("p2", "n1"));
	assert_ok(view_remove(view, OBJECT_POD, "a", "p1"));
	assert_true(fits(view, 0));
	set(view, OBJECT_POD, HOLDER("p1", "n1"));
	/*
	 * The node is removed and added again. Its pods were in the view all the time and still
	 * count.
	 */
	assert_ok(view_remove(view, OBJECT_NODE, "", "n1"));
	assert_int_equal(view_find_node(view, "n1"), -ENOENT);
	set(view, OBJECT_NODE, NODE_1);
	assert_false(fits(view, 0));
	assert_int_equal(view_remove(view, OBJECT_NODE, "", "n7"), -ENOENT);
	view_free(view);
}

static void nodes_are_numbered_without_gaps(void **state)
{
	struct view *view;

	assert_ok(view_new(30, &view, NULL));
	set(view, OBJECT_NODE, "{'metadata':{'name':'n1'}}");
	set(view, OBJECT_NODE, "{'metadata':{'name':'n2'}}");
	set(view, OBJECT_NODE, "{'metadata':{'name':'n3'}}");
	assert_ok(view_remove(view, OBJECT_NODE, "", "n1"));
	assert_int_equal(view_n_nodes(view), 2);
	assert_int_equal(view_find_node(view, "n3"), 0);
	assert_int_equal(view_find_node(view, "n2"), 1);
	set(view, OBJECT_NODE, "{'metadata':{'name':'n2','labels':{'a':'b'}}}");
	assert_int_equal(view_find_node(view, "n2"), 1);
	assert_string_equal(labels_get(&view_node(view, 1)->object.labels, "a"), "b");
	view_free(view);
}

static void a_nodes_namespace_is_ignored(void **state)
{
	struct view *view;

	assert_ok(view_new(30, &view, NULL));
	set(view, OBJECT_NODE, "{'metadata':{'name':'n1'}}");
	set(view, OBJECT_NODE, "{'metadata':{'name':'n1','namespace':'x'}}");
	assert_int_equal(view_n_nodes(view), 1);
	assert_ok(view_remove(view, OBJECT_NODE, "y", "n1"));
	assert_int_equal(view_n_nodes(view), 0);
	assert_int_equal(view_remove(view, OBJECT_NODE, "x", "n1"), -ENOENT);
	view_free(view);
}

static void a_bad_object_changes_nothing(void **state)
{
	json_t *bad = unit_json("{'metadata':{'labels':{}}}");
	struct error err = {0};
	struct view *view;

	assert_int_equal(view_new(19, &view, &err), -ENOTSUP);
	assert_contains(err.msg, "1.19: the oldest supported is 1.20");
	assert_ok(view_new(20, &view, NULL));
	assert_int_equal(view_set(view, OBJECT_NODE, bad, &err), -EINVAL);
	assert_int_equal(view_n_nodes(view), 0);
	json_decref(bad);
	view_free(view);
}

static void the_number_of_topologies_is_limited(void **state)
{
	struct fit *first = NULL;
	struct view *view;
	char text[512];

	assert_ok(view_new(30, &view, NULL));
	set(view, OBJECT_NODE, NODE_1);
	set(view, OBJECT_POD,
		"{'metadata':{'name':'first','namespace':'a'},'spec':{'topologySpreadConstraints':["
		"{"
		"'maxSkew':1,'topologyKey':'x'}],'containers':[]}}");
	assert_ok(fit_new(
		view, pod_from_object(view_find(view, OBJECT_POD, "a", "first")), &first, NULL));
	/*
	 * Each pod has another topology key, more than VIEW_TOPOLOGIES_MAX. A sanitizer would find
	 * a topology that is freed while `first` uses it.
	 */
	for (int i = 0; i < 200; i++) {
		_cleanup_(fit_free_p) struct fit *fit = NULL;

		snprintf(text, sizeof(text),
			"{'metadata':{'name':'q','namespace':'a'},'spec':{'"
			"topologySpreadConstraints':[{"
			"'maxSkew':1,'topologyKey':'k%d'}],'containers':[]}}",
			i);
		set(view, OBJECT_POD, text);
		assert_ok(fit_new(
			view, pod_from_object(view_find(view, OBJECT_POD, "a", "q")), &fit, NULL));
		assert_int_equal(fit_node(fit, 0).why, FIT_SPREAD_LABEL);
	}
	/* The view has not freed the topology that `first` uses. */
	assert_string_equal(fit_node(first, 0).what, "x");
	fit_free(first);
	view_free(view);
}

static void the_summary_names_the_most_frequent_reasons(void **state)
{
	static const char *const resources[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
	struct fit_answer answers[40] = {{FIT_OK, NULL}};
	_cleanup_buf_ struct buf text = BUF_INIT(65536);

	for (uint32_t i = 1; i < 40; i++)
		answers[i] = (struct fit_answer){
			FIT_RESOURCE, resources[i % ARRAY_SIZE(resources)]};
	answers[7] = answers[8] = (struct fit_answer){FIT_CORDONED, NULL};
	fit_summarize(answers, 40, &text);
	assert_contains(buf_text(&text), "1/40 nodes: 4 too little b, ");
	assert_contains(buf_text(&text), ", 2 cordoned, ");
	assert_contains(buf_text(&text), " for other reasons");
	buf_clear(&text);
	fit_summarize(answers, 0, &text);
	assert_string_equal(buf_text(&text), "0/0 nodes");
}

/* ---- random steps, compared with a view that is built anew ---- */

#define N_NAMES 8
#define STEPS 3000

static json_t *random_node(struct rand *r, int i)
{
	char text[256];

	snprintf(text, sizeof(text),
		"{'metadata':{'name':'n%d','labels':{'zone':'z%d'}},'status':{'allocatable':{'cpu':"
		"'%d',"
		"'memory':'1','pods':'4','example.com/x':'2'}}}",
		i, (int)rand_below(r, 3), 1 + (int)rand_below(r, 3));
	return unit_json(text);
}

static json_t *random_pod(struct rand *r, int i)
{
	static const char *const affinities[] = {"", "",
		"'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{"
		"'topologyKey':'zone','labelSelector':{'matchLabels':{'app':'0'}}}]}},",
		"'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{"
		"'topologyKey':'zone','labelSelector':{'matchLabels':{'app':'1'}}}]}},",
		"'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'zone','labelSelector':{"
		"'matchLabels':{'app':'0'}}}],"};
	static const char *const phases[] = {"Pending", "Running", "Running", "Succeeded"};
	uint64_t where = rand_below(r, 3);
	char node[32] = "", nominated[48] = "", text[1024];

	if (where == 1)
		snprintf(node, sizeof(node), "'nodeName':'n%d',", (int)rand_below(r, N_NAMES));
	if (where == 2)
		snprintf(nominated, sizeof(nominated), "'nominatedNodeName':'n%d',",
			(int)rand_below(r, N_NAMES));
	snprintf(text, sizeof(text),
		"{'metadata':{'name':'p%d','namespace':'a','labels':{'app':'%d'}},'spec':{%s%s"
		"'priority':%d,'containers':[{'name':'c','resources':{'requests':{'cpu':'%d',"
		"'example.com/%c':'1'}}}]},'status':{%s'phase':'%s'}}",
		i, (int)rand_below(r, 2), node, affinities[rand_below(r, ARRAY_SIZE(affinities))],
		(int)rand_below(r, 3), (int)rand_below(r, 2), rand_below(r, 5) ? 'x' : 'y',
		nominated, phases[rand_below(r, ARRAY_SIZE(phases))]);
	return unit_json(text);
}

/*
 * Prints the nodes that each pod fits, by name, because the order of the nodes in the two views may
 * differ.
 */
static void say_all(struct view *view, struct buf *out)
{
	char name[16];

	for (int p = 0; p < N_NAMES; p++) {
		_cleanup_(fit_free_p) struct fit *fit = NULL;
		const struct object *pod;

		snprintf(name, sizeof(name), "p%d", p);
		pod = view_find(view, OBJECT_POD, "a", name);
		buf_addf(out, "\n%s:", name);
		if (!pod)
			continue;
		assert_ok(fit_new(view, pod_from_object(pod), &fit, NULL));
		for (int n = 0; n < N_NAMES; n++) {
			int node;

			snprintf(name, sizeof(name), "n%d", n);
			node = view_find_node(view, name);
			if (node >= 0)
				buf_addf(out, " %s:%d", name, fit_node(fit, (uint32_t)node).why);
		}
	}
}

static void a_changed_view_equals_a_new_one(void **state)
{
	struct rand r = rand_seeded(5);
	json_t *there[2][N_NAMES] = {{NULL}};
	static const enum object_kind kinds[] = {OBJECT_NODE, OBJECT_POD};
	struct view *view, *fresh;

	assert_ok(view_new(30, &view, NULL));
	for (int step = 0; step < STEPS; step++) {
		_cleanup_buf_ struct buf said = BUF_INIT(65536), should = BUF_INIT(65536);
		int k = (int)rand_below(&r, 2), i = (int)rand_below(&r, N_NAMES);
		char name[16];

		snprintf(name, sizeof(name), "%c%d", k ? 'p' : 'n', i);
		json_decref(there[k][i]);
		there[k][i] = NULL;
		if (rand_below(&r, 4)) {
			there[k][i] = k ? random_pod(&r, i) : random_node(&r, i);
			assert_ok(view_set(view, kinds[k], there[k][i], NULL));
		} else {
			view_remove(view, kinds[k], k ? "a" : "", name);
		}
		assert_ok(view_new(30, &fresh, NULL));
		for (int j = 0; j < 2 * N_NAMES; j++)
			if (there[j / N_NAMES][j % N_NAMES])
				assert_ok(view_set(fresh, kinds[j / N_NAMES],
					there[j / N_NAMES][j % N_NAMES], NULL));
		say_all(view, &said);
		say_all(fresh, &should);
		assert_string_equal(buf_text(&said), buf_text(&should));
		view_free(fresh);
	}
	for (int j = 0; j < 2 * N_NAMES; j++)
		json_decref(there[j / N_NAMES][j % N_NAMES]);
	view_free(view);
}

UNIT_MAIN(UNIT(a_later_release_has_other_rules), UNIT(objects_may_come_in_any_order),
	UNIT(nodes_are_numbered_without_gaps), UNIT(a_nodes_namespace_is_ignored),
	UNIT(a_bad_object_changes_nothing), UNIT(the_number_of_topologies_is_limited),
	UNIT(the_summary_names_the_most_frequent_reasons), UNIT(a_changed_view_equals_a_new_one))
