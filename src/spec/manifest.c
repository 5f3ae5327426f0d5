/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up labels, annotations, resources and containers of a pod by linear search.
 * manifest_check() bounds every list, so each search in a checked manifest has a bound too.
 * lists_resource() reads an item of LimitRanger's annotation from its end, because the item begins
 * with a list of resource names. Sums of resources saturate and never overflow. The functions keep
 * no state.
 */
#include "spec/manifest.h"

#include <errno.h>

#include "base/cleanup.h"
#include "spec/quantity.h"

#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)63), (s).p ? (s).p : ""
#define LIMIT_RANGER_KEY "kubernetes.io/limit-ranger"

const struct str *manifest_find(struct manifest_list list, struct str key)
{
	for (uint32_t i = 0; i < list.n; i++)
		if (str_eq(list.entry[i].key, key))
			return &list.entry[i].value;
	return NULL;
}

uint32_t manifest_container_find(const struct manifest *pod, struct str name)
{
	for (uint32_t i = 0; i < pod->n_containers; i++)
		if (str_eq(pod->container[i].name, name))
			return i;
	return MANIFEST_NONE;
}

bool manifest_has_slot(const struct manifest *pod, uint32_t container)
{
	const struct str *slot = manifest_find(
		pod->container[container].limits, STR(MANIFEST_SLOT));
	uint64_t n;

	/* A quantity of 0 has several spellings, such as "0" and "0.0". */
	return slot && (quantity_parse(*slot, 1, &n, NULL) < 0 || n > 0);
}

static bool manifest_skip_suffix(struct str *s, const char *word)
{
	if (!str_skip_suffix(s, str_from(word)))
		return false;
	*s = str_trim(*s);
	return true;
}

/*
 * Whether an item of LimitRanger's annotation, such as "cpu, divvy.gpu/milli limit for container
 * main", names that list, container and resource.
 */
static bool lists_resource(struct str item, const struct manifest_container *c,
	enum manifest_resources list, struct str resource)
{
	static const char *const words[] = {
		[MANIFEST_LIMITS] = "limit", [MANIFEST_REQUESTS] = "request"};
	const char *where = c->kind == MANIFEST_MAIN ? "for container" : "for init container";
	struct str name;

	item = str_trim(item);
	if (!str_skip_suffix(&item, c->name) || !item.n || item.p[item.n - 1] != ' ')
		return false;
	item = str_trim(item);
	if (!manifest_skip_suffix(&item, where) || !manifest_skip_suffix(&item, words[list]))
		return false;
	while (str_split(&item, ',', &name))
		if (str_eq(str_trim(name), resource))
			return true;
	return false;
}

bool manifest_is_limit_rangers(const struct manifest *pod, uint32_t container,
	enum manifest_resources list, struct str resource)
{
	const struct str *said = manifest_find(pod->annotations, STR(LIMIT_RANGER_KEY));
	struct str rest = said ? *said : STR_NONE, item;

	str_skip_prefix(&rest, STR("LimitRanger plugin set: "));
	while (str_split(&rest, ';', &item))
		if (lists_resource(item, &pod->container[container], list, resource))
			return true;
	return false;
}

/*
 * LimitRanger adds a slot to every container, so such a slot does not show that the author wanted a
 * GPU in this container.
 */
static bool has_own_slot(const struct manifest *pod, uint32_t container)
{
	return manifest_has_slot(pod, container) &&
		!manifest_is_limit_rangers(pod, container, MANIFEST_LIMITS, STR(MANIFEST_SLOT));
}

static bool is_managed(const struct manifest *pod, uint32_t container)
{
	return pod->container[container].is_managed;
}

static bool is_any(const struct manifest *pod, uint32_t container)
{
	return true;
}

static uint32_t main_where(
	const struct manifest *pod, bool (*is_it)(const struct manifest *pod, uint32_t container))
{
	for (uint32_t i = 0; i < pod->n_containers; i++)
		if (pod->container[i].kind == MANIFEST_MAIN && is_it(pod, i))
			return i;
	return MANIFEST_NONE;
}

static uint32_t main_named_by(const struct manifest *pod, const char *key)
{
	const struct str *name = manifest_find(pod->annotations, str_from(key));
	const uint32_t i = name ? manifest_container_find(pod, *name) : MANIFEST_NONE;

	return i != MANIFEST_NONE && pod->container[i].kind == MANIFEST_MAIN ? i : MANIFEST_NONE;
}

uint32_t manifest_main(const struct manifest *pod)
{
	/* Programs that inject sidecars set these annotations for kubectl. */
	static const char *const theirs[] = {"kubectl.kubernetes.io/default-container",
		"kubectl.kubernetes.io/default-logs-container"};
	uint32_t i = main_named_by(pod, MANIFEST_DEFAULT_KEY);

	if (i == MANIFEST_NONE)
		i = main_where(pod, has_own_slot);
	for (size_t k = 0; i == MANIFEST_NONE && k < ARRAY_SIZE(theirs); k++)
		i = main_named_by(pod, theirs[k]);
	if (i == MANIFEST_NONE)
		i = main_where(pod, is_managed);
	return i != MANIFEST_NONE ? i : main_where(pod, is_any);
}

static int manifest_check_list(struct manifest_list list, const char *what, struct error *err)
{
	if (list.n > MANIFEST_ENTRIES_MAX)
		return fail(err, EINVAL, "%s: the list has %u entries; at most %u are allowed",
			what, list.n, MANIFEST_ENTRIES_MAX);
	return 0;
}

static int manifest_check_container(const struct manifest_container *c, struct error *err)
{
	int r;

	if (!c->name.n || c->name.n > MANIFEST_CONTAINER_NAME_MAX)
		return fail(err, EINVAL,
			"container '" SHOW "': expected a name of 1 to %u characters",
			SHOWN(c->name), MANIFEST_CONTAINER_NAME_MAX);
	r = manifest_check_list(c->requests, "requests", err);
	r = r < 0 ? r : manifest_check_list(c->limits, "limits", err);
	r = r < 0 ? r : manifest_check_list(c->env, "env", err);
	return r < 0 ? fail_within(err, r, "container " SHOW, SHOWN(c->name)) : 0;
}

int manifest_check(const struct manifest *pod, struct error *err)
{
	int r = manifest_check_list(pod->labels, "labels", err);

	r = r < 0 ? r : manifest_check_list(pod->annotations, "annotations", err);
	if (r < 0)
		return r;
	if (pod->n_containers > MANIFEST_CONTAINERS_MAX)
		return fail(err, EINVAL, "containers: the pod has %u; at most %u are allowed",
			pod->n_containers, MANIFEST_CONTAINERS_MAX);
	if (pod->ns.n > MANIFEST_NAME_MAX || pod->name.n > MANIFEST_NAME_MAX ||
		pod->node.n > MANIFEST_NAME_MAX)
		return fail(err, EINVAL, "a name has %zu characters; at most %u are allowed",
			MAX(MAX(pod->ns.n, pod->name.n), pod->node.n), MANIFEST_NAME_MAX);
	for (uint32_t i = 0; r == 0 && i < pod->n_containers; i++)
		r = manifest_check_container(&pod->container[i], err);
	return r;
}

int manifest_resource(const struct manifest *pod, uint32_t container, const char *resource,
	uint64_t *ret_value, struct error *err)
{
	const struct manifest_container *c = &pod->container[container];
	const struct str *limit = manifest_find(c->limits, str_from(resource)),
			 *request = manifest_find(c->requests, str_from(resource));
	uint64_t value = 0, requested = 0;
	int r = 0;

	if (!limit && !request)
		return 0;
	if (limit)
		r = quantity_parse(*limit, 1, &value, err);
	if (r == 0 && request)
		r = quantity_parse(*request, 1, limit ? &requested : &value, err);
	if (r < 0)
		return fail_within(err, -EINVAL, "%s", resource);
	if (limit && request && value != requested)
		return fail(err, EINVAL,
			"%s: request '" SHOW "' and limit '" SHOW "' must be equal", resource,
			SHOWN(*request), SHOWN(*limit));
	*ret_value = value;
	return 1;
}

static uint64_t manifest_add_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void manifest_sum_add(struct manifest_sum *sum, enum manifest_kind kind, uint64_t need)
{
	switch (kind) {
	case MANIFEST_MAIN: sum->main = manifest_add_saturated(sum->main, need); break;
	case MANIFEST_SIDECAR:
		sum->sidecars = manifest_add_saturated(sum->sidecars, need);
		sum->most = MAX(sum->most, sum->sidecars);
		break;
	case MANIFEST_INIT:
		sum->most = MAX(sum->most, manifest_add_saturated(sum->sidecars, need));
		break;
	}
}

uint64_t manifest_sum_value(const struct manifest_sum *sum)
{
	return MAX(sum->most, manifest_add_saturated(sum->main, sum->sidecars));
}

uint64_t manifest_add_up(const struct manifest *pod, const uint64_t *need)
{
	struct manifest_sum sum = {0};

	for (uint32_t i = 0; i < pod->n_containers; i++)
		manifest_sum_add(&sum, pod->container[i].kind, need[i]);
	return manifest_sum_value(&sum);
}
