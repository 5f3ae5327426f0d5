/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of dialects, and the pass over that table that translates a pod. Each dialect that is
 * on and finds one of its keys adds tenants; specs of two dialects for one container have to be
 * equal. The pass also refuses keys that look misspelled, and adds notes about keys without effect.
 * Pure; any thread.
 */
#include "spec/dialect.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "spec/dialect-group.h"
#include "spec/dialect-internal.h"

#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)63), (s).p ? (s).p : ""
#define PER_DEVICE_DEFAULT 100u /* the default of Deepomatic's DP_NUMBER_CONTAINERS_PER_GPU */
#define VOLCANO_MIB_MAX 65536u  /* largest --gpu-memory-factor */
#define NAMES_MAX 512u          /* bytes of the names of all dialects */

static const struct dialect *const dialects[] = {
	&dialect_divvy,
	&dialect_kubeshare,
	&dialect_kubeshare2,
	&dialect_gemini,
	&dialect_gpushare,
	&dialect_gaiagpu,
	&dialect_deepomatic,
	&dialect_hami,
	&dialect_wang,
	&dialect_nvidia,
	&dialect_kai,
	&dialect_volcano,
	&dialect_koordinator,
	&dialect_timeslicing,
	&dialect_mig,
};

const struct dialect *dialect_at(size_t i)
{
	return i < ARRAY_SIZE(dialects) ? dialects[i] : NULL;
}

bool dialect_is_on(const struct dialect_config *config, const struct dialect *dialect)
{
	if (dialect == &dialect_divvy)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(dialects); i++)
		if (dialects[i] == dialect)
			return config->enabled >> i & 1;
	return false;
}

/* ---- which dialects are on ---- */

/* A number that follows the dialect's name: "deepomatic=4". */
static const struct dialect_number {
	const struct dialect *dialect;
	const char *counts;
	uint32_t max;
	uint32_t plain; /* the number that the name alone means; 0: the number is required */
	bool is_hidden; /* dialect_config_format() leaves out `plain` */
	size_t at;      /* offset in struct dialect_config */
} numbers[] = {
	{&dialect_deepomatic, "containers on a device", SPEC_SHARE_ONE, PER_DEVICE_DEFAULT, false,
		offsetof(struct dialect_config, deepomatic_per_device)},
	{&dialect_volcano, "MiB in a unit of vgpu-memory", VOLCANO_MIB_MAX, 1, true,
		offsetof(struct dialect_config, volcano_mib)},
	{&dialect_timeslicing, "replicas of each device", SPEC_SHARE_ONE, 0, false,
		offsetof(struct dialect_config, timeslicing_replicas)},
};

static const struct dialect_number *dialect_find_number(const struct dialect *dialect)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (numbers[i].dialect == dialect)
			return &numbers[i];
	return NULL;
}

static void dialect_number_set(
	struct dialect_config *config, const struct dialect_number *number, uint32_t value)
{
	*(uint32_t *)((char *)config + number->at) = value;
}

static uint32_t dialect_number_get(
	const struct dialect_config *config, const struct dialect_number *number)
{
	return *(const uint32_t *)((const char *)config + number->at);
}

static int dialect_set_option(struct dialect_config *config, const struct dialect *dialect,
	struct str option, struct error *err)
{
	const struct dialect_number *number = dialect_find_number(dialect);
	uint64_t n;

	if (dialect == &dialect_gpushare) {
		config->gpushare_is_mib = str_is(option, "MiB");
		if (!config->gpushare_is_mib && !str_is(option, "GiB"))
			return fail(err, EINVAL,
				DIALECT_LIST_KEY " gpushare=" SHOW ": expected GiB or MiB",
				SHOWN(option));
		return 0;
	}
	if (!number)
		return fail(err, EINVAL,
			DIALECT_LIST_KEY " %s=" SHOW
					 ": the dialect takes no value; write its name alone",
			dialect->name, SHOWN(option));
	if (parse_uint(option, 1, number->max, &n, NULL) < 0)
		return fail(err, EINVAL, DIALECT_LIST_KEY " %s=" SHOW ": expected 1 to %u %s",
			dialect->name, SHOWN(option), number->max, number->counts);
	dialect_number_set(config, number, (uint32_t)n);
	return 0;
}

/* Refuses the name of a dialect that lacks its number. */
static int check_option(const struct dialect *dialect, struct error *err)
{
	const struct dialect_number *number = dialect_find_number(dialect);

	if (!number || number->plain)
		return 0;
	return fail(err, EINVAL,
		DIALECT_LIST_KEY
		" %s: the number of %s is missing; write %s=N, with N from 1 to %u",
		dialect->name, number->counts, dialect->name, number->max);
}

static int fail_unknown(struct str item, struct error *err)
{
	_cleanup_buf_ struct buf names = BUF_INIT(NAMES_MAX);

	for (size_t i = 1; i < ARRAY_SIZE(dialects); i++)
		buf_addf(&names, "%s%s",
			i == 1                                 ? ""
				: i + 1 < ARRAY_SIZE(dialects) ? ", "
							       : " or ",
			dialects[i]->name);
	return fail(err, EINVAL, DIALECT_LIST_KEY " '%.*s': unknown dialect; expected %s",
		(int)MIN(item.n, (size_t)32), item.p ? item.p : "", buf_text(&names));
}

static int dialect_enable_item(struct dialect_config *config, struct str item, struct error *err)
{
	const size_t at = str_find(item, '=');
	const struct str name = str_trim((struct str){item.p, at});

	for (size_t i = 0; i < ARRAY_SIZE(dialects); i++) {
		if (!str_is(name, dialects[i]->name))
			continue;
		config->enabled |= 1u << i;
		if (at == item.n)
			return check_option(dialects[i], err);
		return dialect_set_option(config, dialects[i],
			str_trim((struct str){item.p + at + 1, item.n - at - 1}), err);
	}
	return fail_unknown(item, err);
}

int dialect_config_parse(struct str list, struct dialect_config *ret_config, struct error *err)
{
	struct dialect_config config = {0};
	struct str item;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		dialect_number_set(&config, &numbers[i], numbers[i].plain);
	while (str_split(&list, ',', &item)) {
		int r;

		item = str_trim(item);
		r = item.n ? dialect_enable_item(&config, item, err) : 0;
		if (r < 0)
			return r;
	}
	config.enabled |= 1;
	*ret_config = config;
	return 0;
}

int dialect_config_format(const struct dialect_config *config, struct buf *out)
{
	bool is_first = true;

	for (size_t i = 1; i < ARRAY_SIZE(dialects); i++) {
		const struct dialect_number *number = dialect_find_number(dialects[i]);
		const uint32_t n = number ? dialect_number_get(config, number) : 0;

		if (!(config->enabled >> i & 1))
			continue;
		buf_addf(out, "%s%s", is_first ? "" : ",", dialects[i]->name);
		if (dialects[i] == &dialect_gpushare && config->gpushare_is_mib)
			buf_add_text(out, "=MiB");
		if (number && !(number->is_hidden && n == number->plain))
			buf_addf(out, "=%u", n);
		is_first = false;
	}
	return buf_error(out);
}

bool dialect_has_scheduler(const struct dialect_config *config, struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(dialects); i++) {
		const char *const *scheduler = dialects[i]->schedulers;

		if (!(config->enabled >> i & 1))
			continue;
		for (; scheduler && *scheduler; scheduler++)
			if (str_is(name, *scheduler))
				return true;
	}
	return false;
}

/* ---- keys ---- */

/* Whether the key is the beginning of names, and not a whole name. */
static bool dialect_key_goes_on(const struct dialect_key *k)
{
	return strchr("-_.", k->key[strlen(k->key) - 1]) != NULL;
}

static bool dialect_key_is(const struct dialect_key *k, struct str name)
{
	return dialect_key_goes_on(k)
		? str_has_prefix(name, str_from(k->key)) && name.n > strlen(k->key)
		: str_is(name, k->key);
}

/* Finds the dialect's key of that name. If the key occurs in several places, prefers `where`. */
static const struct dialect_key *dialect_find_key(
	const struct dialect *dialect, enum dialect_where where, struct str name)
{
	const struct dialect_key *other = NULL;

	for (const struct dialect_key *k = dialect->keys; k->key; k++) {
		if (!dialect_key_is(k, name))
			continue;
		if (k->where == where)
			return k;
		other = k;
	}
	return other;
}

#define NEAR 3u /* edit distance below which a key counts as misspelled */

/*
 * A pod may have very many keys. This cheap test comes before the edit distance, and excludes most
 * keys.
 */
static bool may_be_near(struct str name, struct str key)
{
	const size_t domain = str_find(key, '/');

	return MAX(name.n, key.n) - MIN(name.n, key.n) < NEAR && name.n > domain &&
		str_eq((struct str){name.p, domain}, (struct str){key.p, domain});
}

/* The dialect's key in that place of which the name is probably a misspelling, or NULL. */
static const char *near_key(
	const struct dialect *dialect, enum dialect_where where, struct str name)
{
	const char *best = NULL;
	size_t nearest = NEAR;

	for (const struct dialect_key *k = dialect->keys; k->key; k++) {
		const struct str key = str_from(k->key);
		size_t d;

		if (k->where != where || dialect_key_goes_on(k) || !may_be_near(name, key))
			continue;
		d = str_distance(name, key);
		if (d < nearest) {
			nearest = d;
			best = k->key;
		}
	}
	return best;
}

/*
 * Handles a key with the dialect's prefix that the dialect does not know: refuses a misspelled key,
 * and adds a note about any other.
 */
static int check_unknown(
	struct dialect_draft *draft, enum dialect_where where, struct str name, struct error *err)
{
	const char *near = near_key(draft->dialect, where, name);

	if (near)
		return fail(err, EINVAL, "'" SHOW "': unknown field; did you mean %s?", SHOWN(name),
			near);
	draft_note(draft, "'" SHOW "' is unknown in dialect %s and has no effect", SHOWN(name),
		draft->dialect->name);
	return 0;
}

static int check_keys(struct dialect_draft *draft, enum dialect_where where,
	struct manifest_list list, struct error *err)
{
	const struct dialect *dialect = draft->dialect;

	for (uint32_t i = 0; i < list.n; i++) {
		const struct dialect_key *k = dialect_find_key(dialect, where, list.entry[i].key);
		int r = 0;

		if (k && k->use == DIALECT_IGNORES)
			draft_note(draft, "%s: %s", k->key, k->about);
		else if (k && k->use != DIALECT_GIVES && k->where != where)
			draft_note(draft, "%s is read as %s only", k->key,
				k->where == DIALECT_LABEL ? "a label" : "an annotation");
		if (!k && dialect->prefix &&
			str_has_prefix(list.entry[i].key, str_from(dialect->prefix)))
			r = check_unknown(draft, where, list.entry[i].key, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Checks the names of resources for misspellings. Many systems have similar names, so only names
 * with the dialect's prefix are compared.
 */
static int dialect_check_resources(struct dialect_draft *draft, struct error *err)
{
	const struct dialect *dialect = draft->dialect;

	for (uint32_t c = 0; c < draft->pod->n_containers; c++) {
		const struct manifest_list list = draft->pod->container[c].limits;

		for (uint32_t i = 0; i < list.n; i++) {
			const char *near = NULL;

			if (!dialect_find_key(dialect, DIALECT_RESOURCE, list.entry[i].key))
				near = near_key(dialect, DIALECT_RESOURCE, list.entry[i].key);
			if (near)
				return fail(err, EINVAL,
					"'" SHOW "': unknown resource; did you mean %s?",
					SHOWN(list.entry[i].key), near);
		}
	}
	return 0;
}

/* Whether a key of the list begins with that of the dialect, and its value is not empty. */
static bool has_beginning(struct manifest_list list, const struct dialect_key *k)
{
	for (uint32_t i = 0; i < list.n; i++)
		if (dialect_key_is(k, list.entry[i].key) && list.entry[i].value.n)
			return true;
	return false;
}

/* Whether the container has a resource whose name begins with the dialect's key. */
static bool has_resource_beginning(
	const struct dialect_draft *draft, uint32_t container, const struct dialect_key *k)
{
	struct draft_cursor cursor = {0};
	struct str name;

	return draft_next_resource(draft, container, k->key, &cursor, &name);
}

/* Whether the pod has the key with a value that is not empty: an empty value requests nothing. */
static bool dialect_has_key(const struct dialect_draft *draft, const struct dialect_key *k)
{
	const bool goes_on = dialect_key_goes_on(k);
	const struct str *value = k->where == DIALECT_LABEL ? draft_label(draft, k->key)
							    : draft_annotation(draft, k->key);

	if (k->where != DIALECT_RESOURCE && goes_on)
		return has_beginning(
			k->where == DIALECT_LABEL ? draft->pod->labels : draft->pod->annotations,
			k);
	if (k->where != DIALECT_RESOURCE)
		return value && value->n;
	for (uint32_t i = 0; i < draft->pod->n_containers; i++)
		if (goes_on ? has_resource_beginning(draft, i, k)
			    : draft_has_resource(draft, i, k->key))
			return true;
	return false;
}

static const char *dialect_find_requested(const struct dialect_draft *draft)
{
	for (const struct dialect_key *k = draft->dialect->keys; k->key; k++)
		if (k->use == DIALECT_REQUESTS && dialect_has_key(draft, k))
			return k->key;
	return NULL;
}

/* ---- one pass ---- */

/*
 * Adds a note if the pod requests a GPU in a dialect that is off. nvidia.com/gpu alone, also a key
 * of HAMi, gets no note, because it has a meaning without divvy.
 */
static void note_off(struct dialect_draft *draft)
{
	const char *key = dialect_find_requested(draft);

	if (key && !draft->dialect->is_native && strcmp(key, "nvidia.com/gpu"))
		draft_note(draft,
			"%s has no effect: dialect %s is off in this namespace; enable it with %s",
			key, draft->dialect->name, DIALECT_LIST_KEY);
}

static int translate_one(struct dialect_draft *draft, struct error *err)
{
	int r;

	if (!dialect_is_on(&draft->config, draft->dialect)) {
		note_off(draft);
		return 0;
	}
	if (draft->dialect == &dialect_divvy)
		return draft->dialect->translate(draft, err);
	if (draft->dialect->prefix || dialect_find_requested(draft)) {
		r = check_keys(draft, DIALECT_ANNOTATION, draft->pod->annotations, err);
		r = r < 0 ? r : check_keys(draft, DIALECT_LABEL, draft->pod->labels, err);
		if (r < 0)
			return r;
	}
	r = dialect_check_resources(draft, err);
	if (r < 0 || !dialect_find_requested(draft))
		return r;
	return draft->dialect->translate(draft, err);
}

static int by_container(const void *a, const void *b)
{
	const struct dialect_tenant *x = a, *y = b;

	return x->container < y->container ? -1 : x->container > y->container;
}

/* Copies the gang to each tenant, and refuses a gang of unknown size. */
static int dialect_complete(struct dialect_draft *draft, struct error *err)
{
	struct dialect_result *result = draft->result;

	if (result->group[0] && !result->group_size && !result->group_object)
		return fail(err, EINVAL,
			"divvy.gpu/group '%.63s': divvy.gpu/group-size is missing; expected 1 "
			"to %u members",
			result->group, SPEC_GROUP_SIZE_MAX);
	if (result->n_tenants)
		qsort(result->tenant, result->n_tenants, sizeof(*result->tenant), by_container);
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		struct spec *spec = &result->tenant[i].spec;
		int r;

		memcpy(spec->group, result->group, sizeof(spec->group));
		spec->group_size = result->group_size;
		spec->group_threshold = result->group_threshold;
		r = spec_finish(spec, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Takes the list of dialects that the webhook wrote into the pod; without that list, the
 * namespace's present list.
 */
static int choose_config(
	struct dialect_draft *draft, const struct dialect_config *config, struct error *err)
{
	const struct str *list = draft_annotation(draft, DIALECT_LIST_KEY),
			 *record = draft_annotation(draft, DIALECT_RECORD_KEY);

	draft->config = *config;
	draft->record = record ? *record : STR_NONE;
	if (draft->record.n > DIALECT_RECORD_MAX)
		return fail(err, EINVAL,
			DIALECT_RECORD_KEY ": the value has %zu characters; at most %u are allowed",
			draft->record.n, DIALECT_RECORD_MAX);
	return list ? dialect_config_parse(*list, &draft->config, err) : 0;
}

int dialect_translate(const struct manifest *pod, const struct dialect_config *config,
	struct dialect_result *ret_result, struct error *err)
{
	struct dialect_draft draft = {.pod = pod, .result = ret_result};
	int r;

	memset(ret_result, 0, sizeof(*ret_result));
	r = manifest_check(pod, err);
	r = r < 0 ? r : choose_config(&draft, config, err);
	ret_result->config = draft.config;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dialects); i++) {
		draft.dialect = dialects[i];
		r = translate_one(&draft, err);
	}
	draft.dialect = &dialect_divvy;
	r = r < 0 ? r : dialect_read_groups(&draft, err);
	return r < 0 ? r : dialect_complete(&draft, err);
}

void dialect_result_done(struct dialect_result *result)
{
	free(result->tenant);
	free(result->foreign);
	memset(result, 0, sizeof(*result));
}

int dialect_record_format(
	const struct manifest *pod, const struct dialect_result *result, struct buf *out)
{
	for (uint32_t i = 0; i < result->n_foreign; i++) {
		const struct dialect_foreign *f = &result->foreign[i];

		buf_addf(out, "%s%" STR_FMT "/%" STR_FMT "=%llu", i ? "," : "",
			STR_ARG(pod->container[f->container].name), STR_ARG(f->resource),
			(unsigned long long)f->value);
	}
	return buf_error(out);
}

int dialect_need(const struct manifest *pod, const struct dialect_result *result,
	struct dialect_need *ret_need, struct error *err)
{
	_cleanup_free_ uint64_t *need = calloc(3 * (size_t)pod->n_containers + 1, sizeof(*need));
	const size_t n = pod->n_containers;

	if (!need)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		const struct spec *spec = &result->tenant[i].spec;
		const uint32_t c = result->tenant[i].container;
		uint64_t bytes;

		if (__builtin_mul_overflow(spec->memory_bytes, spec->count, &bytes))
			bytes = UINT64_MAX;
		need[c] = 1;
		need[n + c] = (uint64_t)spec->request * spec->count;
		need[2 * n + c] = bytes;
	}
	ret_need->slots = manifest_add_up(pod, need);
	ret_need->milli = manifest_add_up(pod, need + n);
	ret_need->memory_bytes = manifest_add_up(pod, need + 2 * n);
	return 0;
}
