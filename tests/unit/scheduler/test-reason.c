/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that each reason follows Kubernetes: one word in CamelCase, and an Event type Normal or
 * Warning.
 */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "scheduler/reason.h"
#include "unit.h"

static void each_reason_is_one_unique_word(void **state)
{
	assert_string_equal(reason_name(REASON_NONE), "");
	for (int i = REASON_NONE + 1; i < REASON_COUNT; i++) {
		const char *name = reason_name((enum reason)i);

		assert_true(isupper((unsigned char)name[0]));
		for (const char *p = name; *p; p++)
			assert_true(isalpha((unsigned char)*p));
		for (int k = REASON_NONE + 1; k < i; k++)
			assert_string_not_equal(name, reason_name((enum reason)k));
	}
}

static const struct {
	enum reason reason;
	const char *type; /* type of the reason's Event; NULL: no Event has the reason */
} cases[] = {
	{REASON_NONE, NULL},
	{REASON_UNSCHEDULABLE, NULL},
	{REASON_SCHEDULED, "Normal"},
	{REASON_GROUP_WAITING, "Normal"},
	{REASON_GROUP_IGNORED, "Normal"},
	{REASON_RESERVATION_RELEASED, "Normal"},
	{REASON_GROUP_TIMED_OUT, "Warning"},
	{REASON_FAILED_SCHEDULING, "Warning"},
	{REASON_PREEMPTED, "Warning"},
	{REASON_RECLAIMED, "Warning"},
	{REASON_RESIZE_ACCEPTED, "Normal"},
	{REASON_RESIZE_REJECTED, "Warning"},
};

static void reasons_that_need_action_are_warnings(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *type = reason_event_type(cases[i].reason);

		if (cases[i].type)
			assert_string_equal(type, cases[i].type);
		else
			assert_null(type);
	}
}

UNIT_MAIN(UNIT(each_reason_is_one_unique_word), UNIT(reasons_that_need_action_are_warnings))
