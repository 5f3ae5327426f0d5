/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream over a queue pair: what arrives, in which order, and what ends it. The adapter is
 * fake-verbs.c, with both ends in this process.
 */
#include "unit.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/rand.h"
#include "fake-verbs.h"
#include "link/stream-verbs.h"

#define MIB (1u << 20)
#define SILENT_MS 20000u

struct end {
	struct verbs *verbs;
	struct verbs_stream *sealed;
	struct stream stream;
};

static struct end here, there;

static void open_end(struct end *end)
{
	struct error err = {0};

	*end = (struct end){0};
	if (verbs_open(NULL, &end->verbs, &err) < 0)
		fail_msg("%s", err.msg);
}

static void seal_end(struct end *end, const struct verbs_secrets *secrets, unsigned silent_ms)
{
	assert_ok(verbs_stream_new(end->verbs, secrets, &end->sealed));
	end->stream = stream_verbs(end->sealed, silent_ms);
}

static void close_end(struct end *end)
{
	if (!end->sealed)
		verbs_close(end->verbs);
	verbs_stream_free(end->sealed);
	*end = (struct end){0};
}

static void begin_with(
	const struct fake_verbs *how, unsigned silent_ms, const struct verbs_secrets *of_there)
{
	const struct verbs_secrets of_here = {.out = "here", .in = "there"};
	struct error err = {0};

	fake_begin(how);
	open_end(&here);
	open_end(&there);
	if (verbs_connect(here.verbs, verbs_address(there.verbs), &err) < 0 ||
		verbs_connect(there.verbs, verbs_address(here.verbs), &err) < 0)
		fail_msg("%s", err.msg);
	seal_end(&here, &of_here, silent_ms);
	seal_end(&there, of_there, silent_ms);
}

static void begin(const struct fake_verbs *how, unsigned silent_ms)
{
	begin_with(how, silent_ms, &(struct verbs_secrets){.out = "there", .in = "here"});
}

static void done(void)
{
	close_end(&here);
	close_end(&there);
	fake_end();
	assert_int_equal(fake.not_ready, 0);
	assert_int_equal(fake.misused, 0);
	assert_int_equal(fake.live, 0);
	assert_int_equal(fake.registered, 0);
}

/* ---- what arrives ---- */

/* Any two differ in what is at a position. */
static uint8_t byte_at(uint64_t seed, uint64_t position)
{
	const uint64_t mixed = (position + seed) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint8_t)(mixed >> 56 ^ mixed >> 24);
}

/* One way through one end, by a thread of its own; assertions are the main one's. */
struct going {
	struct stream stream;
	uint64_t seed, bytes;
	size_t most;       /* at a time */
	unsigned pause_ms; /* after each */
	int r;
};

static size_t some(struct rand *rand, const struct going *g, uint64_t done_bytes)
{
	/* As many short ones as long ones. */
	const uint64_t most = rand_below(rand, 2) ? g->most : 100;
	const uint64_t n = 1 + rand_below(rand, most);

	return (size_t)MIN(MIN(n, g->bytes - done_bytes), (uint64_t)g->most);
}

static void *send_main(void *argument)
{
	struct going *g = argument;
	uint8_t *p = malloc(g->most);
	struct rand rand = rand_seeded(g->seed);

	for (uint64_t at = 0; at < g->bytes && g->r == 0;) {
		const size_t n = some(&rand, g, at);

		for (size_t i = 0; i < n; i++)
			p[i] = byte_at(g->seed, at + i);
		g->r = stream_send(g->stream, p, n);
		at += n;
		if (g->pause_ms)
			poll(NULL, 0, (int)g->pause_ms);
	}
	free(p);
	return NULL;
}

static void *receive_main(void *argument)
{
	struct going *g = argument;
	uint8_t *p = malloc(g->most);
	struct rand rand = rand_seeded(g->seed + 1);

	for (uint64_t at = 0; at < g->bytes && g->r == 0;) {
		const size_t n = some(&rand, g, at);

		g->r = stream_receive(g->stream, p, n);
		for (size_t i = 0; i < n && g->r == 0; i++)
			if (p[i] != byte_at(g->seed, at + i))
				g->r = -EILSEQ;
		at += n;
		if (g->pause_ms)
			poll(NULL, 0, (int)g->pause_ms);
	}
	free(p);
	return NULL;
}

static void go(struct going *out, struct going *in, unsigned n)
{
	pthread_t thread[4];

	for (unsigned i = 0; i < n; i++) {
		assert_ok(pthread_create(&thread[2 * i], NULL, send_main, &out[i]));
		assert_ok(pthread_create(&thread[2 * i + 1], NULL, receive_main, &in[i]));
	}
	for (unsigned i = 0; i < 2 * n; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < n; i++) {
		assert_ok(out[i].r);
		assert_ok(in[i].r);
	}
}

static void bytes_of_any_sizes_arrive_both_ways_at_once(void **state)
{
	begin(&(struct fake_verbs){0}, SILENT_MS);
	go((struct going[]){{here.stream, 1, 24 * MIB, 3 * MIB}, {there.stream, 2, 24 * MIB, MIB}},
		(struct going[]){
			{there.stream, 1, 24 * MIB, MIB}, {here.stream, 2, 24 * MIB, 3 * MIB}},
		2);
	done();
}

/* Credits come back to who does nothing but send. */
static void one_way_needs_nobody_who_receives_the_other(void **state)
{
	begin(&(struct fake_verbs){.slow_us = 200}, SILENT_MS);
	go(&(struct going){here.stream, 3, 8 * MIB, 2 * MIB},
		&(struct going){there.stream, 3, 8 * MIB, 2 * MIB}, 1);
	done();
}

static void who_reads_slowly_is_never_sent_too_much(void **state)
{
	begin(&(struct fake_verbs){0}, SILENT_MS);
	go((struct going[]){{here.stream, 4, 6 * MIB, MIB}, {there.stream, 5, 6 * MIB, MIB}},
		(struct going[]){{there.stream, 4, 6 * MIB, 50000, 1},
			{here.stream, 5, 6 * MIB, 2 * MIB, 5}},
		2);
	done();
}

/* Each record with the next key at the same place at both ends. */
static void keys_change_and_nobody_notices(void **state)
{
	begin(&(struct fake_verbs){0}, SILENT_MS);
	go(&(struct going){here.stream, 6, 3 * VERBS_REKEY, 1},
		&(struct going){there.stream, 6, 3 * VERBS_REKEY, 300}, 1);
	done();
}

static void nothing_goes_over_the_network_in_the_clear(void **state)
{
	static const char said[] = "what nobody else may read";
	char heard[sizeof(said)];
	const uint8_t *last;
	uint32_t n;

	begin(&(struct fake_verbs){0}, SILENT_MS);
	assert_ok(stream_send(here.stream, said, sizeof(said)));
	assert_ok(stream_receive(there.stream, heard, sizeof(heard)));
	assert_string_equal(heard, said);
	last = fake_last(&n);
	assert_true(n > sizeof(said));
	assert_null(memmem(last, n, said, sizeof(said)));
	assert_null(memmem(last, n, "nobody", 6));
	done();
}

/* ---- what ends it ---- */

static void what_was_touched_on_its_way_ends_it(void **state)
{
	static const enum fake_fate fates[] = {FAKE_CHANGED, FAKE_LOST, FAKE_REPEATED};

	for (size_t i = 0; i < ARRAY_SIZE(fates); i++) {
		uint32_t word = 0;

		begin(&(struct fake_verbs){.at = 3, .fate = fates[i]}, SILENT_MS);
		for (uint32_t n = 0; n < 4; n++)
			assert_ok(stream_send(here.stream, &n, sizeof(n)));
		for (uint32_t n = 0; n < 2; n++) {
			assert_ok(stream_receive(there.stream, &word, sizeof(word)));
			assert_int_equal(word, n);
		}
		assert_int_equal(stream_receive(there.stream, &word, sizeof(word)), -EBADMSG);
		/* For good, and both ways. */
		assert_int_equal(stream_receive(there.stream, &word, sizeof(word)), -EBADMSG);
		assert_int_equal(stream_send(there.stream, &word, sizeof(word)), -EPIPE);
		done();
	}
}

/* Who sends waits for them: they are not to be had by who stands between. */
static void a_credit_that_was_touched_ends_it(void **state)
{
	uint32_t word = 0;

	begin(&(struct fake_verbs){.at = 5, .fate = FAKE_CHANGED}, SILENT_MS);
	for (unsigned i = 0; i < VERBS_CREDITS / 2; i++)
		assert_ok(stream_send(here.stream, &word, sizeof(word)));
	for (unsigned i = 0; i < VERBS_CREDITS / 2; i++)
		assert_ok(stream_receive(there.stream, &word, sizeof(word)));
	for (unsigned i = 0; i < VERBS_CREDITS / 2; i++)
		assert_ok(stream_send(here.stream, &word, sizeof(word)));
	assert_int_equal(stream_send(here.stream, &word, sizeof(word)), -EPIPE);
	assert_int_equal(stream_receive(here.stream, &word, sizeof(word)), -EBADMSG);
	done();
}

static void other_secrets_open_nothing(void **state)
{
	const struct verbs_secrets other = {.out = "there", .in = "elsewhere"};
	uint32_t word = 0;

	begin_with(&(struct fake_verbs){0}, SILENT_MS, &other);
	assert_ok(stream_send(here.stream, &word, sizeof(word)));
	assert_int_equal(stream_receive(there.stream, &word, sizeof(word)), -EBADMSG);
	done();
}

static void an_end_that_is_gone_is_a_broken_pipe(void **state)
{
	uint32_t word = 0;
	int r = 0;

	begin(&(struct fake_verbs){0}, SILENT_MS);
	assert_ok(stream_send(there.stream, &word, sizeof(word)));
	assert_ok(stream_receive(here.stream, &word, sizeof(word)));
	close_end(&there);
	for (unsigned i = 0; i < 2 * VERBS_CREDITS && r == 0; i++)
		r = stream_send(here.stream, &word, sizeof(word));
	assert_int_equal(r, -EPIPE);
	assert_int_equal(stream_receive(here.stream, &word, sizeof(word)), -EPIPE);
	assert_int_equal(stream_send(here.stream, &word, sizeof(word)), -EPIPE);
	done();
}

static void silence_is_noticed(void **state)
{
	uint32_t word = 0;

	begin(&(struct fake_verbs){0}, 30);
	assert_int_equal(stream_receive(here.stream, &word, sizeof(word)), -ETIMEDOUT);
	/* It is no end: who is silent may still say something. */
	assert_ok(stream_send(there.stream, &word, sizeof(word)));
	assert_ok(stream_receive(here.stream, &word, sizeof(word)));
	/* Of half of what is wanted, too. */
	assert_ok(stream_send(there.stream, &word, 2));
	assert_int_equal(stream_receive(here.stream, &word, sizeof(word)), -ETIMEDOUT);
	done();
}

static void who_takes_nothing_is_gone(void **state)
{
	uint32_t word = 0;

	begin(&(struct fake_verbs){0}, 30);
	for (unsigned i = 0; i < VERBS_CREDITS; i++)
		assert_ok(stream_send(here.stream, &word, sizeof(word)));
	assert_int_equal(stream_send(here.stream, &word, sizeof(word)), -EPIPE);
	done();
}

/* ---- the adapter, and the other end ---- */

static void assert_refused(
	const struct fake_verbs *how, const char *name, int code, const char *says)
{
	struct verbs *verbs = NULL;
	struct error err = {0};

	fake_begin(how);
	assert_int_equal(verbs_open(name, &verbs, &err), -code);
	assert_null(verbs);
	assert_contains(err.msg, says);
	fake_end();
	assert_int_equal(fake.live, 0);
	assert_int_equal(fake.registered, 0);
	assert_int_equal(fake.misused, 0);
}

static void what_cannot_be_opened_says_why(void **state)
{
	static const char none[] = "no RDMA adapter that may be used has an active port";

	assert_refused(&(struct fake_verbs){.is_absent = true}, NULL, ENODEV, none);
	assert_refused(&(struct fake_verbs){.is_down = true}, NULL, ENODEV, none);
	assert_refused(&(struct fake_verbs){.is_iwarp = true}, NULL, ENODEV, none);
	assert_refused(&(struct fake_verbs){0}, "mlx5_7", ENODEV, "adapter mlx5_7");
	assert_refused(&(struct fake_verbs){.refuses = ENOMEM}, NULL, ENOMEM, "may be locked");
	/* A program that takes a device may be told so by the device file's rights alone. */
	assert_refused(&(struct fake_verbs){.fails = 1}, NULL, ENODEV, none);
}

static void what_fails_halfway_leaves_nothing(void **state)
{
	unsigned made;

	fake_begin(&(struct fake_verbs){0});
	open_end(&here);
	made = fake.made;
	close_end(&here);
	fake_end();
	assert_true(made >= 7);
	for (unsigned i = 2; i <= made; i++)
		assert_refused(&(struct fake_verbs){.fails = i}, "fake0", ENOMEM, "adapter");
}

static void an_address_that_lies_is_refused(void **state)
{
	static const struct {
		const char *says;
		struct verbs_address with; /* what is not 0 takes its place */
	} cases[] = {
		{"version 2, expected 1", {.version = 2}},
		{"version 1, expected 1", {.reserved = 1}},
		{"version 1, expected 1", {.reserved2 = 1}},
		{"mtu 6, expected 1 to 5", {.mtu = 6}},
		{"over RoCE v2 there, over InfiniBand here", {.link = VERBS_ROCE_2}},
		{"over an unknown network there", {.link = 9}},
		{"queue pair 16777216, expected 1", {.number = 1u << 24}},
		{"sequence number 16777216", {.first = 1u << 24}},
	};
	struct verbs_address good, lie;
	struct error err;

	fake_begin(&(struct fake_verbs){0});
	open_end(&here);
	open_end(&there);
	good = *verbs_address(there.verbs);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const uint8_t *with = (const uint8_t *)&cases[i].with;

		lie = good;
		for (size_t at = 0; at < sizeof(lie); at++)
			if (with[at])
				((uint8_t *)&lie)[at] = with[at];
		/* Whole numbers, of which some bytes are 0. */
		lie.number = cases[i].with.number ? htole32(cases[i].with.number) : lie.number;
		lie.first = cases[i].with.first ? htole32(cases[i].with.first) : lie.first;
		assert_int_equal(verbs_connect(here.verbs, &lie, &err), -EINVAL);
		assert_contains(err.msg, cases[i].says);
	}
	lie = good;
	lie.mtu = 0;
	assert_int_equal(verbs_connect(here.verbs, &lie, &err), -EINVAL);
	assert_contains(err.msg, "mtu 0, expected 1 to 5");
	lie = good;
	lie.number = 0;
	assert_int_equal(verbs_connect(here.verbs, &lie, &err), -EINVAL);
	assert_contains(err.msg, "queue pair 0, expected 1");
	lie = good;
	lie.lid = 0;
	assert_int_equal(verbs_connect(here.verbs, &lie, &err), -EINVAL);
	assert_contains(err.msg, "port 0 of InfiniBand");
	/* None of them has done any harm. */
	assert_ok(verbs_connect(here.verbs, &good, &err));
	assert_int_equal(verbs_connect(here.verbs, &good, &err), -EINVAL);
	assert_contains(err.msg, "no way to the other one");
	close_end(&here);
	close_end(&there);
	fake_end();
	/* The second time. */
	assert_int_equal(fake.misused, 1);
	assert_int_equal(fake.live, 0);
}

static void over_ethernet_the_address_of_version_2_is_taken(void **state)
{
	struct verbs_address lie;
	struct error err;

	begin(&(struct fake_verbs){.is_ethernet = true}, SILENT_MS);
	assert_int_equal(verbs_address(here.verbs)->link, VERBS_ROCE_2);
	assert_int_equal(verbs_address(here.verbs)->gid[15], 3);
	go(&(struct going){here.stream, 7, MIB, MIB}, &(struct going){there.stream, 7, MIB, MIB},
		1);
	lie = *verbs_address(there.verbs);
	memset(lie.gid, 0, sizeof(lie.gid));
	assert_int_equal(verbs_connect(here.verbs, &lie, &err), -EINVAL);
	assert_contains(err.msg, "no address");
	done();
}

UNIT_MAIN(UNIT(bytes_of_any_sizes_arrive_both_ways_at_once),
	UNIT(one_way_needs_nobody_who_receives_the_other),
	UNIT(who_reads_slowly_is_never_sent_too_much), UNIT(keys_change_and_nobody_notices),
	UNIT(nothing_goes_over_the_network_in_the_clear), UNIT(what_was_touched_on_its_way_ends_it),
	UNIT(a_credit_that_was_touched_ends_it), UNIT(other_secrets_open_nothing),
	UNIT(an_end_that_is_gone_is_a_broken_pipe), UNIT(silence_is_noticed),
	UNIT(who_takes_nothing_is_gone), UNIT(what_cannot_be_opened_says_why),
	UNIT(what_fails_halfway_leaves_nothing), UNIT(an_address_that_lies_is_refused),
	UNIT(over_ethernet_the_address_of_version_2_is_taken))
