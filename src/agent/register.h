/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration: from a HELLO to a process with pages, and its end.
 */
#ifndef AGENT_REGISTER_H
#define AGENT_REGISTER_H

#include "agent/client.h"

/* A checked HELLO with its descriptors, which are not consumed. Answers WELCOME or REFUSED. */
void register_hello(struct conn *conn, const struct msg_hello *hello, const int *fds, size_t n_fds);

/* HELLOs that were put off because of this tenant are looked at again. */
void register_deferred(struct agent *agent);

/* Known from the state of an earlier daemon and alive: waits for its HELLO AGAIN. */
int process_restore(struct tenant *tenant, pid_t pid, uint64_t start, uint32_t index,
	uint64_t up_inode, const char *command);
/*
 * It has ended, or is no longer its tenant's: its gates stay closed, its memory is given back once
 * the device has let it go.
 */
void process_kill(struct process *process);
/* The daemon ends for good: its gates open. */
void process_let_run(struct process *process);
void process_free(struct process *process);

#endif
