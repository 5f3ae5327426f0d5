/* SPDX-License-Identifier: Apache-2.0 */
/* The series of devices under the names of dcgm-exporter. */
#include "unit.h"

#include <stdlib.h>

#include "agent/device.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "divvyd/metrics-dcgm.h"

#define PARENT "GPU-a"

/* Two compute instances of one GPU instance differ in their UUIDs only. */
static void compute_instances_have_series_of_their_own(void **state)
{
	static struct device devices[] = {
		{.index = 0, .info = {.uuid = "MIG-1", .parent = PARENT, .is_mig = true}},
		{.index = 1, .info = {.uuid = "MIG-2", .parent = PARENT, .is_mig = true}},
	};
	static struct device_set set = {.devices = devices, .n = ARRAY_SIZE(devices)};
	static struct agent agent = {.devices = &set, .options = {.host = "gpu-7"}};
	_cleanup_buf_ struct buf out = BUF_INIT(65536);
	struct str rest, line;
	uint32_t n = 0;

	LIST_INIT(&agent.tenants);
	metrics_add_dcgm(&agent, &out);
	assert_int_equal(out.error, 0);
	rest = buf_str(&out);
	while (str_split(&rest, '\n', &line)) {
		_cleanup_free_ char *text = str_dup(line);

		assert_non_null(text);
		if (strncmp(text, "DCGM_FI_DEV_FB_TOTAL{", 21) != 0)
			continue;
		assert_non_null(strstr(text, ",UUID=\"" PARENT "\","));
		assert_non_null(strstr(text, n ? ",MIG_UUID=\"MIG-2\"" : ",MIG_UUID=\"MIG-1\""));
		n++;
	}
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(compute_instances_have_series_of_their_own)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
