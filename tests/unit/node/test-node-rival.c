/* SPDX-License-Identifier: Apache-2.0 */
/* Finds another system's DRA driver that hands out the node's devices. */
#include "unit.h"

#include <stdio.h>

#include "agent/device.h"
#include "node/node-internal.h"

#define UUID "GPU-aaaaaaaa-0000-0000-0000-000000000001"
#define PARENT "GPU-bbbbbbbb-0000-0000-0000-000000000002"

static struct device devices[1];
static struct device_set set = {.devices = devices, .n = 1};

/* A list with one slice of one device, which has that attribute. */
static json_t *list_of(const char *driver, const char *name, const char *type, const char *value)
{
	return json_pack("{s:[{s:{s:s, s:[{s:s, s:{s:{s:s}}}]}}]}", "items", "spec", "driver",
		driver, "devices", "name", "gpu-0", "attributes", name, type, value);
}

static void check(json_t *list, const char *driver)
{
	const char *found = rival_in(&set, list);

	if (driver)
		assert_string_equal(found, driver);
	else
		assert_null(found);
	json_decref(list);
}

static int set_up(void **state)
{
	snprintf(devices[0].info.uuid, sizeof(devices[0].info.uuid), UUID);
	snprintf(devices[0].info.parent, sizeof(devices[0].info.parent), PARENT);
	return 0;
}

static void a_uuid_of_ours_tells_a_rival(void **state)
{
	check(list_of("gpu.other.example", "uuid", "string", UUID), "gpu.other.example");
	/* The attribute's name is the other driver's choice. */
	check(list_of("gpu.other.example", "id", "string", UUID), "gpu.other.example");
	/* Of a MIG instance of ours, the other driver may hand out the whole device. */
	check(list_of("gpu.other.example", "uuid", "string", PARENT), "gpu.other.example");
}

static void other_devices_do_not(void **state)
{
	check(list_of("nic.example", "uuid", "string", "eth0"), NULL);
	check(list_of("gpu.other.example", "uuid", "version", UUID), NULL);
	check(list_of("divvy.gpu", "uuid", "string", UUID), NULL);
	check(json_object(), NULL);
	check(NULL, NULL);
}

#define RIGGED(fn) cmocka_unit_test_setup(fn, set_up)

UNIT_MAIN(RIGGED(a_uuid_of_ours_tells_a_rival), RIGGED(other_devices_do_not))
