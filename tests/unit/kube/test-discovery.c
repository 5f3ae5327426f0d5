/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.json lists, for Kubernetes 1.20 and 1.28 to 1.36, the resources of divvy's API groups that
 * a server has by default. The lists come from the published changelogs, not from recordings.
 * tests/k8s/test-kube-live compares the list of 1.20 with a real server.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "kube/discovery.h"

static const int versions[] = {20, 28, 29, 30, 31, 32, 33, 34, 35, 36};

static json_t *fixture(void)
{
	_cleanup_buf_ struct buf path = BUF_INIT(4096), text = BUF_INIT(1 << 20);
	json_t *json = NULL;

	buf_addf(&path, "%s/tests/unit/kube/served.json", getenv("DIVVY_SOURCE"));
	assert_ok(file_read(buf_text(&path), &text, NULL));
	assert_ok(kube_json_parse(buf_str(&text), &json, NULL));
	return json;
}

/* Feeds the discovery as a server would: an APIResourceList for each group and version. */
static void feed(struct kube_served *served, const json_t *version, int minor)
{
	_cleanup_json_ json_t *says = NULL;
	json_t *lists = json_object_get(version, "resources"), *names;
	const char *eviction = kube_json_text_at(version, "eviction", NULL), *gv;
	char text[8];

	for (void *at = json_object_iter(lists); at; at = json_object_iter_next(lists, at)) {
		_cleanup_json_ json_t *list = json_pack(
			"{s:s, s:[]}", "kind", "APIResourceList", "resources");

		gv = json_object_iter_key(at);
		names = json_object_iter_value(at);
		for (size_t i = 0; i < json_array_size(names); i++) {
			json_t *name = json_array_get(names, i);
			json_t *resource = json_pack("{s:O}", "name", name);

			if (!strcmp(json_string_value(name), "pods/eviction"))
				json_object_set_new(resource, "version", json_string(eviction));
			json_array_append_new(json_object_get(list, "resources"), resource);
		}
		assert_ok(kube_served_add(served, gv, list));
	}
	snprintf(text, sizeof(text), "%d+", minor);
	says = json_pack("{s:s, s:s}", "major", "1", "minor", text);
	kube_served_set_version(served, says);
}

static const json_t *version_of(const json_t *all, int minor)
{
	char name[8];

	snprintf(name, sizeof(name), "1.%d", minor);
	assert_non_null(json_object_get(all, name));
	return json_object_get(all, name);
}

static bool in_range(int minor, int first, int last)
{
	return minor >= first && (!last || minor <= last);
}

static void knows_the_resources_of_each_version(void **state)
{
	_cleanup_json_ json_t *all = fixture();

	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct kube_served served = {0};

		feed(&served, version_of(all, versions[v]), versions[v]);
		assert_int_equal(served.minor, versions[v]);
		for (size_t i = 0; i < kube_n_api_rows; i++) {
			const struct kube_api_row *row = &kube_api_rows[i];

			if (row->is_own ||
				served.has[i] ==
					in_range(versions[v], row->first_minor, row->last_minor))
				continue;
			fail_msg("1.%d: %s %s", versions[v], row->group_version, row->resource);
		}
	}
}

static bool lists(const json_t *fields, const char *field)
{
	for (size_t i = 0; i < json_array_size(fields); i++)
		if (!strcmp(json_string_value(json_array_get(fields, i)), field))
			return true;
	return false;
}

static void knows_the_fields_of_each_version(void **state)
{
	_cleanup_json_ json_t *all = fixture();

	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		const json_t *version = version_of(all, versions[v]);
		struct kube_served served = {0};

		feed(&served, version, versions[v]);
		for (int f = 0; f < KUBE_N_FIELDS; f++)
			if (kube_served_has_field(&served, (enum kube_field)f) !=
				lists(json_object_get(version, "fields"), kube_field_rows[f].field))
				fail_msg("1.%d: %s", versions[v], kube_field_rows[f].field);
		assert_int_equal(served.has_eviction_v1,
			kube_served_has_field(&served, KUBE_FIELD_EVICTION_V1));
	}
}

static void prefers_the_first_row(void **state)
{
	static const struct {
		int minor;
		enum kube_api api;
		const char *group_version;
	} cases[] = {
		{20, KUBE_BUDGETS, "policy/v1beta1"},
		{36, KUBE_BUDGETS, "policy/v1"},
		{20, KUBE_CRON_JOBS, "batch/v1beta1"},
		{28, KUBE_CRON_JOBS, "batch/v1"},
		{20, KUBE_AUTOSCALERS, "autoscaling/v1"},
		{28, KUBE_AUTOSCALERS, "autoscaling/v2"},
		{20, KUBE_PODS, "v1"},
		{20, KUBE_CSI_CAPACITIES, NULL},
		{28, KUBE_POD_SECURITY_POLICIES, NULL},
		{36, KUBE_SHARE_PODS, NULL},
	};
	_cleanup_json_ json_t *all = fixture();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kube_served served = {0};
		const struct kube_api_row *row;

		feed(&served, version_of(all, cases[i].minor), cases[i].minor);
		row = kube_served_find(&served, cases[i].api);
		if (!row != !cases[i].group_version)
			fail_msg("1.%d: case %zu", cases[i].minor, i);
		if (row)
			assert_string_equal(row->group_version, cases[i].group_version);
	}
}

/* No Kubernetes version serves PodGroups by default, so served.json lacks them. */
static void prefers_the_newest_pod_groups(void **state)
{
	static const struct {
		const char *served[3], *want;
	} cases[] = {
		{{"v1alpha2"}, "scheduling.k8s.io/v1alpha2"},
		{{"v1alpha3"}, "scheduling.k8s.io/v1alpha3"},
		{{"v1alpha3", "v1beta1"}, "scheduling.k8s.io/v1beta1"},
		{{NULL}, NULL},
	};
	_cleanup_json_ json_t *groups = json_pack(
		"{s:[{s:s}, {s:s}]}", "resources", "name", "podgroups", "name", "workloads");
	_cleanup_json_ json_t *classes = json_pack(
		"{s:[{s:s}]}", "resources", "name", "priorityclasses");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kube_served served = {0};
		const struct kube_api_row *row;

		/* Kubernetes 1.20 has a v1beta1 of that group without PodGroups. */
		assert_ok(kube_served_add(&served, "scheduling.k8s.io/v1beta1", classes));
		for (size_t k = 0; k < 3 && cases[i].served[k]; k++) {
			_cleanup_buf_ struct buf name = BUF_INIT(64);

			buf_addf(&name, "scheduling.k8s.io/%s", cases[i].served[k]);
			assert_ok(kube_served_add(&served, buf_text(&name), groups));
		}
		row = kube_served_find(&served, KUBE_KUBE_POD_GROUPS);
		if (cases[i].want)
			assert_string_equal(row->group_version, cases[i].want);
		else
			assert_null(row);
	}
}

static void refuses_other_answers(void **state)
{
	struct kube_served served = {0};
	_cleanup_json_ json_t *none = json_pack("{s:s}", "kind", "Status");
	_cleanup_json_ json_t *nameless = json_pack("{s:[{}]}", "resources");

	assert_int_equal(kube_served_add(&served, "v1", none), -EBADMSG);
	assert_int_equal(kube_served_add(&served, "v1", nameless), -EBADMSG);
	kube_served_set_version(&served, none);
	assert_int_equal(served.minor, KUBE_MINOR_UNKNOWN);
	assert_false(kube_served_has_field(&served, KUBE_FIELD_POD_SCHEDULING_GATES));
}

UNIT_MAIN(UNIT(knows_the_resources_of_each_version), UNIT(knows_the_fields_of_each_version),
	UNIT(prefers_the_first_row), UNIT(prefers_the_newest_pod_groups),
	UNIT(refuses_other_answers))
