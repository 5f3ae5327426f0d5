/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a pod: limits, a container's resources, and how Kubernetes adds up containers. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "manifest-text.h"

static void adds_up_as_kubernetes_does(void **state)
{
	static const struct {
		const char *kinds; /* a letter for each container: m main, i init, s sidecar */
		uint64_t need[6], sum;
	} cases[] = {
		{"mm", {1, 2}, 3},
		{"im", {5, 2}, 5},
		{"iim", {1, 2, 2}, 2},
		{"sm", {1, 2}, 3},
		{"sim", {1, 5, 2}, 6}, /* the sidecar has started before the init container */
		{"ism", {5, 1, 2}, 5}, /* the sidecar starts after the init container */
		{"issm", {3, 2, 2, 1}, 5},
		{"m", {UINT64_MAX}, UINT64_MAX},
		{"mm", {UINT64_MAX, 1}, UINT64_MAX},
		{"", {0}, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct manifest_container c[6] = {0};
		struct manifest pod = {
			.container = c, .n_containers = (uint32_t)strlen(cases[i].kinds)};

		for (uint32_t k = 0; k < pod.n_containers; k++)
			c[k].kind = cases[i].kinds[k] == 'm' ? MANIFEST_MAIN
				: cases[i].kinds[k] == 'i'   ? MANIFEST_INIT
							     : MANIFEST_SIDECAR;
		assert_int_equal(manifest_add_up(&pod, cases[i].need), cases[i].sum);
	}
}

static void resources_are_requests_and_limits(void **state)
{
	struct manifest_text t;
	struct error err;
	uint64_t value = 0;

	manifest_text_parse(
		STR("r a/b=2\nq a/c=3\nm a/d=4\nq a/e=1\nm a/e=2\nr a/f=x\nr a/g=1.5\n"), &t);
	assert_int_equal(manifest_resource(&t.pod, 0, "a/b", &value, NULL), 1);
	assert_int_equal(value, 2);
	assert_int_equal(manifest_resource(&t.pod, 0, "a/c", &value, NULL), 1);
	assert_int_equal(value, 3);
	assert_int_equal(manifest_resource(&t.pod, 0, "a/d", &value, NULL), 1);
	assert_int_equal(value, 4);
	assert_int_equal(manifest_resource(&t.pod, 0, "a/x", &value, NULL), 0);
	assert_int_equal(manifest_resource(&t.pod, 0, "a/e", &value, &err), -EINVAL);
	assert_contains(err.msg, "a/e: request '1' and limit '2' must be equal");
	assert_int_equal(manifest_resource(&t.pod, 0, "a/f", &value, &err), -EINVAL);
	assert_contains(err.msg, "a/f: 'x' is not a quantity");
	assert_int_equal(manifest_resource(&t.pod, 0, "a/g", &value, &err), -EINVAL);
	assert_int_equal(value, 4);
}

static void the_view_has_limits(void **state)
{
	static struct manifest_container many[MANIFEST_CONTAINERS_MAX + 1];
	static struct manifest_entry entries[MANIFEST_ENTRIES_MAX + 1];
	struct manifest pod = {.container = many, .n_containers = MANIFEST_CONTAINERS_MAX};
	struct error err = {0};
	char name[MANIFEST_NAME_MAX + 1];

	memset(name, 'x', sizeof(name));
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i].name = STR("c");
	pod.annotations = pod.labels = (struct manifest_list){entries, MANIFEST_ENTRIES_MAX};
	pod.name = (struct str){name, MANIFEST_NAME_MAX};
	assert_ok(manifest_check(&pod, &err));
	assert_string_equal(err.msg, "");
	pod.n_containers++;
	assert_int_equal(manifest_check(&pod, &err), -EINVAL);
	assert_contains(err.msg, "containers: the pod has 257; at most 256");
	pod.n_containers = 1;
	pod.annotations.n++;
	assert_int_equal(manifest_check(&pod, &err), -EINVAL);
	assert_contains(err.msg, "annotations: the list has 1025");
	pod.annotations.n = 0;
	many[0].env = (struct manifest_list){entries, MANIFEST_ENTRIES_MAX + 1};
	assert_int_equal(manifest_check(&pod, &err), -EINVAL);
	assert_contains(err.msg, "container c: env: the list has 1025");
	many[0].env.n = 0;
	many[0].name = STR("");
	assert_int_equal(manifest_check(&pod, &err), -EINVAL);
	many[0].name = (struct str){name, MANIFEST_CONTAINER_NAME_MAX + 1};
	assert_int_equal(manifest_check(&pod, &err), -EINVAL);
	many[0].name = STR("c");
	pod.name.n++;
	assert_int_equal(manifest_check(&pod, &err), -EINVAL);
	assert_contains(err.msg, "254 characters");
}

static void containers_and_entries_are_found(void **state)
{
	struct manifest_text t;

	manifest_text_parse(STR("c prepare init\nc log sidecar\nc a\nc b\na k=v\na k=w\n"), &t);
	assert_int_equal(manifest_main(&t.pod), 2);
	assert_int_equal(manifest_container_find(&t.pod, STR("b")), 3);
	assert_int_equal(manifest_container_find(&t.pod, STR("x")), MANIFEST_NONE);
	assert_true(str_is(*manifest_find(t.pod.annotations, STR("k")), "v"));
	assert_null(manifest_find(t.pod.labels, STR("k")));
	t.pod.n_containers = 2;
	assert_int_equal(manifest_main(&t.pod), MANIFEST_NONE);
}

static void main_container_is_chosen_by_rules(void **state)
{
#define DEFAULT "a divvy.gpu/default-container="
#define KUBECTL "a kubectl.kubernetes.io/default-container="
#define RANGED "a kubernetes.io/limit-ranger=LimitRanger plugin set: "
#define RANGED_SLOT(name) \
	"divvy.gpu/slot request for container " name "; divvy.gpu/slot limit " \
	"for container " name
#define KUBECTL_LOGS "a kubectl.kubernetes.io/default-logs-container="
	static const struct {
		const char *pod, *name;
		uint32_t managed; /* bits, by number */
	} cases[] = {
		{"c p init\nc s sidecar\nc a\nc b", "a", 0},
		{"c a\nc b\nc c", "b", 6},
		{"c a\nc b\nc c", "a", 7},
		{"c p init\nc a\nc b", "a", 1},
		{"c a\nc b\nc c\n" KUBECTL "c", "c", 2},
		{"c a\nc b\nc c\n" KUBECTL_LOGS "c", "c", 2},
		{"c a\nc b\nc c\n" KUBECTL_LOGS "c\n" KUBECTL "b", "b", 1},
		{"c p init\nc a\nc b\n" KUBECTL "p", "a", 0},
		{"c a\nc b\n" KUBECTL "x", "a", 0},
		{"c a\nc b\nm divvy.gpu/slot=1\n" KUBECTL "a", "b", 1},
		{"c a\nm divvy.gpu/slot=0\nc b\nm divvy.gpu/slot=1", "b", 0},
		{"c a\nm divvy.gpu/slot=0.0\nc b\nm divvy.gpu/slot=1k", "b", 0},
		/*
		 * The author's choice, and a slot that LimitRanger did not add, take precedence
		 * over LimitRanger's slots.
		 */
		{"c a\nr divvy.gpu/slot=1\nc b\nr divvy.gpu/slot=1\n" KUBECTL
		 "b\n" RANGED RANGED_SLOT("a") "; " RANGED_SLOT("b"),
			"b", 3},
		{"c a\nr divvy.gpu/slot=1\nc b\nr divvy.gpu/slot=1\n" RANGED RANGED_SLOT("a"), "b",
			0},
		{"c a\nr divvy.gpu/slot=1\nc b\nr divvy.gpu/slot=1\n" RANGED
		 "divvy.gpu/milli limit for container a; divvy.gpu/slot request for container a",
			"a", 0},
		{"c p init\nm divvy.gpu/slot=1\nc a\nc b", "a", 0},
		{"c a\nc b\nm divvy.gpu/slot=1\nc c\n" DEFAULT "c\n" KUBECTL "a", "c", 1},
		{"c a\nc b\nm divvy.gpu/slot=1\n" DEFAULT "x", "b", 0},
		{"c p init\nc a\nc b\nm divvy.gpu/slot=1\n" DEFAULT "p", "b", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct manifest_text t;

		manifest_text_parse(str_from(cases[i].pod), &t);
		for (uint32_t k = 0; k < t.pod.n_containers; k++)
			t.container[k].is_managed = cases[i].managed >> k & 1;
		if (!str_is(t.container[manifest_main(&t.pod)].name, cases[i].name))
			fail_msg("%s: not %s", cases[i].pod, cases[i].name);
	}
}

UNIT_MAIN(UNIT(main_container_is_chosen_by_rules), UNIT(adds_up_as_kubernetes_does),
	UNIT(resources_are_requests_and_limits), UNIT(the_view_has_limits),
	UNIT(containers_and_entries_are_found))
