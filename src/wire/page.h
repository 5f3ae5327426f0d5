/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory between the node daemon and one process on one device.
 *
 * Three mappings, all memfds that the daemon makes and passes over the registration socket:
 *
 *   down    daemon -> client: gate, window, quota. Sealed F_SEAL_FUTURE_WRITE, read-only to the
 *           client.
 *   up      client -> daemon: thread lines, markers, memory intents. Sealed only against resizing:
 *           its content is a hint that the daemon clamps and cross-checks.
 *   tenant  shared by all processes of one tenant on one device: the memory counter, the only place
 *           with many writers.
 *
 * No pointers, fixed-width types, offsets asserted below; docs/shared-memory.md draws the bytes.
 * When the daemon has restarted, a client registers again. The client returns its up and tenant
 * memfds, because the device continues to write markers into the old up page. The client gets a new
 * down page and maps that page over the old one.
 */
#ifndef WIRE_PAGE_H
#define WIRE_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC 0x79767664u /* "dvvy" */
#define PAGE_ABI 1u            /* version of the pages; packets have their own version: msg.h */
#define PAGE_LINE 64u
#define PAGE_SLOTS 1024u /* streams with a marker slot of their own; further streams share slot 0 */
#define PAGE_LINES 128u  /* threads with their own line */
#define PAGE_DRAINED_NS 150000u /* page_down.drained_ns is at most this late */
#define PAGE_PROCESSES 1024u    /* processes of one tenant on one device */

/* ---- down: only the daemon writes ---- */

/* Futex word. Any value but GATE_OPEN sends a submission to the slow path. */
enum page_gate {
	GATE_CLOSED = 0,
	GATE_OPEN = 1,
};

enum page_flags {
	PAGE_COMPANY = 1u << 0,  /* contended: keep the in-flight window */
	PAGE_WAITED = 1u << 1,   /* another tenant waits: release the idle token */
	PAGE_MEM_RPC = 1u << 2,  /* memory policy wait or swap: ask the daemon before the driver */
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
	uint64_t daemon_epoch; /* differs after a restart of the daemon */
	uint64_t reserved0[3];

	/* line 1: the token. `gate` pairs with page_line.in_launch: see page_line. */
	_Alignas(64) _Atomic uint32_t gate; /* enum page_gate */
	_Atomic uint32_t flags;             /* enum page_flags */
	_Atomic uint32_t window_us;         /* in-flight window; 0: none */
	_Atomic uint32_t grant;             /* +1 each time the gate opens */
	_Atomic uint32_t flush;             /* +1 when the client must mark its unmarked work */
	uint32_t reserved1;
	/*
	 * CLOCK_MONOTONIC by which this turn's work should end, because other tenants wait; 0:
	 * unknown
	 */
	_Atomic uint64_t turn_ends_ns;
	/* when the daemon last saw all work in flight complete, at most PAGE_DRAINED_NS late */
	_Atomic uint64_t drained_ns;
	/* time since which the device runs only this tenant's work in this turn; 0: not yet */
	_Atomic uint64_t began_ns;
	_Atomic uint64_t drained_began_ns; /* began_ns of the turn in which drained_ns was set */
	uint64_t reserved2[1];

	/* line 2: memory */
	_Alignas(64) _Atomic uint64_t quota_bytes;
	_Atomic uint64_t context_bytes; /* expected memory of one context on this device */
	uint64_t device_bytes;
	uint64_t reserved3[5];
};

/* ---- up: the client writes; the device writes the markers ---- */

/*
 * Each thread has a line of its own, and only that thread writes it. A submission does
 *
 *   in_launch = 1; compiler barrier;
 *   if (gate == OPEN) { driver call; dirty(stream); submitted++; }
 *   in_launch = 0
 *
 * and the daemon closes with
 *
 *   gate = CLOSED; membarrier(GLOBAL_EXPEDITED); read in_launch of every line
 *
 * so that either the thread sees the closed gate, or the daemon sees in_launch (Dekker's algorithm
 * with membarrier).
 */
struct page_line {
	_Alignas(64) _Atomic uint32_t in_launch;
	_Atomic uint32_t tid; /* 0: the line is free */
	/*
	 * Submissions that this thread passed to the driver. The release store pairs with the
	 * acquire of agent/token.c and hook/marker.c.
	 */
	_Atomic uint64_t submitted;
	uint64_t reserved[6];
};

/*
 * This process's part of the tenant's counter; core/ledger-counter.h has the protocol. `settled`
 * includes the sequence number of its last change, so that one store both adds and settles.
 */
struct page_memory {
	_Atomic uint64_t settled;     /* pages (46 bits) | seq (18); see page_settled_pages */
	_Atomic int64_t intent_pages; /* pages being added, or released if negative; 0: none */
	/* the counter word has this sequence number once the change counts */
	_Atomic uint32_t intent_seq;
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

	/* line 1: state of the token in this process; any thread, under the client's marker lock */
	_Alignas(64) _Atomic uint32_t want; /* threads blocked at the gate */
	_Atomic uint32_t slots;             /* entries of done[] and issued[] ever used */
	_Atomic uint32_t lines;             /* entries of line[] ever used */
	/* the last page_down.flush for which the client has marked its work */
	_Atomic uint32_t flush_seen;
	/* how much of the sum of page_line.submitted the issued markers cover */
	_Atomic uint64_t flushed;
	_Atomic uint64_t segment_ns;   /* device time between two markers, moving average */
	_Atomic uint64_t longest_ns;   /* longest recent submission, decaying */
	_Atomic uint64_t queued_ns;    /* predicted time of the work in flight at the last marker */
	_Atomic uint64_t queued_at_ns; /* CLOCK_MONOTONIC at which queued_ns was predicted */
	_Atomic uint32_t contexts;     /* existing contexts on the device */
	_Atomic uint32_t captures;     /* active stream captures */

	/* line 2: memory */
	_Alignas(64) struct page_memory memory;

	/* counters for reports, accessed with memory_order_relaxed */
	_Alignas(64) _Atomic uint64_t markers;
	_Atomic uint64_t blocked_ns; /* time that threads were blocked at the gate */
	_Atomic uint64_t spread_ns;  /* mean error of the ends predicted by queued_ns */
	_Atomic uint64_t denied;     /* allocations refused because of the quota */
	_Atomic uint64_t reserved3[4];

	/*
	 * Marker sequence numbers: the client issues them, the device writes them to `done`; they
	 * are equal when the stream is drained. `done` has a page of its own, which is registered
	 * with the driver.
	 */
	_Alignas(4096) _Atomic uint32_t done[PAGE_SLOTS];
	_Alignas(4096) _Atomic uint32_t issued[PAGE_SLOTS];
	_Alignas(4096) struct page_line line[PAGE_LINES];
};

/* ---- tenant: many writers ---- */

#define PAGE_MEM_UNIT 4096u

/*
 * word = pages (36 bits: up to 256 TiB) | process (10) | seq (18). The word names the process of
 * the last change. Before a process overwrites the word, it copies (process, seq) into
 * applied[process]. After a kill this shows exactly whether the dead process's intent had counted.
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
