/* SPDX-License-Identifier: Apache-2.0 */
/* How often the node reports Xids: the test has a clock of its own. */
#include "unit.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/clock.h"

static uint64_t fake_now_ns(void);

#define clock_now_ns fake_now_ns
#define node_event fake_node_event
#define node_pod_event fake_node_pod_event
#define xid_watch_take fake_xid_watch_take
#include "node/node-watch.c"

static uint64_t now_ns;
static uint32_t n_events, n_pod_events;
static struct xid_report reports[8];
static uint32_t n_reports;

static uint64_t fake_now_ns(void)
{
	return now_ns;
}

void node_event(struct node *node, bool is_warning, const char *reason, const char *fmt, ...)
{
	n_events++;
}

void node_pod_event(struct node *node, const struct tenant_pod *pod, bool is_warning,
	const char *reason, const char *fmt, ...)
{
	n_pod_events++;
}

bool xid_watch_take(struct agent *agent, struct xid_report *ret_report)
{
	if (!n_reports)
		return false;
	*ret_report = reports[--n_reports];
	return true;
}

static void add_report(uint32_t device, const char *uid)
{
	struct xid_report *r = &reports[n_reports++];

	*r = (struct xid_report){.xid = 31, .device = device};
	snprintf(r->pod.uid, sizeof(r->pod.uid), "%s", uid);
}

/* A program may cause many Xids each second. */
static void xids_without_a_pod_make_one_event_a_minute(void **state)
{
	static struct device devices[2];
	static struct device_set set = {.devices = devices, .n = 2};
	static struct agent agent = {.devices = &set};
	static struct node node = {.agent = &agent};

	now_ns = NSEC_PER_SEC;
	for (uint32_t i = 0; i < 3; i++)
		add_report(0, "");
	watch_report_xids(&node);
	assert_int_equal(n_events, 1);
	add_report(1, "");
	watch_report_xids(&node);
	assert_int_equal(n_events, 2);
	now_ns += 60 * NSEC_PER_SEC - 1;
	add_report(0, "");
	add_report(0, "uid");
	watch_report_xids(&node);
	assert_int_equal(n_events, 2);
	assert_int_equal(n_pod_events, 1);
	now_ns++;
	add_report(0, "");
	watch_report_xids(&node);
	assert_int_equal(n_events, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(xids_without_a_pod_make_one_event_a_minute)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
