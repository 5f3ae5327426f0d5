/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What survives a restart of the daemon, in the runtime folder:
 *   state   a line each: tenants (with secrets, specs, quotas, inodes of their counters, debts) and
 *           registered processes; what changes is appended, later lines win over earlier ones, and
 *           from time to time the file is written anew and renamed over the old one
 * A line counts only with its end, so the daemon may be killed at any instant. A line that could
 * not be written whole is cut off again before the next one. Nothing is synced:
 * the file need not outlive the machine's power, since the programs do not.
 */
#ifndef AGENT_STATE_H
#define AGENT_STATE_H

#include "agent/client.h"
#include "agent/tenant.h"

/* ABI of the file: this one and the one before (there is none yet) are read. */
#define STATE_ABI 1

/*
 * Reads what is there; tenants and processes that still live come back, the others end. A broken
 * line is skipped; a file with one, or without its end, is kept as state.bad, with a line in the
 * log.
 */
int state_load(struct agent *agent, struct error *err);
/* Writes all of it a last time. */
void state_free(struct agent *agent);

/* A tenant has come or changed, or gone: written when this returns. */
int state_tenant(struct tenant *tenant, struct error *err);
void state_tenant_gone(const struct tenant *tenant);

int state_process_added(const struct process *process);
void state_process_gone(const struct process *process);

/* Something that may be a few seconds old has changed (usage, debts). */
void state_touch(struct agent *agent);

#endif
