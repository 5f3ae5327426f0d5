/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the network between two nodes as a program's calls would use it: over TLS, between two
 * processes that have shown their node's certificates. The round trip is the median time of a few
 * words to the other side and back. The bandwidth comes from the bytes that the other side has
 * received over one connection in the agreed time. The first part of that time, in which TCP finds
 * its speed, is not part of the measurement. Each side ends by itself, whatever the other side
 * does.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "link/node-link.h"
#include "link/stream.h"

#define PROBE_S 20 /* longest life of a probe's process on either side, including the connect */
#define ECHOES 15
#define ECHOES_MAX 64u
#define LATE_NS (5 * NSEC_PER_SEC) /* limit of a whole transfer */
#define BLOCK 16384u               /* a TLS record */

enum probe_type {
	PROBE_ECHO = 1,
	PROBE_TRANSFER, /* asks for a transfer; value: length in milliseconds */
	PROBE_DATA,     /* followed by the rest of a block */
	PROBE_LAST,     /* the last block; the answer has the measured bandwidth */
};

struct probe_word {
	uint32_t type;
	int32_t status; /* in an answer: 0 or -errno */
	uint64_t value; /* in the answer to PROBE_LAST: bits a second */
};
_Static_assert(sizeof(struct probe_word) == 16, "abi");

static struct stream node_link_probe_receive(gnutls_session_t tls)
{
	return stream_tls(tls, PROBE_S * 1000);
}

static int node_link_probe_send(gnutls_session_t tls, const struct probe_word *word)
{
	return gnutls_record_send(tls, word, sizeof(*word)) == sizeof(*word) ? 0 : -EPIPE;
}

/* ---- the measuring side ---- */

static int node_link_probe_compare(const void *pa, const void *pb)
{
	const uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

static int node_link_probe_ask(
	gnutls_session_t tls, enum probe_type type, uint64_t value, struct probe_word *ret)
{
	const struct probe_word word = {.type = type, .value = value};
	int r = node_link_probe_send(tls, &word);

	r = r < 0 ? r : stream_receive(node_link_probe_receive(tls), ret, sizeof(*ret));
	return r < 0 ? r : ret->type == (uint32_t)type ? 0 : -EPROTO;
}

static int measure_round_trip(gnutls_session_t tls, uint64_t *ret_ns)
{
	uint64_t took[ECHOES];

	for (size_t i = 0; i < ECHOES; i++) {
		const uint64_t began = clock_now_ns();
		struct probe_word back;
		int r = node_link_probe_ask(tls, PROBE_ECHO, i, &back);

		if (r < 0 || back.value != i)
			return r < 0 ? r : -EPROTO;
		took[i] = clock_now_ns() - began;
	}
	qsort(took, ECHOES, sizeof(*took), node_link_probe_compare);
	*ret_ns = took[ECHOES / 2];
	return 0;
}

/* *ret_bits is 0 if the other side refuses. */
static int measure_bandwidth(gnutls_session_t tls, unsigned ms, uint64_t *ret_bits)
{
	static _Alignas(8) uint8_t block[BLOCK];
	struct probe_word *word = (struct probe_word *)block, answer;
	const int waiting = 8 * BLOCK;
	uint64_t until;
	int r = node_link_probe_ask(tls, PROBE_TRANSFER, ms, &answer);

	*ret_bits = 0;
	if (r < 0 || answer.status < 0)
		return r;
	/*
	 * Unsent bytes would still fill a slow network after the time is over, so their number is
	 * bounded.
	 */
	setsockopt(gnutls_transport_get_int(tls), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &waiting,
		sizeof(waiting));
	until = clock_now_ns() + ms * NSEC_PER_MSEC;
	do {
		word->type = clock_now_ns() < until ? PROBE_DATA : PROBE_LAST;
		if (gnutls_record_send(tls, block, sizeof(block)) != sizeof(block))
			return -EPIPE;
	} while (word->type == PROBE_DATA);
	r = stream_receive(node_link_probe_receive(tls), &answer, sizeof(answer));
	if (r < 0 || answer.type != PROBE_LAST)
		return r < 0 ? r : -EPROTO;
	*ret_bits = answer.value;
	return 0;
}

int node_link_probe(
	struct identity_tls *tls, const struct node_link_target *t, unsigned transfer_ms)
{
	static struct identity_session session;
	struct serve_probe result = {.magic = SERVE_MAGIC};
	struct error err = {0};
	int r;

	alarm(PROBE_S);
	r = node_link_connect(t, tls, NODE_LINK_PROBE, &session, &err);
	if (r == 0) {
		r = measure_round_trip(session.tls, &result.round_trip_ns);
		/* Without a bandwidth the round trip is still a result. */
		if (r == 0 && transfer_ms)
			measure_bandwidth(session.tls, transfer_ms, &result.bits_per_second);
		if (r < 0)
			fail(&err, EAGAIN, "node %.100s closed the connection", t->node);
		gnutls_bye(session.tls, GNUTLS_SHUT_WR);
	}
	result.status = r;
	snprintf(result.text, sizeof(result.text), "%s", r < 0 ? err.msg : "");
	send(SERVE_FD_CONTROL, &result, sizeof(result), MSG_NOSIGNAL);
	return r;
}

/* ---- the answering side ---- */

/* Receives until the last block, or until far beyond the agreed time. */
static int receive_blocks(gnutls_session_t tls, unsigned ms, uint64_t *ret_bits)
{
	static _Alignas(8) uint8_t block[BLOCK];
	const struct probe_word *word = (const struct probe_word *)block;
	uint64_t n = 0, first = 0, now = 0;
	const uint64_t began = clock_now_ns(), quick = began + ms * NSEC_PER_MSEC / 4;

	do {
		int r = stream_receive(node_link_probe_receive(tls), block, sizeof(block));

		if (r < 0 || (word->type != PROBE_DATA && word->type != PROBE_LAST))
			return r < 0 ? r : -EPROTO;
		now = clock_now_ns();
		if (now > began + LATE_NS)
			return -ETIMEDOUT;
		/*
		 * The measurement starts at the end of this block, and includes only the blocks
		 * after it.
		 */
		if (!first && (now >= quick || word->type == PROBE_LAST))
			first = now;
		else if (first)
			n += sizeof(block);
	} while (word->type == PROBE_DATA);
	/*
	 * The network was so slow that no block came after the first: counts the whole transfer as
	 * one block.
	 */
	if (!n) {
		n = sizeof(block);
		first = began;
	}
	*ret_bits = (uint64_t)((double)n * 8 * NSEC_PER_SEC /
		(double)MAX(now - first, UINT64_C(1)));
	return 0;
}

/*
 * Asks divvyd for permission before the transfer: divvyd knows which programs use the network now,
 * and allows one transfer at a time.
 */
static int serve_transfer(gnutls_session_t tls, uint64_t ms)
{
	const struct serve_ask question = {.magic = SERVE_MAGIC, .what = SERVE_TRANSFER};
	struct probe_word answer = {.type = PROBE_TRANSFER};
	struct serve_answer may;
	_cleanup_close_ int daemon = -1;
	int r;

	if (!ms || ms > SERVE_TRANSFER_MS_MAX)
		return -EPROTO;
	daemon = node_link_ask(&question, &may, NULL);
	answer.status = daemon < 0 ? daemon : 0;
	r = node_link_probe_send(tls, &answer);
	if (r < 0 || daemon < 0)
		return r;
	answer = (struct probe_word){.type = PROBE_LAST};
	r = receive_blocks(tls, (unsigned)ms, &answer.value);
	return r < 0 ? r : node_link_probe_send(tls, &answer);
}

void node_link_probe_serve(gnutls_session_t tls)
{
	unsigned echoes = 0;
	struct probe_word word;

	alarm(PROBE_S);
	while (stream_receive(node_link_probe_receive(tls), &word, sizeof(word)) >= 0) {
		if (word.type == PROBE_ECHO && echoes++ < ECHOES_MAX) {
			if (node_link_probe_send(tls, &word) < 0)
				return;
			continue;
		}
		/* A peer asks for one transfer at most, as its last request. */
		if (word.type == PROBE_TRANSFER)
			serve_transfer(tls, word.value);
		return;
	}
}
