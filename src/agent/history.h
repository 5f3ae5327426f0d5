/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of reports: a record for each tenant, kept after its end, with buckets of time. Two text
 * files store them: `usage` has all records as of some moment, and `usage-log` has the changes
 * since then. Sums only grow. Therefore the larger of two values is the later one, and reading a
 * line twice changes nothing.
 *   R id uid request limit first_s last_s gpu_s byte_s waited_s name    a tenant
 *   B start_s length_s gpu_s byte_s waited_s                            a bucket of that tenant
 * A longer bucket replaces the buckets within it. One thread at a time may use an object.
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

#define HISTORY_RECORDS_MAX 4096u        /* a new record replaces the one that ended first */
#define HISTORY_BUCKETS_MAX 1024u        /* buckets of one tenant */
#define HISTORY_KEPT_S (31u * 24 * 3600) /* age limit of buckets; sums stay as long as the record */
#define HISTORY_MINUTES_S (2u * 3600)    /* older minutes are merged into hours */

struct usage_journal_slot;

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
	bool is_new; /* the record or one of its buckets is not in the files yet */
	char name[SPEC_NAME];
	uint32_t request, limit;
	uint64_t first_s, last_s;
	double gpu_s, byte_s, waited_s;
	struct history_bucket *buckets; /* ordered by start */
	uint32_t n, capacity;
	/* NULL: the journal had no free slot, or the files have all sums of an ended tenant. */
	struct usage_journal_slot *slot;
};

struct history {
	struct history_record *records;
	uint32_t n, capacity;
	/* The last tenant's line was unreadable, so the buckets that follow it have no owner. */
	bool has_lost_record;
};

void history_done(struct history *history);

/* Returns the record of this tenant; NULL: none. Adding a record may move all records in memory. */
struct history_record *history_find(const struct history *history, uint32_t id);
/* Adds an empty record; NULL: out of memory. */
struct history_record *history_add(struct history *history, uint32_t id);

/* Adds to the record's sums and to the bucket of that moment. */
void history_use(struct history_record *record, uint64_t now_s, double gpu_s, double byte_s,
	double waited_s);
/* Merges old minutes into hours, and drops buckets older than HISTORY_KEPT_S. */
void history_merge(struct history_record *record, uint64_t now_s);

/* Returns 0, -EBADMSG for a line of another form, or -ENOMEM. */
int history_read_line(struct history *history, struct str line, bool is_log);
/*
 * Reads a file of any length, and ignores an incomplete last line. *ret_broken: number of
 * unreadable lines. -ENOENT, and the errors of open(2) and read(2). Blocks.
 */
int history_read(struct history *history, const char *path, bool is_log, uint32_t *ret_broken,
	struct error *err);

/* Writes the lines of a record and of its buckets. */
void history_format(const struct history_record *record, struct buf *out);

/*
 * Copies the new records with their new buckets, and marks them as written. The buckets of the copy
 * are one allocation, at records[0].buckets. -ENOMEM: nothing is marked.
 */
int history_take_new(struct history *history, struct history *ret_new);
/* Marks the records of a copy as new again, because they could not be written. */
void history_put_back(struct history *history, const struct history *changes);
void history_changes_done(struct history *changes);

/*
 * Appends the copy's lines to the log, all or nothing. First cuts off an unfinished line of a
 * killed daemon. *ret_size: the log's size. Blocks.
 */
int history_append(const struct history *changes, const char *log_path, int64_t *ret_size);

/* Merges the file at log_path into the file at `path`. Blocks, and syncs the file. */
int history_compact(const char *path, const char *log_path, uint64_t now_s, struct error *err);

#endif
