/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile machine sends bytes on the connections of a session, while local consumers read the
 * rings. The link must write nothing outside the rings, publish only bytes that have arrived, and
 * write no byte twice. Input: {u8 what, u8 argument, u16 bytes} and that many bytes: data on a
 * stream, or how far a consumer has read.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "link/link.h"
#include "link/pieces.h"
#include "remote/ring.h"

enum { STREAMS = 3, LANES = 2 };

struct said {
	const uint8_t *p;
	size_t n;
};

/*
 * Receives n bytes. The input has only the beginning of a long piece; the rest is filled with 0xa5.
 */
static int say(struct stream s, void *p, size_t n)
{
	struct said *said = s.own;
	const size_t has = said->n < n ? said->n : n;

	if (has == 0 || (has < n && n < PIECES_BULK_MIN))
		return -1;
	memcpy(p, said->p, has);
	memset((uint8_t *)p + has, 0xa5, n - has);
	said->p += has;
	said->n -= has;
	return 0;
}

static int refuse(struct stream s, const void *p, size_t n)
{
	return -1;
}

static void check(struct remote_session *session)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		const struct remote_ring *down = &session->lane[lane].down;
		const uint64_t tail = atomic_load(&down->tail), head = atomic_load(&down->head);

		FUZZ_CHECK(tail >= head && tail - head <= REMOTE_RING);
		FUZZ_CHECK(atomic_load(&session->lane[lane].up.head) <=
			atomic_load(&session->lane[lane].up.tail));
	}
}

static void consume(struct remote_session *session, unsigned lane, uint64_t n)
{
	struct remote_ring *down = &session->lane[lane].down;
	const uint64_t there = atomic_load(&down->tail) - atomic_load(&down->head);

	atomic_fetch_add(&down->head, n < there ? n : there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const struct stream_kind kind = {.send = refuse, .receive = say};
	/* MAP_NORESERVE: only written pages of this large mapping take memory. */
	struct remote_session *session = mmap(NULL, REMOTE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct said said[STREAMS] = {{NULL, 0}};
	struct link_end end = {.n = STREAMS, .map = {session, REMOTE_BYTES}, .sock = -1};
	struct link *link;

	FUZZ_CHECK(session != MAP_FAILED);
	for (unsigned i = 0; i < STREAMS; i++)
		end.stream[i] = (struct stream){&kind, &said[i], 0};
	/* The program has written 4096 bytes, so that the peer may report them as read. */
	atomic_store(&session->lane[1].up.tail, 4096);
	link = link_new(&end, REMOTE_LINK_SERVER);
	FUZZ_CHECK(link);
	while (n >= 4) {
		const unsigned what = data[0] % (STREAMS + 1), argument = data[1];
		size_t bytes = data[2] | (size_t)data[3] << 8;

		data += 4;
		n -= 4;
		bytes = bytes < n ? bytes : n;
		if (what < STREAMS) {
			said[what] = (struct said){data, bytes};
			link_hear(link, what);
		} else {
			consume(session, argument % LANES, 64ull * bytes);
			bytes = 0;
		}
		check(session);
		data += bytes;
		n -= bytes;
	}
	free(link);
	munmap(session, REMOTE_BYTES);
	return 0;
}
