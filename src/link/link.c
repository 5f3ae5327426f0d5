/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running link: see link.h. Both sessions of a pair have rings of the same size with the same
 * positions. Bytes that the local producer has written are sent with their position, and the
 * position that the peer's consumer has read comes back. So the free room of the peer's ring limits
 * the bytes in transit, separately for each lane. A link does not parse the bytes.
 *
 * Large amounts of waiting data go in pieces to any idle further connection. The other side writes
 * each piece to its place, and publishes a byte when all earlier bytes have arrived (pieces.h).
 * Everything else uses the first connection.
 *
 * Threads: one sends new bytes, one passes on the notes from the socket, and one sends heartbeats.
 * Each connection has a thread that receives (the caller's for the first), and each further
 * connection has another one that sends. The end or the silence of any connection ends the session.
 */
#include "link/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "link/pieces.h"
#include "link/secure.h"
#include "link/stream.h"
#include "remote/ring.h"

#define PIECE (256u << 10)
/*
 * If more bytes than this wait in one ring, the further connections help, because the time to wake
 * their threads then pays off. For fewer bytes the threads stay asleep: copies of 1 MiB between
 * kernels took longer with the extra wake-up.
 */
#define SPREAD (2 * PIECE)
/* So many pieces of the shortest length fill all rings: an honest peer causes fewer. */
#define QUEUED_MAX (REMOTE_LANES * (REMOTE_RING / PIECES_BULK_MIN))
/*
 * A message of at most this size is sent as one TLS record. For a larger message, copying its head
 * and its bytes into one buffer would cost more than a second record.
 */
#define TOGETHER 4096u
/*
 * The link reports the consumer's position whenever it has moved by this many bytes. Until then the
 * peer's producer counts these bytes of the ring as used; the rest of the ring has room for the
 * largest frame.
 */
#define TELL_BYTES (REMOTE_RING / 8)
#define LOOK_MS 1000u
#define LAST_MS 200 /* time for the last messages to arrive */

enum link_type { LINK_DATA = 1, LINK_HEAD, LINK_NOTE, LINK_BEAT };

struct link_head {
	uint32_t bytes;
	uint8_t type; /* enum link_type */
	uint8_t lane;
	uint16_t reserved;
	uint64_t position; /* DATA: position of the first byte; HEAD: the consumer's position */
};
_Static_assert(sizeof(struct link_head) == 16, "abi");
_Static_assert(REMOTE_LANES == UINT8_MAX + 1, "a head names any lane, and no other");

/*
 * Pieces of bulk data that the thread that finds new bytes has queued, and that the threads of the
 * further connections send.
 */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t is_filled;
	unsigned first, n;
	struct link_head v[QUEUED_MAX];
};

struct link {
	struct remote_session *session;
	enum ring_direction out; /* direction of the rings that this link reads */
	int sock;
	_Atomic uint64_t *alive_ns;
	_Atomic unsigned lanes; /* number of lanes opened so far */
	uint64_t sent[REMOTE_LANES], reported[REMOTE_LANES];
	pthread_mutex_t sending; /* held to send on the first connection */
	struct queue queue;
	pthread_mutex_t placing; /* protects `pieces` */
	struct pieces pieces[REMOTE_LANES];
	unsigned n;
	struct connection {
		struct link *link;
		struct stream stream;
	} connection[1 + BULK_MAX];
};

static int send_parts(struct stream to, const struct link_head *head, const void *p)
{
	uint8_t both[sizeof(*head) + TOGETHER];
	int r;

	if (head->bytes <= TOGETHER) {
		memcpy(both, head, sizeof(*head));
		if (head->bytes)
			memcpy(both + sizeof(*head), p, head->bytes);
		return stream_send(to, both, sizeof(*head) + head->bytes);
	}
	r = stream_send(to, head, sizeof(*head));
	return r < 0 ? r : stream_send(to, p, head->bytes);
}

/*
 * Ends the process, after a pause in which the receiving thread can pass on the peer's last
 * message; that thread may end the process first.
 */
static _Noreturn void end_unheard(void)
{
	poll(NULL, 0, LAST_MS);
	_exit(0);
}

/* Sends over the first connection. */
static void send_message(struct link *l, const struct link_head *head, const void *p)
{
	pthread_mutex_lock(&l->sending);
	if (send_parts(l->connection[0].stream, head, p) < 0)
		end_unheard();
	pthread_mutex_unlock(&l->sending);
}

static uint8_t *link_lane_bytes(
	struct remote_session *s, unsigned lane, enum ring_direction direction)
{
	return (uint8_t *)s + REMOTE_HEAD + (2ull * lane + (unsigned)direction) * REMOTE_RING;
}

static struct remote_ring *ring_of(
	struct remote_session *s, unsigned lane, enum ring_direction direction)
{
	return direction == RING_UP ? &s->lane[lane].up : &s->lane[lane].down;
}

static enum ring_direction link_other_direction(enum ring_direction direction)
{
	return direction == RING_UP ? RING_DOWN : RING_UP;
}

/* ---- bulk data ---- */

static void queue_put(struct queue *q, const struct link_head *head)
{
	pthread_mutex_lock(&q->lock);
	/* A full queue means that the peer claims to have read bytes that were never sent to it. */
	if (q->n == QUEUED_MAX)
		_exit(0);
	q->v[(q->first + q->n++) % QUEUED_MAX] = *head;
	pthread_cond_signal(&q->is_filled);
	pthread_mutex_unlock(&q->lock);
}

static const struct link_head beat = {.type = LINK_BEAT};

/* Returns the next piece, or a heartbeat if no piece came for SECURE_BEAT_MS. */
static struct link_head link_queue_take(struct queue *q)
{
	const uint64_t until_ns = clock_now_ns() + SECURE_BEAT_MS * NSEC_PER_MSEC;
	const struct timespec until = {
		(time_t)(until_ns / NSEC_PER_SEC), (long)(until_ns % NSEC_PER_SEC)};
	struct link_head head = beat;
	int r = 0;

	pthread_mutex_lock(&q->lock);
	while (!q->n && r == 0)
		r = pthread_cond_timedwait(&q->is_filled, &q->lock, &until);
	if (q->n) {
		head = q->v[q->first];
		q->first = (q->first + 1) % QUEUED_MAX;
		q->n--;
	}
	pthread_mutex_unlock(&q->lock);
	return head;
}

static void *bulk_main(void *argument)
{
	const struct connection *c = argument;
	struct link *l = c->link;

	for (;;) {
		const struct link_head head = link_queue_take(&l->queue);

		/*
		 * Sends from the ring itself. The bytes stay in place until the peer has read them,
		 * and the peer cannot read them before they arrive.
		 */
		if (send_parts(c->stream, &head,
			    link_lane_bytes(l->session, head.lane, l->out) +
				    head.position % REMOTE_RING) < 0)
			end_unheard();
	}
	return NULL;
}

/* ---- new local data, to be sent ---- */

static bool send_data(struct link *l, unsigned lane)
{
	const struct remote_ring *ring = ring_of(l->session, lane, l->out);
	const uint8_t *bytes = link_lane_bytes(l->session, lane, l->out);
	/* pairs with the release in ring_publish() */
	const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	bool any = false;

	if (tail - l->sent[lane] > REMOTE_RING)
		_exit(1);
	while (l->sent[lane] != tail) {
		const uint64_t at = l->sent[lane];
		uint64_t n = tail - at;
		struct link_head head = {.type = LINK_DATA, .lane = (uint8_t)lane, .position = at};

		n = n < REMOTE_RING - at % REMOTE_RING ? n : REMOTE_RING - at % REMOTE_RING;
		n = n < PIECE ? n : PIECE;
		head.bytes = (uint32_t)n;
		if (l->n > 1 && tail - at >= SPREAD && n >= PIECES_BULK_MIN)
			queue_put(&l->queue, &head);
		else
			send_message(l, &head, bytes + at % REMOTE_RING);
		l->sent[lane] += n;
		any = true;
	}
	return any;
}

static bool send_head(struct link *l, unsigned lane)
{
	const struct remote_ring *ring = ring_of(l->session, lane, link_other_direction(l->out));
	/* pairs with the release in ring_consume() */
	const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

	if (head - l->reported[lane] < TELL_BYTES)
		return false;
	l->reported[lane] = head;
	send_message(l,
		&(struct link_head){.type = LINK_HEAD, .lane = (uint8_t)lane, .position = head},
		NULL);
	return true;
}

static bool send_new(struct link *l)
{
	const unsigned lanes = atomic_load(&l->lanes);
	bool any = false;

	for (unsigned lane = 0; lane < lanes; lane++) {
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
		heard = doorbell_listen(&l->session->link_doorbell);
		if (send_new(l))
			doorbell_leave(&l->session->link_doorbell);
		else
			doorbell_sleep(&l->session->link_doorbell, heard, LOOK_MS);
	}
	return NULL;
}

/*
 * Counts the lane that a note opens. Runs before the link passes a note to its peer, and after the
 * link receives a note.
 */
static void look_at_lane(struct link *l, const struct remote_note *note)
{
	unsigned lanes = atomic_load(&l->lanes);

	if (note->type != REMOTE_OPEN || note->lane >= REMOTE_LANES)
		return;
	while (note->lane >= lanes &&
		!atomic_compare_exchange_weak(&l->lanes, &lanes, note->lane + 1))
		;
	doorbell_ring(&l->session->link_doorbell);
}

static void *note_main(void *argument)
{
	struct link *l = argument;
	struct remote_note note = {0};

	while (fd_recv(l->sock, &note, sizeof(note), NULL, 0) == sizeof(note)) {
		look_at_lane(l, &note);
		send_message(
			l, &(struct link_head){.bytes = sizeof(note), .type = LINK_NOTE}, &note);
	}
	/*
	 * The end of the program or the worker ends the link. After the worker's last message, the
	 * other threads get time to read what the peer still sends. If this process ended with
	 * unread bytes, the kernel would reset the connection, and the message would be lost.
	 */
	if (note.type == REMOTE_DIAGNOSTIC)
		poll(NULL, 0, LAST_MS);
	_exit(0);
}

/*
 * Sends a heartbeat at each interval, even if the link has sent other messages meanwhile. Skips a
 * heartbeat only if another thread is sending at that moment.
 */
static void *beat_main(void *argument)
{
	struct link *l = argument;

	for (;;) {
		if (l->alive_ns)
			atomic_store(l->alive_ns, clock_now_ns());
		poll(NULL, 0, SECURE_BEAT_MS);
		if (pthread_mutex_trylock(&l->sending))
			continue;
		if (send_parts(l->connection[0].stream, &beat, NULL) < 0)
			end_unheard();
		pthread_mutex_unlock(&l->sending);
	}
	return NULL;
}

/* ---- data from the peer ---- */

static int take_data(struct connection *c, const struct link_head *head)
{
	struct link *l = c->link;
	struct remote_ring *ring = ring_of(l->session, head->lane, link_other_direction(l->out));
	struct pieces *pieces = &l->pieces[head->lane];
	uint8_t *bytes = link_lane_bytes(l->session, head->lane, link_other_direction(l->out));
	bool is_more;
	int r;

	if (c != l->connection && head->bytes < PIECES_BULK_MIN)
		return -EBADMSG;
	pthread_mutex_lock(&l->placing);
	r = pieces_claim(pieces, atomic_load_explicit(&ring->head, memory_order_acquire),
		head->position, head->bytes);
	pthread_mutex_unlock(&l->placing);
	if (r == 0)
		r = stream_receive(c->stream, bytes + head->position % REMOTE_RING, head->bytes);
	if (r < 0)
		return r;
	pthread_mutex_lock(&l->placing);
	is_more = pieces_arrived(pieces, head->position);
	if (is_more)
		atomic_store_explicit(&ring->tail, pieces->tail, memory_order_release);
	pthread_mutex_unlock(&l->placing);
	if (is_more)
		doorbell_ring(&ring->data);
	return 0;
}

static int take_head(struct link *l, const struct link_head *head)
{
	struct remote_ring *ring = ring_of(l->session, head->lane, l->out);
	const uint64_t before = atomic_load_explicit(&ring->head, memory_order_relaxed);

	/*
	 * The peer cannot have read more than was sent. l->sent belongs to the sending thread, so
	 * the check uses the tail, which is never less.
	 */
	if (head->bytes || head->position - before > REMOTE_RING ||
		head->position - before >
			atomic_load_explicit(&ring->tail, memory_order_acquire) - before)
		return -EBADMSG;
	atomic_store_explicit(&ring->head, head->position, memory_order_release);
	doorbell_ring(&ring->room);
	return 0;
}

static int take_note(struct link *l, const struct link_head *head)
{
	struct remote_note note;
	int r;

	if (head->bytes != sizeof(note))
		return -EBADMSG;
	r = stream_receive(l->connection[0].stream, &note, sizeof(note));
	if (r == 0)
		look_at_lane(l, &note);
	if (r == 0 && fd_send(l->sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) < 0)
		r = -EPIPE;
	return r;
}

void link_hear(struct link *l, unsigned stream)
{
	struct connection *c = &l->connection[stream];
	struct link_head head;
	int r = 0;

	while (r == 0 && stream_receive(c->stream, &head, sizeof(head)) == 0) {
		if (head.type == LINK_DATA)
			r = take_data(c, &head);
		else if (head.type == LINK_BEAT && head.bytes == 0)
			continue;
		else if (stream == 0 && head.type == LINK_HEAD)
			r = take_head(l, &head);
		else if (stream == 0 && head.type == LINK_NOTE)
			r = take_note(l, &head);
		else
			r = -EBADMSG;
	}
}

static void *receive_main(void *argument)
{
	const struct connection *c = argument;

	link_hear(c->link, (unsigned)(c - c->link->connection));
	_exit(0);
}

static void link_start_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument))
		_exit(1);
}

struct link *link_new(const struct link_end *end, enum remote_link_role link_role)
{
	struct link *l = calloc(1, sizeof(*l));
	pthread_condattr_t clock;

	if (!l)
		return NULL;
	pthread_mutex_init(&l->sending, NULL);
	pthread_mutex_init(&l->placing, NULL);
	pthread_mutex_init(&l->queue.lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&l->queue.is_filled, &clock);
	pthread_condattr_destroy(&clock);
	l->session = end->map.p;
	l->out = link_role == REMOTE_LINK_SERVER ? RING_UP : RING_DOWN;
	l->sock = end->sock;
	l->alive_ns = end->alive_ns;
	l->n = end->n;
	atomic_init(&l->lanes, 1);
	for (unsigned i = 0; i < l->n; i++)
		l->connection[i] = (struct connection){l, end->stream[i]};
	return l;
}

_Noreturn void link_run(const struct link_end *end, enum remote_link_role link_role)
{
	struct link *l = link_new(end, link_role);

	if (!l)
		_exit(1);
	for (unsigned i = 0; i < l->n; i++)
		l->connection[i].stream = stream_ahead(l->connection[i].stream);
	for (unsigned i = 1; i < l->n; i++) {
		link_start_thread(bulk_main, &l->connection[i]);
		link_start_thread(receive_main, &l->connection[i]);
	}
	link_start_thread(send_main, l);
	link_start_thread(note_main, l);
	link_start_thread(beat_main, l);
	receive_main(l->connection);
	_exit(0);
}
