/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of reports: see history.h. Buckets are ordered by start. Buckets of an earlier daemon
 * may overlap in `usage` (an hour, then minutes of that hour). Reading `usage` keeps such buckets,
 * and the next merge unites them.
 */
#include "agent/history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/usage-journal.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define MINUTE_S 60u
#define HOUR_S 3600u
#define CHUNK (64u << 10)
#define LINE_MAX_BYTES 512u

/* ---- records ---- */

void history_done(struct history *h)
{
	for (uint32_t i = 0; i < h->n; i++)
		free(h->records[i].buckets);
	free(h->records);
	*h = (struct history){0};
}

struct history_record *history_find(const struct history *h, uint32_t id)
{
	for (uint32_t i = h->n; i--;)
		if (h->records[i].id == id)
			return &h->records[i];
	return NULL;
}

static void drop_oldest(struct history *h)
{
	uint32_t oldest = h->n;

	for (uint32_t i = 0; i < h->n; i++)
		if (!h->records[i].is_alive &&
			(oldest == h->n || h->records[i].last_s < h->records[oldest].last_s))
			oldest = i;
	if (oldest == h->n)
		return;
	usage_journal_give_slot(h->records[oldest].slot);
	free(h->records[oldest].buckets);
	h->records[oldest] = h->records[--h->n];
}

struct history_record *history_add(struct history *h, uint32_t id)
{
	struct history_record *grown;

	if (h->n >= HISTORY_RECORDS_MAX)
		drop_oldest(h);
	if (h->n == h->capacity) {
		grown = reallocarray(h->records, h->capacity + 64, sizeof(*grown));
		if (!grown)
			return NULL;
		h->records = grown;
		h->capacity += 64;
	}
	h->records[h->n] = (struct history_record){.id = id};
	return &h->records[h->n++];
}

/* ---- buckets ---- */

static uint64_t history_bucket_end(const struct history_bucket *b)
{
	return b->start_s + b->length_s;
}

static void add_sums(struct history_bucket *b, const struct history_bucket *more)
{
	b->gpu_s += more->gpu_s;
	b->byte_s += more->byte_s;
	b->waited_s += more->waited_s;
}

/*
 * Merges only whole hours, because put_bucket() drops a later minute within a stored hour as one
 * that was read twice.
 */
static bool is_to_be_merged(const struct history_bucket *b, uint64_t now_s)
{
	return b->length_s < HOUR_S &&
		b->start_s - b->start_s % HOUR_S + HOUR_S + HISTORY_MINUTES_S <= now_s;
}

void history_merge(struct history_record *r, uint64_t now_s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		struct history_bucket b = r->buckets[i];

		if (history_bucket_end(&b) + HISTORY_KEPT_S < now_s)
			continue;
		if (is_to_be_merged(&b, now_s)) {
			b.start_s -= b.start_s % HOUR_S;
			b.length_s = HOUR_S;
			b.is_new = r->is_new = true;
		}
		if (n && r->buckets[n - 1].start_s == b.start_s &&
			r->buckets[n - 1].length_s == b.length_s) {
			add_sums(&r->buckets[n - 1], &b);
			r->buckets[n - 1].is_new = r->is_new = true;
		} else {
			r->buckets[n++] = b;
		}
	}
	r->n = n;
}

/* Makes room for one bucket. Drops the oldest quarter if merging does not suffice. */
static int history_drop_oldest(struct history_record *r, uint64_t now_s)
{
	struct history_bucket *grown;

	if (r->n >= HISTORY_BUCKETS_MAX)
		history_merge(r, now_s);
	if (r->n >= HISTORY_BUCKETS_MAX) {
		const uint32_t gone = HISTORY_BUCKETS_MAX / 4;

		memmove(r->buckets, r->buckets + gone, (r->n - gone) * sizeof(*r->buckets));
		r->n -= gone;
	}
	if (r->n < r->capacity)
		return 0;
	grown = reallocarray(r->buckets, r->capacity + 16, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->buckets = grown;
	r->capacity += 16;
	return 0;
}

static struct history_bucket *bucket_at(struct history_record *r, uint64_t now_s)
{
	if (r->n && history_bucket_end(&r->buckets[r->n - 1]) > now_s)
		return &r->buckets[r->n - 1];
	if (history_drop_oldest(r, now_s) < 0)
		return NULL;
	r->buckets[r->n] = (struct history_bucket){
		.start_s = now_s - now_s % MINUTE_S, .length_s = MINUTE_S};
	return &r->buckets[r->n++];
}

void history_use(
	struct history_record *r, uint64_t now_s, double gpu_s, double byte_s, double waited_s)
{
	const struct history_bucket more = {.gpu_s = gpu_s, .byte_s = byte_s, .waited_s = waited_s};
	struct history_bucket *b;

	r->is_new = true;
	r->last_s = now_s;
	r->gpu_s += gpu_s;
	r->byte_s += byte_s;
	r->waited_s += waited_s;
	b = bucket_at(r, now_s);
	if (!b)
		return;
	add_sums(b, &more);
	b->is_new = true;
}

/* ---- lines of the files ---- */

static void take_larger(struct history_bucket *b, const struct history_bucket *other)
{
	b->gpu_s = MAX(b->gpu_s, other->gpu_s);
	b->byte_s = MAX(b->byte_s, other->byte_s);
	b->waited_s = MAX(b->waited_s, other->waited_s);
}

/* Inserts b in order, and replaces the buckets within b. */
static int put_bucket(struct history_record *r, const struct history_bucket *b)
{
	uint32_t at = r->n, end;

	if (history_drop_oldest(r, history_bucket_end(b)) < 0)
		return -ENOMEM;
	at = r->n;
	while (at && r->buckets[at - 1].start_s >= b->start_s)
		at--;
	if (at && history_bucket_end(&r->buckets[at - 1]) >= history_bucket_end(b))
		return 0; /* an hour already contains the bucket */
	end = at;
	if (end < r->n && r->buckets[end].start_s == b->start_s &&
		r->buckets[end].length_s > b->length_s)
		return 0;
	while (end < r->n && history_bucket_end(&r->buckets[end]) <= history_bucket_end(b))
		end++;
	if (end > at && r->buckets[at].start_s == b->start_s &&
		r->buckets[at].length_s == b->length_s) {
		take_larger(&r->buckets[at], b);
	} else {
		if (end == at)
			memmove(r->buckets + at + 1, r->buckets + at,
				(r->n++ - at) * sizeof(*r->buckets));
		r->buckets[at] = *b;
	}
	if (end > at + 1) {
		memmove(r->buckets + at + 1, r->buckets + end, (r->n - end) * sizeof(*r->buckets));
		r->n -= end - at - 1;
	}
	return 0;
}

static int put_record(struct history *h, const struct history_record *r)
{
	struct history_record *kept = history_find(h, r->id);

	if (!kept)
		kept = history_add(h, r->id);
	if (!kept)
		return -ENOMEM;
	kept->uid = r->uid;
	kept->request = r->request;
	kept->limit = r->limit;
	memcpy(kept->name, r->name, sizeof(kept->name));
	kept->first_s = kept->first_s ? MIN(kept->first_s, r->first_s) : r->first_s;
	kept->last_s = MAX(kept->last_s, r->last_s);
	kept->gpu_s = MAX(kept->gpu_s, r->gpu_s);
	kept->byte_s = MAX(kept->byte_s, r->byte_s);
	kept->waited_s = MAX(kept->waited_s, r->waited_s);
	/*
	 * Moves the record to the end: the lines of its buckets follow in the file, and are added
	 * to the last record.
	 */
	if (kept != &h->records[h->n - 1]) {
		const struct history_record last = h->records[h->n - 1];

		h->records[h->n - 1] = *kept;
		*kept = last;
	}
	return 0;
}

_Static_assert(SPEC_NAME == 64, "the name's width below");

static int history_take_line(struct history *h, struct str line, bool is_log)
{
	struct history_record r = {0}, *last;
	struct history_bucket b = {0};
	unsigned long long first, latest;
	char text[LINE_MAX_BYTES];
	unsigned int uid;
	int end = 0;

	if (str_copy(text, sizeof(text), line) < 0)
		return -EBADMSG;
	if (sscanf(text, "R %u %u %u %u %llu %llu %lf %lf %lf %63s%n", &r.id, &uid, &r.request,
		    &r.limit, &first, &latest, &r.gpu_s, &r.byte_s, &r.waited_s, r.name,
		    &end) == 10 &&
		!text[end]) {
		h->has_lost_record = false;
		r.uid = uid;
		r.first_s = first;
		r.last_s = latest;
		return put_record(h, &r);
	}
	if (!h->n || h->has_lost_record ||
		sscanf(text, "B %llu %u %lf %lf %lf%n", &first, &b.length_s, &b.gpu_s, &b.byte_s,
			&b.waited_s, &end) != 5 ||
		text[end])
		return -EBADMSG;
	last = &h->records[h->n - 1];
	b.start_s = first;
	if (is_log || (last->n && last->buckets[last->n - 1].start_s > b.start_s))
		return put_bucket(last, &b);
	if (history_drop_oldest(last, history_bucket_end(&b)) < 0)
		return -ENOMEM;
	last->buckets[last->n++] = b;
	return 0;
}

int history_read_line(struct history *h, struct str line, bool is_log)
{
	int r = history_take_line(h, line, is_log);

	/* This line may be a torn line joined with a tenant's R line: no other line has an R. */
	h->has_lost_record |= r == -EBADMSG && str_find(line, 'R') < line.n;
	return r;
}

/* Reads the whole lines of the chunk. Moves the rest to its beginning and returns its size. */
static int read_chunk(struct history *h, char *chunk, size_t n, bool is_log, uint32_t *broken)
{
	struct str rest = {chunk, n}, line;
	int r;

	while (str_find(rest, '\n') < rest.n && str_split(&rest, '\n', &line)) {
		r = line.n ? history_read_line(h, line, is_log) : 0;
		if (r == -ENOMEM)
			return r;
		*broken += r < 0;
	}
	if (rest.n)
		memmove(chunk, rest.p, rest.n);
	return (int)rest.n;
}

int history_read(
	struct history *h, const char *path, bool is_log, uint32_t *ret_broken, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_free_ char *chunk = malloc(CHUNK);
	uint32_t broken = 0;
	size_t held = 0;
	ssize_t got = 0;
	int r;

	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	if (!chunk)
		return fail(err, ENOMEM, "out of memory");
	h->has_lost_record = false;
	while ((got = read(fd, chunk + held, CHUNK - held)) > 0) {
		r = read_chunk(h, chunk, held + (size_t)got, is_log, &broken);
		if (r < 0)
			return fail(err, ENOMEM, "out of memory for '%s'", path);
		held = (size_t)r;
		if (held > CHUNK / 2) { /* too long for a line of this file */
			held = 0;
			broken++;
		}
	}
	if (got < 0)
		return fail_errno(err, errno, "read '%s'", path);
	*ret_broken = broken;
	return 0;
}

void history_format(const struct history_record *r, struct buf *out)
{
	buf_addf(out, "R %u %u %u %u %llu %llu %.6f %.0f %.6f %s\n", r->id, (unsigned int)r->uid,
		r->request, r->limit, (unsigned long long)r->first_s, (unsigned long long)r->last_s,
		r->gpu_s, r->byte_s, r->waited_s, r->name);
	for (uint32_t k = 0; k < r->n; k++)
		buf_addf(out, "B %llu %u %.6f %.0f %.6f\n",
			(unsigned long long)r->buckets[k].start_s, r->buckets[k].length_s,
			r->buckets[k].gpu_s, r->buckets[k].byte_s, r->buckets[k].waited_s);
}

/* ---- new records for the disk ---- */

int history_take_new(struct history *h, struct history *ret_new)
{
	struct history_bucket *buckets;
	struct history new = {0};
	size_t n_buckets = 0;

	for (uint32_t i = 0; i < h->n; i++) {
		const struct history_record *r = &h->records[i];

		new.capacity += r->is_new;
		for (uint32_t k = 0; r->is_new && k < r->n; k++)
			n_buckets += r->buckets[k].is_new;
	}
	new.records = calloc(new.capacity + 1, sizeof(*new.records));
	buckets = calloc(n_buckets + 1, sizeof(*buckets));
	if (!new.records || !buckets) {
		free(new.records);
		free(buckets);
		return -ENOMEM;
	}
	new.records[0].buckets = buckets;
	for (uint32_t i = 0; i < h->n; i++) {
		struct history_record *r = &h->records[i], *copy = &new.records[new.n];

		if (!r->is_new)
			continue;
		*copy = *r;
		copy->buckets = buckets;
		copy->n = 0;
		for (uint32_t k = 0; k < r->n; k++) {
			if (r->buckets[k].is_new)
				copy->buckets[copy->n++] = r->buckets[k];
			r->buckets[k].is_new = false;
		}
		buckets += copy->n;
		r->is_new = false;
		new.n++;
	}
	*ret_new = new;
	return 0;
}

void history_put_back(struct history *h, const struct history *changes)
{
	for (uint32_t i = 0; i < changes->n; i++) {
		const struct history_record *c = &changes->records[i];
		struct history_record *r = history_find(h, c->id);
		uint32_t at = 0;

		if (!r)
			continue;
		r->is_new = true;
		for (uint32_t k = 0; k < r->n; k++) {
			while (at < c->n && c->buckets[at].start_s < r->buckets[k].start_s)
				at++;
			r->buckets[k].is_new |= at < c->n &&
				c->buckets[at].start_s == r->buckets[k].start_s;
		}
	}
}

void history_changes_done(struct history *changes)
{
	if (changes->records)
		free(changes->records[0].buckets);
	free(changes->records);
	*changes = (struct history){0};
}

/* ---- the log ---- */

/* Size of the log's whole lines. A line that is appended to a torn line could not be read. */
static int64_t whole_lines(int fd)
{
	char tail[LINE_MAX_BYTES];
	int64_t size = fd_size(fd);

	while (size > 0) {
		const size_t n = (size_t)MIN(size, (int64_t)sizeof(tail));
		ssize_t got = pread(fd, tail, n, (off_t)(size - (int64_t)n));
		const char *end;

		if (got != (ssize_t)n)
			return got < 0 ? -errno : -EIO;
		end = memrchr(tail, '\n', n);
		if (end)
			return size - (int64_t)n + (end + 1 - tail);
		size -= (int64_t)n;
	}
	return size;
}

int history_append(const struct history *changes, const char *log_path, int64_t *ret_size)
{
	_cleanup_buf_ struct buf out = BUF_INIT(256u << 20);
	_cleanup_close_ int fd = open(
		log_path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int64_t size = fd < 0 ? -errno : whole_lines(fd);
	int r;

	if (size < 0)
		return (int)size;
	if (fd_size(fd) > size && ftruncate(fd, (off_t)size) < 0)
		return -errno;
	for (uint32_t i = 0; i < changes->n; i++)
		history_format(&changes->records[i], &out);
	r = buf_error(&out);
	if (r >= 0)
		r = fd_write_all(fd, out.p, out.n);
	if (r < 0 && ftruncate(fd, (off_t)size) < 0)
		log_debug("'%s' ends within a line, which the next append removes", log_path);
	*ret_size = size + (int64_t)out.n;
	return r;
}

/* ---- both files become one ---- */

static int write_records(struct history *h, int fd, uint64_t now_s)
{
	_cleanup_buf_ struct buf out = BUF_INIT(16 * CHUNK);
	int r = 0;

	for (uint32_t i = 0; i < h->n && r >= 0; i++) {
		history_merge(&h->records[i], now_s);
		history_format(&h->records[i], &out);
		if (out.n < CHUNK && i + 1 < h->n)
			continue;
		r = buf_error(&out);
		if (r >= 0)
			r = fd_write_all(fd, out.p, out.n);
		buf_clear(&out);
	}
	return r;
}

static int write_file(struct history *h, const char *path, uint64_t now_s)
{
	char temporary[PATH_MAX + 8];
	_cleanup_close_ int fd = -1;
	int r;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = write_records(h, fd, now_s);
	if (r >= 0 && (fsync(fd) < 0 || rename(temporary, path) < 0))
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

int history_compact(const char *path, const char *log_path, uint64_t now_s, struct error *err)
{
	_cleanup_(history_done) struct history h = {0};
	uint32_t broken;
	int r = history_read(&h, path, false, &broken, err);

	if (r >= 0 || r == -ENOENT)
		r = history_read(&h, log_path, true, &broken, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = write_file(&h, path, now_s);
	if (r < 0)
		return fail_errno(err, -r, "write '%s'", path);
	/* If unlink() fails, the log is read once more, which changes nothing. */
	return unlink(log_path) < 0 ? fail_errno(err, errno, "remove '%s'", log_path) : 0;
}
