/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record is its type, in the clear and sealed with the rest, its bytes, and the tag. Data waits
 * in its slot until somebody receives it; a credit is taken by whoever waits, be it to send or to
 * receive. So there are two sequences of records each way, each with its key. A credit stands for
 * half the slots: two of them are under way at most, and have slots of their own there.
 */
#include "link/stream-verbs.h"

#include <endian.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"

#define KEY_BYTES 16u
#define TAG_BYTES 16u
#define NONCE_BYTES 12u
#define RECORD_BYTES (256u << 10)
#define CREDITS_EACH (VERBS_CREDITS / 2)
/* So often is looked whether it is over. */
#define LOOK_MS 1000u
/* The adapter gives up before. */
#define POST_MS 10000u

enum record_type { RECORD_DATA = 1, RECORD_CREDIT };

struct record_head {
	uint8_t type; /* enum record_type */
	uint8_t reserved[7];
};
#define RECORD_REST ((uint32_t)sizeof(struct record_head) + TAG_BYTES)
_Static_assert(RECORD_BYTES + sizeof(struct record_head) + TAG_BYTES <= VERBS_SLOT_BYTES, "slot");
_Static_assert(VERBS_CREDITS + 2 <= VERBS_RECEIVES, "credits need slots, too");

/* One sequence of records. */
struct seal {
	gnutls_aead_cipher_hd_t cipher;
	uint8_t secret[VERBS_SECRET_BYTES];
	uint64_t n; /* records so far */
};

struct verbs_stream {
	struct verbs *verbs;

	pthread_mutex_t lock;
	pthread_cond_t is_changed;
	bool is_awaited; /* by one thread, which takes what comes for all */
	int ended;       /* 0, or -errno for good */
	unsigned credits;
	unsigned first, n_data;
	struct verbs_done data[VERBS_RECEIVES]; /* that nobody has read */
	struct seal credit_in;                  /* of whoever waits */

	pthread_mutex_t sending;
	struct seal data_out, credit_out;
	uint64_t sent, done; /* slot by slot, round and round */

	/* Of the thread that receives. */
	struct seal data_in;
	uint8_t *opened; /* a record of which not all was wanted */
	size_t opened_at, opened_left;
	unsigned read; /* without a credit for it so far */
};

/* ---- seals ---- */

static int expand(const uint8_t *secret, const char *label, void *ret, size_t n)
{
	const gnutls_datum_t key = {(uint8_t *)(uintptr_t)secret, VERBS_SECRET_BYTES},
			     info = {(uint8_t *)(uintptr_t)label, (unsigned)strlen(label)};

	return gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &info, ret, n) < 0 ? -ENOMEM : 0;
}

static int seal_set_key(struct seal *s)
{
	uint8_t bytes[KEY_BYTES];
	const gnutls_datum_t key = {bytes, sizeof(bytes)};
	int r = expand(s->secret, "divvy verbs key", bytes, sizeof(bytes));

	if (s->cipher)
		gnutls_aead_cipher_deinit(s->cipher);
	s->cipher = NULL;
	if (r == 0 && gnutls_aead_cipher_init(&s->cipher, GNUTLS_CIPHER_AES_128_GCM, &key) < 0)
		r = -ENOMEM;
	explicit_bzero(bytes, sizeof(bytes));
	return r;
}

static int seal_init(struct seal *s, const uint8_t *secret, const char *label)
{
	const int r = expand(secret, label, s->secret, sizeof(s->secret));

	return r < 0 ? r : seal_set_key(s);
}

static void seal_done(struct seal *s)
{
	if (s->cipher)
		gnutls_aead_cipher_deinit(s->cipher);
	explicit_bzero(s->secret, sizeof(s->secret));
}

/* Of the next record: its nonce, and its key when that is due. */
static int seal_next(struct seal *s, uint8_t *ret_nonce)
{
	const uint64_t n = htole64(s->n);
	uint8_t next[VERBS_SECRET_BYTES];
	int r = 0;

	if (s->n && s->n % VERBS_REKEY == 0) {
		r = expand(s->secret, "divvy verbs next", next, sizeof(next));
		memcpy(s->secret, next, sizeof(next));
		explicit_bzero(next, sizeof(next));
		r = r < 0 ? r : seal_set_key(s);
	}
	memset(ret_nonce, 0, NONCE_BYTES);
	memcpy(ret_nonce + NONCE_BYTES - sizeof(n), &n, sizeof(n));
	s->n++;
	return r;
}

/* A whole record, into the slot. */
static int seal_shut(struct seal *s, enum record_type type, const void *p, size_t n, uint8_t *slot)
{
	const struct record_head head = {.type = (uint8_t)type};
	size_t most = n + TAG_BYTES;
	uint8_t nonce[NONCE_BYTES];

	if (seal_next(s, nonce) < 0)
		return -ENOMEM;
	memcpy(slot, &head, sizeof(head));
	return gnutls_aead_cipher_encrypt(s->cipher, nonce, NONCE_BYTES, slot, sizeof(head),
		       TAG_BYTES, p, n, slot + sizeof(head), &most) < 0
		? -EIO
		: 0;
}

/* What is in a record of that many bytes, which are RECORD_REST fewer. */
static int seal_open(struct seal *s, const uint8_t *slot, uint32_t bytes, void *ret)
{
	const size_t head = sizeof(struct record_head);
	size_t most = bytes - RECORD_REST;
	uint8_t nonce[NONCE_BYTES];

	if (seal_next(s, nonce) < 0)
		return -ENOMEM;
	return gnutls_aead_cipher_decrypt(s->cipher, nonce, NONCE_BYTES, slot, head, TAG_BYTES,
		       slot + head, bytes - head, ret, &most) < 0
		? -EBADMSG
		: 0;
}

/* ---- waiting ---- */

/* For good, for both ways; what it has ended with first. */
static int end_locked(struct verbs_stream *v, int why)
{
	if (!v->ended) {
		v->ended = why;
		pthread_cond_broadcast(&v->is_changed);
		verbs_break(v->verbs);
	}
	return v->ended;
}

static int end(struct verbs_stream *v, int why)
{
	pthread_mutex_lock(&v->lock);
	why = end_locked(v, why);
	pthread_mutex_unlock(&v->lock);
	return why;
}

/* What has come; credits have been opened. -EBADMSG: nothing that there is. */
static int look_at(struct verbs_stream *v, const struct verbs_done *done)
{
	const uint8_t *slot = verbs_slot(v->verbs, VERBS_IN, done->slot);
	struct record_head head;
	uint8_t nothing;
	int r;

	if (done->bytes < RECORD_REST)
		return -EBADMSG;
	memcpy(&head, slot, sizeof(head));
	if (head.type == RECORD_DATA && done->bytes > RECORD_REST)
		return RECORD_DATA;
	if (head.type != RECORD_CREDIT || done->bytes != RECORD_REST)
		return -EBADMSG;
	r = seal_open(&v->credit_in, slot, done->bytes, &nothing);
	/* There is room for the next one before anybody sends more. */
	r = r < 0 ? r : verbs_post_receive(v->verbs, done->slot);
	return r < 0 ? r : RECORD_CREDIT;
}

/* With the lock, and without it while waiting: takes what comes within that time, for all. */
static void take_next(struct verbs_stream *v, unsigned timeout_ms)
{
	struct verbs_done done;
	int r;

	v->is_awaited = true;
	pthread_mutex_unlock(&v->lock);
	r = verbs_next(v->verbs, VERBS_IN, timeout_ms, &done);
	if (r > 0)
		r = look_at(v, &done);
	pthread_mutex_lock(&v->lock);
	v->is_awaited = false;
	/* More than were ever used. */
	if (r == RECORD_CREDIT && v->credits > VERBS_CREDITS - CREDITS_EACH)
		r = -EBADMSG;
	if (r < 0)
		end_locked(v, r);
	else if (r == RECORD_CREDIT)
		v->credits += CREDITS_EACH;
	else if (r == RECORD_DATA)
		v->data[(v->first + v->n_data++) % VERBS_RECEIVES] = done;
	pthread_cond_broadcast(&v->is_changed);
}

static void await_change(struct verbs_stream *v, unsigned timeout_ms)
{
	const uint64_t until_ns = clock_now_ns() + timeout_ms * NSEC_PER_MSEC;
	const struct timespec until = {
		(time_t)(until_ns / NSEC_PER_SEC), (long)(until_ns % NSEC_PER_SEC)};

	pthread_cond_timedwait(&v->is_changed, &v->lock, &until);
}

/* With the lock: until that number is not 0 any more. */
static int await(struct verbs_stream *v, const unsigned *number, unsigned silent_ms)
{
	const uint64_t since = clock_now_ns();
	struct clock_listener listener = {.looked_ns = since};

	while (!*number) {
		const uint64_t waited_ms =
			clock_silent_ns(&listener, clock_now_ns(), since) / NSEC_PER_MSEC;
		unsigned left_ms = LOOK_MS;

		if (v->ended)
			return v->ended;
		if (silent_ms && waited_ms >= silent_ms)
			return -ETIMEDOUT;
		if (silent_ms)
			left_ms = (unsigned)MIN((uint64_t)LOOK_MS, silent_ms - waited_ms);
		if (v->is_awaited)
			await_change(v, left_ms);
		else
			take_next(v, left_ms);
	}
	return 0;
}

/* ---- sending ---- */

/*
 * Waits for the adapter at most, never for who reads at the other side: so the thread that receives
 * may send credits.
 */
static int post(
	struct verbs_stream *v, struct seal *s, enum record_type type, const void *p, size_t n)
{
	const unsigned slot = (unsigned)(v->sent % VERBS_SENDS);
	struct verbs_done done;
	int r = 0;

	if (v->sent - v->done == VERBS_SENDS) {
		r = verbs_next(v->verbs, VERBS_OUT, POST_MS, &done);
		if (r <= 0)
			return -EPIPE;
		v->done++;
	}
	r = seal_shut(s, type, p, n, verbs_slot(v->verbs, VERBS_OUT, slot));
	r = r < 0 ? r : verbs_post_send(v->verbs, slot, (uint32_t)n + RECORD_REST);
	if (r == 0)
		v->sent++;
	return r;
}

static int send_record(struct verbs_stream *v, enum record_type type, const void *p, size_t n)
{
	struct seal *s = type == RECORD_DATA ? &v->data_out : &v->credit_out;
	int r;

	pthread_mutex_lock(&v->sending);
	r = post(v, s, type, p, n);
	pthread_mutex_unlock(&v->sending);
	return r < 0 ? end(v, r) : 0;
}

static int sealed_send(struct stream s, const void *p, size_t n)
{
	struct verbs_stream *v = s.own;

	while (n) {
		const size_t now = MIN(n, (size_t)RECORD_BYTES);
		int r;

		pthread_mutex_lock(&v->lock);
		r = await(v, &v->credits, s.silent_ms);
		if (r == -ETIMEDOUT)
			end_locked(v, -EPIPE);
		r = v->ended;
		if (r == 0)
			v->credits--;
		pthread_mutex_unlock(&v->lock);
		if (r == 0)
			r = send_record(v, RECORD_DATA, p, now);
		if (r < 0)
			return -EPIPE;
		p = (const uint8_t *)p + now;
		n -= now;
	}
	return 0;
}

/* ---- receiving ---- */

/* Whose failure is that of the next record: this one is here. */
static void give_back(struct verbs_stream *v, unsigned slot)
{
	if (verbs_post_receive(v->verbs, slot) < 0)
		end(v, -EPIPE);
	if (++v->read < CREDITS_EACH)
		return;
	v->read = 0;
	send_record(v, RECORD_CREDIT, "", 0);
}

/* The next record, to there if all of it is wanted. How many bytes are there then; 0: kept. */
static ssize_t open_next(struct verbs_stream *v, void *p, size_t n, unsigned silent_ms)
{
	struct verbs_done done = {0};
	size_t inside;
	bool is_whole;
	int r;

	pthread_mutex_lock(&v->lock);
	r = await(v, &v->n_data, silent_ms);
	if (r == 0) {
		done = v->data[v->first];
		v->first = (v->first + 1) % VERBS_RECEIVES;
		v->n_data--;
	}
	pthread_mutex_unlock(&v->lock);
	if (r < 0)
		return r;
	inside = done.bytes - RECORD_REST;
	is_whole = inside <= n;
	r = seal_open(&v->data_in, verbs_slot(v->verbs, VERBS_IN, done.slot), done.bytes,
		is_whole ? p : v->opened);
	if (r < 0)
		return end(v, r);
	give_back(v, done.slot);
	if (is_whole)
		return (ssize_t)inside;
	v->opened_at = 0;
	v->opened_left = inside;
	return 0;
}

static int sealed_receive(struct stream s, void *p, size_t n)
{
	struct verbs_stream *v = s.own;

	while (n) {
		ssize_t now = 0;

		if (!v->opened_left)
			now = open_next(v, p, n, s.silent_ms);
		if (now < 0)
			return (int)now;
		if (v->opened_left) {
			now = (ssize_t)MIN(n, v->opened_left);
			memcpy(p, v->opened + v->opened_at, (size_t)now);
			v->opened_at += (size_t)now;
			v->opened_left -= (size_t)now;
		}
		p = (uint8_t *)p + now;
		n -= (size_t)now;
	}
	return 0;
}

/* ---- the whole ---- */

int verbs_stream_new(
	struct verbs *verbs, const struct verbs_secrets *secrets, struct verbs_stream **ret_stream)
{
	struct verbs_stream *v = calloc(1, sizeof(*v));
	pthread_condattr_t clock;

	if (!v)
		return -ENOMEM;
	pthread_mutex_init(&v->lock, NULL);
	pthread_mutex_init(&v->sending, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&v->is_changed, &clock);
	pthread_condattr_destroy(&clock);
	v->credits = VERBS_CREDITS;
	v->opened = malloc(VERBS_SLOT_BYTES);
	if (!v->opened || seal_init(&v->data_out, secrets->out, "divvy verbs data") < 0 ||
		seal_init(&v->credit_out, secrets->out, "divvy verbs credit") < 0 ||
		seal_init(&v->data_in, secrets->in, "divvy verbs data") < 0 ||
		seal_init(&v->credit_in, secrets->in, "divvy verbs credit") < 0) {
		verbs_stream_free(v);
		return -ENOMEM;
	}
	v->verbs = verbs;
	*ret_stream = v;
	return 0;
}

void verbs_stream_free(struct verbs_stream *v)
{
	if (!v)
		return;
	seal_done(&v->data_out);
	seal_done(&v->credit_out);
	seal_done(&v->data_in);
	seal_done(&v->credit_in);
	pthread_cond_destroy(&v->is_changed);
	pthread_mutex_destroy(&v->sending);
	pthread_mutex_destroy(&v->lock);
	free(v->opened);
	verbs_close(v->verbs);
	free(v);
}

struct stream stream_verbs(struct verbs_stream *v, unsigned silent_ms)
{
	static const struct stream_kind kind = {.send = sealed_send, .receive = sealed_receive};

	return (struct stream){&kind, v, silent_ms};
}
