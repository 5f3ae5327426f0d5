/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load on the host: one endless loop per processor beside the programs of a rig, or a CPU quota for
 * each of these programs. Kubernetes gives such quotas to pods with a CPU limit. host_done() ends
 * all load, which also ends with the bench. Call the functions from one thread only.
 *
 * The functions also measure stalls of the host below a virtual machine. A stall is a time in which
 * that host did not run one of the machine's processors. Nothing on this machine can work on that
 * processor then.
 */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum host_load {
	HOST_QUIET,
	HOST_BUSY,  /* an endless loop on each processor */
	HOST_QUOTA, /* half a processor for each program: 50 ms of every 100 ms */
};

#define HOST_LOOPS_MAX 256
#define HOST_QUOTAS_MAX 8

struct host {
	enum host_load load;
	pid_t loop[HOST_LOOPS_MAX];
	size_t n_loops;
	char group[HOST_QUOTAS_MAX][128];
	size_t n_groups;
	size_t n_added; /* number of programs added */
};

/* Returns false, with a note of the reason, where this machine does not allow the load. */
bool host_init(struct host *ret_host, enum host_load load);
/* Call it for each program, right after its start. */
void host_add(struct host *host, pid_t pid);
/*
 * The fraction of scheduling periods in which the quota stopped a program; the least of all
 * programs. The fraction ignores periods in which the program did not run. -1: no quota, or the
 * kernel gives no figure. Call it before host_done.
 */
double host_throttled(const struct host *host);
/* Call it after the programs have ended: their groups must be empty. */
void host_done(struct host *host);

/* The shortest reported stall. Programs wait for shorter times for other reasons anyway. */
#define HOST_STALL_NS UINT64_C(2000000)

struct host_stall {
	uint64_t end_ns, ns; /* monotonic clock; length */
};

/*
 * Starts to watch the processors for stalls, with one thread each that sleeps for 1 ms at a time.
 * The threads' real-time priority is above those of divvy's daemon and the simulated device. Does
 * nothing if the bench may not have such a priority, because a thread would then wait for its
 * processor itself.
 */
void host_watch_start(void);
/*
 * Ends the watch. Returns the number of stalls; *ret_stalls, by time, is valid until the next call.
 */
size_t host_watch_stop(const struct host_stall **ret_stalls);

#endif
