/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine in virtual time, to run the arbiter against. Devices slice their time among contexts,
 * and programs submit kernels behind a gate. The daemon's loop reports events a little late.
 * Results are deterministic from the seed, and measure what the devices executed.
 *
 * Devices run kernels of one context in order. Every 2 ms they switch among contexts with work, in
 * the middle of kernels, at a cost. Programs wake up 30 to 100 us late. The daemon looks every 100
 * us while a gate drains, every 250 us while arbiter_watches() holds, and else every 10 ms. Each
 * look is 15 to 50 us late.
 *
 * A busy host delays programs, not the daemon: half of the wake-ups, at random, are late by up to
 * host_late_ns more. With is_throttled a program runs only in the first half of its periods of 100
 * ms, as under a CPU limit.
 */
#ifndef TESTS_UNIT_CORE_VIRTUAL_H
#define TESTS_UNIT_CORE_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"
#include "core/arbiter.h"

#define VM_DEVICES 2
#define VM_PROGRAMS 8
#define VM_QUEUE 1024
#define VM_BIN_NS 10000000ull /* used time is kept in bins of 10 ms */
#define VM_BINS 7000          /* bins for 70 s */

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

struct vm_kernel {
	uint64_t rest_ns;
	uint64_t step; /* not 0: ends only after the partner's kernel of this step has begun */
	bool has_begun;
};

enum vm_pattern {
	VM_BACKLOG, /* the next kernel is always ready */
	VM_DUTY,    /* bursts of busy_ns of kernels every period_ns; waits for each burst */
	VM_POISSON, /* requests of busy_ns of kernels, exponential gaps of period_ns on average */
	VM_CLOSED,  /* requests of busy_ns one after the other; waits for each */
	VM_PAIR,    /* one kernel on each of two devices that spin for each other */
	VM_RANK,    /* kernels that spin for kernels of program `partner` */
};

struct vm_program {
	const char *request, *limit, *class;
	uint64_t devices; /* mask; 0: device 0 */
	enum vm_pattern pattern;
	uint64_t kernel_ns; /* 0: mixed, 20 us to 20 ms */
	uint64_t busy_ns, period_ns;
	uint32_t partner;
	uint64_t from_ns, until_ns; /* until_ns 0: to the end */

	/* state */
	struct {
		struct vm_kernel queue[VM_QUEUE];
		uint32_t head, n;
		uint64_t queued_ns;
		bool is_open, has_submitted, is_draining;
		uint32_t window_us, widest_us;
		uint64_t last_end;
		uint64_t begun, longest_ns;
		bool is_blocked;
	} on[VM_DEVICES];
	uint64_t wake_at;
	uint64_t want_at[VM_DEVICES]; /* when the message reaches the daemon */
	uint64_t step;
	uint64_t budget_ns;  /* work of the present burst or request that is not submitted yet */
	uint64_t arrived_at; /* time at which the request arrived */
	bool is_waiting;     /* for the end of its submitted work */
	bool has_started;

	/* results */
	uint64_t bin_ns[VM_DEVICES][VM_BINS];
	uint64_t total_ns[VM_DEVICES];
	uint64_t requests, steps;
	uint64_t *latency; /* of each request; the caller's array, or NULL */
	uint64_t latency_max;
};

struct vm {
	struct arbiter_config config;
	uint32_t n_devices, n_programs;
	uint64_t switch_ns;
	uint64_t host_late_ns;
	bool is_throttled;
	uint64_t seed;
	struct vm_program program[VM_PROGRAMS];

	struct arbiter *arbiter;
	struct rand rand;
	uint64_t now;
	uint64_t daemon_at, look_at;
	struct {
		int running; /* program, or -1 */
		int last;
		uint64_t from; /* time from which on the kernel makes progress, after the switch */
		uint64_t slice_end;
		uint64_t switches;
	} device[VM_DEVICES];
	uint64_t grants, coruns;
};

/* A machine with defaults; the test fills in programs. Ends with vm_free(). */
struct vm *vm_new(uint32_t devices, uint64_t switch_ns, uint64_t seed);
void vm_free(struct vm *vm);

/* Tenants that share a device: request, limit and entitlement, in permille. */
struct vm_mix {
	const char *name;
	uint32_t n;
	struct {
		const char *request, *limit;
		uint32_t entitled;
	} program[5];
};

/* Adds programs with backlog for a mix, which start 37 ms apart. kernel_ns 0: mixed lengths. */
void vm_add_mix(struct vm *vm, const struct vm_mix *mix, uint64_t kernel_ns);

/* Runs from time 0 until until_ns. */
void vm_run(struct vm *vm, uint64_t until_ns);

/*
 * Largest difference, in percentage points, between the part of a device that a program used in a
 * window (1 s: 100 bins, 10 s: 1000) and `permille`, over all windows in [from, until].
 */
double vm_error_pp(const struct vm *vm, uint32_t program, uint32_t permille, uint32_t bins,
	uint64_t from_ns, uint64_t until_ns);
/* Most time, in ns, that the program used in any window of `bins` bins. */
uint64_t vm_window_max_ns(
	const struct vm *vm, uint32_t program, uint32_t bins, uint64_t from_ns, uint64_t until_ns);
/* Part of the time in [from_ns, until_ns] in which the device was used. */
double vm_busy(const struct vm *vm, uint32_t device, uint64_t from_ns, uint64_t until_ns);
double vm_share(const struct vm *vm, uint32_t program, uint32_t device, uint64_t from_ns,
	uint64_t until_ns);

#endif
