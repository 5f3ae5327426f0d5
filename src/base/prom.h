/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics in Prometheus' text format 0.0.4. A daemon declares metrics in tables. Each row has a
 * name, a type, a help text and a field of a struct. This struct is the sample: the daemon fills it
 * before it writes the table. Names are snake_case and end in the full unit, those of counters in
 * _total. Times are in seconds, sizes in bytes, shares are fractions of 1. A failure to append
 * stays in `out` (struct buf.error). Any thread.
 */
#ifndef BASE_PROM_H
#define BASE_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Durations in buckets from 0.1 ms to 100 s, each about 3 times the previous one, and a bucket for
 * longer ones. A zeroed histogram is empty.
 */
#define PROM_BUCKETS 13u
struct prom_histogram {
	uint64_t n[PROM_BUCKETS + 1]; /* the last: longer than 100 s */
	uint64_t sum_ns;
};
void prom_observe(struct prom_histogram *histogram, uint64_t duration_ns);

enum prom_type { PROM_GAUGE, PROM_COUNTER, PROM_HISTOGRAM };

enum prom_field { PROM_BOOL, PROM_UINT32, PROM_UINT64, PROM_DURATIONS };

struct prom_metric {
	const char *name;
	enum prom_type type;
	const char *help;
	/* Filled by PROM_FIELD. */
	size_t at; /* offset in the sample */
	enum prom_field field;
	/* divisor to the metric's unit, such as NSEC_PER_SEC for nanoseconds; 0: none */
	double per;
	const char *old_name; /* exported as well, marked deprecated, for one release; NULL: none */
};

/*
 * The end of a row: a field of the sample's struct, of type bool, uint32_t or uint64_t. For a
 * PROM_HISTOGRAM the field is a `const struct prom_histogram *`, and the table has no labels.
 */
/* clang-format off */
#define PROM_FIELD(sample, member) \
	offsetof(sample, member), \
	_Generic(((sample *)NULL)->member, \
		bool: PROM_BOOL, \
		uint32_t: PROM_UINT32, \
		uint64_t: PROM_UINT64, \
		const struct prom_histogram *: PROM_DURATIONS)
/* clang-format on */

struct prom_table {
	const struct prom_metric *metrics;
	size_t n;
	size_t sample_bytes;
	/* Writes the sample's labels by prom_label(); NULL: the only sample has no labels. */
	void (*label)(struct buf *out, const void *sample);
};

/* Appends every metric with its value in each of the n samples, an array. */
void prom_add_table(
	struct buf *out, const struct prom_table *table, const void *samples, size_t n_samples);

/* Appends a label; the value may be any text, since it is escaped. */
void prom_label(struct buf *out, const char *key, const char *value);

#endif
