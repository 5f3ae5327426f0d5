/* SPDX-License-Identifier: Apache-2.0 */
/* Assigned keys: the values of each container, written and read back, and impossible values. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "spec/assigned.h"

#define D "divvy.gpu/"
#define KEYS 12

struct keys {
	const char *devices, *request, *limit, *memory, *policy, *class, *priority, *mode, *remote,
		*network, *group, *epoch;
};

static const char *const names[KEYS] = {D "devices", D "granted-request", D "granted-limit",
	D "granted-memory", D "granted-memory-policy", D "granted-class", D "granted-priority",
	D "granted-mode", D "remote-node", D "granted-network", D "granted-group", D "epoch"};

static int parse(const struct keys *k, struct assigned *assigned, struct error *err)
{
	const char *const value[KEYS] = {k->devices, k->request, k->limit, k->memory, k->policy,
		k->class, k->priority, k->mode, k->remote, k->network, k->group, k->epoch};
	struct manifest_entry entry[KEYS];
	struct manifest_list list = {entry, 0};

	for (size_t i = 0; i < KEYS; i++)
		if (value[i])
			entry[list.n++] = (struct manifest_entry){
				str_from(names[i]), str_from(value[i])};
	return assigned_parse(list, assigned, err);
}

/* The example of docs/reference/assigned-keys.md. */
static const struct keys two = {"train=GPU-5a,GPU-77 side=GPU-5a", "train=0.3 side=0.125",
	"train=0.6 side=1", "train=4Gi,5Gi side=1073741825", "train=fail side=swap",
	"train=standard side=latency", "train=50 side=80", "train=local side=remote", "side=gpu-7",
	"side=eth0,mlx5_1,2500Mbps", "mpi=3", "7"};

static void each_container_has_its_own_values(void **state)
{
	_cleanup_assigned_ struct assigned assigned = {0};
	const struct assigned_container *c;
	struct spec spec;

	assert_ok(parse(&two, &assigned, NULL));
	assert_int_equal(assigned.n, 2);
	assert_int_equal(assigned.epoch, 7);
	assert_string_equal(assigned.group.name, "mpi");
	assert_int_equal(assigned.group.least, 3);
	c = assigned_find(&assigned, "train");
	assert_int_equal(c->n, 2);
	assert_string_equal(c->device[1], "GPU-77");
	assert_int_equal(c->memory_bytes[0], 4ull << 30);
	assert_int_equal(c->memory_bytes[1], 5ull << 30);
	assert_int_equal(c->request, 300);
	assert_int_equal(c->limit, 600);
	assert_string_equal(c->remote_node, "");
	c = assigned_find(&assigned, "side");
	assert_int_equal(c->n, 1);
	assert_string_equal(c->remote_node, "gpu-7");
	assert_string_equal(c->network[0], "eth0");
	assert_string_equal(c->network[1], "mlx5_1");
	assert_int_equal(c->network_mbit, 2500);
	assert_ok(assigned_spec(c, &spec, NULL));
	assert_int_equal(spec.count, 1);
	assert_int_equal(spec.memory_bytes, 1073741825);
	assert_int_equal(spec.memory_policy, SPEC_MEMORY_SWAP);
	assert_int_equal(spec.class, SPEC_LATENCY);
	assert_int_equal(spec.priority, 80);
	assert_null(assigned_find(&assigned, "other"));
}

struct written {
	struct keys keys;
	char text[KEYS][128];
	uint32_t n;
};

static int put(void *data, const char *key, const char *value)
{
	struct written *w = data;
	const char **const at[KEYS] = {&w->keys.devices, &w->keys.request, &w->keys.limit,
		&w->keys.memory, &w->keys.policy, &w->keys.class, &w->keys.priority, &w->keys.mode,
		&w->keys.remote, &w->keys.network, &w->keys.group, &w->keys.epoch};

	assert_string_equal(key, names[w->n]);
	snprintf(w->text[w->n], sizeof(w->text[0]), "%s", value);
	*at[w->n] = w->text[w->n];
	w->n++;
	return 0;
}

static int fail_at(void *data, const char *key, const char *value)
{
	return (*(int *)data)-- ? 0 : -ENOSPC;
}

static void written_keys_are_read_back(void **state)
{
	_cleanup_assigned_ struct assigned assigned = {0}, again = {0};
	struct written w = {0};

	assert_ok(parse(&two, &assigned, NULL));
	assert_ok(assigned_format(&assigned, put, &w));
	assert_int_equal(w.n, KEYS);
	assert_string_equal(w.keys.memory, two.memory);
	assert_string_equal(w.keys.remote, two.remote);
	assert_string_equal(w.keys.network, two.network);
	assert_string_equal(w.keys.group, two.group);
	assert_ok(parse(&w.keys, &again, NULL));
	assert_true(assigned_is_same(&assigned, &again));
	assert_int_equal(again.epoch, 7);
	/* Keys leave out a container without a value, also the last container. */
	assigned.v[1].remote_node[0] = '\0';
	str_copy(assigned.v[0].remote_node, ASSIGNED_NODE, STR("gpu-1"));
	w = (struct written){0};
	assert_ok(assigned_format(&assigned, put, &w));
	assert_string_equal(w.keys.remote, "train=gpu-1");
	/* No bandwidth is reserved. */
	assigned.v[1].network_mbit = 0;
	w = (struct written){0};
	assert_ok(assigned_format(&assigned, put, &w));
	assert_string_equal(w.keys.network, "side=eth0,mlx5_1");
	for (int left = 0; left < KEYS; left++) {
		int n = left;

		assert_int_equal(assigned_format(&assigned, fail_at, &n), -ENOSPC);
	}
}

static void missing_values_are_the_defaults(void **state)
{
	const struct keys k = {.devices = "a=A b=B",
		.request = "a=0.5 b=1",
		.limit = "a=1 b=1",
		.memory = "a=1 b=1",
		.class = "b=opportunistic",
		.epoch = "0"};
	_cleanup_assigned_ struct assigned assigned = {0};
	struct error err = {0};

	if (parse(&k, &assigned, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(assigned.v[0].class, SPEC_STANDARD);
	assert_int_equal(assigned.v[0].memory_policy, SPEC_MEMORY_FAIL);
	assert_int_equal(assigned.v[0].priority, 50);
	assert_int_equal(assigned.v[0].mode, SPEC_MODE_LOCAL);
	assert_int_equal(assigned.v[1].priority, 0);
	assert_int_equal(assigned.v[1].mode, SPEC_MODE_EXCLUSIVE);
}

static void whole_devices_are_counted_or_one_each(void **state)
{
	static const char *const request[] = {"c=2", "c=1"};
	struct keys k = {.devices = "c=A,B", .limit = "c=1", .memory = "c=1,2", .epoch = "0"};

	for (size_t i = 0; i < ARRAY_SIZE(request); i++) {
		_cleanup_assigned_ struct assigned assigned = {0};
		struct spec spec;

		k.request = request[i];
		assert_ok(parse(&k, &assigned, NULL));
		assert_ok(assigned_spec(&assigned.v[0], &spec, NULL));
		assert_true(spec.exclusive);
		assert_int_equal(spec.count, 2);
		assert_int_equal(assigned.v[0].request, SPEC_SHARE_ONE);
	}
}

static void without_devices_there_is_no_grant(void **state)
{
	_cleanup_assigned_ struct assigned assigned = {0};
	const struct keys k = {.request = "c=0.5", .epoch = "x"};

	assert_ok(parse(&k, &assigned, NULL));
	assert_int_equal(assigned.n, 0);
	assert_ok(assigned_parse((struct manifest_list){NULL, 0}, &assigned, NULL));
}

#define LONG "ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static const struct {
	struct keys keys;
	const char *says;
} wrong[] = {
	{{"c=", "c=0.5", "c=1", "c=1", .epoch = "1"}, "devices: '' is not the UUID of a device"},
	{{"c=A,A", "c=0.5", "c=1", "c=1,1", .epoch = "1"}, "devices: device 'A' occurs twice"},
	{{"c=A c=B", "c=0.5", "c=1", "c=1", .epoch = "1"}, "container 'c' occurs twice"},
	{{"A", "c=0.5", "c=1", "c=1", .epoch = "1"}, "'A': expected CONTAINER=VALUE"},
	{{"=A", "c=0.5", "c=1", "c=1", .epoch = "1"}, "'=A': expected CONTAINER=VALUE"},
	{{"c=A B", "c=0.5", "c=1", "c=1", .epoch = "1"}, "'B': expected CONTAINER=VALUE"},
	{{LONG "=A", "c=0.5", "c=1", "c=1", .epoch = "1"}, "is not the name of a container"},
	{{"c=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "c=0.5", "c=1", "c=1", .epoch = "1"},
		"more than 16 devices"},
	{{"c=A", NULL, "c=1", "c=1", .epoch = "1"},
		"granted-request: container 'c' has devices and no value here"},
	{{"c=A d=B", "c=0.5", "c=1 d=1", "c=1 d=1", .epoch = "1"},
		"granted-request: container 'd' has devices and no value"},
	{{"c=A", "c=0.5 d=0.5", "c=1", "c=1", .epoch = "1"},
		"granted-request: container 'd' has no devices"},
	{{"c=A", "c=0.5 c=0.6", "c=1", "c=1", .epoch = "1"},
		"granted-request: container 'c' occurs twice"},
	{{"c=A", "c=2", "c=1", "c=1", .epoch = "1"}, "'2' with 1 device: expected 0.001 to 1"},
	{{"c=A,B", "c=3", "c=1", "c=1,1", .epoch = "1"}, "'3' with 2 devices"},
	{{"c=A", "c=0", "c=1", "c=1", .epoch = "1"}, "granted-request: '0'"},
	{{"c=A", "c=nan", "c=1", "c=1", .epoch = "1"}, "granted-request"},
	{{"c=A", "c=0.5", "c=0.4", "c=1", .epoch = "1"}, "limit 0.4: below request 0.5"},
	{{"c=A", "c=0.5", "c=0", "c=1", .epoch = "1"}, "granted-limit: '0'"},
	{{"c=A", "c=0.5", "c=1", "c=1,2", .epoch = "1"}, "more values than 1"},
	{{"c=A,B", "c=0.5", "c=1", "c=1", .epoch = "1"}, "1 value for 2 devices"},
	{{"c=A", "c=0.5", "c=1", "c=-1", .epoch = "1"}, "granted-memory"},
	{{"c=A", "c=0.5", "c=1", "c=1", .class = "c=best", .epoch = "1"},
		"granted-class: 'best' is unknown"},
	{{"c=A", "c=0.5", "c=1", "c=1", .priority = "c=101", .epoch = "1"}, "granted-priority"},
	{{"c=A", "c=0.5", "c=1", "c=1", .mode = "c=exclusive", .epoch = "1"}, "mode exclusive"},
	{{"c=A", "c=0.5", "c=1", "c=1", .remote = "c=", .epoch = "1"},
		"'' is not the name of a node"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=eth0", .epoch = "1"},
		"granted-network: expected the network devices"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=eth0,", .epoch = "1"},
		"granted-network: '' is not a network device"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=eth0,a/b", .epoch = "1"},
		"granted-network: 'a/b' is not a network device"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=" LONG ",b", .epoch = "1"},
		"granted-network: '" LONG "' is not a network device"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=a,b,fast", .epoch = "1"},
		"granted-network: 'fast' is not a bandwidth"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=a,b,", .epoch = "1"},
		"granted-network: '' is not a bandwidth"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=a,b,5us", .epoch = "1"},
		"granted-network: '5us' is not a bandwidth"},
	{{"c=A", "c=0.5", "c=1", "c=1", .network = "c=a,b,1Gbps,5us", .epoch = "1"},
		"granted-network: '1Gbps,5us' is not a bandwidth"},
	{{"c=A", "c=0.5", "c=1", "c=1", .group = "g", .epoch = "1"},
		"granted-group: 'g': expected GROUP=NUMBER"},
	{{"c=A", "c=0.5", "c=1", "c=1"}, "epoch: the annotation is missing"},
	{{"c=A", "c=0.5", "c=1", "c=1", .epoch = "-1"}, "epoch"},
};

static void impossible_values_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_assigned_ struct assigned assigned = {0};
		struct error err = {0};
		int r = parse(&wrong[i].keys, &assigned, &err);

		if (r != -EINVAL || !strstr(err.msg, wrong[i].says))
			fail_msg("%zu (%s): %d %s", i, wrong[i].says, r, err.msg);
	}
}

static int parse_group(const char *value, struct assigned_group *group, struct error *err)
{
	const struct manifest_entry entry = {STR(D "granted-group"), str_from(value ? value : "")};

	return assigned_parse_group((struct manifest_list){&entry, value ? 1 : 0}, group, err);
}

static void a_group_has_a_name_and_a_number(void **state)
{
	static const struct {
		const char *value, *says;
	} bad[] = {
		{"", ": expected GROUP=NUMBER"},
		{"=3", ": expected GROUP=NUMBER"},
		{"train", ": expected GROUP=NUMBER"},
		{"train=", "granted-group"},
		{"train=0", "1 to 65536"},
		{"train=65537", "1 to 65536"},
		{"train=-1", "granted-group"},
		{"train=3 ", "granted-group"},
	};
	struct assigned_group group = {.least = 7};
	char name[SPEC_GROUP + 4];
	struct error err;

	assert_ok(parse_group(NULL, &group, &err));
	assert_string_equal(group.name, "");
	assert_int_equal(group.least, 0);
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

static void sizes_of_assigned_keys_are_limited(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(ASSIGNED_TEXT_MAX + 64);
	struct keys k = {.epoch = "1"};
	struct error err = {0};

	for (unsigned i = 0; i < ASSIGNED_CONTAINERS_MAX + 1; i++)
		buf_addf(&text, "c%u=GPU-a ", i);
	k.devices = buf_text(&text);
	for (int i = 0; i < 2; i++) {
		_cleanup_assigned_ struct assigned assigned = {0};

		assert_int_equal(parse(&k, &assigned, &err), -EINVAL);
		assert_contains(err.msg, i ? "at most 65536" : "more than 64 containers");
		while (text.n <= ASSIGNED_TEXT_MAX)
			buf_add_byte(&text, ' ');
		k.devices = buf_text(&text);
	}
}

UNIT_MAIN(UNIT(each_container_has_its_own_values), UNIT(written_keys_are_read_back),
	UNIT(missing_values_are_the_defaults), UNIT(whole_devices_are_counted_or_one_each),
	UNIT(without_devices_there_is_no_grant), UNIT(impossible_values_are_refused),
	UNIT(sizes_of_assigned_keys_are_limited), UNIT(a_group_has_a_name_and_a_number))
