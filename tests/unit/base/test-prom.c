/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/prom.h"

struct sample {
	const char *pod, *node;
	const struct prom_histogram *durations;
	uint64_t n, bytes, time_ns;
	uint32_t n_small;
	bool is_on;
};

static void label(struct buf *out, const void *of)
{
	const struct sample *sample = of;

	prom_label(out, "pod", sample->pod);
	prom_label(out, "node", sample->node);
}

static void samples_have_the_prometheus_format(void **state)
{
	static const struct prom_metric all[] = {
		{"a_total", PROM_COUNTER, "All of them.", PROM_FIELD(struct sample, n)},
		{"a_small", PROM_GAUGE, "Few.", PROM_FIELD(struct sample, n_small)},
		{"a_on", PROM_GAUGE, "1 while on.", PROM_FIELD(struct sample, is_on)},
		{"a_seconds", PROM_GAUGE, "Time.", PROM_FIELD(struct sample, time_ns),
			NSEC_PER_SEC},
	};
	static const struct prom_metric each[] = {
		{"b_bytes", PROM_GAUGE, "Some.", PROM_FIELD(struct sample, bytes), 4}};
	const struct prom_table one = {all, ARRAY_SIZE(all), sizeof(struct sample), NULL};
	const struct prom_table more = {each, ARRAY_SIZE(each), sizeof(struct sample), label};
	const struct sample samples[] = {
		{.pod = "x", .node = "", .n = 12345678901, .bytes = 1, .is_on = true},
		{.pod = "y", .node = "z", .bytes = 8},
	};
	const struct sample small = {.n_small = UINT32_MAX, .time_ns = 1500 * NSEC_PER_MSEC};
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	prom_add_table(&out, &one, samples, 1);
	prom_add_table(&out, &more, samples, 2);
	assert_string_equal(buf_text(&out),
		"# HELP a_total All of them.\n# TYPE a_total counter\na_total 12345678901\n"
		"# HELP a_small Few.\n# TYPE a_small gauge\na_small 0\n"
		"# HELP a_on 1 while on.\n# TYPE a_on gauge\na_on 1\n"
		"# HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 0\n"
		"# HELP b_bytes Some.\n# TYPE b_bytes gauge\n"
		"b_bytes{pod=\"x\",node=\"\"} 0.25\nb_bytes{pod=\"y\",node=\"z\"} 2\n");
	buf_clear(&out);
	prom_add_table(&out, &one, &small, 1);
	assert_contains(buf_text(&out), "\na_small 4294967295\n");
	assert_contains(buf_text(&out), "\na_on 0\n");
	assert_contains(buf_text(&out), "\na_seconds 1.5\n");
}

static void a_metric_without_samples_has_its_head(void **state)
{
	static const struct prom_metric each[] = {
		{"b_bytes", PROM_GAUGE, "Some.", PROM_FIELD(struct sample, bytes)}};
	const struct prom_table table = {each, 1, sizeof(struct sample), label};
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	prom_add_table(&out, &table, NULL, 0);
	assert_string_equal(buf_text(&out), "# HELP b_bytes Some.\n# TYPE b_bytes gauge\n");
}

static void an_old_name_is_exported_as_deprecated(void **state)
{
	static const struct prom_metric each[] = {
		{"b_bytes", PROM_GAUGE, "Some.", PROM_FIELD(struct sample, bytes),
			.old_name = "a_bytes"},
		{"b_seconds", PROM_HISTOGRAM, "Time.", PROM_FIELD(struct sample, durations),
			.old_name = "a_seconds"}};
	const struct prom_table labelled = {each, 1, sizeof(struct sample), label};
	const struct prom_table plain = {&each[1], 1, sizeof(struct sample), NULL};
	struct prom_histogram h = {0};
	const struct sample samples[] = {
		{.pod = "x", .node = "", .bytes = 1, .durations = &h},
		{.pod = "y", .node = "z", .bytes = 8},
	};
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	prom_observe(&h, NSEC_PER_SEC);
	prom_add_table(&out, &labelled, samples, 2);
	assert_string_equal(buf_text(&out),
		"# HELP b_bytes Some.\n# TYPE b_bytes gauge\n"
		"b_bytes{pod=\"x\",node=\"\"} 1\nb_bytes{pod=\"y\",node=\"z\"} 8\n"
		"# HELP a_bytes Deprecated: use b_bytes.\n# TYPE a_bytes gauge\n"
		"a_bytes{pod=\"x\",node=\"\"} 1\na_bytes{pod=\"y\",node=\"z\"} 8\n");
	buf_clear(&out);
	prom_add_table(&out, &plain, samples, 1);
	assert_contains(buf_text(&out), "# HELP a_seconds Deprecated: use b_seconds.\n");
	assert_contains(buf_text(&out), "\nb_seconds_count 1\n");
	assert_contains(buf_text(&out), "\na_seconds_sum 1\na_seconds_count 1\n");
}

static void a_label_stays_within_its_quotes(void **state)
{
	static const struct prom_metric each[] = {
		{"a", PROM_GAUGE, "Some.", PROM_FIELD(struct sample, n)}};
	const struct prom_table table = {each, 1, sizeof(struct sample), label};
	const struct sample sample = {.pod = "\"} 1\nb{x=\"\\", .node = "\"", .n = 1};
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	prom_add_table(&out, &table, &sample, 1);
	assert_contains(
		buf_text(&out), "gauge\na{pod=\"\\\"} 1\\nb{x=\\\"\\\\\",node=\"\\\"\"} 1\n");
}

static void durations_are_counted_up_to_each_bound(void **state)
{
	static const struct prom_metric all[] = {
		{"t_seconds", PROM_HISTOGRAM, "Time.", PROM_FIELD(struct sample, durations)}};
	const struct prom_table table = {all, 1, sizeof(struct sample), NULL};
	_cleanup_buf_ struct buf out = BUF_INIT(4096);
	struct prom_histogram h = {0};
	const struct sample sample = {.durations = &h};

	prom_observe(&h, 0);
	prom_observe(&h, NSEC_PER_MSEC);
	prom_observe(&h, NSEC_PER_MSEC + 1);
	prom_observe(&h, 1000 * NSEC_PER_SEC);
	prom_add_table(&out, &table, &sample, 1);
	assert_contains(buf_text(&out), "# TYPE t_seconds histogram\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"0.0001\"} 1\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"0.001\"} 2\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"0.003\"} 3\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"100\"} 3\n");
	assert_contains(buf_text(&out), "t_seconds_bucket{le=\"+Inf\"} 4\n");
	assert_contains(buf_text(&out), "t_seconds_sum 1000.002\nt_seconds_count 4\n");
}

UNIT_MAIN(UNIT(samples_have_the_prometheus_format), UNIT(a_metric_without_samples_has_its_head),
	UNIT(an_old_name_is_exported_as_deprecated), UNIT(a_label_stays_within_its_quotes),
	UNIT(durations_are_counted_up_to_each_bound))
