/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that is busy otherwise: one endless loop per processor beside the programs of a rig, or a
 * CPU quota for each of these programs, as Kubernetes gives pods with a CPU limit. Everything ends
 * with host_done, and with the bench. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
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
/* Call it when the programs have ended: their groups must be empty. */
void host_done(struct host *host);
