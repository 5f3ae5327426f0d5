/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory between the node daemon and one process on one device.
 *
 * Three mappings, all memfds made by the daemon and passed over the registration socket:
 *   down    daemon -> client: gate, window, quota. Sealed F_SEAL_FUTURE_WRITE, read-only to the
 *           client.
 *   up      client -> daemon: thread lines, markers, memory intents. Sealed against resizing only:
 *           everything in it is a hint that the daemon clamps and cross-checks.
 *   tenant  shared by all processes of one tenant on one device: the memory counter, the one place
 *           with many writers.
 * No pointers, fixed-width types, offsets asserted below; docs/shared-memory.md draws the bytes.
 * A client that re-registers after a restart of the daemon hands its up and tenant memfds back (the
 * device goes on writing markers into the old up page) and gets a new down page, mapped over the
 * old.
 */
#ifndef WIRE_PAGE_H
#define WIRE_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC 0x79767664u /* "dvvy" */
#define PAGE_ABI 1u            /* of the pages; packets have a version of their own: msg.h */
#define PAGE_LINE 64u
#define PAGE_SLOTS 1024u        /* streams with a marker word; further ones share slot 0 */
#define PAGE_LINES 128u         /* threads with a line of their own */
#define PAGE_DRAINED_NS 150000u /* page_down.drained_ns is at most so late */
#define PAGE_PROCESSES 1024u    /* processes of one tenant on one device */

/* ---- down: written by the daemon alone ---- */

/* Futex word. Anything but GATE_OPEN sends a submission to the slow path. */
enum page_gate {
	GATE_CLOSED = 0,
	GATE_OPEN = 1,
};

enum page_flags {
	PAGE_COMPANY =
		1u << 0, /* another tenant has used or wanted the device lately: keep the window */
	PAGE_WAITED = 1u
		<< 1, /* somebody waits for the token now: release it when nothing is in flight */
	PAGE_MEM_RPC = 1u << 2,  /* memory policy wait/swap: ask the daemon before the driver */
	PAGE_MEM_SWAP = 1u << 3, /* allocate managed memory */
};

struct page_down {
	/* line 0: constant after registration */
	uint32_t magic;
	uint16_t abi;
	uint16_t device;  /* index of the device in the daemon */
	uint32_t size;    /* sizeof(struct page_down) */
	uint32_t process; /* this process's index in the tenant page */
	uint8_t uuid[16];
	uint64_t daemon_epoch; /* boot of this daemon: differs after a restart */
	uint64_t reserved0[3];

	/* line 1: the token. `gate` pairs with page_line.in_launch: see page_line. */
	_Alignas(64) _Atomic uint32_t gate; /* enum page_gate */
	_Atomic uint32_t flags;             /* enum page_flags */
	_Atomic uint32_t window_us;         /* most that may be queued on the device; 0: no bound */
	_Atomic uint32_t grant;             /* +1 at each opening of the gate */
	_Atomic uint32_t flush;             /* +1 when the daemon wants the unmarked tail marked */
	uint32_t reserved1;
	/*
	 * CLOCK_MONOTONIC when this turn's work had best be done, for somebody waits; 0: not
	 * known
	 */
	_Atomic uint64_t turn_ends_ns;
	/*
	 * when the daemon last saw work end behind which there was no more, PAGE_DRAINED_NS late
	 * or less
	 */
	_Atomic uint64_t drained_ns;
	/* since when the device has run nobody else's work in this turn; 0: it may still do so */
	_Atomic uint64_t began_ns;
	_Atomic uint64_t drained_began_ns; /* began_ns of the turn of drained_ns */
	uint64_t reserved2[1];

	/* line 2: memory */
	_Alignas(64) _Atomic uint64_t quota_bytes;
	_Atomic uint64_t context_bytes; /* what one context is expected to take on this device */
	uint64_t device_bytes;
	uint64_t reserved3[5];
};

/* ---- up: written by the client, markers by the device ---- */

/*
 * One per thread, one writer. A submission does
 *   in_launch = 1; compiler barrier;
 *   if (gate == OPEN) { driver call; dirty(stream); submitted++; }
 *   in_launch = 0
 * and the daemon closes with
 *   gate = CLOSED; membarrier(GLOBAL_EXPEDITED); read in_launch of every line
 * so that either the thread saw the closed gate or the daemon sees in_launch (Dekker by
 * membarrier).
 */
struct page_line {
	_Alignas(64) _Atomic uint32_t in_launch;
	_Atomic uint32_t tid;       /* 0: the line is free */
	_Atomic uint64_t submitted; /* submissions handed to the driver by this thread, release */
	uint64_t reserved[6];
};

/*
 * What this process holds of the tenant's counter; core/ledger-counter.h has the sequence.
 * `settled` carries the number of the last change that is in it, so that one store both adds and
 * settles.
 */
struct page_memory {
	_Atomic uint64_t settled;     /* pages (46 bits) | seq (18); see page_settled_pages */
	_Atomic int64_t intent_pages; /* being added (or given back if negative); 0: none */
	_Atomic uint32_t intent_seq;  /* sequence number the counter word carries once it counts */
	uint32_t reserved[11];
};

struct page_up {
	/* line 0: set once by the client */
	uint32_t magic;
	uint16_t abi;
	uint16_t reserved0;
	uint32_t size;
	uint32_t pid;
	uint64_t start_time;
	uint64_t reserved1[5];

	/* line 1: state of the token in this process, any thread under the client's marker lock */
	_Alignas(64) _Atomic uint32_t want; /* threads blocked at the gate */
	_Atomic uint32_t slots;             /* marker slots ever used: bound of the scans below */
	_Atomic uint32_t lines;             /* lines ever used */
	_Atomic uint32_t flush_seen;        /* last page_down.flush honoured */
	_Atomic uint64_t flushed;           /* sum of submitted that is covered by issued markers */
	_Atomic uint64_t segment_ns;        /* device time between two markers, moving average */
	_Atomic uint64_t longest_ns;        /* longest single submission seen, decaying */
	_Atomic uint64_t
		queued_ns; /* predicted device time of what was queued at the last marker */
	_Atomic uint64_t queued_at_ns; /* CLOCK_MONOTONIC of that prediction */
	_Atomic uint32_t contexts;     /* contexts alive on the device */
	_Atomic uint32_t captures;     /* stream captures under way */

	/* line 2 */
	_Alignas(64) struct page_memory memory;

	/* counters for reports, relaxed */
	_Alignas(64) _Atomic uint64_t markers;
	_Atomic uint64_t blocked_ns; /* time threads spent blocked at the gate */
	_Atomic uint64_t spread_ns;  /* mean distance of an end from what queued_ns said of it */
	_Atomic uint64_t denied;     /* allocations refused for the quota */
	_Atomic uint64_t reserved3[4];

	/* marker sequence numbers: issued by the client, done by the device, equal when drained.
	 * `done` has a page of its own, which is registered with the driver. */
	_Alignas(4096) _Atomic uint32_t done[PAGE_SLOTS];
	_Alignas(4096) _Atomic uint32_t issued[PAGE_SLOTS];
	_Alignas(4096) struct page_line line[PAGE_LINES];
};

/* ---- tenant: many writers ---- */

#define PAGE_MEM_UNIT 4096u

/*
 * word = pages (36 bits: up to 256 TiB) | process (10) | seq (18).
 * Each change also names who made it; whoever overwrites the word first copies that (process, seq)
 * into applied[process], so that after a kill it is exact whether the dead one's intent had
 * counted.
 */
struct page_tenant {
	uint32_t magic;
	uint16_t abi;
	uint16_t device;
	uint32_t size;
	uint32_t reserved0;
	uint64_t reserved1[6];
	_Alignas(64) _Atomic uint64_t word;
	_Alignas(64) _Atomic uint32_t applied[PAGE_PROCESSES];
};

#define PAGE_WORD_PROCESS_SHIFT 18
#define PAGE_WORD_PAGES_SHIFT 28
#define PAGE_WORD_SEQ_MASK 0x3ffffu
#define PAGE_WORD_PROCESS_MASK 0x3ffu

static inline uint64_t page_word(uint64_t pages, uint32_t process, uint32_t seq)
{
	return pages << PAGE_WORD_PAGES_SHIFT |
		(uint64_t)(process & PAGE_WORD_PROCESS_MASK) << PAGE_WORD_PROCESS_SHIFT |
		(seq & PAGE_WORD_SEQ_MASK);
}

static inline uint64_t page_word_pages(uint64_t word)
{
	return word >> PAGE_WORD_PAGES_SHIFT;
}

static inline uint32_t page_word_process(uint64_t word)
{
	return (uint32_t)(word >> PAGE_WORD_PROCESS_SHIFT) & PAGE_WORD_PROCESS_MASK;
}

static inline uint32_t page_word_seq(uint64_t word)
{
	return (uint32_t)word & PAGE_WORD_SEQ_MASK;
}

static inline uint64_t page_settled(uint64_t pages, uint32_t seq)
{
	return pages << PAGE_WORD_PROCESS_SHIFT | (seq & PAGE_WORD_SEQ_MASK);
}

static inline uint64_t page_settled_pages(uint64_t settled)
{
	return settled >> PAGE_WORD_PROCESS_SHIFT;
}

static inline uint32_t page_settled_seq(uint64_t settled)
{
	return (uint32_t)settled & PAGE_WORD_SEQ_MASK;
}

_Static_assert(offsetof(struct page_down, gate) == 64, "abi");
_Static_assert(offsetof(struct page_down, flags) == 68, "abi");
_Static_assert(offsetof(struct page_down, window_us) == 72, "abi");
_Static_assert(offsetof(struct page_down, grant) == 76, "abi");
_Static_assert(offsetof(struct page_down, flush) == 80, "abi");
_Static_assert(offsetof(struct page_down, turn_ends_ns) == 88, "abi");
_Static_assert(offsetof(struct page_down, drained_ns) == 96, "abi");
_Static_assert(offsetof(struct page_down, began_ns) == 104, "abi");
_Static_assert(offsetof(struct page_down, drained_began_ns) == 112, "abi");
_Static_assert(offsetof(struct page_down, quota_bytes) == 128, "abi");
_Static_assert(sizeof(struct page_down) == 192, "abi");
_Static_assert(sizeof(struct page_line) == 64, "abi");
_Static_assert(offsetof(struct page_up, want) == 64, "abi");
_Static_assert(offsetof(struct page_up, flushed) == 80, "abi");
_Static_assert(offsetof(struct page_up, contexts) == 120, "abi");
_Static_assert(offsetof(struct page_up, memory) == 128, "abi");
_Static_assert(offsetof(struct page_up, markers) == 192, "abi");
_Static_assert(offsetof(struct page_up, done) == 4096, "abi");
_Static_assert(offsetof(struct page_up, issued) == 8192, "abi");
_Static_assert(offsetof(struct page_up, line) == 12288, "abi");
_Static_assert(sizeof(struct page_up) == 12288 + 64 * PAGE_LINES, "abi");
_Static_assert(offsetof(struct page_tenant, word) == 64, "abi");
_Static_assert(offsetof(struct page_tenant, applied) == 128, "abi");

#endif
