/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the pause after a slow or failed patch of a pod's condition. */
#include "base/clock.h"
#include "scheduler/service-internal.h"
#include "unit.h"

static const struct {
	uint64_t took_ms;
	uint32_t n_failed;
	uint64_t pause_ms;
} cases[] = {
	{5, 0, 0},
	{99, 0, 0},
	{100, 0, 1600},
	{3500, 0, 56000},
	{34000, 0, 544000},
	{60000, 0, 600000},
	{UINT64_MAX / NSEC_PER_MSEC, 0, 600000},
	{5, 1, 1000},
	{5, 2, 2000},
	{5, 7, 64000},
	{5, 1000, 64000},
	{30000, 1, 480000},
};

static void slow_or_failed_reports_lead_to_longer_pauses(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const uint64_t pause_ns = service_condition_pause_ns(
			cases[i].took_ms * NSEC_PER_MSEC, cases[i].n_failed);

		if (pause_ns != cases[i].pause_ms * NSEC_PER_MSEC)
			fail_msg("%llu ms, %u failures: %llu ns",
				(unsigned long long)cases[i].took_ms, cases[i].n_failed,
				(unsigned long long)pause_ns);
	}
}

UNIT_MAIN(UNIT(slow_or_failed_reports_lead_to_longer_pauses))
