/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes the text format from tables: the HELP and TYPE lines of a metric, then a line
 * for each sample. The metric is the outer loop, because the format keeps all samples of a metric
 * together. prom_label() tells the first label from further ones by the last byte of the buffer. A
 * label function therefore writes labels only, and at least one, since add_sample() closes the
 * braces. A histogram counts a duration in one bucket, and add_histogram() sums the buckets up as
 * Prometheus expects. No function locks a histogram.
 */
#include "base/prom.h"

#include <inttypes.h>

#include "base/clock.h"

static const struct {
	uint64_t ns;
	const char *le;
} buckets[PROM_BUCKETS] = {
	{100 * NSEC_PER_USEC, "0.0001"},
	{300 * NSEC_PER_USEC, "0.0003"},
	{NSEC_PER_MSEC, "0.001"},
	{3 * NSEC_PER_MSEC, "0.003"},
	{10 * NSEC_PER_MSEC, "0.01"},
	{30 * NSEC_PER_MSEC, "0.03"},
	{100 * NSEC_PER_MSEC, "0.1"},
	{300 * NSEC_PER_MSEC, "0.3"},
	{NSEC_PER_SEC, "1"},
	{3 * NSEC_PER_SEC, "3"},
	{10 * NSEC_PER_SEC, "10"},
	{30 * NSEC_PER_SEC, "30"},
	{100 * NSEC_PER_SEC, "100"},
};

void prom_label(struct buf *out, const char *key, const char *value)
{
	const bool is_first = !out->n || out->p[out->n - 1] != '"';

	buf_addf(out, "%c%s=\"", is_first ? '{' : ',', key);
	for (const char *p = value; *p; p++) {
		if (*p == '\\' || *p == '"')
			buf_add_byte(out, '\\');
		if (*p == '\n')
			buf_add_text(out, "\\n");
		else
			buf_add_byte(out, *p);
	}
	buf_add_byte(out, '"');
}

void prom_observe(struct prom_histogram *histogram, uint64_t duration_ns)
{
	uint32_t i = 0;

	while (i < PROM_BUCKETS && duration_ns > buckets[i].ns)
		i++;
	histogram->n[i]++;
	histogram->sum_ns += duration_ns;
}

static void add_histogram(struct buf *out, const char *name, const struct prom_histogram *histogram)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i <= PROM_BUCKETS; i++) {
		n += histogram->n[i];
		buf_addf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
			i < PROM_BUCKETS ? buckets[i].le : "+Inf", n);
	}
	buf_addf(out, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name,
		(double)histogram->sum_ns / NSEC_PER_SEC, name, n);
}

static double prom_field_value(const struct prom_metric *metric, const char *field)
{
	double value = 0;

	if (metric->field == PROM_BOOL)
		value = *(const bool *)field;
	else if (metric->field == PROM_UINT32)
		value = *(const uint32_t *)(const void *)field;
	else
		value = (double)*(const uint64_t *)(const void *)field;
	return metric->per != 0 ? value / metric->per : value;
}

static void add_sample(struct buf *out, const struct prom_metric *metric, const char *name,
	void (*label)(struct buf *out, const void *sample), const void *sample)
{
	const char *field = (const char *)sample + metric->at;

	if (metric->field == PROM_DURATIONS) {
		add_histogram(
			out, name, *(const struct prom_histogram *const *)(const void *)field);
		return;
	}
	buf_add_text(out, name);
	if (label)
		label(out, sample);
	buf_addf(out, "%s %.15g\n", label ? "}" : "", prom_field_value(metric, field));
}

/* Appends the metric under `name`, which is the metric's own name or its old name. */
static void add_metric(struct buf *out, const struct prom_table *table, size_t at, const char *name,
	const void *samples, size_t n_samples)
{
	static const char *const types[] = {
		[PROM_GAUGE] = "gauge", [PROM_COUNTER] = "counter", [PROM_HISTOGRAM] = "histogram"};
	const struct prom_metric *metric = &table->metrics[at];

	if (name == metric->name)
		buf_addf(out, "# HELP %s %s\n", name, metric->help);
	else
		buf_addf(out, "# HELP %s Deprecated: use %s.\n", name, metric->name);
	buf_addf(out, "# TYPE %s %s\n", name, types[metric->type]);
	for (size_t k = 0; k < n_samples; k++)
		add_sample(out, metric, name, table->label,
			(const char *)samples + k * table->sample_bytes);
}

void prom_add_table(
	struct buf *out, const struct prom_table *table, const void *samples, size_t n_samples)
{
	for (size_t i = 0; i < table->n; i++) {
		add_metric(out, table, i, table->metrics[i].name, samples, n_samples);
		if (table->metrics[i].old_name)
			add_metric(out, table, i, table->metrics[i].old_name, samples, n_samples);
	}
}
