/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the token: reports what the pages show to the arbiter, and writes the
 * arbiter's decisions into the pages. While no device is contended, only a slow sample for the
 * usage figures runs. While a tenant waits, the daemon looks at the holder's pages every 100 or 250
 * us.
 */
#ifndef AGENT_TOKEN_H
#define AGENT_TOKEN_H

#include <stdint.h>

#include "agent/agent-client.h"

int token_new(struct agent *agent, struct error *err);
void token_free(struct agent *agent);

/* Sets the gates of a process with new pages to the state of its tenant's gates. */
void token_process_added(struct process *process);
/* The daemon stops looking at the process's pages. Call while they are still mapped. */
void token_process_exited(struct process *process);
/* Keeps the tenant's gates closed for good. The caller removes it from the arbiter. */
void token_tenant_removed(struct tenant *tenant);
/* Writes the page flags that follow from a changed spec. */
void token_tenant_changed(struct tenant *tenant);

/* Handlers of hook messages. The caller has checked the device, which is tenant->devices[at]. */
void token_want(struct process *process, uint32_t at);
void token_release(struct process *process, uint32_t at);
void token_yield(struct process *process, uint32_t at);

/* Call when the arbiter has new input: it then decides after this batch. */
void token_touch(struct agent *agent);
/* Carries out the arbiter's actions. Does nothing unless token_touch() was called. */
void token_step(struct agent *agent);

/* Looks at all open gates, for the usage figures. Returns whether there are any. */
bool token_sample(struct agent *agent, uint64_t now);

#endif
