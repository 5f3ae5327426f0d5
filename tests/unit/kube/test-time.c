/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "base/clock.h"
#include "kube/time.h"

static void writes_times_as_read(void **state)
{
	uint64_t ns;

	assert_ok(kube_time_parse(STR("2026-03-04T05:06:07Z"), &ns));
	assert_int_equal(ns, UINT64_C(1772600767) * NSEC_PER_SEC);
	assert_string_equal(kube_time_format(ns).s, "2026-03-04T05:06:07Z");
	assert_ok(kube_time_parse(STR("2026-03-04T05:06:07.123456Z"), &ns));
	assert_string_equal(kube_time_format_micro(ns).s, "2026-03-04T05:06:07.123456Z");
	assert_ok(kube_time_parse(STR("2026-03-04T05:06:07.5+01:30"), &ns));
	assert_string_equal(kube_time_format_micro(ns).s, "2026-03-04T03:36:07.500000Z");
	assert_ok(kube_time_parse(STR("1970-01-01T00:00:00Z"), &ns));
	assert_int_equal(ns, 0);
}

static void refuses_other_texts(void **state)
{
	static const char *const bad[] = {"", "2026", "2026-13-01T00:00:00Z",
		"2026-01-01 00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00+1:00",
		"2026-01-01T24:00:00Z", "1970-01-01T00:00:00+01:00", "2026-01-01T00:00:00Zx",
		"99999-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00x", "-026-01-01T00:00:00Z"};
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (kube_time_parse(str_from(bad[i]), &ns) != -EINVAL)
			fail_msg("'%s' was read", bad[i]);
}

UNIT_MAIN(UNIT(writes_times_as_read), UNIT(refuses_other_texts))
