/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file `state` in the runtime folder survives a restart of the daemon. Each line has a tenant
 * (secret, spec, quotas, inodes of its counters, debts) or a registered process. The daemon appends
 * changes, and later lines replace earlier ones. From time to time the daemon writes the file anew
 * and renames the new file over the old one.
 *
 * A reader ignores a line without its end, so a kill at any instant leaves a valid file. The daemon
 * cuts an incomplete line off before it appends the next one. Nothing is synced: programs do not
 * survive a power failure, so the file need not either.
 */
#ifndef AGENT_AGENT_STATE_H
#define AGENT_AGENT_STATE_H

#include "agent/agent-client.h"
#include "agent/tenant.h"

/* Format version of the file; 1 is the first. A daemon reads this version and the one before. */
#define STATE_ABI 1

/*
 * Reads the file. Restores tenants and processes that still live, and ends the others. Skips
 * unreadable lines. If a line is unreadable or the last one is incomplete, the daemon logs this and
 * keeps a copy as state.bad.
 */
int state_load(struct agent *agent, struct error *err);
/* Writes the whole file a last time. */
void state_free(struct agent *agent);

/* Record a new, changed or ended tenant. The line is written when the function returns. */
int state_tenant(struct tenant *tenant, struct error *err);
void state_tenant_removed(const struct tenant *tenant);

int state_process_added(const struct process *process);
void state_process_exited(const struct process *process);

/* Schedules a write of values that may be a few seconds old (usage, debts). */
void state_touch(struct agent *agent);

#endif
