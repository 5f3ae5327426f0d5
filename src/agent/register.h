/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: turns a HELLO into a process with pages, and ends processes. */
#ifndef AGENT_REGISTER_H
#define AGENT_REGISTER_H

#include "agent/agent-client.h"

/*
 * Handles a checked HELLO and answers WELCOME or REFUSED. The caller keeps the descriptors. A HELLO
 * that has to wait is stored in conn->deferred.
 */
void register_hello(struct conn *conn, const struct msg_hello *hello, const int *fds, size_t n_fds);

/* Handles all deferred HELLOs again. */
void register_deferred(struct agent *agent);

/*
 * Adds a live process from the state of an earlier daemon. The process waits for its HELLO with
 * MSG_HELLO_AGAIN.
 */
int process_restore(struct tenant *tenant, pid_t pid, uint64_t start, uint32_t index,
	uint64_t up_inode, const char *command);
/*
 * Ends the registration of a process that has ended or lost its tenant. Its gates stay closed.
 * agent-memory.c frees its memory once the devices no longer list the process.
 */
void process_kill(struct process *process);
/* Opens the process's gates, because the daemon ends for good. */
void process_let_run(struct process *process);
void process_free(struct process *process);

#endif
