/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: quotas into the pages, the device's book for tenants that wait, what the device
 * says of a process, and giving back what a dead process held once the device has let it go.
 */
#ifndef AGENT_MEMORY_H
#define AGENT_MEMORY_H

#include <stdint.h>

#include "agent/client.h"

#define MEMORY_GRACE_NS (1000ull * 1000 * 1000) /* after a death, if the device does not tell */

int memory_new(struct agent *agent, struct error *err);
void memory_free(struct agent *agent);

/* The constant and the memory part of a new down page. */
void memory_fill_down(struct process *process, uint32_t at);
/* td->quota_bytes has changed. */
void memory_set_quota(struct tenant_device *td);

/* Messages of a hook, device already checked. */
void memory_reserve(struct process *process, uint32_t at, uint32_t request, uint64_t bytes);
/* The device's book has changed otherwise: who has waited for room, and need no longer, is told. */
void memory_settled(struct agent *agent, struct device *device);
void memory_measure(struct process *process, uint32_t at, uint32_t request);
void memory_share(struct process *process, uint32_t at, const struct msg_share *share);
void memory_unshare(struct process *process, uint32_t at, const struct msg_share *share);
/* Policy wait: what a process holds of shared memory, in the device's book. */
void memory_book(struct process *process, uint32_t at, uint64_t bytes);
/* NULL: what stands there in the daemon's own name. */
void memory_release(struct tenant_device *td, const struct process *process, uint64_t bytes);
/* From one process of the tenant to another one, past who waits; NULL: the daemon itself. */
void memory_rebook(struct tenant_device *td, const struct process *from, const struct process *to,
	uint64_t bytes);

/* Registered again: what it holds stands in the device's book. */
void memory_process_back(struct process *process);
/*
 * Somebody of before a restart is back, dead, or no longer awaited: what was held up for it may go
 * on.
 */
void memory_look_at_held(struct agent *agent);

/*
 * Takes over the process's pages and its index: both are given up when the device no longer lists
 * the pid. Called once, when the process is marked dead.
 */
void memory_process_gone(struct process *process);
/* Its counters need no more repair. */
void memory_tenant_gone(struct tenant *tenant);
/*
 * After a restart, once the processes of before have come back or ended: counter := what they
 * hold.
 */
void memory_recount(struct tenant *tenant);
/* Between batches: recounts where messages of the batch ask for it, once. */
void memory_after_batch(struct agent *agent);

/* What the counter says, clamped to the device. */
uint64_t memory_used(const struct tenant_device *td);

/*
 * Allocations refused for the quota since the tenant was made, or found again after a restart, as
 * its own processes say.
 */
uint64_t memory_denied(const struct tenant_device *td);

/* What the device said last about this pid; UINT64_MAX: nothing. */
uint64_t memory_device_says(struct agent *agent, const struct device *device, pid_t pid);
/* Asks the devices in the background (for lists and the audit), at most once a second. */
void memory_refresh(struct agent *agent);

struct memory_stranger {
	pid_t pid;
	uint32_t device;
	uint64_t bytes;
	bool is_graphics;
};
/* Processes on the devices as last said; returns how many. */
size_t memory_listed(struct agent *agent, struct memory_stranger *ret, size_t max);
/* Grows with each answer of the devices. */
uint64_t memory_generation(const struct agent *agent);

#endif
