/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon shows users what a link reports about itself, and accepts only well-formed reports. */
#include "agent/agent-remote.h"

#include <errno.h>

#include "../unit-json.h"
#include "../unit.h"

#define SECOND_NS 1000000000ull

static int read_text(struct remote_reach *reach, const char *text, struct error *err)
{
	json_t *json = unit_json(text);
	int r = remote_reach_read(reach, json, SECOND_NS, err);

	json_decref(json);
	return r;
}

static const char good[] = "{'peer':'2001:db8::7','processes':2,'rtt_us':210,"
			   "'received_per_s':5,'sent_per_s':7}";

static void a_links_report_is_shown_while_it_is_fresh(void **state)
{
	struct remote_reach reach = {0};
	json_t *json;

	assert_null(remote_reach_json(&reach, SECOND_NS));
	assert_int_equal(read_text(&reach, good, NULL), 0);
	json = remote_reach_json(&reach, SECOND_NS + REMOTE_FRESH_NS);
	assert_string_equal(json_string_value(json_object_get(json, "peer")), "2001:db8::7");
	assert_int_equal(json_integer_value(json_object_get(json, "processes")), 2);
	assert_int_equal(json_integer_value(json_object_get(json, "rtt_us")), 210);
	assert_int_equal(json_integer_value(json_object_get(json, "received_per_s")), 5);
	assert_int_equal(json_integer_value(json_object_get(json, "sent_per_s")), 7);
	json_decref(json);
	assert_null(remote_reach_json(&reach, SECOND_NS + REMOTE_FRESH_NS + 1));
}

static void malformed_reports_are_refused_and_change_nothing(void **state)
{
	static const char long_name[] =
		"{'peer':'1111111111111111111111111111111111111111111111111111111111111111',"
		"'processes':2,'rtt_us':2,'received_per_s':5,'sent_per_s':7}";
	static const char *const bad[] = {
		"{}",
		"{'peer':'','processes':2,'rtt_us':2,'received_per_s':5,'sent_per_s':7}",
		"{'peer':'fe80::7%\\u001b','processes':2,'rtt_us':2,'received_per_s':5,'sent_per_s'"
		":7}",
		"{'peer':'\\u001b[2J','processes':2,'rtt_us':2,'received_per_s':5,'sent_per_s':7}",
		"{'peer':'1.2.3.4','processes':-1,'rtt_us':2,'received_per_s':5,'sent_per_s':7}",
		"{'peer':'1.2.3.4','processes':65536,'rtt_us':2,'received_per_s':5,'sent_per_s':7}",
		"{'peer':'1.2.3.4','processes':2,'rtt_us':'2','received_per_s':5,'sent_per_s':7}",
		"{'peer':'1.2.3.4','processes':2,'rtt_us':2,'received_per_s':5.5,'sent_per_s':7}",
		"{'peer':'1.2.3.4','processes':2,'rtt_us':2,'received_per_s':5}",
		long_name,
	};
	struct remote_reach reach = {0};
	struct error err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct error){0};
		assert_int_equal(read_text(&reach, bad[i], &err), -EINVAL);
		assert_true(err.msg[0]);
		assert_int_equal(reach.said_ns, 0);
	}
}

UNIT_MAIN(UNIT(a_links_report_is_shown_while_it_is_fresh),
	UNIT(malformed_reports_are_refused_and_change_nothing))
