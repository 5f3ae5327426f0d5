/* SPDX-License-Identifier: Apache-2.0 */
/* Given keys: written, read back, and refused where nobody of us can have written them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "rules.h"
#include "scheduler/given.h"
#include "unit.h"

#define ALL(devices, rest) \
	"{'divvy.gpu/devices':'" devices "','divvy.gpu/granted-request':'train=0.3 side=0.125'," \
	"'divvy.gpu/granted-limit':'train=0.6 side=1','divvy.gpu/granted-memory':'train=4Gi,4Gi " \
	"side=1073741825','divvy.gpu/granted-memory-policy':'train=fail side=wait'," \
	"'divvy.gpu/granted-class':'train=standard side=latency','divvy.gpu/granted-priority':" \
	"'train=50 side=80','divvy.gpu/granted-mode':'train=local side=local'" rest "}"
#define DEVICES "train=GPU-a,GPU-b side=GPU-a"

static int parse(const char *text, struct given *given, struct error *err)
{
	json_t *json = rules_json(text);
	int r = given_parse(json, given, err);

	json_decref(json);
	return r;
}

static void what_is_written_is_read(void **state)
{
	_cleanup_(given_done) struct given given = {0}, again = {0};
	json_t *json = json_object();

	assert_ok(parse(ALL(DEVICES, ",'divvy.gpu/epoch':'7'"), &given, NULL));
	assert_int_equal(given.n, 2);
	assert_int_equal(given.epoch, 7);
	assert_string_equal(given.v[0].name, "train");
	assert_int_equal(given.v[0].n, 2);
	assert_string_equal(given.v[0].device[1], "GPU-b");
	assert_int_equal(given.v[0].memory_bytes[1], UINT64_C(4) << 30);
	assert_int_equal(given.v[1].request, 125);
	assert_int_equal(given.v[1].memory_bytes[0], (1 << 30) + 1);
	assert_int_equal(given.v[1].class, SPEC_LATENCY);
	assert_int_equal(given.v[1].memory_policy, SPEC_MEMORY_WAIT);
	assert_ok(given_format(&given, json));
	assert_ok(given_parse(json, &again, NULL));
	assert_true(given_is_same(&given, &again));
	assert_string_equal(json_string_value(json_object_get(json, "divvy.gpu/granted-memory")),
		"train=4Gi,4Gi side=1073741825");
	json_decref(json);
}

static void none_is_none(void **state)
{
	_cleanup_(given_done) struct given given = {0};

	assert_ok(parse("{'other':'x'}", &given, NULL));
	assert_int_equal(given.n, 0);
	assert_ok(given_parse(NULL, &given, NULL));
}

static void what_nobody_wrote_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ALL("train=GPU-a train=GPU-b", ""), "devices: 'train=GPU-b' is out of place"},
		{ALL("train=GPU-a,GPU-a side=GPU-b", ""), "has device GPU-a twice"},
		{ALL("train= side=GPU-a", ""), "'' is no device"},
		{ALL("train=GPU-a", ""), "'side=0.125' is out of place"},
		{ALL(DEVICES " more=GPU-c", ""), "not each container has a value"},
		{ALL(DEVICES, ",'divvy.gpu/epoch':'x'"), "epoch"},
		{ALL(DEVICES, ",'divvy.gpu/remote-node':'train='"), "is no node"},
		{"{'divvy.gpu/devices':'a=b'}", "granted-request: is missing"},
		{ALL("a=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", ""), "more than 16 devices"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(given_done) struct given given = {0};
		struct error err = {0};

		assert_int_equal(parse(bad[i].text, &given, &err), -EINVAL);
		assert_contains(err.msg, bad[i].says);
	}
}

static void too_many_containers_are_refused(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1u << 16);
	_cleanup_(given_done) struct given given = {0};
	struct error err = {0};

	buf_add_text(&text, "{'divvy.gpu/devices':'");
	for (unsigned i = 0; i < GIVEN_CONTAINERS_MAX + 1; i++)
		buf_addf(&text, "c%u=GPU-a ", i);
	buf_add_text(&text, "'}");
	assert_int_equal(parse(buf_text(&text), &given, &err), -EINVAL);
	assert_contains(err.msg, "'c64=GPU-a' is out of place");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(none_is_none),
		cmocka_unit_test(what_nobody_wrote_is_refused),
		cmocka_unit_test(too_many_containers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
