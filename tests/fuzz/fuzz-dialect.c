/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates pods in the text form of manifest-text.h. A refusal has a message. An accepted pod has
 * valid specs. It has the same specs after its foreign resources have moved from the containers
 * into the annotation DIALECT_RECORD_KEY. dialect_write_back() succeeds for it.
 */
#include <errno.h>
#include <string.h>

#include "spec/dialect.h"
#include "fuzz.h"
#include "manifest-text.h"

static void check_tenants(const struct manifest *pod, const struct dialect_result *result)
{
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		const struct dialect_tenant *t = &result->tenant[i];
		struct spec again = t->spec;

		FUZZ_CHECK(t->container < pod->n_containers && t->dialect);
		FUZZ_CHECK(i == 0 || t->container > t[-1].container);
		FUZZ_CHECK(spec_finish(&again, NULL) == 0);
		FUZZ_CHECK(spec_is_same(&again, &t->spec));
		FUZZ_CHECK(!strcmp(t->spec.group, result->group));
		FUZZ_CHECK(t->spec.request >= 1 && t->spec.request <= t->spec.limit);
		FUZZ_CHECK(t->spec.count >= 1 && t->spec.count <= SPEC_DEVICES_MAX);
	}
	FUZZ_CHECK(result->n_notes <= DIALECT_NOTES_MAX);
	FUZZ_CHECK(!result->group[0] || result->group_size || result->group_object);
}

/* Whether the name is one that the API server allows: only such names occur in a record. */
static bool is_plain(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", name.p[i]) || !name.p[i])
			return false;
	return name.n > 0;
}

static bool has_plain_names(const struct manifest_text *t)
{
	for (uint32_t i = 0; i < t->pod.n_containers; i++) {
		if (!is_plain(t->container[i].name) ||
			manifest_container_find(&t->pod, t->container[i].name) != i)
			return false;
	}
	return true;
}

static void check_again(struct manifest_text *t, const struct dialect_result *once)
{
	static const char ours[] = DIALECT_RECORD_KEY, list_key[] = DIALECT_LIST_KEY;
	static const char default_key[] = MANIFEST_DEFAULT_KEY;
	_cleanup_buf_ struct buf record = BUF_INIT(DIALECT_RECORD_MAX), list = BUF_INIT(256);
	_cleanup_dialect_ struct dialect_result twice = {0};
	struct manifest_entry all[MANIFEST_TEXT_ENTRIES + 3];
	struct dialect_config none;

	FUZZ_CHECK(dialect_config_parse(STR(""), &none, NULL) == 0);
	if (dialect_record_format(&t->pod, once, &record) < 0 || !has_plain_names(t))
		return;
	FUZZ_CHECK(dialect_config_format(&once->config, &list) == 0);
	all[0] = (struct manifest_entry){str_from(ours), buf_str(&record)};
	all[1] = (struct manifest_entry){str_from(list_key), buf_str(&list)};
	all[2] = (struct manifest_entry){str_from(default_key),
		once->has_default ? t->pod.container[once->default_container].name : STR("")};
	memcpy(all + 3, t->annotations, t->pod.annotations.n * sizeof(*all));
	t->pod.annotations = (struct manifest_list){all, t->pod.annotations.n + 3};
	for (uint32_t i = 0; i < t->pod.n_containers; i++)
		t->container[i].limits.n = t->container[i].requests.n = 0;
	FUZZ_CHECK(dialect_translate(&t->pod, &none, &twice, NULL) == 0);
	FUZZ_CHECK(twice.n_tenants == once->n_tenants);
	for (uint32_t i = 0; i < once->n_tenants; i++) {
		FUZZ_CHECK(twice.tenant[i].container == once->tenant[i].container);
		FUZZ_CHECK(spec_is_same(&twice.tenant[i].spec, &once->tenant[i].spec));
	}
}

static int put(void *data, enum dialect_where where, uint32_t container, const char *key,
	const char *value)
{
	const struct manifest *pod = data;

	FUZZ_CHECK(where < DIALECT_N_WHERES && key[0] && value);
	FUZZ_CHECK(container == MANIFEST_NONE || container < pod->n_containers);
	return 0;
}

static void check_back(struct manifest *pod, const struct dialect_result *result)
{
	static const struct dialect_device device = {
		.index = 1, .uuid = "GPU-1", .model = "a b", .memory_bytes = 5, .granted_bytes = 3};
	struct dialect_grant grant[DIALECT_TENANTS_MAX];
	struct dialect_assigned given = {.node = "n", .grant = grant};

	for (uint32_t i = 0; i < result->n_tenants; i++)
		grant[i] = (struct dialect_grant){&device, i % 2, 1, 1};
	FUZZ_CHECK(dialect_write_back(pod, result, &given, put, pod) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct manifest_text t;
	struct error err = {0};
	struct dialect_config config;
	struct dialect_result result;
	struct dialect_need need;

	manifest_text_parse((struct str){(const char *)data, n}, &t);
	if (dialect_config_parse(t.dialects, &config, &err) < 0) {
		FUZZ_CHECK(err.msg[0]);
		return 0;
	}
	if (dialect_translate(&t.pod, &config, &result, &err) < 0) {
		FUZZ_CHECK(err.msg[0]);
	} else {
		check_tenants(&t.pod, &result);
		FUZZ_CHECK(dialect_need(&t.pod, &result, &need, NULL) == 0);
		FUZZ_CHECK(need.slots <= result.n_tenants);
		check_back(&t.pod, &result);
		check_again(&t, &result);
	}
	dialect_result_done(&result);
	return 0;
}
