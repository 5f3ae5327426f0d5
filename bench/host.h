/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that is busy otherwise: one endless loop per processor beside the programs of a rig, or a
 * CPU quota for each of these programs, as Kubernetes gives pods with a CPU limit. Everything ends
 * with host_done, and with the bench. One thread.
 *
 * And the host below a virtual machine: a stall is a time in which it ran one of the machine's
 * processors not at all. Nothing on this machine can work then, and no scheduler on it can help.
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
	size_t n_added; /* programs */
};

/* Returns false, with a note of the reason, where this machine cannot have that load. */
bool host_init(struct host *ret_host, enum host_load load);
/* To be called for each program, right after its start. */
void host_add(struct host *host, pid_t pid);
/*
 * The part of the quota's periods in which it stopped a program that ran in them, of the program
 * that it stopped least. -1: there is no quota, or the kernel does not say. Before host_done.
 */
double host_throttled(const struct host *host);
/* Call it when the programs have ended: their groups must be empty. */
void host_done(struct host *host);

/* Shorter ones are as long as what the programs wait for anyway. */
#define HOST_STALL_NS UINT64_C(2000000)

struct host_stall {
	uint64_t end_ns, ns; /* monotonic clock; length */
};

/*
 * Watches the processors for stalls from now on: a thread for each, of a real-time priority above
 * those of divvy's daemon and the simulated device, which sleeps for 1 ms at a time. Does nothing
 * where the bench may not have such a priority, for then the thread would wait for its turn.
 */
void host_watch_start(void);
/* Ends it. Returns the number of stalls in *ret_stalls, by time; they are valid until next time. */
size_t host_watch_stop(const struct host_stall **ret_stalls);

#endif
