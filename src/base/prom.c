/* SPDX-License-Identifier: Apache-2.0 */
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

void prom_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prom_begin(struct buf *out, const char *name)
{
	buf_add_text(out, name);
}

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

void prom_end(struct buf *out, double value)
{
	buf_addf(out, "%s %.15g\n", out->n && out->p[out->n - 1] == '"' ? "}" : "", value);
}

void prom_add(struct buf *out, const char *name, const char *type, const char *help, double value)
{
	prom_head(out, name, type, help);
	prom_begin(out, name);
	prom_end(out, value);
}

void prom_observe(struct prom_histogram *histogram, uint64_t duration_ns)
{
	uint32_t i = 0;

	while (i < PROM_BUCKETS && duration_ns > buckets[i].ns)
		i++;
	histogram->n[i]++;
	histogram->sum_ns += duration_ns;
}

void prom_add_histogram(
	struct buf *out, const char *name, const char *help, const struct prom_histogram *histogram)
{
	uint64_t n = 0;

	prom_head(out, name, "histogram", help);
	for (uint32_t i = 0; i <= PROM_BUCKETS; i++) {
		n += histogram->n[i];
		buf_addf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
			i < PROM_BUCKETS ? buckets[i].le : "+Inf", n);
	}
	buf_addf(out, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name,
		(double)histogram->sum_ns / NSEC_PER_SEC, name, n);
}
