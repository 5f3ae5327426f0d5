/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token, on this side of the pages: carries what the pages show to the arbiter, and what the
 * arbiter decides into the pages. While nobody contends nothing here runs but a slow sample for the
 * usage figures; while somebody waits the holder's pages are looked at every 100 or 250 us.
 */
#ifndef AGENT_TOKEN_H
#define AGENT_TOKEN_H

#include <stdint.h>

#include "agent/client.h"

int token_new(struct agent *agent, struct error *err);
void token_free(struct agent *agent);

/* A process has got its pages: its gates take the state of its tenant's. */
void token_process_added(struct process *process);
/* Its pages no longer count; called while they are still mapped. */
void token_process_gone(struct process *process);
/* No gate of it opens again; the arbiter has been told by the caller. */
void token_tenant_gone(struct tenant *tenant);
/* Flags that follow from the spec have changed. */
void token_tenant_changed(struct tenant *tenant);

/* Messages of a hook, device already checked. */
void token_want(struct process *process, uint32_t at);
void token_release(struct process *process, uint32_t at);
void token_yield(struct process *process, uint32_t at);

/* The arbiter has been told something: decide after this batch. */
void token_touch(struct agent *agent);
/* Decides and acts. Called after each batch; does nothing when nothing was touched. */
void token_step(struct agent *agent);

/* Looks at all that is open (for the usage figures). Returns whether anything is. */
bool token_sample(struct agent *agent, uint64_t now);

#endif
