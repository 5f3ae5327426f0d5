/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics as Prometheus reads them (its text format 0.0.4). A daemon declares them in tables: each
 * row has a name, a type, a help text and the field of a struct, the sample, which the daemon fills
 * before it writes the table. Names are snake_case with the unit in full and last, counters end in
 * _total; times are seconds, sizes bytes, shares parts of 1. A failure is the buf's. Any thread.
 */
#ifndef BASE_PROM_H
#define BASE_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* How long things took: from 0.1 ms to 100 s in steps of about 3, and beyond. Zeroed is empty. */
#define PROM_BUCKETS 13u
struct prom_histogram {
	uint64_t n[PROM_BUCKETS + 1]; /* the last: longer than all */
	uint64_t sum_ns;
};
void prom_observe(struct prom_histogram *histogram, uint64_t duration_ns);

enum prom_type { PROM_GAUGE, PROM_COUNTER, PROM_HISTOGRAM };

enum prom_field { PROM_BOOL, PROM_UINT32, PROM_UINT64, PROM_DURATIONS };

struct prom_metric {
	const char *name;
	enum prom_type type;
	const char *help;
	/* by PROM_FIELD */
	size_t at; /* in the sample */
	enum prom_field field;
	double per; /* what makes 1, as NSEC_PER_SEC does of nanoseconds; 0: the value itself */
};

/*
 * The end of a row: a field of the sample's struct, a bool, uint32_t or uint64_t. That of a
 * PROM_HISTOGRAM is a `const struct prom_histogram *`, and its table has no labels.
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
	/* Says by prom_label() whose sample it is; NULL: the only sample has no labels. */
	void (*label)(struct buf *out, const void *sample);
};

/* Appends all metrics, each with its value in each of the n samples, an array. */
void prom_add_table(
	struct buf *out, const struct prom_table *table, const void *samples, size_t n_samples);

/* Whatever text the value is, it stays within its quotes. */
void prom_label(struct buf *out, const char *key, const char *value);

#endif
