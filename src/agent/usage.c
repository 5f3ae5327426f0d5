/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: see usage.h. A sample takes what the arbiter has charged and spreads it over the time
 * since the last sample. Rings are indexed by absolute time / step, so all series share one time
 * axis. A ring's `end` is the slot after the last written one; slots older than its length are
 * lost.
 *
 * The disk worker owns the files of history.h: the loop's thread copies new records, and the worker
 * writes them. There is one such job at a time.
 */
#include "agent/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/device.h"
#include "agent/history.h"
#include "agent/agent-memory.h"
#include "agent/agent-state.h"
#include "agent/usage-journal.h"
#include "agent/token.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "threads/thread-worker.h"

#define FINE 2000u   /* slots of 10 ms: 20 s */
#define MIDDLE 1800u /* slots of 100 ms: 3 min */
#define COARSE 900u  /* slots of 1 s: 15 min */
#define SAMPLE_NS (10 * NSEC_PER_MSEC)
#define SAMPLE_ALONE_NS (50 * NSEC_PER_MSEC)
#define SAMPLE_QUIET_NS (200 * NSEC_PER_MSEC)
#define QUIET_SAMPLES 40u /* samples without use before sampling slows down */
#define POINTS_MAX 600u
#define PAST_MAX 128u /* ended tenants with stored rings */
/* `usage-log` is merged into `usage` when longer than this and than half of `usage` */
#define LOG_BYTES (1u << 20)
#define MERGE_EVERY_S 3600u /* history_merge() runs once in this time for each record */

struct ring {
	uint64_t step_ns, end;
	uint32_t n;
	uint32_t *used_ns;
	uint32_t *memory_mib; /* NULL: this ring has no memory values */
};

struct usage_series {
	uint64_t sampled_ns, used_ns, waited_ns;
	uint32_t record_at; /* last known index of the tenant's record */
	bool has_tail;      /* one more sample follows the last activity */
	struct ring rings[3];
	uint32_t values[FINE + 2 * MIDDLE + 2 * COARSE];
};

struct usage {
	struct agent *agent;
	struct loop_timer timer;
	struct history history;
	uint32_t merged;        /* index of the last merged record */
	uint64_t integrated_ns; /* time up to which byte-seconds were added */
	uint32_t quiet;         /* samples in a row without use */
	struct usage_journal *journal;
	/* Ended tenants, newest first, with their rings and the members that an answer needs. */
	LIST_HEAD(, tenant) past;

	char path[PATH_MAX], log_path[PATH_MAX + 8];
	bool is_writing, has_failed;
};

/* ---- rings ---- */

static void ring_advance(struct ring *ring, uint64_t slot)
{
	if (slot < ring->end)
		return;
	if (slot - ring->end >= ring->n)
		ring->end = slot + 1 - ring->n;
	for (; ring->end <= slot; ring->end++) {
		ring->used_ns[ring->end % ring->n] = 0;
		if (ring->memory_mib)
			ring->memory_mib[ring->end % ring->n] = 0;
	}
}

static void ring_add(
	struct ring *ring, uint64_t from, uint64_t to, uint64_t used, uint32_t memory_mib)
{
	uint64_t first = from / ring->step_ns, last = to / ring->step_ns, span = to - from;

	ring_advance(ring, last);
	if (last - first >= ring->n)
		first = last - ring->n + 1;
	for (uint64_t slot = first; slot <= last; slot++) {
		uint64_t a = MAX(from, slot * ring->step_ns),
			 b = MIN(to, (slot + 1) * ring->step_ns);
		uint64_t part;

		if (slot + ring->n < ring->end)
			continue;
		part = span && b > a ? (uint64_t)((double)used * (double)(b - a) / (double)span)
				     : 0;
		part += ring->used_ns[slot % ring->n];
		ring->used_ns[slot % ring->n] = (uint32_t)MIN(part, ring->step_ns);
		if (ring->memory_mib)
			ring->memory_mib[slot % ring->n] = memory_mib;
	}
}

/* ---- records ---- */

static struct history_record *record_of(struct usage *u, uint32_t id)
{
	return history_find(&u->history, id);
}

bool usage_has_record(const struct agent *agent, uint32_t id)
{
	return record_of(agent->usage, id);
}

/* Tries the last known index first, because thousands of ended tenants may have records. */
static struct history_record *record_of_device(struct usage *u, const struct tenant_device *td)
{
	const uint32_t id = td->tenant->id, at = td->series->record_at;
	struct history_record *r;

	if (at < u->history.n && u->history.records[at].id == id)
		return &u->history.records[at];
	r = record_of(u, id);
	if (r)
		td->series->record_at = (uint32_t)(r - u->history.records);
	return r;
}

/* Stores the values from which the next daemon continues if this daemon is killed. */
static void usage_record_journal(const struct history_record *r)
{
	struct usage_journal_slot *slot = r->slot;

	if (!slot)
		return;
	slot->gpu_ns = (uint64_t)(r->gpu_s * NSEC_PER_SEC);
	slot->waited_ns = (uint64_t)(r->waited_s * NSEC_PER_SEC);
	slot->byte_s = (uint64_t)r->byte_s;
	slot->last_s = r->last_s;
}

static void record_add(struct history_record *r, double gpu_s, double byte_s, double waited_s)
{
	if (!r || (gpu_s <= 0 && byte_s <= 0 && waited_s <= 0))
		return;
	history_use(r, clock_real_ns() / NSEC_PER_SEC, gpu_s, byte_s, waited_s);
	usage_record_journal(r);
}

/* ---- sampling ---- */

static void usage_sample_device(struct usage *u, struct tenant_device *td, uint64_t now)
{
	struct usage_series *s = td->series;
	struct history_record *r = record_of_device(u, td);
	struct arbiter_usage usage;
	uint32_t memory_mib = (uint32_t)MIN(memory_used(td) >> 20, (uint64_t)UINT32_MAX);
	uint64_t used, waited;

	if (now <= s->sampled_ns ||
		arbiter_usage_get(
			u->agent->arbiter, td->tenant->id, td->device->index, now, &usage) < 0)
		return;
	used = clock_since_ns(usage.used_ns, s->used_ns);
	waited = clock_since_ns(usage.waited_ns, s->waited_ns);
	for (size_t i = 0; i < ARRAY_SIZE(s->rings); i++)
		ring_add(&s->rings[i], s->sampled_ns, now, used, memory_mib);
	s->has_tail = used > 0;
	u->quiet = used || waited ? 0 : u->quiet;
	s->sampled_ns = now;
	s->used_ns = usage.used_ns;
	s->waited_ns = usage.waited_ns;
	if (r && r->slot)
		r->slot->used_ns[td->at] = usage.used_ns;
	if (used || waited) {
		record_add(r, (double)used / NSEC_PER_SEC, 0, (double)waited / NSEC_PER_SEC);
		state_touch(u->agent);
	}
}

static bool is_active(const struct tenant_device *td)
{
	return td->is_open || td->is_draining || td->does_want || td->series->has_tail;
}

static void usage_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct usage *u = timer->data;
	uint64_t step_ns = SAMPLE_NS;
	uint32_t active = 0;
	struct tenant *t;

	u->quiet++;
	now = clock_now_ns();
	token_sample(u->agent, now);
	LIST_FOREACH(t, &u->agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			if (!is_active(&t->devices[i]))
				continue;
			usage_sample_device(u, &t->devices[i], now);
			active++;
		}
	if (active == 1)
		step_ns = SAMPLE_ALONE_NS;
	if (u->quiet > QUIET_SAMPLES)
		step_ns = SAMPLE_QUIET_NS;
	if (active)
		loop_set_timer(timer, now + step_ns);
}

void usage_wake(struct agent *agent)
{
	struct usage *u = agent->usage;

	u->quiet = 0;
	if (!loop_timer_is_armed(&u->timer) ||
		u->timer.deadline_ns > clock_now_ns() + SAMPLE_ALONE_NS)
		loop_set_timer(&u->timer, clock_now_ns() + SAMPLE_NS);
}

/* Merges some of the records each second, so that no step takes long. */
static void merge_some(struct usage *u)
{
	const uint64_t now_s = clock_real_ns() / NSEC_PER_SEC;

	for (uint32_t i = 0; i <= u->history.n / MERGE_EVERY_S && u->history.n; i++) {
		u->merged = (u->merged + 1) % u->history.n;
		history_merge(&u->history.records[u->merged], now_s);
	}
}

void usage_tick(struct agent *agent, uint64_t now)
{
	struct usage *u = agent->usage;
	double passed = (double)clock_since_ns(now, u->integrated_ns) / NSEC_PER_SEC;
	struct tenant *t;

	u->integrated_ns = now;
	merge_some(u);
	LIST_FOREACH(t, &agent->tenants, link) {
		double bytes = 0;

		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			bytes += (double)memory_used(&t->devices[i]);
		if (bytes > 0) {
			record_add(record_of_device(u, &t->devices[0]), 0, bytes * passed, 0);
			state_touch(agent);
		}
	}
}

/* ---- tenants ---- */

static struct usage_series *usage_series_new(uint64_t now)
{
	struct usage_series *s = calloc(1, sizeof(*s));
	uint32_t *at = s ? s->values : NULL;

	if (!s)
		return NULL;
	s->sampled_ns = now;
	s->rings[0] = (struct ring){.step_ns = 10 * NSEC_PER_MSEC, .n = FINE, .used_ns = at};
	at += FINE;
	s->rings[1] = (struct ring){.step_ns = 100 * NSEC_PER_MSEC,
		.n = MIDDLE,
		.used_ns = at,
		.memory_mib = at + MIDDLE};
	at += 2 * MIDDLE;
	s->rings[2] = (struct ring){
		.step_ns = NSEC_PER_SEC, .n = COARSE, .used_ns = at, .memory_mib = at + COARSE};
	for (size_t i = 0; i < ARRAY_SIZE(s->rings); i++)
		s->rings[i].end = now / s->rings[i].step_ns;
	return s;
}

static void note_share(struct history_record *r, const struct tenant *t)
{
	r->is_new = true;
	r->request = t->spec.request;
	r->limit = t->spec.limit;
	if (!r->slot)
		return;
	r->slot->request = r->request;
	r->slot->limit = r->limit;
}

void usage_tenant_changed(struct tenant *t)
{
	struct history_record *r = record_of(t->agent->usage, t->id);

	if (!r)
		return;
	note_share(r, t);
	state_touch(t->agent);
}

int usage_tenant_added(struct tenant *t)
{
	struct usage *u = t->agent->usage;
	struct history_record *r = record_of(u, t->id);
	uint64_t now = clock_now_ns();

	for (uint32_t i = 0; i < t->n; i++) {
		t->devices[i].series = usage_series_new(now);
		if (!t->devices[i].series)
			return -ENOMEM;
	}
	if (!r)
		r = history_add(&u->history, t->id);
	if (!r)
		return -ENOMEM;
	r->is_alive = true;
	r->uid = t->uid;
	r->first_s = r->first_s ? r->first_s : t->created_s;
	r->last_s = MAX(r->last_s, t->created_s);
	memcpy(r->name, t->name, sizeof(r->name));
	if (!r->slot)
		r->slot = usage_journal_take_slot(u->journal);
	note_share(r, t);
	if (!r->slot)
		return 0;
	r->slot->uid = r->uid;
	r->slot->first_s = r->first_s;
	memcpy(r->slot->name, r->name, sizeof(r->slot->name));
	usage_record_journal(r);
	r->slot->id = r->id;
	return 0;
}

uint64_t usage_used_before(const struct tenant_device *td)
{
	const struct history_record *r = record_of(td->tenant->agent->usage, td->tenant->id);

	return r && r->slot ? r->slot->used_ns[td->at] : 0;
}

void usage_tenant_restored(struct tenant_device *td)
{
	struct arbiter_usage usage;

	if (arbiter_usage_get(td->tenant->agent->arbiter, td->tenant->id, td->device->index,
		    clock_now_ns(), &usage) < 0)
		return;
	/* The records already contain earlier use. */
	td->series->used_ns = usage.used_ns;
	td->series->waited_ns = usage.waited_ns;
}

void usage_tenant_removed(struct tenant *t)
{
	struct usage *u = t->agent->usage;
	struct history_record *r;

	for (uint32_t i = 0; i < t->n; i++)
		usage_sample_device(u, &t->devices[i], clock_now_ns());
	r = record_of(u, t->id);
	if (r) {
		r->is_alive = false;
		r->is_new = true; /* its journal slot is free once the record is written */
	}
	state_touch(t->agent);
}

static void past_free(struct tenant *t)
{
	LIST_REMOVE(t, link);
	for (uint32_t i = 0; i < t->n; i++)
		free(t->devices[i].series);
	free(t);
}

/* Drops rings that are too old to show, and makes room for one more. */
static void past_trim(struct usage *u, uint64_t now)
{
	struct tenant *t, *next;
	uint32_t n = 0;

	for (t = LIST_FIRST(&u->past); t; t = next) {
		next = LIST_NEXT(t, link);
		if (++n >= PAST_MAX ||
			clock_since_ns(now, t->devices[0].series->sampled_ns) >
				COARSE * NSEC_PER_SEC)
			past_free(t);
	}
}

void usage_tenant_freed(struct tenant *t)
{
	struct usage *u = t->agent->usage;
	struct tenant *past;
	uint64_t used_ns = 0;

	for (uint32_t i = 0; i < t->n && t->devices[i].series; i++)
		used_ns += t->devices[i].series->used_ns;
	past = u && used_ns ? calloc(1, sizeof(*past) + t->n * sizeof(past->devices[0])) : NULL;
	if (past) {
		past_trim(u, clock_now_ns());
		past->id = t->id;
		past->uid = t->uid;
		past->source = t->source;
		past->is_ending = true;
		memcpy(past->name, t->name, sizeof(past->name));
		LIST_INSERT_HEAD(&u->past, past, link);
	}
	for (uint32_t i = 0; i < t->n; i++) {
		struct tenant_device *td = &t->devices[i];

		if (past && td->series)
			past->devices[past->n++] = (struct tenant_device){
				.tenant = past, .device = td->device, .series = td->series};
		else
			free(td->series);
		td->series = NULL;
	}
}

/* Iterates over the tenants of an answer: NULL gives the first, the last gives NULL. */
static const struct tenant *history_next(
	const struct agent *agent, const struct tenant *t, bool has_ended)
{
	const struct tenant *next = t ? LIST_NEXT(t, link) : LIST_FIRST(&agent->tenants);
	const struct tenant *past = has_ended ? LIST_FIRST(&agent->usage->past) : NULL;
	const bool is_past = t && t->is_ending && !t->agent;

	return next || is_past ? next : past;
}

/* ---- answers ---- */

/* Slots outside the ring count as 0, however many there are. */
static uint64_t ring_sum(const struct ring *ring, uint64_t from, uint64_t to)
{
	uint64_t sum = 0, slot;
	uint32_t at;

	from = MAX(from, ring->end > ring->n ? ring->end - ring->n : 0);
	to = MIN(to, ring->end);
	at = (uint32_t)(from % ring->n);
	for (slot = from; slot < to; slot++) {
		sum += ring->used_ns[at];
		at = at + 1 == ring->n ? 0 : at + 1;
	}
	return sum;
}

uint32_t usage_permille(const struct tenant_device *td, uint64_t span_ns, uint64_t now)
{
	const struct usage_series *s = td->series;
	const struct ring *ring = &s->rings[span_ns > FINE * SAMPLE_NS ? 1 : 0];
	/* The answer ends at a recent last sample, so that the last slot is not half empty. */
	uint64_t end = clock_since_ns(now, s->sampled_ns) < SAMPLE_ALONE_NS + SAMPLE_NS
		? s->sampled_ns
		: now;
	uint64_t to = end / ring->step_ns, n = span_ns / ring->step_ns;
	uint64_t used = ring_sum(ring, to > n ? to - n : 0, to);

	return (uint32_t)MIN(used * 1000 / (n * ring->step_ns), UINT64_C(1000));
}

uint64_t usage_used_ns(const struct tenant_device *td)
{
	return td->series->used_ns;
}

static const struct ring *ring_for(const struct usage_series *s, uint64_t last_ms, uint64_t step_ms)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->rings); i++) {
		const struct ring *ring = &s->rings[i];
		uint64_t ring_ms = ring->step_ns / NSEC_PER_MSEC;

		if (last_ms <= ring_ms * ring->n && (step_ms < ring_ms * 10 || i == 2))
			return ring;
	}
	return &s->rings[2];
}

static uint32_t memory_at(const struct usage_series *s, uint64_t at_ns)
{
	const struct ring *ring = &s->rings[1];
	uint64_t slot = at_ns / ring->step_ns;

	if (slot + ring->n < ring->end)
		ring = &s->rings[2];
	slot = at_ns / ring->step_ns;
	if (slot >= ring->end)
		slot = ring->end - 1;
	return slot + ring->n >= ring->end ? ring->memory_mib[slot % ring->n] : 0;
}

/* Writes numbers and commas itself, because jansson would make an object of each number. */
static void usage_add_numbers(struct buf *out, const uint64_t *numbers, uint64_t n)
{
	char digits[20];

	if (buf_reserve(out, n * (sizeof(digits) + 1)) < 0)
		return;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t rest = numbers[i];
		size_t k = 0;

		if (i)
			out->p[out->n++] = ',';
		do
			digits[k++] = (char)('0' + rest % 10);
		while (rest /= 10);
		while (k)
			out->p[out->n++] = digits[--k];
	}
	out->p[out->n] = '\0';
}

struct points {
	uint64_t end_slot, slots_a_point, n;
	size_t ring; /* index of the ring */
};

static void usage_add_series(
	struct buf *out, const struct tenant_device *td, const struct points *p)
{
	const struct ring *ring = &td->series->rings[p->ring];
	uint64_t permille[POINTS_MAX], memory[POINTS_MAX];
	json_t *name = json_string(td->tenant->name);
	_cleanup_free_ char *text = json_dumps(name, JSON_ENCODE_ANY);

	json_decref(name);
	for (uint64_t i = 0; i < p->n; i++) {
		uint64_t to = p->end_slot - (p->n - 1 - i) * p->slots_a_point;
		uint64_t from = to > p->slots_a_point ? to - p->slots_a_point : 0;
		uint64_t used = ring_sum(ring, from, to);

		permille[i] = MIN(used * 1000 / (p->slots_a_point * ring->step_ns), UINT64_C(1000));
		memory[i] = (uint64_t)memory_at(td->series, to * ring->step_ns) << 20;
	}
	buf_addf(out, "{\"tenant\":%u,\"name\":%s,\"index\":%u,\"permille\":[", td->tenant->id,
		text ? text : "\"\"", td->device->index);
	usage_add_numbers(out, permille, p->n);
	buf_add_text(out, "],\"memory_bytes\":[");
	usage_add_numbers(out, memory, p->n);
	buf_add_text(out, "]}");
}

int usage_history(struct agent *agent, const struct tenant *only, uid_t uid, uint64_t last_ms,
	uint64_t step_ms, bool has_ended, struct buf *out)
{
	uint64_t now = clock_now_ns(), ring_ms;
	struct usage_series *model = usage_series_new(now);
	const struct ring *shape;
	const struct tenant *t;
	struct points p;
	bool is_first = true;

	if (!model)
		return -ENOMEM;
	last_ms = MIN(MAX(last_ms, UINT64_C(10)), (uint64_t)COARSE * 1000);
	step_ms = MAX(step_ms, (last_ms + POINTS_MAX - 1) / POINTS_MAX);
	shape = ring_for(model, last_ms, step_ms);
	ring_ms = shape->step_ns / NSEC_PER_MSEC;
	p.ring = (size_t)(shape - model->rings);
	p.slots_a_point = MAX((step_ms + ring_ms - 1) / ring_ms, UINT64_C(1));
	p.n = MIN(MAX(last_ms / (p.slots_a_point * ring_ms), UINT64_C(1)), (uint64_t)POINTS_MAX);
	p.end_slot = now / shape->step_ns;
	buf_addf(out, "\"now_ns\":%llu,\"end_ns\":%llu,\"step_ms\":%llu,\"series\":[",
		(unsigned long long)now, (unsigned long long)(p.end_slot * shape->step_ns),
		(unsigned long long)(p.slots_a_point * ring_ms));
	free(model);
	for (t = history_next(agent, NULL, has_ended); t; t = history_next(agent, t, has_ended))
		for (uint32_t i = 0; i < t->n; i++) {
			if ((t->is_ending && !has_ended) || (only && t != only) ||
				!tenant_may_see(agent, t, uid))
				continue;
			if (!is_first)
				buf_add_byte(out, ',');
			is_first = false;
			usage_add_series(out, &t->devices[i], &p);
		}
	buf_add_byte(out, ']');
	return buf_error(out);
}

json_t *usage_report(struct agent *agent, uid_t uid, uint64_t since_s)
{
	struct usage *u = agent->usage;
	uint64_t now_s = clock_real_ns() / NSEC_PER_SEC, from_s = now_s;
	uint64_t start_s = since_s && since_s < now_s ? now_s - since_s : 0;
	json_t *tenants = json_array();

	for (uint32_t i = 0; i < u->history.n; i++) {
		const struct history_record *r = &u->history.records[i];
		double gpu_s = 0, byte_s = 0, waited_s = 0;

		if ((uid != 0 && uid != getuid() && uid != r->uid) ||
			(!r->is_alive && r->last_s < start_s))
			continue;
		for (uint32_t k = 0; k < r->n; k++) {
			if (r->buckets[k].start_s + r->buckets[k].length_s <= start_s)
				continue;
			gpu_s += r->buckets[k].gpu_s;
			byte_s += r->buckets[k].byte_s;
			waited_s += r->buckets[k].waited_s;
		}
		if (!start_s) {
			gpu_s = r->gpu_s;
			byte_s = r->byte_s;
			waited_s = r->waited_s;
		}
		from_s = MIN(from_s, r->first_s);
		json_array_append_new(tenants,
			json_pack("{s:i, s:s, s:i, s:b, s:f, s:f, s:f, s:f, s:i, s:i, s:I, s:I}",
				"id", (int)r->id, "name", r->name, "uid", (int)r->uid, "alive",
				(int)r->is_alive, "gpu_seconds", gpu_s, "byte_seconds", byte_s,
				"gib_seconds", byte_s / (1 << 30), "waited_seconds", waited_s,
				"request_permille", (int)r->request, "limit_permille",
				(int)r->limit, "first_s", (json_int_t)r->first_s, "last_s",
				(json_int_t)r->last_s));
	}
	return json_pack("{s:I, s:I, s:o}", "from_s", (json_int_t)MAX(start_s, from_s), "to_s",
		(json_int_t)now_s, "tenants", tenants);
}

/* ---- kept over restarts ---- */

struct write_job {
	struct worker_job job;
	struct agent *agent;
	struct history changes;
	char path[PATH_MAX], log_path[PATH_MAX + 8];
	uint64_t now_s;
	int r;
	struct error err;
	bool is_last;       /* the daemon is ending */
	bool is_compacted;  /* the files were merged, or the attempt failed */
	int compact_result; /* if negative, compact_err has the message */
	struct error compact_err;
};

/* Whether to merge the files: the log is large, or the daemon ends and merging is quick. */
static bool should_compact(const struct write_job *job, int64_t log_size)
{
	_cleanup_close_ int fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int64_t size = fd < 0 ? 0 : fd_size(fd);

	return log_size > 0 &&
		((log_size > LOG_BYTES && log_size > size / 2) ||
			(job->is_last && log_size + size < LOG_BYTES));
}

static void run_write(struct worker_job *arg)
{
	struct write_job *job = (struct write_job *)arg;
	int64_t size = 0;

	job->r = history_append(&job->changes, job->log_path, &size);
	if (job->r < 0) {
		fail_errno(&job->err, -job->r, "write '%s'", job->log_path);
		return;
	}
	job->is_compacted = should_compact(job, size);
	if (job->is_compacted)
		job->compact_result = history_compact(
			job->path, job->log_path, job->now_s, &job->compact_err);
}

/* Frees the journal slots of ended tenants whose records are in the files now. */
static void give_slots(struct usage *u, const struct history *written)
{
	for (uint32_t i = 0; i < written->n; i++) {
		struct history_record *r = record_of(u, written->records[i].id);

		if (!r || r->is_alive || r->is_new || !r->slot)
			continue;
		usage_journal_give_slot(r->slot);
		r->slot = NULL;
	}
}

static void write_done(struct worker_job *arg)
{
	struct write_job *job = (struct write_job *)arg;
	struct usage *u = job->agent->usage;

	u->is_writing = false;
	if (job->r >= 0) {
		give_slots(u, &job->changes);
	} else {
		history_put_back(&u->history, &job->changes);
		if (!job->agent->is_leaving)
			state_touch(job->agent);
	}
	/* Only the first failure in a row is logged, because retries are seconds apart. */
	if (job->r < 0 && !u->has_failed)
		log_warn("%s; keeping new usage reports in memory", job->err.msg);
	else if (job->is_compacted && job->compact_result < 0 && !u->has_failed)
		log_warn("%s; '%s' grows meanwhile", job->compact_err.msg, job->log_path);
	u->has_failed = job->r < 0 || job->compact_result < 0;
	history_changes_done(&job->changes);
	free(job);
}

void usage_flush(struct agent *agent)
{
	struct usage *u = agent->usage;
	struct write_job *job;

	if (u->is_writing && !agent->is_leaving) {
		/* The present job writes only the records that were new at its start. */
		state_touch(agent);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (!job || history_take_new(&u->history, &job->changes) < 0) {
		free(job);
		return; /* the next job includes the new records */
	}
	if (!job->changes.n && !agent->is_leaving) {
		history_changes_done(&job->changes);
		free(job);
		return;
	}
	job->job = (struct worker_job){.run = run_write, .done = write_done};
	job->agent = agent;
	job->is_last = agent->is_leaving;
	job->now_s = clock_real_ns() / NSEC_PER_SEC;
	memcpy(job->path, u->path, sizeof(job->path));
	memcpy(job->log_path, u->log_path, sizeof(job->log_path));
	u->is_writing = true;
	worker_submit(agent->disk, &job->job);
}

/* Keeps the file under another name, so that the next write does not overwrite it. */
static void usage_set_aside(const char *path, const char *why, bool is_copy)
{
	char aside[PATH_MAX + 16];

	snprintf(aside, sizeof(aside), "%s.bad", path);
	unlink(aside);
	if ((is_copy ? link(path, aside) : rename(path, aside)) < 0)
		log_warn("%s; cannot keep the file as '%s': %s", why, aside, strerror(errno));
	else
		log_warn("%s; kept the file as '%s'", why, aside);
}

static void usage_load_file(struct usage *u, const char *path, bool is_log)
{
	uint32_t broken = 0;
	struct error err;
	char why[PATH_MAX + 80];
	int r = history_read(&u->history, path, is_log, &broken, &err);

	if (r == -ENOENT)
		return;
	if (r < 0) {
		usage_set_aside(path, err.msg, false);
		return;
	}
	snprintf(why, sizeof(why), "'%s': cannot read %u lines, which reports leave out", path,
		broken);
	if (broken)
		usage_set_aside(path, why, true);
}

/* Takes over a journal slot, whose sums may be newer than those in the file of reports. */
static void take_up(struct usage *u, struct usage_journal_slot *slot)
{
	struct history_record *r = record_of(u, slot->id);

	if (!r) {
		r = history_add(&u->history, slot->id);
		if (!r)
			return;
		r->uid = slot->uid;
		r->request = slot->request;
		r->limit = slot->limit;
		r->first_s = slot->first_s;
		r->last_s = slot->last_s;
		memcpy(r->name, slot->name, sizeof(r->name));
		r->name[sizeof(r->name) - 1] = '\0';
	}
	record_add(r, MAX((double)slot->gpu_ns / NSEC_PER_SEC - r->gpu_s, 0),
		MAX((double)slot->byte_s - r->byte_s, 0),
		MAX((double)slot->waited_ns / NSEC_PER_SEC - r->waited_s, 0));
	r->last_s = slot->last_s;
	r->slot = slot;
	r->is_new = true;
}

void usage_load(struct agent *agent)
{
	struct usage *u = agent->usage;
	struct usage_journal_slot *slot = NULL;

	snprintf(u->path, sizeof(u->path), "%s/usage", agent->usage_dir);
	snprintf(u->log_path, sizeof(u->log_path), "%s-log", u->path);
	usage_load_file(u, u->path, false);
	usage_load_file(u, u->log_path, true);
	while ((slot = usage_journal_next_slot(u->journal, slot)))
		take_up(u, slot);
	for (uint32_t i = 0; i < u->history.n; i++)
		agent->next_tenant = MAX(agent->next_tenant, u->history.records[i].id + 1);
}

int usage_new(struct agent *agent, struct error *err)
{
	struct usage *u = calloc(1, sizeof(*u));
	struct error why;
	int r;

	if (!u)
		return fail(err, ENOMEM, "out of memory");
	agent->usage = u;
	u->agent = agent;
	u->integrated_ns = clock_now_ns();
	u->timer.data = u;
	if (usage_journal_open(agent->runtime_dir, &u->journal, &why) < 0)
		log_warn(
			"%s; if the daemon is killed, the last seconds of usage are lost", why.msg);
	r = loop_add_timer(agent->loop, &u->timer, usage_on_timer);
	return r < 0 ? fail_errno(err, -r, "start a timer") : 0;
}

void usage_free(struct agent *agent)
{
	struct usage *u = agent->usage;

	if (!u)
		return;
	loop_remove_timer(&u->timer);
	history_done(&u->history);
	while (!LIST_EMPTY(&u->past))
		past_free(LIST_FIRST(&u->past));
	usage_journal_close(u->journal);
	free(u);
	agent->usage = NULL;
}
