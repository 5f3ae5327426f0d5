/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory and the messages that the two ends of a session share. One memfd holds a pair of rings
 * for each lane. One SEQPACKET socket carries notes about open lanes, and its end means that the
 * other side is lost.
 *
 *   page 0          struct remote_session
 *   HEAD            REMOTE_LANES pairs of rings, REMOTE_RING bytes each: up, down, up, down, ...
 *
 * Up is the direction from the program to the worker. Lane 0 is the reverse lane, where the worker
 * asks and the program answers. Each other lane belongs to one thread of the program. Over a
 * network, a link (link/link.h) on each side holds one end of a session and copies ring to ring,
 * unnoticed by program and worker. Without a link, the program's page-locked memory is shared too:
 * each allocation, called a window, is a memfd of its own that a note carries.
 *
 * Both ends have the same architecture, which the HELLO checks, so numbers and structures of the
 * driver API travel as they are in memory. Each side copies the other side's data before it
 * examines them.
 */
#ifndef REMOTE_SESSION_H
#define REMOTE_SESSION_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Socket of the server in a pod, used if $DIVVY_REMOTE is not set. */
#define REMOTE_SOCKET "/run/divvy/remote.sock"

#define REMOTE_MAGIC 0x65746f6d65726464ull
#define REMOTE_ABI 8u
#define REMOTE_LANES 256u
#define REMOTE_RING (4u << 20)
#define REMOTE_HEAD (256u << 10)
#define REMOTE_BYTES (REMOTE_HEAD + 2ull * REMOTE_LANES * REMOTE_RING)
/* Largest frame. */
#define REMOTE_FRAME_MAX ((1u << 20) + 4096u)
/*
 * Data longer than a piece is sent in pieces: the worker copies one piece while the next piece is
 * in transit and the program writes a third. At this size, a piece is still in the cache when the
 * next process reads it.
 */
#define REMOTE_PIECE (256u << 10)
/* The largest part of a copy of pageable memory that is one step of its stream. */
#define REMOTE_WHOLE (16u << 20)
/*
 * Data that comes with a copy waits in the worker's memory until it is on the device. This memory
 * has REMOTE_STAGES units of REMOTE_STAGE bytes, and the program itself counts the free units. If a
 * copy needs more units than are free, the program does not post the copy but waits for the answer.
 * The worker answers when enough units are free again, or when the copy's own stream has reached
 * the copy. So a thread waits for no stream but its own.
 */
#define REMOTE_STAGE (64u << 10)
#define REMOTE_STAGES 1024u
/*
 * A driver's queue is finite, and posting more calls than the queue takes would wait in the driver.
 * A thread with fewer than REMOTE_UNSETTLED unsettled calls in its lane never waits there. At that
 * number, the thread asks the worker and waits until at most REMOTE_SETTLE_TO unsettled calls are
 * left. A call on a stream is settled when the stream has completed it, and any other call at once.
 */
#define REMOTE_UNSETTLED 896u
#define REMOTE_SETTLE_TO 448u
/* Windows of a session; their names are 1 .. REMOTE_WINDOWS - 1. */
#define REMOTE_WINDOWS 4096u

/* A doorbell: threads sleep on `seq` while `sleepers` is not 0. */
struct remote_doorbell {
	_Atomic uint32_t seq, sleepers;
};

/*
 * Positions count all bytes since the session began. Only the producer writes `tail`, and only the
 * consumer writes `head`.
 */
struct remote_ring {
	alignas(64) _Atomic uint64_t tail; /* the producer's */
	alignas(64) _Atomic uint64_t head; /* the consumer's */
	alignas(64) struct remote_doorbell data, room;
};

struct remote_lane {
	struct remote_ring up, down;
};

/* Which end of a session a link serves. A link waits for all rings by one doorbell. */
enum remote_link_role { REMOTE_LINK_NONE, REMOTE_LINK_SERVER, REMOTE_LINK_CLIENT };

struct remote_session {
	uint64_t magic;
	uint32_t abi;
	uint32_t link_role; /* enum remote_link_role */
	uint32_t lanes, ring_bytes;
	alignas(64) struct remote_doorbell link_doorbell;
	alignas(64) struct remote_lane lane[REMOTE_LANES];
};
_Static_assert(sizeof(struct remote_lane) == 512, "abi");
_Static_assert(sizeof(struct remote_session) <= REMOTE_HEAD, "abi");

/* ---- on the socket ---- */

/* Bytes of the text in a note, which is more than the UUIDs of all devices of a tenant need. */
#define REMOTE_VISIBLE 1024u

enum remote_note_type {
	REMOTE_HELLO = 1,
	REMOTE_WELCOME,
	REMOTE_REFUSED,
	REMOTE_OPEN,
	REMOTE_WINDOW, /* with a memfd of page-locked memory; answered by the same type */
	/* begins a session that has only REMOTE_ASK and REMOTE_TELL: remote/remote-nvml.h */
	REMOTE_HELLO_NVML,
	REMOTE_ASK,
	REMOTE_TELL,
	REMOTE_BEAT,       /* heartbeat between links, until the WELCOME comes */
	REMOTE_DIAGNOSTIC, /* from the worker at any time: a diagnostic message */
};

/* One packet. WELCOME carries the memfd. */
struct remote_note {
	uint32_t type; /* enum remote_note_type */
	uint32_t abi;
	/*
	 * OPEN: a thread begins to use this lane. REFUSED: the CUresult. WINDOW: the window's name;
	 * in the answer 0 if the worker did not take it. HELLO, WELCOME: used by links only.
	 * DIAGNOSTIC: 1 if the worker ends after the message.
	 */
	uint32_t lane;
	uint16_t machine; /* HELLO: REMOTE_MACHINE */
	/*
	 * HELLO: enum remote_link_role of the new session. REFUSED, DIAGNOSTIC: enum
	 * remote_link_role of the session.
	 */
	uint16_t link_role;
	/*
	 * WINDOW: size of the memory. HELLO: the program's pid in its own namespace; 0: not given.
	 */
	uint64_t bytes;
	char program[32]; /* HELLO: the program's name for people; may lack a NUL */
	/* HELLO: CUDA_VISIBLE_DEVICES, '!' if unset; REFUSED, DIAGNOSTIC: the message. */
	char text[REMOTE_VISIBLE];
};

/* The number differs between machines on which the driver's structures differ in layout. */
#if defined(__x86_64__)
#define REMOTE_MACHINE 62u
#elif defined(__aarch64__)
#define REMOTE_MACHINE 183u
#else
#error "the layout of the driver's structures on this machine is not known"
#endif

/* ---- in the rings ---- */

/* Head of each frame; size is a multiple of 16 and includes the head. */
struct remote_frame {
	uint32_t size;
	union {
		struct { /* up */
			uint16_t op;
			uint16_t flags; /* enum remote_flag */
		};
		/*
		 * down: blocks of REMOTE_STAGE bytes that the worker has released since the session
		 * began, in the low 31 bits; the highest bit marks a PAD
		 */
		uint32_t released;
	};
	union {
		uint64_t after; /* up: number of POSTs of all lanes that come before this frame */
		struct {        /* down: the answer */
			int32_t result;
			uint32_t asked; /* number of reverse frames to handle before this answer */
		};
	};
};
_Static_assert(sizeof(struct remote_frame) == 16, "abi");

enum remote_flag {
	REMOTE_ANSWER = 1, /* up: the worker must send an answer */
	REMOTE_POSTED = 2, /* up: counts as one of the POSTs in `after` */
	REMOTE_SYNC = 4,   /* up: report earlier errors */
};

/* Frames that call no function of cuda.def. Reverse frames use lane 0. */
enum remote_op {
	REMOTE_PAD = 0xff00, /* no data up to the end of the ring */
	REMOTE_CLOSE,        /* the thread has ended; another one may use the lane */
	REMOTE_COPY_IN,      /* struct remote_copy, data: host to device */
	REMOTE_COPY_PART,    /* struct remote_part, data: for the next COPY_IN with is_whole */
	REMOTE_COPY_FETCH,   /* struct remote_copy: like COPY_IN; a PULL fetches the data later */
	REMOTE_COPY_OUT,     /* struct remote_copy: device to host, data in the answer */
	REMOTE_COPY_REST,    /* u64 bytes: further data of a COPY_OUT with is_whole */
	REMOTE_COPY_PUSH,    /* struct remote_copy: like COPY_OUT; a PUSH brings the data later */
	REMOTE_WINDOW_OPEN,  /* u64 window, u64 bytes: the driver page-locks the window */
	/*
	 * u64 window, u64 is_context_gone. The worker answers when the window's work is complete.
	 * After the end of the window's context, other contexts may still use the window: it then
	 * stays open, and the answer is NOT_READY.
	 */
	REMOTE_WINDOW_CLOSE,
	REMOTE_WINDOW_IN,   /* struct remote_copy, struct remote_window: window to device */
	REMOTE_WINDOW_OUT,  /* the same structs: device to window */
	REMOTE_COPY_DEVICE, /* CUDA_MEMCPY3D, u64 stream, u32 is_async: device to device */
	REMOTE_BLOB,        /* bytes of an image, for the next frames of this lane */
	REMOTE_BLOB_KNOWN,  /* SHA-256: the server uses its copy of the image, if it has one */
	REMOTE_BLOB_NAMED,  /* SHA-256 of the bytes so far: the server may keep them */
	REMOTE_LAYOUT,      /* u64 function: asks for offsets and sizes of its parameters */
	REMOTE_HOST_CALL,   /* struct remote_host_call: a function of the program */
	/*
	 * u64 most: the worker waits until at most that many calls of the lane are unsettled, and
	 * answers with u64: the number of settled calls.
	 */
	REMOTE_SETTLED,
	REMOTE_SETTLE, /* answered when no context has work in flight */
	/* reverse frames */
	REMOTE_PULL, /* struct remote_reverse; answered with the bytes */
	REMOTE_PUSH, /* struct remote_reverse, bytes; no answer */
	REMOTE_CALL, /* struct remote_reverse; answered when the function has returned */
	REMOTE_DONE, /* struct remote_done; no answer */
};

/*
 * A copy between device and program: the place in device memory, and the size. In the data that
 * travels, rows and slices follow each other without a gap.
 */
struct remote_copy {
	uint64_t stream;  /* a handle */
	uint64_t work;    /* FETCH, PUSH: the client's name for its part of the copy */
	uint64_t address; /* if array is 0: a device address, with pitch and slice */
	uint64_t array;   /* if not 0: the handle of an array */
	uint64_t x, y, z; /* where the copy begins in this memory: bytes, rows, slices */
	uint64_t pitch, slice;
	uint64_t width, height, depth; /* bytes, rows, slices; linear: height and depth are 1 */
	uint32_t is_async;             /* 0: the driver's function without a stream */
	uint32_t is_free;              /* the client forgets `work` after the copy */
	/*
	 * IN: all data except the last piece came in PARTs. OUT: the worker reads all data at once,
	 * and RESTs ask for further pieces.
	 */
	uint32_t is_whole;
	uint32_t is_beyond; /* IN: the program counts no units for the data; not POSTED */
};

struct remote_part {
	uint64_t of, bytes; /* of: bytes of the whole copy; bytes: bytes in this part */
	uint64_t is_beyond;
};

static inline bool remote_copy_is_linear(const struct remote_copy *c)
{
	return !c->array && !c->y && !c->z && c->height == 1 && c->depth == 1;
}

/* Memory that the data of a COPY_IN takes until it is on the device. */
static inline uint64_t remote_stage_room(uint64_t bytes)
{
	uint64_t room = REMOTE_STAGE;

	while (room < bytes && room < 1ull << 62)
		room *= 2;
	return room;
}

/*
 * Blocks of REMOTE_STAGE bytes that the data of a copy takes at the worker; 0 for a short linear
 * copy, whose data the driver itself takes at the call.
 */
static inline uint32_t remote_copy_units(const struct remote_copy *c)
{
	const uint64_t bytes = c->width * c->height * c->depth;

	return remote_copy_is_linear(c) && bytes <= REMOTE_STAGE
		? 0
		: (uint32_t)(remote_stage_room(bytes) / REMOTE_STAGE);
}

/* The program's side of a copy, if it is in a window. */
struct remote_window {
	uint64_t window, offset;
	uint64_t pitch, slice; /* bytes from row to row, and from slice to slice */
};

struct remote_host_call {
	uint64_t stream, work;
	uint32_t is_callback; /* the function of cuStreamAddCallback, which gets a status */
	uint32_t is_free;     /* the client forgets `work` after the function has run */
};

/* A queried event or stream has completed, or is no longer watched. */
struct remote_done {
	uint64_t handle;
	/*
	 * the stamp of the client's query that is answered, by which the client recognises a late
	 * report
	 */
	uint64_t stamp;
	uint64_t is_over;
};

struct remote_reverse {
	uint64_t work;
	uint64_t token;         /* the program repeats this number in its answer */
	uint64_t offset, bytes; /* range within the packed bytes */
	uint32_t is_last;       /* the last frame of this work */
	uint32_t is_free;       /* the client forgets `work` */
	int32_t status;         /* CALL of a stream callback: the status that the callback gets */
	uint32_t reserved;
};

#endif
