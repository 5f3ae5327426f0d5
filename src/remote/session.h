/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a session share: one memfd with a pair of rings for each lane, and one
 * SEQPACKET socket that says which lanes are open and whose end says that the other side is gone.
 *
 *   page 0          struct remote_session
 *   HEAD            REMOTE_LANES pairs of rings, REMOTE_RING bytes each: up, down, up, down, ...
 *
 * up: from the program to the worker. Lane 0 is the reverse lane: there the worker asks and the
 * program answers. Each other lane belongs to one thread of the program.
 * Over a network a link (link/link.h) on each side holds one end of a session and copies ring to
 * ring: neither the program nor the worker knows. Without a link the program's page-locked memory
 * is shared as well: each piece of it, a window, is a memfd of its own that goes with a note.
 * Both ends are of the same architecture: numbers and structures of the driver API are as they are
 * in memory, which the HELLO checks. What the other side writes is copied before it is looked at.
 */
#ifndef REMOTE_SESSION_H
#define REMOTE_SESSION_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a program finds its server when $DIVVY_REMOTE does not say: in a pod. */
#define REMOTE_SOCKET "/run/divvy/remote.sock"

#define REMOTE_MAGIC 0x65746f6d65726464ull
#define REMOTE_ABI 8u
#define REMOTE_LANES 256u
#define REMOTE_RING (4u << 20)
#define REMOTE_HEAD (256u << 10)
#define REMOTE_BYTES (REMOTE_HEAD + 2ull * REMOTE_LANES * REMOTE_RING)
/* A frame is at most this long. */
#define REMOTE_FRAME_MAX ((1u << 20) + 4096u)
/*
 * Longer data goes in pieces: while one is copied by the worker the next is under way, and the one
 * after it is being written; each is still in the cache when the next one looks at it.
 */
#define REMOTE_PIECE (256u << 10)
/* So much of a copy of pageable memory is one step of its stream; what is larger is several. */
#define REMOTE_WHOLE (16u << 20)
/*
 * What came along waits in memory of the worker's until it is on the device. It is counted in
 * units, and of REMOTE_STAGES the program knows, without asking, that there is room. What is more
 * goes beyond them, is not posted, and answered when so much is free again or its own stream has
 * come to it: a thread waits for no other one's stream.
 */
#define REMOTE_STAGE (64u << 10)
#define REMOTE_STAGES 1024u
/*
 * A driver's queue is finite: who posts more than it takes waits in it. Of so many calls of a lane
 * that are not settled nobody waits there; beyond, the thread asks, until there are only so many
 * left. What a stream does is settled when it is over, and all else at once.
 */
#define REMOTE_UNSETTLED 896u
#define REMOTE_SETTLE_TO 448u
/* Windows of a session, named by 1 .. REMOTE_WINDOWS - 1. */
#define REMOTE_WINDOWS 4096u

/* Somebody sleeps on seq while sleepers is not 0. */
struct remote_bell {
	_Atomic uint32_t seq, sleepers;
};

/* Positions count bytes since the beginning; each is written by one side. */
struct remote_ring {
	alignas(64) _Atomic uint64_t tail; /* the producer's */
	alignas(64) _Atomic uint64_t head; /* the consumer's */
	alignas(64) struct remote_bell data, room;
};

struct remote_lane {
	struct remote_ring up, down;
};

/* Which side of the session is a link, with one bell for all that it waits for. */
enum remote_hub { REMOTE_HUB_NONE, REMOTE_HUB_SERVER, REMOTE_HUB_CLIENT };

struct remote_session {
	uint64_t magic;
	uint32_t abi;
	uint32_t hub; /* enum remote_hub */
	uint32_t lanes, ring_bytes;
	alignas(64) struct remote_bell hub_bell;
	alignas(64) struct remote_lane lane[REMOTE_LANES];
};
_Static_assert(sizeof(struct remote_lane) == 512, "abi");
_Static_assert(sizeof(struct remote_session) <= REMOTE_HEAD, "abi");

/* ---- on the socket ---- */

/* More than the UUIDs of all devices that a tenant can have. */
#define REMOTE_VISIBLE 1024u

enum remote_note_type {
	REMOTE_HELLO = 1,
	REMOTE_WELCOME,
	REMOTE_REFUSED,
	REMOTE_OPEN,
	REMOTE_WINDOW,     /* with a memfd of the program's page-locked memory; answered in kind */
	REMOTE_HELLO_NVML, /* a session of REMOTE_ASK and REMOTE_TELL alone: remote/nvml.h */
	REMOTE_ASK,
	REMOTE_TELL,
	REMOTE_BEAT, /* of links, until the WELCOME: it is on its way */
	REMOTE_SAY,  /* the worker's, at any time: for whoever reads the program's stderr */
};

/* One packet; WELCOME brings the memfd. */
struct remote_note {
	uint32_t type; /* enum remote_note_type */
	uint32_t abi;
	uint32_t lane;             /* OPEN: a thread begins to use it; REFUSED: the CUresult;
				    * WINDOW: its name, in the answer 0 when it was not taken;
				    * HELLO, WELCOME: what links say to each other; SAY: 1 when
				    * the worker has ended with it */
	uint16_t machine;          /* HELLO: REMOTE_MACHINE */
	uint16_t hub;              /* HELLO: enum remote_hub of the session that is to be made;
				    * REFUSED, SAY: of the one that there is, or was to be */
	uint64_t bytes;            /* WINDOW: of the memory; HELLO: the program's pid, in its own
				    * namespace; 0: it does not say */
	char program[32];          /* HELLO: its name, for people; need not end */
	char text[REMOTE_VISIBLE]; /* HELLO: CUDA_VISIBLE_DEVICES, '!' unset; REFUSED: why; SAY */
};

/* Differs where the driver's structures do. */
#if defined(__x86_64__)
#define REMOTE_MACHINE 62u
#elif defined(__aarch64__)
#define REMOTE_MACHINE 183u
#else
#error "the layout of the driver's structures on this machine is not known"
#endif

/* ---- in the rings ---- */

/* Every frame begins so; size is a multiple of 16 and counts the head. */
struct remote_frame {
	uint32_t size;
	union {
		struct { /* up */
			uint16_t op;
			uint16_t flags; /* enum remote_flag */
		};
		/* down: units of REMOTE_STAGE so far, of 31 bits (the 32nd would be a PAD's) */
		uint32_t released;
	};
	union {
		uint64_t after; /* up: how many POSTs of all lanes come before this */
		struct {        /* down: the answer */
			int32_t result;
			uint32_t asked; /* reverse frames to be done with before this is believed */
		};
	};
};
_Static_assert(sizeof(struct remote_frame) == 16, "abi");

enum remote_flag {
	REMOTE_ANSWER = 1, /* up: a frame is to come back */
	REMOTE_POSTED = 2, /* up: is one of those that `after` counts */
	REMOTE_SYNC = 4,   /* up: say what went wrong before */
};

/* Frames that are no function of cuda.def. Reverse ones are read on lane 0. */
enum remote_op {
	REMOTE_PAD = 0xff00, /* nothing up to the end of the ring */
	REMOTE_CLOSE,        /* the thread has ended; the lane may be used by another one */
	REMOTE_COPY_IN,      /* struct remote_copy, data: host to device */
	REMOTE_COPY_PART,    /* struct remote_part, data: for the next COPY_IN that is_whole */
	REMOTE_COPY_FETCH,   /* struct remote_copy: the same, the data is PULLed by the stream */
	REMOTE_COPY_OUT,     /* struct remote_copy: device to host, in the answer */
	REMOTE_COPY_REST,    /* u64 bytes: the next ones of a COPY_OUT that is_whole */
	REMOTE_COPY_PUSH,    /* struct remote_copy: the same, PUSHed by the stream */
	REMOTE_WINDOW_OPEN,  /* u64 window, u64 bytes: the driver locks it */
	REMOTE_WINDOW_CLOSE, /* u64 window, u64 is_context_gone: what uses it is over afterwards;
			      * with its context gone it may stay: NOT_READY */
	REMOTE_WINDOW_IN,    /* struct remote_copy, struct remote_window: window to device */
	REMOTE_WINDOW_OUT,   /* the same, device to window */
	REMOTE_COPY_DEVICE,  /* CUDA_MEMCPY3D, u64 stream, u32 is_async: device to device */
	REMOTE_BLOB,         /* bytes that the next frames of this lane speak of */
	REMOTE_BLOB_KNOWN,   /* SHA-256: the same, if the server has them */
	REMOTE_BLOB_NAMED,   /* SHA-256 of the bytes so far: the server may keep them */
	REMOTE_LAYOUT,       /* u64 function: its parameters' offsets and sizes */
	REMOTE_HOST_CALL,    /* struct remote_host_call: a function of the program */
	REMOTE_SETTLED,      /* u64 calls of the lane that may be left; answered with u64 settled */
	REMOTE_SETTLE,       /* answered when nothing is under way in any context */
	/* reverse */
	REMOTE_PULL, /* struct remote_reverse; answered with the bytes */
	REMOTE_PUSH, /* struct remote_reverse, bytes; not answered */
	REMOTE_CALL, /* struct remote_reverse; answered when it has returned */
	REMOTE_DONE, /* struct remote_done; not answered */
};

/* One end of a copy on the device; the other end is `bytes` packed bytes. */
struct remote_copy {
	uint64_t stream;  /* a handle */
	uint64_t work;    /* FETCH, PUSH: the client's name of its end */
	uint64_t address; /* array 0: a device address and its pitches */
	uint64_t array;   /* else a handle, and where in it */
	uint64_t x, y, z;
	uint64_t pitch, slice;
	uint64_t width, height, depth; /* bytes, rows, slices; linear: height and depth 1 */
	uint32_t is_async;             /* 0: the driver's call without a stream */
	uint32_t is_free;              /* the client forgets `work` when it is done */
	uint32_t is_whole;             /* IN: all but the last data came in PARTs; OUT: read at
					* once, the REST is asked for */
	uint32_t is_beyond;            /* IN: is not counted; not POSTED */
};

struct remote_part {
	uint64_t of, bytes; /* all that there will be, and here */
	uint64_t is_beyond;
};

static inline bool remote_copy_is_linear(const struct remote_copy *c)
{
	return !c->array && !c->y && !c->z && c->height == 1 && c->depth == 1;
}

/* The room that data of a COPY_IN takes until it is on the device. */
static inline uint64_t remote_stage_room(uint64_t bytes)
{
	uint64_t room = REMOTE_STAGE;

	while (room < bytes && room < 1ull << 62)
		room *= 2;
	return room;
}

/* The same in units: 0 for a short line, which the driver itself takes at the call. */
static inline uint32_t remote_copy_units(const struct remote_copy *c)
{
	const uint64_t bytes = c->width * c->height * c->depth;

	return remote_copy_is_linear(c) && bytes <= REMOTE_STAGE
		? 0
		: (uint32_t)(remote_stage_room(bytes) / REMOTE_STAGE);
}

/* The other end of a copy where that is in a window. */
struct remote_window {
	uint64_t window, offset;
	uint64_t pitch, slice; /* bytes from row to row, from slice to slice */
};

struct remote_host_call {
	uint64_t stream, work;
	uint32_t is_callback; /* cuStreamAddCallback: it is told a status */
	uint32_t is_free;     /* the client forgets `work` when it has run */
};

/* What was not ready when it was queried is, or nobody looks any more whether it is. */
struct remote_done {
	uint64_t handle;
	uint64_t stamp; /* of the query */
	uint64_t is_over;
};

struct remote_reverse {
	uint64_t work;
	uint64_t token;         /* of the answer */
	uint64_t offset, bytes; /* of the packed bytes */
	uint32_t is_last;       /* nothing of this work follows */
	uint32_t is_free;       /* the client forgets `work` */
	int32_t status;         /* CALL of a stream callback: what it is told */
	uint32_t reserved;
};

#endif
