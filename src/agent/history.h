/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of reports: a record for each tenant, also after its end, with buckets of time. In two
 * files of lines: `usage` has all of it as of some moment, `usage-log` what has changed since.
 * Sums only grow, so the larger of two values of the same thing is the later one, and a line that
 * is read twice changes nothing.
 *   R id uid request limit first_s last_s gpu_s byte_s waited_s name    a tenant
 *   B start_s length_s gpu_s byte_s waited_s                            of the tenant above it
 * A longer bucket takes the place of those within it. One thread at a time.
 */
#ifndef AGENT_HISTORY_H
#define AGENT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

#define HISTORY_RECORDS_MAX 4096u        /* the one that ended first is dropped for a new one */
#define HISTORY_BUCKETS_MAX 1024u        /* of one tenant */
#define HISTORY_KEPT_S (31u * 24 * 3600) /* buckets; sums stay as long as the record */
#define HISTORY_MINUTES_S (2u * 3600)    /* minutes are merged into hours after that */

struct tally_slot;

struct history_bucket {
	uint64_t start_s;
	uint32_t length_s;
	bool is_new; /* not in the files yet */
	double gpu_s, byte_s, waited_s;
};

struct history_record {
	uint32_t id;
	uid_t uid;
	bool is_alive;
	bool is_new; /* not in the files yet, or a bucket of it */
	char name[SPEC_NAME];
	uint32_t request, limit;
	uint64_t first_s, last_s;
	double gpu_s, byte_s, waited_s;
	struct history_bucket *buckets; /* by start */
	uint32_t n, capacity;
	struct tally_slot *slot; /* NULL: there was no room, or all of it is in the files */
};

struct history {
	struct history_record *records;
	uint32_t n, capacity;
	bool has_lost_record; /* the last line of a tenant's was not readable: whose are buckets? */
};

void history_done(struct history *history);

/* NULL: none. Records move when one is added. */
struct history_record *history_find(const struct history *history, uint32_t id);
/* An empty one; NULL: no memory. */
struct history_record *history_add(struct history *history, uint32_t id);

/* Adds to the sums and to the bucket of that moment. */
void history_use(struct history_record *record, uint64_t now_s, double gpu_s, double byte_s,
	double waited_s);
/* Minutes that are old enough become hours; buckets older than HISTORY_KEPT_S go. */
void history_merge(struct history_record *record, uint64_t now_s);

/* 0, -EBADMSG, -ENOMEM. */
int history_read_line(struct history *history, struct str line, bool is_log);
/*
 * Reads a file of any length; a last line without its end is passed over. *ret_broken: lines that
 * are none of these. -ENOENT, and what open(2) and read(2) say. Blocks.
 */
int history_read(struct history *history, const char *path, bool is_log, uint32_t *ret_broken,
	struct error *err);

/* The lines of a record, with its buckets. */
void history_format(const struct history_record *record, struct buf *out);

/*
 * Copies what is new, and takes it for written: one record each with its new buckets. The copy's
 * buckets are one allocation, records[0].buckets. -ENOMEM: nothing was taken.
 */
int history_take_new(struct history *history, struct history *ret_new);
/* It was not written after all. */
void history_put_back(struct history *history, const struct history *changes);
void history_changes_done(struct history *changes);

/*
 * Writes the lines of that copy at the end of the log, whole or not at all; what a daemon that was
 * killed has half written there is cut off before. *ret_size: of the log. Blocks.
 */
int history_append(const struct history *changes, const char *log_path, int64_t *ret_size);

/* Both files become one: what history_read() gives of them, merged. Blocks, syncs. */
int history_compact(const char *path, const char *log_path, uint64_t now_s, struct error *err);

#endif
