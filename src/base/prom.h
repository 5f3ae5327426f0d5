/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics as Prometheus reads them (its text format 0.0.4): heads, samples with labels, histograms.
 * Names are snake_case with the unit in full and last, counters end in _total; times are seconds,
 * sizes bytes, shares parts of 1. A failure is the buf's. Any thread.
 */
#ifndef BASE_PROM_H
#define BASE_PROM_H

#include <stdint.h>

#include "base/str.h"

/* type: "gauge", "counter", "histogram". Once for all samples of the name, before them. */
void prom_head(struct buf *out, const char *name, const char *type, const char *help);

/* A metric with one sample, which has no labels. */
void prom_add(struct buf *out, const char *name, const char *type, const char *help, double value);

/*
 * A sample with labels: prom_begin(out, name), prom_label() each, prom_end(). Whatever text a value
 * is, it stays within its quotes.
 */
void prom_begin(struct buf *out, const char *name);
void prom_label(struct buf *out, const char *key, const char *value);
void prom_end(struct buf *out, double value);

/* How long things took: from 0.1 ms to 100 s in steps of about 3, and beyond. Zeroed is empty. */
#define PROM_BUCKETS 13u
struct prom_histogram {
	uint64_t n[PROM_BUCKETS + 1]; /* the last: longer than all */
	uint64_t sum_ns;
};
void prom_observe(struct prom_histogram *histogram, uint64_t duration_ns);
void prom_add_histogram(struct buf *out, const char *name, const char *help,
	const struct prom_histogram *histogram);

#endif
