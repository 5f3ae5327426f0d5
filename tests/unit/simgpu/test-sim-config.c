/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine: device specifications, costs, faults, config lines. A wrong value is
 * refused with a message and changes nothing.
 */
#include <stdlib.h>

#include "simgpu/simgpu-config.h"
#include "unit.h"

#define GIB (UINT64_C(1) << 30)

static void test_devices(void **state)
{
	struct simgpu_config c;
	struct error err = {0};

	simgpu_config_init(&c);
	assert_int_equal(c.n, 1);
	assert_string_equal(c.devices[0].name, "NVIDIA H200");
	assert_int_equal(c.devices[0].mem_bytes, 141 * GIB);
	assert_ok(simgpu_config_parse_devices(&c, STR("2xH200-141Gi, A100,1xTest-1Gi"), &err));
	assert_int_equal(c.n, 4);
	assert_int_equal(c.devices[2].sm_count, 108);
	assert_int_equal(c.devices[2].mem_bytes, 80 * GIB);
	assert_string_equal(c.devices[3].name, "Test");
	assert_int_equal(c.devices[3].mem_bytes, GIB);
	assert_int_equal(c.links[0][1], 18);
	assert_int_equal(c.links[1][2], 0);
	assert_ok(simgpu_config_parse_devices(&c, STR("A100-80Gi"), &err));
	assert_int_equal(c.n, 1);
	/* the model has the name x */
	assert_ok(simgpu_config_parse_devices(&c, STR("1xx-64Mi"), &err));
	assert_string_equal(c.devices[0].name, "x");
}

static void test_devices_refused(void **state)
{
	static const char *const bad[] = {"", "Test", "17xH200", "Test-1", "Test-99999Ti", "-1Gi",
		"8xH200,9xH200", "H200,,H200"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct simgpu_config c;
		struct error err = {0};

		simgpu_config_init(&c);
		assert_true(simgpu_config_parse_devices(&c, str_from(bad[i]), &err) < 0);
		assert_true(strlen(err.msg) > 10);
		assert_int_equal(c.n, 1);
		assert_string_equal(c.devices[0].name, "NVIDIA H200");
	}
}

static void test_costs(void **state)
{
	struct simgpu_config c;
	struct error err = {0};

	simgpu_config_init(&c);
	assert_int_equal(c.costs.switch_ns, 150000);
	assert_int_equal(c.costs.slice_ns, 2000000);
	assert_ok(simgpu_config_parse_costs(&c.costs, STR("switch_us=450, slice_us=1000,"), &err));
	assert_int_equal(c.costs.switch_ns, 450000);
	assert_int_equal(c.costs.slice_ns, 1000000);
	assert_true(simgpu_config_parse_costs(&c.costs, STR("switch=450"), &err) < 0);
	assert_non_null(strstr(err.msg, "switch"));
	assert_true(simgpu_config_parse_costs(&c.costs, STR("switch_us"), &err) < 0);
	assert_true(simgpu_config_parse_costs(&c.costs, STR("switch_us=-1"), &err) < 0);
	assert_true(simgpu_config_parse_costs(&c.costs, STR("slice_us=0"), &err) < 0);
}

static void test_config(void **state)
{
	struct simgpu_config c;
	struct error err = {0};

	simgpu_config_init(&c);
	assert_ok(simgpu_config_parse(&c,
		STR("# a machine\n\ndevices = 2xL4\ncost.switch_us = 7 # short\nlink.0.1 = 4\n"
		    "numa.1 = 1\ntrace.records = 1000\nlinger = 250ms\nstay = yes\n"
		    "fault = slow device=1 factor=3 after=10\n"),
		&err));
	assert_int_equal(c.n, 2);
	assert_int_equal(c.costs.switch_ns, 7000);
	assert_int_equal(c.links[1][0], 4);
	assert_int_equal(c.numa[1], 1);
	assert_int_equal(c.trace_records, 1000);
	assert_int_equal(c.linger_ns, 250000000);
	assert_true(c.stay);
	assert_int_equal(c.faults.n, 1);
	assert_int_equal(c.faults.v[0].kind, SIMGPU_FAULT_SLOW);
	assert_int_equal(c.faults.v[0].count, 3);
	assert_true(simgpu_config_parse(&c, STR("\n\nspeed = 3\n"), &err) < 0);
	assert_non_null(strstr(err.msg, "line 3"));
	assert_non_null(strstr(err.msg, "speed"));
	assert_true(simgpu_config_parse(&c, STR("link.0.2 = 4"), &err) < 0);
	assert_true(simgpu_config_parse(&c, STR("link.1.1 = 4"), &err) < 0);
	assert_true(simgpu_config_parse(&c, STR("devices"), &err) < 0);
}

static void test_faults(void **state)
{
	static const char *const bad[] = {"oom nth=0", "oom after=3", "ecc factor=2",
		"slow factor=0", "hang at=2s", "burn device=0", "oom device=99", "oom device",
		"slow factor=2000", "oom", "oom count=2", "slow", "slow device=0",
		"slow factor=3 factor=4", "oom nth=1 nth=1", "ecc device=0 at=1s device=0", "xid",
		"xid code=0", "xid code=1000", "lost code=79", "xid code=79 factor=2",
		"xid code=79 pid=0", "xid code=79 action=burn", "lost pid=1", "lost action=reset",
		"reset", "reset after=3", "reset at=1s code=5", "lost at=1s after=2"};
	struct simgpu_faults f;
	struct error err = {0};

	assert_ok(simgpu_config_parse_faults(&f,
		STR("oom device=0 nth=5 count=2\n# no\necc device=1 at=2s\nlost after=3\nhang\n"
		    "xid device=1 code=79 at=1s pid=123 action=reboot\nreset device=1 at=2s\n"),
		&err));
	assert_int_equal(f.n, 6);
	assert_int_equal(f.v[4].count, 79);
	assert_int_equal(f.v[4].pid, 123);
	assert_int_equal(f.v[4].action, 2);
	assert_int_equal(f.v[5].kind, SIMGPU_FAULT_RESET);
	assert_int_equal(f.v[0].after, 4);
	assert_int_equal(f.v[0].count, 2);
	assert_int_equal(f.v[1].at_ns, 2000000000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(simgpu_config_parse_faults(&f, str_from(bad[i]), &err) < 0);
		assert_non_null(strstr(err.msg, "line 1"));
		assert_int_equal(f.n, 6);
	}
	assert_non_null(strstr(err.msg, "at= and after="));
	assert_true(simgpu_config_parse_faults(&f, STR("oom"), &err) < 0);
	assert_non_null(strstr(err.msg, "nth= is missing"));
	assert_true(simgpu_config_parse_faults(&f, STR("slow factor=3 factor=4"), &err) < 0);
	assert_non_null(strstr(err.msg, "factor= occurs twice"));
	assert_true(simgpu_config_parse_faults(&f, STR("oom nth=0"), &err) < 0);
	assert_non_null(strstr(err.msg, "'nth=0'"));
	assert_non_null(strstr(err.msg, "nth= and count=, from 1 on"));
	assert_ok(simgpu_faults_check(&f, 2, &err));
	assert_true(simgpu_faults_check(&f, 1, &err) < 0);
	assert_non_null(strstr(err.msg, "fault ecc: device=1: no such device; expected 0 to 0"));
}

static void test_compute(void **state)
{
	struct simgpu_config c;
	struct error err = {0};

	simgpu_config_init(&c);
	assert_int_equal(c.compute, SIMGPU_COMPUTE_AUTO);
	assert_ok(simgpu_config_parse_devices(&c, STR("1xH100-80Gi,compute=require"), &err));
	assert_int_equal(c.compute, SIMGPU_COMPUTE_REQUIRE);
	assert_int_equal(c.n, 1);
	assert_ok(simgpu_config_parse(&c, STR("compute = off\n"), &err));
	assert_int_equal(c.compute, SIMGPU_COMPUTE_OFF);
	assert_true(simgpu_config_parse_devices(&c, STR("1xH100-80Gi,compute=maybe"), &err) < 0);
	assert_contains(err.msg, "auto, off or require");
	assert_true(simgpu_config_parse_devices(&c, STR("compute=off"), &err) < 0);
	assert_contains(err.msg, "no device");
}

UNIT_MAIN(UNIT(test_devices), UNIT(test_devices_refused), UNIT(test_costs), UNIT(test_config),
	UNIT(test_compute), UNIT(test_faults))
