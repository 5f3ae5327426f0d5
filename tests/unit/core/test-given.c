/* SPDX-License-Identifier: Apache-2.0 */
/* Given keys: what each says of which container, and what cannot be granted. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "core/given.h"

#define D "divvy.gpu/"
#define KEYS 9

struct keys {
	const char *devices, *request, *limit, *memory, *policy, *class, *priority, *mode, *epoch;
};

static int parse(const struct keys *k, const char *container, struct given *g, struct error *err)
{
	static const char *const name[KEYS] = {D "devices", D "granted-request", D "granted-limit",
		D "granted-memory", D "granted-memory-policy", D "granted-class",
		D "granted-priority", D "granted-mode", D "epoch"};
	const char *const value[KEYS] = {k->devices, k->request, k->limit, k->memory, k->policy,
		k->class, k->priority, k->mode, k->epoch};
	struct pod_entry entry[KEYS];
	struct pod_list list = {entry, 0};

	for (size_t i = 0; i < KEYS; i++)
		if (value[i])
			entry[list.n++] = (struct pod_entry){str_from(name[i]), str_from(value[i])};
	return given_read(list, str_from(container), g, err);
}

/* The example of docs/cluster-objects.md. */
static const struct keys two = {"train=GPU-5a,GPU-77 side=GPU-5a", "train=0.3 side=0.125",
	"train=0.6 side=1", "train=4Gi,5Gi side=1073741825", "train=fail side=swap",
	"train=standard side=latency", "train=50 side=80", "train=local side=local", "7"};

static void each_container_has_its_own(void **state)
{
	struct error err = {0};
	struct given g;

	assert_int_equal(parse(&two, "train", &g, &err), 0);
	assert_int_equal(g.spec.count, 2);
	assert_string_equal(g.device[1], "GPU-77");
	assert_int_equal(g.memory_bytes[0], 4ull << 30);
	assert_int_equal(g.memory_bytes[1], 5ull << 30);
	assert_int_equal(g.spec.request, 300);
	assert_int_equal(g.spec.limit, 600);
	assert_int_equal(g.epoch, 7);
	assert_int_equal(parse(&two, "side", &g, &err), 0);
	assert_int_equal(g.spec.count, 1);
	assert_int_equal(g.memory_bytes[0], 1073741825);
	assert_int_equal(g.spec.memory_policy, SPEC_MEMORY_SWAP);
	assert_int_equal(g.spec.class, SPEC_LATENCY);
	assert_int_equal(g.spec.priority, 80);
	assert_int_equal(parse(&two, "other", &g, &err), -ENOENT);
}

static void whole_devices_are_counted_or_one_each(void **state)
{
	static const char *const request[] = {"c=2", "c=1"};
	struct keys k = {.devices = "c=A,B", .limit = "c=1", .memory = "c=1,2", .epoch = "0"};
	struct error err = {0};
	struct given g;

	for (size_t i = 0; i < ARRAY_SIZE(request); i++) {
		k.request = request[i];
		assert_int_equal(parse(&k, "c", &g, &err), 0);
		assert_true(g.spec.exclusive);
		assert_int_equal(g.spec.count, 2);
	}
	k.request = "c=3";
	assert_int_equal(parse(&k, "c", &g, &err), -EINVAL);
}

static const struct {
	const char *field;
	struct keys keys;
	const char *says;
} wrong[] = {
	{"devices", {"c=", "c=0.5", "c=1", "c=1", .epoch = "1"}, "UUID"},
	{"devices", {"c=A,A", "c=0.5", "c=1", "c=1,1", .epoch = "1"}, "twice"},
	{"devices", {"c=A c=B", "c=0.5", "c=1", "c=1", .epoch = "1"}, "twice"},
	{"devices", {"A", "c=0.5", "c=1", "c=1", .epoch = "1"}, "CONTAINER=VALUE"},
	{"devices", {"c=A B", "c=0.5", "c=1", "c=1", .epoch = "1"}, "CONTAINER=VALUE"},
	{"devices",
		{"c=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "c=0.5", "c=1", "c=1",
			.epoch = "1"},
		"more than 16"},
	{"request", {"c=A", NULL, "c=1", "c=1", .epoch = "1"}, "missing"},
	{"request", {"c=A", "c=2", "c=1", "c=1", .epoch = "1"}, "with 1 devices"},
	{"request", {"c=A", "c=0", "c=1", "c=1", .epoch = "1"}, "request"},
	{"request", {"c=A", "c=nan", "c=1", "c=1", .epoch = "1"}, "request"},
	{"limit", {"c=A", "c=0.5", "c=0.4", "c=1", .epoch = "1"}, "limit"},
	{"memory", {"c=A", "c=0.5", "c=1", "c=1,2", .epoch = "1"}, "more values"},
	{"memory", {"c=A,B", "c=0.5", "c=1", "c=1", .epoch = "1"}, "1 value for 2"},
	{"memory", {"c=A", "c=0.5", "c=1", "c=-1", .epoch = "1"}, "memory"},
	{"class", {"c=A", "c=0.5", "c=1", "c=1", .class = "c=best", .epoch = "1"}, "class"},
	{"epoch", {"c=A", "c=0.5", "c=1", "c=1"}, "epoch"},
	{"epoch", {"c=A", "c=0.5", "c=1", "c=1", .epoch = "-1"}, "epoch"},
};

static void what_cannot_be_is_said(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error err = {0};
		struct given g;
		int r = parse(&wrong[i].keys, "c", &g, &err);

		if (r != -EINVAL || !strstr(err.msg, wrong[i].says))
			fail_msg("%zu (%s): %d %s", i, wrong[i].field, r, err.msg);
	}
}

static int parse_group(const char *value, struct given_group *group, struct error *err)
{
	const struct pod_entry entry = {STR(D "granted-group"), str_from(value ? value : "")};

	return given_read_group((struct pod_list){&entry, value ? 1 : 0}, group, err);
}

static void a_group_has_a_name_and_a_number(void **state)
{
	static const struct {
		const char *value, *says;
	} bad[] = {
		{"", "is not GROUP=NUMBER"},
		{"=3", "is not GROUP=NUMBER"},
		{"train", "is not GROUP=NUMBER"},
		{"train=", "granted-group"},
		{"train=0", "1 to 65536"},
		{"train=65537", "1 to 65536"},
		{"train=-1", "granted-group"},
		{"train=3 ", "granted-group"},
	};
	struct given_group group = {.least = 7};
	char name[SPEC_GROUP + 4];
	struct error err;

	assert_int_equal(parse_group(NULL, &group, &err), -ENOENT);
	assert_int_equal(group.least, 7);
	assert_ok(parse_group("train=3", &group, &err));
	assert_string_equal(group.name, "train");
	assert_int_equal(group.least, 3);
	assert_ok(parse_group("space/a=b=65536", &group, &err));
	assert_string_equal(group.name, "space/a=b");
	assert_int_equal(group.least, SPEC_GROUP_SIZE_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(parse_group(bad[i].value, &group, &err), -EINVAL);
		assert_contains(err.msg, bad[i].says);
	}
	memset(name, 'x', SPEC_GROUP - 1);
	memcpy(name + SPEC_GROUP - 1, "=1", 3);
	assert_ok(parse_group(name, &group, &err));
	memcpy(name + SPEC_GROUP - 1, "x=1", 4);
	assert_int_equal(parse_group(name, &group, &err), -EINVAL);
	assert_contains(err.msg, "more than 253 bytes");
}

UNIT_MAIN(UNIT(each_container_has_its_own), UNIT(whole_devices_are_counted_or_one_each),
	UNIT(what_cannot_be_is_said), UNIT(a_group_has_a_name_and_a_number))
