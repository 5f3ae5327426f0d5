/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the fields that the controller adds to the configurations of webhooks. */
#include "controller/webhook-config.h"

#include "unit-json.h"
#include "unit.h"

#define SYSTEM "'kube-system'"
#define HOOK(name, client, values, more) \
	"{'name':'" name "','clientConfig':{" client "},'namespaceSelector':{'matchExpressions':[" \
	"{'key':'divvy.gpu/admission','operator':'NotIn','values':['ignore']}," \
	"{'key':'kubernetes.io/metadata.name','operator':'NotIn','values':[" values "]}]}" more \
	"}"
#define CLIENT(bundle, ns) \
	"'caBundle':'" bundle "','service':{'name':'divvy-controller','namespace':'" ns "'}"

static json_t *patch_of(const json_t *hook, const char *ns, const char *dialects)
{
	struct dialect_config config;
	const struct hook_want want = {.bundle = "b",
		.service = "divvy-controller",
		.ns = ns,
		.dialects = dialects ? &config : NULL};
	json_t *patch = NULL;

	if (dialects)
		assert_ok(dialect_config_parse(str_from(dialects), &config, NULL));
	assert_ok(hook_patch(hook, &want, &patch));
	return patch;
}

static void only_missing_fields_are_written(void **state)
{
	static const struct {
		const char *hook, *ns, *patch; /* patch: the expected patch; NULL: none */
	} cases[] = {
		{HOOK("h", CLIENT("b", "divvy-system"), SYSTEM ",'divvy-system'", ""),
			"divvy-system", NULL},
		{HOOK("h", CLIENT("a", "divvy-system"), SYSTEM ",'divvy-system'", ""),
			"divvy-system", "{'name':'h','clientConfig':{'caBundle':'b'}}"},
		{HOOK("h", "'service':{'name':'divvy-controller','namespace':'divvy-system'}",
			 SYSTEM ",'divvy-system'", ""),
			"divvy-system", "{'name':'h','clientConfig':{'caBundle':'b'}}"},
		{HOOK("h", CLIENT("b", "divvy-system"), SYSTEM ",'divvy-system'", ""), "gpu",
			"{'name':'h','clientConfig':{'caBundle':'b','service':{'namespace':'gpu'}},"
			"'namespaceSelector':{'matchExpressions':["
			"{'key':'divvy.gpu/admission','operator':'NotIn','values':['ignore']},"
			"{'key':'kubernetes.io/metadata.name','operator':'NotIn','values':["
			"'kube-system','divvy-system','gpu']}]}}"},
		/* A hook of another Service, and a hook with a URL. */
		{"{'name':'h','clientConfig':{'caBundle':'b','service':{'name':'other',"
		 "'namespace':'x'}}}",
			"gpu", NULL},
		{"{'name':'h','clientConfig':{'caBundle':'b','url':'https://c'},"
		 "'namespaceSelector':{'matchLabels':{'divvy.gpu/leases':'node'}}}",
			"gpu", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *hook = unit_json(cases[i].hook);
		_cleanup_json_ json_t *patch = patch_of(hook, cases[i].ns, NULL);
		_cleanup_json_ json_t *want = cases[i].patch ? unit_json(cases[i].patch) : NULL;

		if ((want || patch) && !json_equal(patch, want))
			fail_msg("%s: %s", cases[i].hook, patch ? json_dumps(patch, 0) : "none");
	}
}

static void new_pods_have_a_condition(void **state)
{
	static const char *const hooks[] = {"pods.mutate.divvy.gpu", "pods.create.divvy.gpu",
		"pods.update.divvy.gpu", "objects.divvy.gpu"};

	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		_cleanup_json_ json_t *hook = unit_json(HOOK("", CLIENT("b", "divvy-system"),
					      "'divvy-system'", "")),
				      *patch = NULL, *condition = NULL, *again = NULL;

		json_object_set_new(hook, "name", json_string(hooks[i]));
		patch = patch_of(hook, "divvy-system", "");
		assert_int_equal(patch != NULL, i < 2);
		if (!patch)
			continue;
		condition = json_incref(
			json_array_get(json_object_get(patch, "matchConditions"), 0));
		assert_string_equal(kube_json_text_at(condition, "name", NULL), HOOK_CONDITION);
		/*
		 * A further condition of an administrator stays, and a complete hook is not written
		 * again.
		 */
		json_object_set_new(hook, "matchConditions",
			json_pack("[{s:s, s:s}, O]", "name", "mine", "expression", "true",
				condition));
		assert_null(patch_of(hook, "divvy-system", ""));
		again = patch_of(hook, "divvy-system", "nvidia");
		assert_non_null(again);
	}
}

static void a_nodes_own_lease_needs_no_review(void **state)
{
	_cleanup_json_ json_t *hook = unit_json(HOOK(HOOK_LEASES, CLIENT("b", "divvy-system"),
				      "'divvy-system'", "")),
			      *patch = patch_of(hook, "divvy-system", "");
	const json_t *condition = json_array_get(json_object_get(patch, "matchConditions"), 0);

	assert_string_equal(kube_json_text_at(condition, "name", NULL), HOOK_LEASES_CONDITION);
	assert_string_equal(kube_json_text_at(condition, "expression", NULL),
		"!has(request.userInfo.extra) || "
		"!('authentication.kubernetes.io/node-name' in request.userInfo.extra) || "
		"!(request.name in "
		"request.userInfo.extra['authentication.kubernetes.io/node-name'])");
	json_object_update(hook, patch);
	assert_null(patch_of(hook, "divvy-system", "nvidia"));
	/* The server drops conditions. */
	json_object_del(hook, "matchConditions");
	assert_null(patch_of(hook, "divvy-system", NULL));
}

/*
 * The answer of an API server that drops conditions is the unchanged object. The authority must be
 * written although conditions are missing.
 */
static void trust_does_not_wait_for_conditions(void **state)
{
	_cleanup_json_ json_t *hooks = json_array(), *trust = NULL, *none = NULL, *all = NULL,
			      *want_list = unit_json(
				      "[{'name':'" HOOK_PODS "','clientConfig':{'caBundle':'b'}}]");
	struct dialect_config config;
	struct hook_want want = {.bundle = "b", .service = "divvy-controller", .ns = "gpu"};

	assert_ok(dialect_config_parse(STR(""), &config, NULL));
	json_array_append_new(hooks, unit_json(HOOK(HOOK_PODS, CLIENT("a", "gpu"), "'gpu'", "")));
	assert_ok(hook_patch_all(hooks, &want, &trust));
	assert_true(json_equal(trust, want_list));
	json_object_update_recursive(json_array_get(hooks, 0), json_array_get(trust, 0));
	assert_ok(hook_patch_all(hooks, &want, &none));
	assert_null(none);
	want.dialects = &config;
	assert_true(hook_has_lost_conditions(hooks));
	assert_ok(hook_patch_all(hooks, &want, &all));
	assert_int_equal(json_array_size(all), 2);
	json_object_update(json_array_get(hooks, 0), json_array_get(all, 0));
	json_array_append(hooks, json_array_get(all, 1));
	assert_false(hook_has_lost_conditions(hooks));
	assert_ok(hook_patch_all(hooks, &want, &none));
	assert_null(none);
}

/*
 * HOOK_LATE, the webhook for keys that other webhooks add, is a new element of the list. So its
 * clientConfig must be complete.
 */
static void late_keys_have_a_hook_of_their_own(void **state)
{
	_cleanup_json_ json_t *hooks = json_array(), *late = NULL, *none = NULL, *selector = NULL;
	struct dialect_config config;
	struct hook_want want = {.bundle = "b", .service = "divvy-controller", .ns = "gpu"};

	json_array_append_new(hooks,
		unit_json(HOOK(HOOK_PODS, CLIENT("a", "divvy-system"), "'divvy-system'",
			",'failurePolicy':'Fail','timeoutSeconds':5,'matchConditions':[]")));
	assert_ok(hook_late(hooks, &want, &none));
	assert_null(none);
	assert_ok(dialect_config_parse(STR(""), &config, NULL));
	want.dialects = &config;
	assert_ok(hook_late(hooks, &want, &late));
	assert_string_equal(kube_json_text_at(late, "name", NULL), HOOK_LATE);
	assert_string_equal(kube_json_text_at(late, "failurePolicy", NULL), "Ignore");
	assert_string_equal(kube_json_text_at(late, "clientConfig", "caBundle", NULL), "b");
	assert_string_equal(
		kube_json_text_at(late, "clientConfig", "service", "namespace", NULL), "gpu");
	assert_string_equal(kube_json_text_at(late, "clientConfig", "service", "name", NULL),
		"divvy-controller");
	assert_null(json_object_get(late, "matchConditions"));
	selector = unit_json("{'matchExpressions':[{'key':'divvy.gpu/tenant','operator':"
			     "'DoesNotExist'}]}");
	assert_true(json_equal(json_object_get(late, "objectSelector"), selector));
	json_array_append(hooks, late);
	assert_ok(hook_late(hooks, &want, &none));
	assert_null(none);
}

static void the_late_hook_sees_the_same_pods(void **state)
{
	_cleanup_json_ json_t *hooks = json_array(), *late = NULL, *list = NULL, *none = NULL,
			      *selector = unit_json("{'matchLabels':{'a':'b'},'matchExpressions':["
						    "{'key':'divvy.gpu/tenant','operator':"
						    "'DoesNotExist'}],'$patch':'replace'}"),
			      *exclusions = NULL, *rules = unit_json("[{'operations':['CREATE']}]");
	struct dialect_config config;
	struct hook_want want = {
		.bundle = "b", .service = "divvy-controller", .ns = "gpu", .dialects = &config};
	json_t *pods = unit_json(HOOK(HOOK_PODS, CLIENT("b", "gpu"), "'gpu'", ",'rules':[]"));
	json_t *change;

	assert_ok(dialect_config_parse(STR(""), &config, NULL));
	json_array_append_new(hooks, pods);
	assert_ok(hook_late(hooks, &want, &late));
	json_array_append(hooks, late);
	/* An administrator changed HOOK_PODS, and HOOK_LATE has an old authority. */
	json_object_set(pods, "rules", rules);
	json_object_set_new(pods, "objectSelector", unit_json("{'matchLabels':{'a':'b'}}"));
	exclusions = unit_json(
		"{'matchExpressions':[{'key':'kubernetes.io/metadata.name','operator':'NotIn',"
		"'values':['mine','gpu']}],'$patch':'replace'}");
	json_object_set_new(pods, "namespaceSelector", json_deep_copy(exclusions));
	json_object_del(json_object_get(pods, "namespaceSelector"), "$patch");
	json_object_set_new(json_object_get(late, "clientConfig"), "caBundle", json_string("a"));
	want.dialects = NULL;
	assert_ok(hook_patch_all(hooks, &want, &list));
	assert_int_equal(json_array_size(list), 1);
	change = json_array_get(list, 0);
	assert_string_equal(kube_json_text_at(change, "name", NULL), HOOK_LATE);
	assert_string_equal(kube_json_text_at(change, "clientConfig", "caBundle", NULL), "b");
	assert_true(json_equal(json_object_get(change, "rules"), rules));
	assert_true(json_equal(json_object_get(change, "objectSelector"), selector));
	assert_true(json_equal(json_object_get(change, "namespaceSelector"), exclusions));
	json_object_update(late, change);
	json_object_del(json_object_get(late, "objectSelector"), "$patch");
	json_object_del(json_object_get(late, "namespaceSelector"), "$patch");
	assert_ok(hook_patch_all(hooks, &want, &none));
	assert_null(none);
}

static void an_expression_names_all_listed_dialects(void **state)
{
	static const struct {
		const char *dialects, *part;
		bool is_there;
	} cases[] = {
		{"",
			"(has(object.metadata.annotations) && "
			"object.metadata.annotations.exists(k, k.contains('divvy.gpu/')))",
			true},
		{"",
			"(has(object.metadata.labels) && object.metadata.labels.exists(k, "
			"k.contains('divvy.gpu/')))",
			true},
		{"",
			"(has(c.resources.limits) && c.resources.limits.exists(k, "
			"k.startsWith('divvy.gpu/')))",
			true},
		{"", "object.spec.initContainers.exists(c, ", true},
		{"", "object.spec.priorityClassName == 'divvy-placeholder'", true},
		{"", "nvidia.com/", false},
		{"nvidia", "k.startsWith('nvidia.com/')", true},
		{"hami,nvidia", "k.startsWith('nvidia.com/') || k.startsWith('nvidia.com/')",
			false},
		{"kubeshare", "k.startsWith('kubeshare/')", true},
		{"gpushare", "k.startsWith('aliyun.com/')", true},
		{"gaiagpu", "k.startsWith('tencent.com/')", true},
		{"kai", "k.startsWith('gpu-fraction')", true},
		{"kai", "k.startsWith('gpu-memory')", true},
		{"kai", "k.startsWith('nvidia.com/container.')", true},
		{"kai", "k.startsWith('nvidia.com/')", false},
		{"volcano=10", "k.startsWith('volcano.sh/')", true},
		{"koordinator", "k.startsWith('koordinator.sh/')", true},
		{"timeslicing=4", "k.startsWith('nvidia.com/')", true},
		{"mig", "k.startsWith('nvidia.com/')", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *expression = NULL;
		struct dialect_config config;
		bool is_there;

		assert_ok(dialect_config_parse(str_from(cases[i].dialects), &config, NULL));
		expression = hook_expression(&config);
		is_there = strstr(json_string_value(expression), cases[i].part) != NULL;
		if (is_there != cases[i].is_there)
			fail_msg("%s: %s", cases[i].dialects, json_string_value(expression));
	}
}

/* The expression tests for each key by which a dialect requests a share. */
static void no_dialect_is_forgotten(void **state)
{
	for (size_t i = 1; dialect_at(i); i++) {
		_cleanup_json_ json_t *expression = NULL;
		struct dialect_config config = {.enabled = 1u << i};

		expression = hook_expression(&config);
		for (const struct dialect_key *k = dialect_at(i)->keys; k->key; k++) {
			char domain[128];

			if (k->use != DIALECT_REQUESTS)
				continue;
			/* the domain with its slash, or the whole key if it has none */
			snprintf(domain, sizeof(domain), "k.startsWith('%.*s",
				(int)strcspn(k->key, "/") + 1, k->key);
			assert_contains(json_string_value(expression), domain);
		}
	}
}

UNIT_MAIN(UNIT(only_missing_fields_are_written), UNIT(new_pods_have_a_condition),
	UNIT(a_nodes_own_lease_needs_no_review), UNIT(trust_does_not_wait_for_conditions),
	UNIT(late_keys_have_a_hook_of_their_own), UNIT(the_late_hook_sees_the_same_pods),
	UNIT(an_expression_names_all_listed_dialects), UNIT(no_dialect_is_forgotten))
