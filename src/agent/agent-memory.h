/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. This part writes quotas into the pages, keeps the ledger for tenants of memory
 * policy `wait`, and asks the devices about processes. It frees a dead process's memory once the
 * device no longer lists the process.
 */
#ifndef AGENT_AGENT_MEMORY_H
#define AGENT_AGENT_MEMORY_H

#include <stdint.h>

#include "agent/agent-client.h"

/* If the devices do not answer, a dead process's memory counts as free after this time. */
#define MEMORY_GRACE_NS (1000ull * 1000 * 1000)

int memory_new(struct agent *agent, struct error *err);
void memory_free(struct agent *agent);

/* Fills the constant members and the memory members of a new down page. */
void memory_fill_down(struct process *process, uint32_t at);
/* Writes a changed td->quota_bytes into the pages. */
void memory_set_quota(struct tenant_device *td);

/* Handlers of hook messages. The caller has checked the device, which is tenant->devices[at]. */
void memory_reserve(struct process *process, uint32_t at, uint32_t request, uint64_t bytes);
/* Call when other code has changed the ledger: answers the requests that have room now. */
void memory_settled(struct agent *agent, struct device *device);
void memory_measure(struct process *process, uint32_t at, uint32_t request);
void memory_share(struct process *process, uint32_t at, const struct msg_share *share);
void memory_unshare(struct process *process, uint32_t at, const struct msg_share *share);
/* Memory policy wait: enters into the ledger shared memory that the process holds already. */
void memory_add_charge(struct process *process, uint32_t at, uint64_t bytes);
/* Releases memory in the ledger. process: NULL for memory in the daemon's own name. */
void memory_release(struct tenant_device *td, const struct process *process, uint64_t bytes);
/*
 * Moves memory in the ledger from one process of the tenant to another, ahead of waiting requests.
 * NULL stands for the daemon itself.
 */
void memory_rebook(struct tenant_device *td, const struct process *from, const struct process *to,
	uint64_t bytes);

/* Enters into the ledger the memory of a process that registered again. */
void memory_process_back(struct process *process);
/*
 * Tries again the memory requests that wait for processes from before a restart. Callers use this
 * when such a process has registered, has ended, or is no longer awaited.
 */
void memory_look_at_held(struct agent *agent);

/*
 * Takes over a dead process's pages and index, and frees them when the devices no longer list its
 * pid. Call once, when the process is marked as dead.
 */
void memory_process_exited(struct process *process);
/*
 * Call when the tenant ends. Memory that its dead processes may still hold is tracked without the
 * tenant from then on.
 */
void memory_tenant_removed(struct tenant *tenant);
/*
 * Sets the counter to the sum of the processes' memory. Callers use this after a restart, when all
 * earlier processes have registered again or ended.
 */
void memory_recount(struct tenant *tenant);
/* Call between batches: recounts the counters for which messages of the batch require it. */
void memory_after_batch(struct agent *agent);

/* The counter's value, clamped to the device's memory. */
uint64_t memory_used(const struct tenant_device *td);

/*
 * Returns the number of allocations that the quota refused, as the tenant's processes report. The
 * count starts when the tenant is made or restored.
 */
uint64_t memory_denied(const struct tenant_device *td);

/* Bytes that this pid uses, by the device's last answer; UINT64_MAX: not known. */
uint64_t memory_device_says(struct agent *agent, const struct device *device, pid_t pid);
/* Asks the devices about memory and processes in the background, at most once a second. */
void memory_refresh(struct agent *agent);
/* The same at once. During a query, another query begins when the first one has ended. */
void memory_query(struct agent *agent);

/* Tells the device's programs on their stderr why their calls fail or may fail. */
void memory_report_fault(struct agent *agent, const struct device *device);

struct memory_unmanaged {
	pid_t pid;
	uint32_t device;
	uint64_t bytes;
	bool is_graphics;
};
/* Copies the processes of the devices' last answer; returns their number. */
size_t memory_listed(struct agent *agent, struct memory_unmanaged *ret, size_t max);
/* Returns how often the devices have answered so far. */
uint64_t memory_generation(const struct agent *agent);

#endif
