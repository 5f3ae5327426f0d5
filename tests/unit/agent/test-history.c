/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums for reports: what the two files together contain, also if lines are cut off, are read
 * twice or are old.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/history.h"
#include "base/cleanup.h"
#include "base/fd.h"

#define HOUR UINT64_C(3600)
#define DAY (24 * HOUR)
#define NOW (20000 * DAY)

struct files {
	char top[32], path[48], log[48];
};

static void files_init(struct files *f)
{
	snprintf(f->top, sizeof(f->top), "/tmp/divvy-history-XXXXXX");
	assert_non_null(mkdtemp(f->top));
	snprintf(f->path, sizeof(f->path), "%s/usage", f->top);
	snprintf(f->log, sizeof(f->log), "%s/usage-log", f->top);
}

static void files_done(struct files *f)
{
	unlink(f->path);
	unlink(f->log);
	assert_ok(rmdir(f->top)); /* fails if any other file was left */
}

static void read_both(struct files *f, struct history *h)
{
	uint32_t broken = 0;
	int r = history_read(h, f->path, false, &broken, NULL);

	assert_true(r == 0 || r == -ENOENT);
	assert_int_equal(broken, 0);
	r = history_read(h, f->log, true, &broken, NULL);
	assert_true(r == 0 || r == -ENOENT);
	assert_int_equal(broken, 0);
}

static void append(struct files *f, struct history *h)
{
	struct history changes;
	struct stat st;
	int64_t size;

	assert_ok(history_take_new(h, &changes));
	assert_ok(history_append(&changes, f->log, &size));
	assert_ok(stat(f->log, &st));
	assert_int_equal(size, st.st_size);
	history_changes_done(&changes);
}

static struct history_record *add(struct history *h, uint32_t id)
{
	struct history_record *r = history_add(h, id);

	assert_non_null(r);
	snprintf(r->name, sizeof(r->name), "t%u", id);
	r->first_s = NOW - 90 * DAY;
	r->is_new = true;
	return r;
}

static double sum(const struct history_record *r)
{
	double gpu_s = 0;

	for (uint32_t k = 0; k < r->n; k++) {
		gpu_s += r->buckets[k].gpu_s;
		if (k)
			assert_true(r->buckets[k].start_s >=
				r->buckets[k - 1].start_s + r->buckets[k - 1].length_s);
	}
	return gpu_s;
}

static void assert_same(const struct history *a, const struct history *b)
{
	assert_int_equal(a->n, b->n);
	for (uint32_t i = 0; i < a->n; i++) {
		const struct history_record *r = &a->records[i], *o = history_find(b, r->id);

		assert_non_null(o);
		assert_string_equal(r->name, o->name);
		assert_true(fabs(r->gpu_s - o->gpu_s) < 1e-3);
		assert_true(fabs(sum(r) - sum(o)) < 1e-3);
		assert_int_equal(r->last_s, o->last_s);
	}
}

static void appended_records_are_read_back(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	struct files f;

	files_init(&f);
	add(&h, 1);
	add(&h, 2);
	for (uint64_t s = 0; s < 12 * HOUR; s += 40) {
		_cleanup_(history_done) struct history back = {0};
		struct error err;

		history_use(&h.records[s / 400 % 2], NOW + s, 1, 2, 3);
		if (s % 3000 == 0)
			for (int i = 0; i < 2; i++)
				history_merge(&h.records[i], NOW + s);
		append(&f, &h);
		if (s % 2000)
			continue;
		read_both(&f, &back);
		assert_same(&h, &back);
		if (s % 10000 == 0)
			assert_ok(history_compact(f.path, f.log, NOW + s, &err));
	}
	assert_true(h.records[0].n < 4 * 60 + 12);
	files_done(&f);
}

/* A kill of the daemon may come after the new file is written and before the log is removed. */
static void reading_a_log_twice_changes_nothing(void **state)
{
	_cleanup_(history_done) struct history h = {0}, once = {0}, twice = {0};
	_cleanup_buf_ struct buf log = BUF_INIT(1 << 20);
	struct error err;
	struct files f;

	files_init(&f);
	add(&h, 7);
	for (uint64_t s = 0; s < 6 * HOUR; s += 600) {
		history_use(&h.records[0], NOW + s, 1, 0, 0);
		append(&f, &h);
		history_merge(&h.records[0], NOW + s);
		append(&f, &h);
	}
	assert_ok(file_read(f.log, &log, NULL));
	assert_ok(history_compact(f.path, f.log, NOW + 6 * HOUR, &err));
	assert_int_equal(access(f.log, F_OK), -1);
	read_both(&f, &once);
	assert_ok(file_replace(f.log, buf_str(&log), 0600, NULL));
	read_both(&f, &twice);
	assert_same(&h, &once);
	assert_same(&once, &twice);
	files_done(&f);
}

static void a_torn_end_costs_only_its_line(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	_cleanup_buf_ struct buf log = BUF_INIT(1 << 20);
	struct files f;

	files_init(&f);
	add(&h, 1);
	history_use(&h.records[0], NOW, 5, 0, 0);
	append(&f, &h);
	assert_ok(file_read(f.log, &log, NULL));
	for (size_t n = 0; n <= log.n; n++) {
		_cleanup_(history_done) struct history back = {0};

		assert_ok(file_replace(f.log, (struct str){log.p, n}, 0600, NULL));
		read_both(&f, &back);
		assert_int_equal(back.n, memchr(log.p, '\n', n) != NULL);
	}
	files_done(&f);
}

static double gpu_s_of(const struct history *h, uint32_t id)
{
	const struct history_record *r = history_find(h, id);

	return r ? sum(r) : 0;
}

/* A daemon was killed while it wrote; the next daemon appends behind the torn line. */
static void appending_to_a_torn_end_changes_no_other_tenant(void **state)
{
	_cleanup_(history_done) struct history h = {0}, next = {0};
	_cleanup_buf_ struct buf log = BUF_INIT(1 << 20);
	struct files f;

	files_init(&f);
	add(&h, 1);
	add(&h, 2);
	history_use(&h.records[0], NOW, 5, 0, 0);
	history_use(&h.records[1], NOW, 7, 0, 0);
	append(&f, &h);
	assert_ok(file_read(f.log, &log, NULL));
	add(&next, 3);
	for (size_t n = 0; n <= log.n; n++) {
		_cleanup_(history_done) struct history back = {0};

		assert_ok(file_replace(f.log, (struct str){log.p, n}, 0600, NULL));
		history_use(&next.records[0], NOW + 60, 99, 0, 0);
		append(&f, &next);
		read_both(&f, &back);
		assert_true(gpu_s_of(&back, 1) < 5.5 && gpu_s_of(&back, 2) < 7.5);
		assert_true(gpu_s_of(&back, 3) > 98.5);
	}
	files_done(&f);
}

/* An older daemon has appended to a torn line, wherever the line was cut. */
static void buckets_of_a_torn_record_count_for_no_other_tenant(void **state)
{
	static const char half[] = "R 2 0 500 1000 1 2 7.000000 0 0.000000 b\nB 60 60 7.000000 0 "
				   "0.000000";

	for (size_t n = 1; n < sizeof(half); n++) {
		_cleanup_(history_done) struct history h = {0};
		_cleanup_buf_ struct buf text = BUF_INIT(4096);
		uint32_t broken = 0;
		struct files f;

		if (half[n - 1] == '\n')
			continue;
		files_init(&f);
		buf_addf(&text, "R 1 0 500 1000 1 2 5 0 0 a\nB 60 60 5 0 0\n%.*s", (int)n, half);
		buf_add_text(&text,
			"R 3 0 500 1000 1 2 99 0 0 c\nB 120 60 99 0 0\n"
			"R 4 0 500 1000 1 2 3 0 0 d\nB 120 60 3 0 0\n");
		assert_ok(file_replace(f.log, buf_str(&text), 0600, NULL));
		assert_ok(history_read(&h, f.log, true, &broken, NULL));
		assert_true(broken > 0);
		assert_true(gpu_s_of(&h, 1) < 5.5 && gpu_s_of(&h, 2) < 7.5);
		assert_true(gpu_s_of(&h, 4) > 2.5 && gpu_s_of(&h, 4) < 3.5);
		files_done(&f);
	}
}

static void broken_lines_are_counted(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
	uint32_t broken = 0;
	struct files f;

	files_init(&f);
	buf_add_text(&text, "B 1 60 1 1 1\nR 1 2 3\nR 1 0 500 1000 1 2 3.5 4 5 name\n");
	for (int i = 0; i < 100000; i++)
		buf_add_byte(&text, 'x');
	buf_add_text(&text, "\nB 60 60 3.5 4 5\n");
	assert_ok(file_replace(f.path, buf_str(&text), 0600, NULL));
	assert_ok(history_read(&h, f.path, false, &broken, NULL));
	assert_true(broken >= 3);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.records[0].n, 1);
	files_done(&f);
}

/*
 * The file is as long as 4,000 tenants may make it in weeks; an earlier version lost files above 64
 * MiB.
 */
static void a_long_file_is_read(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	_cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
	struct files f;
	uint32_t broken = 0;
	off_t size = 0;
	int fd;

	files_init(&f);
	fd = open(f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (uint32_t id = 1; size <= 65 << 20; id++) {
		buf_clear(&out);
		buf_addf(&out, "R %u 0 500 1000 1 2 700.000000 0 0.000000 t%u\n", id, id);
		for (unsigned k = 0; k < 700; k++)
			buf_addf(&out, "B %llu 3600 1.000000 123456789012 0.000000\n",
				(unsigned long long)(NOW + k * HOUR));
		assert_ok(fd_write_all(fd, out.p, out.n));
		size += (off_t)out.n;
		h.capacity = id;
	}
	close(fd);
	{
		const uint32_t n = h.capacity;

		h = (struct history){0};
		assert_ok(history_read(&h, f.path, false, &broken, NULL));
		assert_int_equal(broken, 0);
		assert_int_equal(h.n, n);
	}
	for (uint32_t i = 0; i < h.n; i++)
		assert_true(sum(&h.records[i]) > 699.5);
	files_done(&f);
}

static void an_unreadable_file_is_an_error(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	struct error err;
	uint32_t broken;
	struct files f;

	files_init(&f);
	assert_ok(mkdir(f.path, 0700));
	assert_int_equal(history_read(&h, f.path, false, &broken, &err), -EISDIR);
	assert_contains(err.msg, f.path);
	/* The daemon writes nothing in place of the unreadable file. */
	history_use(add(&h, 1), NOW, 1, 0, 0);
	append(&f, &h);
	assert_int_equal(history_compact(f.path, f.log, NOW, &err), -EISDIR);
	assert_ok(access(f.log, F_OK));
	assert_ok(rmdir(f.path));
	files_done(&f);
}

static void old_buckets_are_removed_and_sums_stay(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	struct history_record *r = add(&h, 1);

	for (uint64_t s = 0; s < 60 * DAY; s += 1800) {
		history_use(r, NOW + s, 1, 0, 0);
		if (s % DAY == 0)
			history_merge(r, NOW + s);
	}
	history_merge(r, NOW + 60 * DAY);
	assert_true(r->n <= HISTORY_BUCKETS_MAX);
	assert_true(r->buckets[0].start_s + HOUR + HISTORY_KEPT_S >= NOW + 60 * DAY);
	assert_true(r->buckets[0].start_s < NOW + 30 * DAY);
	assert_true(fabs(r->gpu_s - 60 * 48) < 1e-6);
}

/* The tenant uses the device in every minute of a month. */
static void the_buckets_of_a_tenant_are_limited(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	struct history_record *r = add(&h, 1);

	for (uint64_t s = 0; s < 40 * DAY; s += 60)
		history_use(r, NOW + s, 1, 0, 0);
	assert_true(r->n <= HISTORY_BUCKETS_MAX);
	assert_true(r->buckets[0].start_s < NOW + 10 * DAY);
}

static void the_tenant_that_ended_first_makes_room(void **state)
{
	_cleanup_(history_done) struct history h = {0};

	for (uint32_t id = 1; id <= HISTORY_RECORDS_MAX; id++) {
		struct history_record *r = add(&h, id);

		r->last_s = NOW + id;
		r->is_alive = id == 1;
	}
	add(&h, HISTORY_RECORDS_MAX + 1);
	assert_int_equal(h.n, HISTORY_RECORDS_MAX);
	assert_non_null(history_find(&h, 1));
	assert_null(history_find(&h, 2));
}

static void changes_that_were_not_written_are_new_again(void **state)
{
	_cleanup_(history_done) struct history h = {0};
	struct history changes;

	history_use(add(&h, 1), NOW, 1, 0, 0);
	history_use(add(&h, 2), NOW, 1, 0, 0);
	assert_ok(history_take_new(&h, &changes));
	assert_int_equal(changes.n, 2);
	assert_int_equal(changes.records[1].n, 1);
	history_put_back(&h, &changes);
	history_changes_done(&changes);
	assert_ok(history_take_new(&h, &changes));
	assert_int_equal(changes.n, 2);
	assert_int_equal(changes.records[0].n, 1);
	history_changes_done(&changes);
	history_use(&h.records[1], NOW + 120, 1, 0, 0);
	assert_ok(history_take_new(&h, &changes));
	assert_int_equal(changes.n, 1);
	assert_int_equal(changes.records[0].id, 2);
	assert_int_equal(changes.records[0].n, 1);
	history_changes_done(&changes);
}

UNIT_MAIN(UNIT(appended_records_are_read_back), UNIT(reading_a_log_twice_changes_nothing),
	UNIT(a_torn_end_costs_only_its_line), UNIT(appending_to_a_torn_end_changes_no_other_tenant),
	UNIT(buckets_of_a_torn_record_count_for_no_other_tenant), UNIT(broken_lines_are_counted),
	UNIT(a_long_file_is_read), UNIT(an_unreadable_file_is_an_error),
	UNIT(old_buckets_are_removed_and_sums_stay), UNIT(the_buckets_of_a_tenant_are_limited),
	UNIT(the_tenant_that_ended_first_makes_room),
	UNIT(changes_that_were_not_written_are_new_again))
