/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/prom.h"

static void samples_are_as_prometheus_reads_them(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	prom_add(&out, "a_total", "counter", "All of them.", 12345678901.0);
	prom_head(&out, "b_bytes", "gauge", "Some.");
	prom_begin(&out, "b_bytes");
	prom_label(&out, "pod", "x");
	prom_label(&out, "node", "");
	prom_end(&out, 0.25);
	assert_string_equal(buf_text(&out),
		"# HELP a_total All of them.\n# TYPE a_total counter\na_total 12345678901\n"
		"# HELP b_bytes Some.\n# TYPE b_bytes gauge\nb_bytes{pod=\"x\",node=\"\"} 0.25\n");
}

static void a_label_stays_within_its_quotes(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	prom_begin(&out, "a");
	prom_label(&out, "k", "\"} 1\nb{x=\"\\");
	prom_label(&out, "l", "\"");
	prom_end(&out, 1);
	assert_string_equal(buf_text(&out), "a{k=\"\\\"} 1\\nb{x=\\\"\\\\\",l=\"\\\"\"} 1\n");
}

static void durations_are_counted_up_to_each_bound(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096);
	struct prom_histogram h = {0};

	prom_observe(&h, 0);
	prom_observe(&h, NSEC_PER_MSEC);
	prom_observe(&h, NSEC_PER_MSEC + 1);
	prom_observe(&h, 1000 * NSEC_PER_SEC);
	prom_add_histogram(&out, "t_seconds", "Time.", &h);
	assert_contains(buf_text(&out), "# TYPE t_seconds histogram\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"0.0001\"} 1\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"0.001\"} 2\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"0.003\"} 3\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"100\"} 3\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"+Inf\"} 4\n");
	assert_contains(buf_text(&out), "t_seconds_sum 1000.002\nt_seconds_count 4\n");
}

UNIT_MAIN(UNIT(samples_are_as_prometheus_reads_them), UNIT(a_label_stays_within_its_quotes),
	UNIT(durations_are_counted_up_to_each_bound))
