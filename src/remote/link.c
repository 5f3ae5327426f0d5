/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract: link.h. Both sessions of a pair have rings of the same size, and positions in them are
 * the same: what the local producer has written goes over as bytes at a position, what the far
 * consumer has read comes back as one. So the far ring's room is the window, each lane has its own,
 * and nothing is parsed here. A thread sends what is new, one passes on what the socket says, one
 * (the caller's) receives.
 */
#include "remote/link.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "remote/ring.h"

#define PIECE (256u << 10)
/* Up to here head and bytes go as one record; beyond, putting them together costs a copy. */
#define TOGETHER 4096u
/* How much may be read before the producer is told: less than what it always keeps free. */
#define TELL_BYTES (REMOTE_RING / 8)
#define LOOK_MS 1000u

enum link_type { LINK_DATA = 1, LINK_HEAD, LINK_NOTE };

struct link_head {
	uint32_t bytes;
	uint8_t type; /* enum link_type */
	uint8_t lane;
	uint16_t reserved;
	uint64_t position; /* DATA: of its first byte; HEAD: what has been read */
};
_Static_assert(sizeof(struct link_head) == 16, "abi");

struct link {
	gnutls_session_t tls;
	pthread_mutex_t sending;
	struct remote_session *session;
	enum ring_way out; /* rings that are read here */
	int sock;
	uint64_t sent[REMOTE_LANES], told[REMOTE_LANES];
};

static int send_all(gnutls_session_t tls, const void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_send(tls, p, n);

		if (done == GNUTLS_E_AGAIN || done == GNUTLS_E_INTERRUPTED)
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (const uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}

int link_receive(gnutls_session_t tls, void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_recv(tls, p, n);

		if (done == GNUTLS_E_AGAIN || done == GNUTLS_E_INTERRUPTED)
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}

static void send_message(struct link *l, const struct link_head *head, const void *p)
{
	uint8_t both[sizeof(*head) + TOGETHER];
	int r;

	pthread_mutex_lock(&l->sending);
	if (head->bytes <= TOGETHER) {
		memcpy(both, head, sizeof(*head));
		if (head->bytes)
			memcpy(both + sizeof(*head), p, head->bytes);
		r = send_all(l->tls, both, sizeof(*head) + head->bytes);
	} else {
		r = send_all(l->tls, head, sizeof(*head));
		if (r == 0)
			r = send_all(l->tls, p, head->bytes);
	}
	if (r < 0)
		_exit(0);
	pthread_mutex_unlock(&l->sending);
}

static uint8_t *bytes_of(struct remote_session *s, unsigned lane, enum ring_way way)
{
	return (uint8_t *)s + REMOTE_HEAD + (2ull * lane + (unsigned)way) * REMOTE_RING;
}

static struct remote_ring *ring_of(struct remote_session *s, unsigned lane, enum ring_way way)
{
	return way == RING_UP ? &s->lane[lane].up : &s->lane[lane].down;
}

static enum ring_way other(enum ring_way way)
{
	return way == RING_UP ? RING_DOWN : RING_UP;
}

/* ---- what is new here goes there ---- */

static bool send_data(struct link *l, unsigned lane)
{
	const struct remote_ring *ring = ring_of(l->session, lane, l->out);
	const uint8_t *bytes = bytes_of(l->session, lane, l->out);
	/* with the release in ring_publish */
	const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	bool any = false;

	if (tail - l->sent[lane] > REMOTE_RING)
		_exit(1);
	while (l->sent[lane] != tail) {
		const uint64_t at = l->sent[lane];
		uint64_t n = tail - at;

		n = n < REMOTE_RING - at % REMOTE_RING ? n : REMOTE_RING - at % REMOTE_RING;
		n = n < PIECE ? n : PIECE;
		send_message(l,
			&(struct link_head){.bytes = (uint32_t)n,
				.type = LINK_DATA,
				.lane = (uint8_t)lane,
				.position = at},
			bytes + at % REMOTE_RING);
		l->sent[lane] += n;
		any = true;
	}
	return any;
}

static bool send_head(struct link *l, unsigned lane)
{
	const struct remote_ring *ring = ring_of(l->session, lane, other(l->out));
	/* with the release in ring_consume */
	const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

	if (head - l->told[lane] < TELL_BYTES)
		return false;
	l->told[lane] = head;
	send_message(l,
		&(struct link_head){.type = LINK_HEAD, .lane = (uint8_t)lane, .position = head},
		NULL);
	return true;
}

static bool send_new(struct link *l)
{
	bool any = false;

	for (unsigned lane = 0; lane < REMOTE_LANES; lane++) {
		any |= send_data(l, lane);
		any |= send_head(l, lane);
	}
	return any;
}

static void *send_main(void *argument)
{
	struct link *l = argument;

	for (;;) {
		uint32_t heard;

		for (unsigned i = ring_spins() / 16; i > 0; i--)
			if (send_new(l))
				i = ring_spins() / 16;
		heard = bell_listen(&l->session->hub_bell);
		if (send_new(l))
			bell_leave(&l->session->hub_bell);
		else
			bell_sleep(&l->session->hub_bell, heard, LOOK_MS);
	}
	return NULL;
}

static void *note_main(void *argument)
{
	struct link *l = argument;
	struct remote_note note;

	while (fd_recv(l->sock, &note, sizeof(note), NULL, 0) == sizeof(note))
		send_message(
			l, &(struct link_head){.bytes = sizeof(note), .type = LINK_NOTE}, &note);
	/* The program's end, or the worker's, is ours. */
	_exit(0);
}

/* ---- what comes from there ---- */

static int take_data(struct link *l, const struct link_head *head)
{
	struct remote_ring *ring = ring_of(l->session, head->lane, other(l->out));
	const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	const uint64_t used = tail - atomic_load_explicit(&ring->head, memory_order_acquire);
	uint8_t *bytes = bytes_of(l->session, head->lane, other(l->out));
	int r;

	if (head->position != tail || used > REMOTE_RING || head->bytes > REMOTE_RING - used ||
		head->bytes > REMOTE_RING - tail % REMOTE_RING)
		return -EBADMSG;
	r = link_receive(l->tls, bytes + tail % REMOTE_RING, head->bytes);
	if (r < 0)
		return r;
	atomic_store_explicit(&ring->tail, tail + head->bytes, memory_order_release);
	bell_ring(&ring->data);
	return 0;
}

static int take_head(struct link *l, const struct link_head *head)
{
	struct remote_ring *ring = ring_of(l->session, head->lane, l->out);
	const uint64_t before = atomic_load_explicit(&ring->head, memory_order_relaxed);

	/* No further than what was sent: l->sent is the other thread's, the tail bounds both. */
	if (head->bytes || head->position - before > REMOTE_RING ||
		head->position - before >
			atomic_load_explicit(&ring->tail, memory_order_acquire) - before)
		return -EBADMSG;
	atomic_store_explicit(&ring->head, head->position, memory_order_release);
	bell_ring(&ring->room);
	return 0;
}

static int take_note(struct link *l, const struct link_head *head)
{
	struct remote_note note;
	int r;

	if (head->bytes != sizeof(note))
		return -EBADMSG;
	r = link_receive(l->tls, &note, sizeof(note));
	if (r == 0 && fd_send(l->sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) < 0)
		r = -EPIPE;
	return r;
}

_Noreturn void link_run(
	gnutls_session_t tls, struct remote_session *session, enum remote_hub hub, int note_sock)
{
	static struct link l = {.sending = PTHREAD_MUTEX_INITIALIZER};
	struct link_head head;
	pthread_t thread;
	int r = 0;

	l.tls = tls;
	l.session = session;
	l.out = hub == REMOTE_HUB_SERVER ? RING_UP : RING_DOWN;
	l.sock = note_sock;
	if (pthread_create(&thread, NULL, send_main, &l) ||
		pthread_create(&thread, NULL, note_main, &l))
		_exit(1);
	while (r == 0 && link_receive(tls, &head, sizeof(head)) == 0) {
		if (head.lane >= REMOTE_LANES)
			break;
		switch (head.type) {
		case LINK_DATA: r = take_data(&l, &head); break;
		case LINK_HEAD: r = take_head(&l, &head); break;
		case LINK_NOTE: r = take_note(&l, &head); break;
		default: r = -EBADMSG;
		}
	}
	_exit(0);
}

int link_send_note(gnutls_session_t tls, const struct remote_note *note)
{
	return send_all(tls, note, sizeof(*note));
}

int link_receive_note(gnutls_session_t tls, struct remote_note *ret_note)
{
	return link_receive(tls, ret_note, sizeof(*ret_note));
}
