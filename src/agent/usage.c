/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: see usage.h. What the arbiter has charged is sampled and spread over the time since the
 * last sample. Rings are keyed by absolute time / step, so that all series share one time axis; a
 * ring's `end` is the slot after the last one written, older slots than its length are gone.
 */
#include "agent/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "agent/memory.h"
#include "agent/state.h"
#include "agent/tally.h"
#include "agent/token.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"

#define FINE 2000u   /* x 10 ms = 20 s */
#define MIDDLE 1800u /* x 100 ms = 3 min */
#define COARSE 900u  /* x 1 s = 15 min */
#define SAMPLE_NS (10 * NSEC_PER_MSEC)
#define SAMPLE_ALONE_NS (50 * NSEC_PER_MSEC)
#define SAMPLE_QUIET_NS (200 * NSEC_PER_MSEC)
#define QUIET_SAMPLES 40u /* without use, until it is sampled less often */
#define POINTS_MAX 600u
#define MINUTE_S 60u
#define HOUR_S 3600u
#define BUCKETS_MAX 1024u /* of one tenant: two hours in minutes, the rest in hours */
#define PAST_MAX 128u     /* ended tenants whose rings are kept */
#define RECORDS_MAX 4096u /* tenants in reports; the oldest of those gone is dropped */

struct ring {
	uint64_t step_ns, end;
	uint32_t n;
	uint32_t *used_ns;
	uint32_t *memory_mib; /* NULL: not kept at this step */
};

struct usage_series {
	uint64_t sampled_ns, used_ns, waited_ns;
	bool has_tail; /* one more sample after the last activity */
	struct ring rings[3];
	uint32_t values[FINE + 2 * MIDDLE + 2 * COARSE];
};

struct bucket {
	uint64_t start_s;
	uint32_t length_s;
	double gpu_s, byte_s, waited_s;
};

struct record {
	uint32_t id;
	uid_t uid;
	bool is_alive;
	char name[TENANT_NAME];
	uint32_t request, limit;
	uint64_t first_s, last_s;
	double gpu_s, byte_s, waited_s;
	struct bucket *buckets;
	uint32_t n, capacity;
	struct tally_slot *slot; /* NULL: there was no room, or all of it is in the file */
};

struct usage {
	struct agent *agent;
	struct loop_timer timer;
	struct record *records;
	uint32_t n, capacity;
	uint64_t integrated_ns; /* byte-seconds up to here */
	uint32_t quiet;         /* samples in a row without use */
	struct tally *tally;
	/* Ended tenants, newest first: only what an answer says, with their rings. */
	LIST_HEAD(, tenant) past;
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

static struct record *record_of(struct usage *u, uint32_t id)
{
	for (uint32_t i = u->n; i--;)
		if (u->records[i].id == id)
			return &u->records[i];
	return NULL;
}

bool usage_has_record(const struct agent *agent, uint32_t id)
{
	return record_of(agent->usage, id);
}

static void drop_oldest(struct usage *u)
{
	uint32_t oldest = u->n;

	for (uint32_t i = 0; i < u->n; i++)
		if (!u->records[i].is_alive &&
			(oldest == u->n || u->records[i].last_s < u->records[oldest].last_s))
			oldest = i;
	if (oldest == u->n)
		return;
	tally_give(u->records[oldest].slot);
	free(u->records[oldest].buckets);
	u->records[oldest] = u->records[--u->n];
}

static struct record *record_new(struct usage *u, uint32_t id)
{
	struct record *grown;

	if (u->n >= RECORDS_MAX)
		drop_oldest(u);
	if (u->n == u->capacity) {
		grown = reallocarray(u->records, u->capacity + 64, sizeof(*grown));
		if (!grown)
			return NULL;
		u->records = grown;
		u->capacity += 64;
	}
	u->records[u->n] = (struct record){.id = id};
	return &u->records[u->n++];
}

/* Minutes older than two hours are put together into hours; beyond BUCKETS_MAX the oldest go. */
static void compact(struct record *r, uint64_t now_s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		struct bucket b = r->buckets[i];

		if (b.start_s + 2 * HOUR_S < now_s && b.length_s < HOUR_S) {
			b.start_s -= b.start_s % HOUR_S;
			b.length_s = HOUR_S;
		}
		if (n && r->buckets[n - 1].start_s == b.start_s &&
			r->buckets[n - 1].length_s == b.length_s) {
			r->buckets[n - 1].gpu_s += b.gpu_s;
			r->buckets[n - 1].byte_s += b.byte_s;
			r->buckets[n - 1].waited_s += b.waited_s;
		} else {
			r->buckets[n++] = b;
		}
	}
	if (n > BUCKETS_MAX / 2) {
		memmove(r->buckets, r->buckets + (n - BUCKETS_MAX / 2),
			BUCKETS_MAX / 2 * sizeof(r->buckets[0]));
		n = BUCKETS_MAX / 2;
	}
	r->n = n;
}

static struct bucket *bucket_at(struct record *r, uint64_t now_s)
{
	uint64_t start = now_s - now_s % MINUTE_S;
	struct bucket *grown;

	if (r->n && r->buckets[r->n - 1].start_s + r->buckets[r->n - 1].length_s > now_s)
		return &r->buckets[r->n - 1];
	if (r->n >= BUCKETS_MAX)
		compact(r, now_s);
	if (r->n == r->capacity) {
		grown = reallocarray(r->buckets, r->capacity + 16, sizeof(*grown));
		if (!grown)
			return NULL;
		r->buckets = grown;
		r->capacity += 16;
	}
	r->buckets[r->n] = (struct bucket){.start_s = start, .length_s = MINUTE_S};
	return &r->buckets[r->n++];
}

/* What the next daemon goes on from, whenever this one is killed. */
static void record_tally(const struct record *r)
{
	struct tally_slot *slot = r->slot;

	if (!slot)
		return;
	slot->gpu_ns = (uint64_t)(r->gpu_s * NSEC_PER_SEC);
	slot->waited_ns = (uint64_t)(r->waited_s * NSEC_PER_SEC);
	slot->byte_s = (uint64_t)r->byte_s;
	slot->last_s = r->last_s;
}

static void record_add(struct record *r, double gpu_s, double byte_s, double waited_s)
{
	uint64_t now_s = clock_real_ns() / NSEC_PER_SEC;
	struct bucket *b;

	if (!r || (gpu_s <= 0 && byte_s <= 0 && waited_s <= 0))
		return;
	r->last_s = now_s;
	r->gpu_s += gpu_s;
	r->byte_s += byte_s;
	r->waited_s += waited_s;
	record_tally(r);
	b = bucket_at(r, now_s);
	if (!b)
		return;
	b->gpu_s += gpu_s;
	b->byte_s += byte_s;
	b->waited_s += waited_s;
}

/* ---- sampling ---- */

static void sample(struct usage *u, struct tenant_device *td, uint64_t now)
{
	struct usage_series *s = td->series;
	struct record *r = record_of(u, td->tenant->id);
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

static void on_timer(struct loop_timer *timer, uint64_t now)
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
			sample(u, &t->devices[i], now);
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

void usage_tick(struct agent *agent, uint64_t now)
{
	struct usage *u = agent->usage;
	double passed = (double)clock_since_ns(now, u->integrated_ns) / NSEC_PER_SEC;
	struct tenant *t;

	u->integrated_ns = now;
	LIST_FOREACH(t, &agent->tenants, link) {
		double bytes = 0;

		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			bytes += (double)memory_used(&t->devices[i]);
		if (bytes > 0) {
			record_add(record_of(u, t->id), 0, bytes * passed, 0);
			state_touch(agent);
		}
	}
}

/* ---- tenants ---- */

static struct usage_series *series_new(uint64_t now)
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

static void note_share(struct record *r, const struct tenant *t)
{
	r->request = t->spec.request;
	r->limit = t->spec.limit;
	if (!r->slot)
		return;
	r->slot->request = r->request;
	r->slot->limit = r->limit;
}

void usage_tenant_changed(struct tenant *t)
{
	struct record *r = record_of(t->agent->usage, t->id);

	if (r)
		note_share(r, t);
}

int usage_tenant_added(struct tenant *t)
{
	struct usage *u = t->agent->usage;
	struct record *r = record_of(u, t->id);
	uint64_t now = clock_now_ns();

	for (uint32_t i = 0; i < t->n; i++) {
		t->devices[i].series = series_new(now);
		if (!t->devices[i].series)
			return -ENOMEM;
	}
	if (!r)
		r = record_new(u, t->id);
	if (!r)
		return -ENOMEM;
	r->is_alive = true;
	r->uid = t->uid;
	r->first_s = r->first_s ? r->first_s : t->created_s;
	r->last_s = MAX(r->last_s, t->created_s);
	memcpy(r->name, t->name, sizeof(r->name));
	if (!r->slot)
		r->slot = tally_take(u->tally);
	note_share(r, t);
	if (!r->slot)
		return 0;
	r->slot->uid = r->uid;
	r->slot->first_s = r->first_s;
	memcpy(r->slot->name, r->name, sizeof(r->slot->name));
	record_tally(r);
	r->slot->id = r->id;
	return 0;
}

uint64_t usage_used_before(const struct tenant_device *td)
{
	const struct record *r = record_of(td->tenant->agent->usage, td->tenant->id);

	return r && r->slot ? r->slot->used_ns[td->at] : 0;
}

void usage_tenant_restored(struct tenant_device *td)
{
	struct arbiter_usage usage;

	if (arbiter_usage_get(td->tenant->agent->arbiter, td->tenant->id, td->device->index,
		    clock_now_ns(), &usage) < 0)
		return;
	/* What was used before is in the records already. */
	td->series->used_ns = usage.used_ns;
	td->series->waited_ns = usage.waited_ns;
}

void usage_tenant_gone(struct tenant *t)
{
	struct usage *u = t->agent->usage;
	struct record *r;

	for (uint32_t i = 0; i < t->n; i++)
		sample(u, &t->devices[i], clock_now_ns());
	r = record_of(u, t->id);
	if (r)
		r->is_alive = false;
	state_touch(t->agent);
}

static void past_free(struct tenant *t)
{
	LIST_REMOVE(t, link);
	for (uint32_t i = 0; i < t->n; i++)
		free(t->devices[i].series);
	free(t);
}

/* The rings of those say nothing any more; and there is room for one more. */
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

/* The tenant after `t` in an answer, first of all for NULL. */
static const struct tenant *history_next(
	const struct agent *agent, const struct tenant *t, bool has_ended)
{
	const struct tenant *next = t ? LIST_NEXT(t, link) : LIST_FIRST(&agent->tenants);
	const struct tenant *past = has_ended ? LIST_FIRST(&agent->usage->past) : NULL;
	const bool is_past = t && t->is_ending && !t->agent;

	return next || is_past ? next : past;
}

/* ---- answers ---- */

/* Slots outside the ring count as 0, however many they are. */
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
	/* Up to the last sample where there is one just now, so that the end is not half empty. */
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

/* Numbers and commas; jansson would make an object of each point. */
static void add_numbers(struct buf *out, const uint64_t *numbers, uint64_t n)
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
	size_t ring; /* which of the series' */
};

static void add_series(struct buf *out, const struct tenant_device *td, const struct points *p)
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
	add_numbers(out, permille, p->n);
	buf_add_text(out, "],\"memory_bytes\":[");
	add_numbers(out, memory, p->n);
	buf_add_text(out, "]}");
}

int usage_history(struct agent *agent, const struct tenant *only, uid_t uid, uint64_t last_ms,
	uint64_t step_ms, bool has_ended, struct buf *out)
{
	uint64_t now = clock_now_ns(), ring_ms;
	struct usage_series *model = series_new(now);
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
			add_series(out, &t->devices[i], &p);
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

	for (uint32_t i = 0; i < u->n; i++) {
		const struct record *r = &u->records[i];
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

int usage_save(struct agent *agent, struct buf *out)
{
	struct usage *u = agent->usage;

	for (uint32_t i = 0; i < u->n; i++) {
		const struct record *r = &u->records[i];

		buf_addf(out, "R %u %u %u %u %llu %llu %.6f %.0f %.6f %s\n", r->id,
			(unsigned int)r->uid, r->request, r->limit, (unsigned long long)r->first_s,
			(unsigned long long)r->last_s, r->gpu_s, r->byte_s, r->waited_s, r->name);
		for (uint32_t k = 0; k < r->n; k++)
			buf_addf(out, "B %llu %u %.6f %.0f %.6f\n",
				(unsigned long long)r->buckets[k].start_s, r->buckets[k].length_s,
				r->buckets[k].gpu_s, r->buckets[k].byte_s, r->buckets[k].waited_s);
	}
	return buf_error(out);
}

void usage_load_line(struct agent *agent, struct str line)
{
	struct usage *u = agent->usage;
	struct record r = {0}, *kept;
	struct bucket b = {0}, *grown;
	unsigned long long first, last;
	unsigned int uid;
	char text[512];

	if (str_copy(text, sizeof(text), line) < 0)
		return;
	if (sscanf(text, "R %u %u %u %u %llu %llu %lf %lf %lf %63s", &r.id, &uid, &r.request,
		    &r.limit, &first, &last, &r.gpu_s, &r.byte_s, &r.waited_s, r.name) == 10) {
		kept = record_new(u, r.id);
		if (!kept)
			return;
		r.uid = uid;
		r.first_s = first;
		r.last_s = last;
		*kept = r;
		agent->next_tenant = MAX(agent->next_tenant, r.id + 1);
	} else if (u->n &&
		sscanf(text, "B %llu %u %lf %lf %lf", &first, &b.length_s, &b.gpu_s, &b.byte_s,
			&b.waited_s) == 5) {
		kept = &u->records[u->n - 1];
		if (kept->n >= BUCKETS_MAX)
			return;
		if (kept->n == kept->capacity) {
			grown = reallocarray(kept->buckets, kept->capacity + 16, sizeof(*grown));
			if (!grown)
				return;
			kept->buckets = grown;
			kept->capacity += 16;
		}
		b.start_s = first;
		kept->buckets[kept->n++] = b;
	}
}

/* A slot that the file of reports is behind. */
static void take_up(struct usage *u, struct tally_slot *slot)
{
	struct record *r = record_of(u, slot->id);

	if (!r) {
		r = record_new(u, slot->id);
		if (!r)
			return;
		r->uid = slot->uid;
		r->request = slot->request;
		r->limit = slot->limit;
		r->first_s = slot->first_s;
		r->last_s = slot->last_s;
		memcpy(r->name, slot->name, sizeof(r->name));
		r->name[sizeof(r->name) - 1] = '\0';
		u->agent->next_tenant = MAX(u->agent->next_tenant, r->id + 1);
	}
	record_add(r, MAX((double)slot->gpu_ns / NSEC_PER_SEC - r->gpu_s, 0),
		MAX((double)slot->byte_s - r->byte_s, 0),
		MAX((double)slot->waited_ns / NSEC_PER_SEC - r->waited_s, 0));
	r->last_s = slot->last_s;
	r->slot = slot;
}

void usage_loaded(struct agent *agent)
{
	struct usage *u = agent->usage;
	struct tally_slot *slot = NULL;

	while ((slot = tally_next(u->tally, slot)))
		take_up(u, slot);
}

void usage_saved(struct agent *agent)
{
	struct usage *u = agent->usage;

	for (uint32_t i = 0; i < u->n; i++)
		if (!u->records[i].is_alive && u->records[i].slot) {
			tally_give(u->records[i].slot);
			u->records[i].slot = NULL;
		}
}

int usage_new(struct agent *agent, struct error *err)
{
	struct usage *u = calloc(1, sizeof(*u));
	struct error why;
	int r;

	if (!u)
		return fail(err, ENOMEM, "no memory");
	agent->usage = u;
	u->agent = agent;
	u->integrated_ns = clock_now_ns();
	u->timer.data = u;
	if (tally_open(agent->runtime_dir, &u->tally, &why) < 0)
		log_warn("%s: a daemon that is killed loses the last seconds of its reports",
			why.msg);
	r = loop_add_timer(agent->loop, &u->timer, on_timer);
	return r < 0 ? fail_errno(err, -r, "timer") : 0;
}

void usage_free(struct agent *agent)
{
	struct usage *u = agent->usage;

	if (!u)
		return;
	loop_remove_timer(&u->timer);
	for (uint32_t i = 0; i < u->n; i++)
		free(u->records[i].buckets);
	free(u->records);
	while (!LIST_EMPTY(&u->past))
		past_free(LIST_FIRST(&u->past));
	tally_close(u->tally);
	free(u);
	agent->usage = NULL;
}
