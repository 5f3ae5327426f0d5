/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the webhooks' configurations. The match expression may match too many pods but never too
 * few: it tests only whether a key contains "divvy.gpu/", or begins with the prefix or domain of a
 * dialect's keys. If the API server cannot evaluate the expression, failurePolicy applies, and the
 * pod is refused.
 */
#include "controller/webhook-config.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "manifest/placeholder.h"

#define EXPRESSION_MAX (16u << 10)
#define TERMS_MAX 64u
/* seconds that the creation of a pod without a share takes while the controller is down */
#define LATE_TIMEOUT_S 1
#define METADATA_NAME "kubernetes.io/metadata.name"

/*
 * The webhooks for new pods, which need the match condition HOOK_CONDITION. The other webhooks
 * match only tenants or divvy's own objects.
 */
static const char *const of_new_pods[] = {HOOK_PODS, "pods.create.divvy.gpu"};

/* ---- which pods ---- */

/* Tests of the match expression on a key k of a pod, without duplicates: k.FUNCTION('text'). */
struct terms {
	struct str text[TERMS_MAX];
	const char *of[TERMS_MAX]; /* FUNCTION of each test, a function of CEL */
	size_t n;
};

static void webhook_config_add_term(struct terms *t, const char *function, struct str text)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->text[i], text) && !strcmp(t->of[i], function))
			return;
	if (t->n < TERMS_MAX) {
		t->text[t->n] = text;
		t->of[t->n++] = function;
	}
}

/* Returns the domain of a key: "nvidia.com/" for "nvidia.com/gpu". */
static struct str domain_of(const char *key)
{
	const struct str s = str_from(key);

	return (struct str){s.p, MIN(str_find(s, '/') + 1, s.n)};
}

static void add_dialect(
	const struct dialect *dialect, struct terms *metadata, struct terms *resources)
{
	if (dialect->prefix)
		webhook_config_add_term(metadata, "startsWith", str_from(dialect->prefix));
	for (const struct dialect_key *k = dialect->keys; k->key; k++) {
		if (k->use != DIALECT_REQUESTS)
			continue;
		if (k->where == DIALECT_RESOURCE)
			webhook_config_add_term(resources, "startsWith", domain_of(k->key));
		else if (!dialect->prefix)
			webhook_config_add_term(metadata, "startsWith", str_from(k->key));
	}
}

static void put_map(struct buf *out, const char *map, const struct terms *terms)
{
	buf_addf(out, "(has(%s) && %s.exists(k, ", map, map);
	for (size_t i = 0; i < terms->n; i++)
		buf_addf(out, "%sk.%s('%" STR_FMT "')", i ? " || " : "", terms->of[i],
			STR_ARG(terms->text[i]));
	buf_add_text(out, "))");
}

static void put_containers(struct buf *out, const char *list, const struct terms *resources)
{
	buf_addf(out, "(has(%s) && %s.exists(c, has(c.resources) && (", list, list);
	put_map(out, "c.resources.limits", resources);
	buf_add_text(out, " || ");
	put_map(out, "c.resources.requests", resources);
	buf_add_text(out, ")))");
}

json_t *hook_expression(const struct dialect_config *dialects)
{
	_cleanup_buf_ struct buf out = BUF_INIT(EXPRESSION_MAX);
	struct terms metadata = {0}, resources = {0};

	webhook_config_add_term(&metadata, "contains", STR("divvy.gpu/"));
	webhook_config_add_term(&resources, "startsWith", STR("divvy.gpu/"));
	for (size_t i = 1; dialect_at(i); i++)
		if (dialects->enabled >> i & 1)
			add_dialect(dialect_at(i), &metadata, &resources);
	put_map(&out, "object.metadata.annotations", &metadata);
	buf_add_text(&out, " || ");
	put_map(&out, "object.metadata.labels", &metadata);
	buf_add_text(&out, " || ");
	put_containers(&out, "object.spec.containers", &resources);
	buf_add_text(&out, " || ");
	put_containers(&out, "object.spec.initContainers", &resources);
	buf_add_text(&out,
		" || (has(object.spec.priorityClassName) && "
		"object.spec.priorityClassName == '" PLACEHOLDER_NAME "')");
	return buf_error(&out) < 0 ? NULL : json_string(buf_text(&out));
}

static bool is_of_new_pods(const json_t *hook)
{
	const char *name = kube_json_text_at(hook, "name", NULL);

	for (size_t i = 0; name && i < ARRAY_SIZE(of_new_pods); i++)
		if (!strcmp(name, of_new_pods[i]))
			return true;
	return false;
}

/*
 * API servers since 1.30 put the node of a token's pod into the user's attributes. The Lease of
 * that node needs no further check, and thousands of nodes renew their Leases every 10 s.
 */
#define EXTRA "request.userInfo.extra"
#define EXTRA_NODE "'authentication.kubernetes.io/node-name'"
#define OF_ANOTHER_NODE \
	"!has(" EXTRA ") || !(" EXTRA_NODE " in " EXTRA ") || !(request.name in " EXTRA \
	"[" EXTRA_NODE "])"

/* The name of the condition that the hook needs; NULL: none. */
static const char *condition_name(const json_t *hook)
{
	const char *name = kube_json_text_at(hook, "name", NULL);

	if (name && !strcmp(name, HOOK_LEASES))
		return HOOK_LEASES_CONDITION;
	return is_of_new_pods(hook) ? HOOK_CONDITION : NULL;
}

/* Returns the expression of the condition that the hook needs; NULL: it has no such condition. */
static const json_t *webhook_config_condition(const json_t *hook)
{
	const json_t *list = json_object_get(hook, "matchConditions");

	return json_object_get(kube_json_find(list, "name", condition_name(hook)), "expression");
}

bool hook_has_lost_conditions(const json_t *hooks)
{
	for (size_t i = 0; i < json_array_size(hooks); i++)
		if (is_of_new_pods(json_array_get(hooks, i)) &&
			!webhook_config_condition(json_array_get(hooks, i)))
			return true;
	return false;
}

/* Returns 1 if the patch sets the condition, 0 if the hook has it already. */
static int want_condition(const json_t *hook, const struct hook_want *want, json_t *patch)
{
	const char *name = condition_name(hook);
	const json_t *now = name ? webhook_config_condition(hook) : NULL;
	_cleanup_json_ json_t *expression = NULL;

	if (!want->dialects || !name)
		return 0;
	expression = is_of_new_pods(hook) ? hook_expression(want->dialects)
					  : json_string(OF_ANOTHER_NODE);
	if (expression && now && json_equal(now, expression))
		return 0;
	if (!expression ||
		json_object_set_new(patch, "matchConditions",
			json_pack("[{s:s, s:O}]", "name", name, "expression", expression)) < 0)
		return -ENOMEM;
	return 1;
}

/* ---- service and namespace ---- */

static int want_client(const json_t *hook, const struct hook_want *want, json_t *patch)
{
	const char *bundle = kube_json_text_at(hook, "clientConfig", "caBundle", NULL),
		   *service = kube_json_text_at(hook, "clientConfig", "service", "name", NULL),
		   *ns = kube_json_text_at(hook, "clientConfig", "service", "namespace", NULL);
	const bool is_elsewhere = service && ns && !strcmp(service, want->service) &&
		strcmp(ns, want->ns);
	json_t *client;

	if (bundle && !strcmp(bundle, want->bundle) && !is_elsewhere)
		return 0;
	client = json_pack("{s:s}", "caBundle", want->bundle);
	if (client && is_elsewhere)
		json_object_set_new(client, "service", json_pack("{s:s}", "namespace", want->ns));
	return client && json_object_set_new(patch, "clientConfig", client) == 0 ? 1 : -ENOMEM;
}

/*
 * Adds the controller's namespace to the hook's excluded namespaces. A patch can only replace the
 * whole list.
 */
static int want_exclusion(const json_t *hook, const struct hook_want *want, json_t *patch)
{
	_cleanup_json_ json_t *list = json_deep_copy(
		kube_json_at(hook, "namespaceSelector", "matchExpressions", NULL));
	int r = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *e = json_array_get(list, i), *values = json_object_get(e, "values");
		const char *key = kube_json_text_at(e, "key", NULL),
			   *operator= kube_json_text_at(e, "operator", NULL);

		if (!key || !operator|| strcmp(key, METADATA_NAME) || strcmp(operator, "NotIn") ||
			kube_json_list_has(values, want->ns))
			continue;
		if (json_array_append_new(values, json_string(want->ns)) < 0)
			return -ENOMEM;
		r = 1;
	}
	if (!r)
		return 0;
	return json_object_set_new(
		       patch, "namespaceSelector", json_pack("{s:O}", "matchExpressions", list)) < 0
		? -ENOMEM
		: 1;
}

int hook_patch(const json_t *hook, const struct hook_want *want, json_t **ret_patch)
{
	_cleanup_json_ json_t *patch = json_pack(
		"{s:s*}", "name", json_string_value(json_object_get(hook, "name")));
	int (*const all[])(const json_t *hook, const struct hook_want *want, json_t *patch) = {
		want_client, want_exclusion, want_condition};
	bool is_changed = false;

	if (!patch)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		int r = all[i](hook, want, patch);

		if (r < 0)
			return r;
		is_changed |= r > 0;
	}
	*ret_patch = is_changed ? TAKE_PTR(patch) : NULL;
	return 0;
}

/*
 * Returns the objectSelector of the hook `of`, extended so that pods with the label of tenants do
 * not match. The caller releases it; NULL: no memory.
 */
static json_t *late_selector(const json_t *of)
{
	const json_t *theirs = json_object_get(of, "objectSelector");
	_cleanup_json_ json_t *selector = theirs ? json_deep_copy(theirs) : json_object(),
			      *list = json_array(),
			      *no_tenant = json_pack("{s:s, s:s}", "key", DIALECT_TENANT_LABEL,
				      "operator", "DoesNotExist");
	json_t *expressions = json_object_get(selector, "matchExpressions");

	if (expressions && json_array_extend(list, expressions) < 0)
		return NULL;
	if (json_array_append(list, no_tenant) < 0 ||
		json_object_set(selector, "matchExpressions", list) < 0)
		return NULL;
	return TAKE_PTR(selector);
}

/* Makes HOOK_LATE from HOOK_PODS (`of`). */
static int make_late(const json_t *of, const struct hook_want *want, json_t **ret_hook)
{
	_cleanup_json_ json_t *hook = json_deep_copy(of), *change = json_object(), *more = NULL;
	json_t *selector = late_selector(of);

	more = json_pack("{s:s, s:s, s:i, s:o}", "name", HOOK_LATE, "failurePolicy", "Ignore",
		"timeoutSeconds", LATE_TIMEOUT_S, "objectSelector", selector);
	if (!hook || !more || !change || json_object_update(hook, more) < 0 ||
		want_client(of, want, change) < 0 || want_exclusion(of, want, change) < 0 ||
		json_object_update_recursive(hook, change) < 0)
		return -ENOMEM;
	json_object_del(hook, "matchConditions");
	*ret_hook = TAKE_PTR(hook);
	return 0;
}

/*
 * Adds to the patch the selectors and rules of `want` that `hook` lacks, so that both match the
 * same pods. Returns 1, or 0 if `hook` has all of them.
 */
static int want_same_pods(const json_t *hook, const json_t *want, json_t *patch)
{
	static const char *const fields[] = {"namespaceSelector", "objectSelector", "rules"};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const json_t *value = json_object_get(want, fields[i]);
		json_t *copy;

		if (!value || json_equal(value, json_object_get(hook, fields[i])))
			continue;
		copy = json_deep_copy(value);
		/*
		 * A strategic merge patch would keep old labels of a selector, so "$patch" replaces
		 * the selector.
		 */
		if (json_is_object(copy))
			json_object_set_new(copy, "$patch", json_string("replace"));
		if (json_object_set_new(patch, fields[i], copy) < 0)
			return -ENOMEM;
		r = 1;
	}
	return r;
}

int hook_late(const json_t *hooks, const struct hook_want *want, json_t **ret_hook)
{
	const json_t *of = kube_json_find(hooks, "name", HOOK_PODS),
		     *now = kube_json_find(hooks, "name", HOOK_LATE);
	_cleanup_json_ json_t *hook = NULL, *patch = NULL;
	int r;

	*ret_hook = NULL;
	if (!of || (!now && !want->dialects))
		return 0;
	r = make_late(of, want, &hook);
	if (r < 0)
		return r;
	if (!now) {
		*ret_hook = TAKE_PTR(hook);
		return 0;
	}
	patch = json_pack("{s:s}", "name", HOOK_LATE);
	r = patch ? want_same_pods(now, hook, patch) : -ENOMEM;
	if (r < 0)
		return r;
	*ret_hook = r ? TAKE_PTR(patch) : NULL;
	return 0;
}

/*
 * Adds a change to the list. A patch may have only one element for each hook, so a second change is
 * merged into the first. For HOOK_LATE the change from hook_late() comes last and overwrites.
 */
static int add_change(json_t *list, json_t *change)
{
	json_t *earlier = (json_t *)kube_json_find(
		list, "name", kube_json_text_at(change, "name", NULL));
	int r;

	if (!earlier)
		return json_array_append_new(list, change);
	r = json_object_update(earlier, change);
	json_decref(change);
	return r;
}

int hook_patch_all(const json_t *hooks, const struct hook_want *want, json_t **ret_list)
{
	_cleanup_json_ json_t *list = json_array();

	*ret_list = NULL;
	for (size_t i = 0; i <= json_array_size(hooks); i++) {
		json_t *change = NULL;
		int r = i < json_array_size(hooks)
			? hook_patch(json_array_get(hooks, i), want, &change)
			: hook_late(hooks, want, &change);

		if (r < 0)
			return r;
		if (change && add_change(list, change) < 0)
			return -ENOMEM;
	}
	if (!list)
		return -ENOMEM;
	if (json_array_size(list))
		*ret_list = TAKE_PTR(list);
	return 0;
}
