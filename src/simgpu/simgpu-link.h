/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to the engine. link_open() finds the machine's folder, starts the engine if
 * none runs, sends HELLO, and maps the state file and (for CUDA) the shared memory.
 *
 * A struct link belongs to one process. Any thread may use link_call(), one at a time: the caller
 * locks. After a fork the child calls only link_forget().
 */
#ifndef SIMGPU_SIMGPU_LINK_H
#define SIMGPU_SIMGPU_LINK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "simgpu/simgpu-proto.h"

struct link {
	int sock;               /* -1 when not connected */
	int doorbell;           /* eventfd of a CUDA client's doorbell; else -1 */
	struct simgpu_shm *shm; /* shared memory of a CUDA client; else NULL */
	const struct simgpu_state *state;
	uint32_t seq;
	int engine_pid;
};

/* Writes the machine's folder: see simgpu-proto.h. Returns 0 or -ENAMETOOLONG. */
int link_directory(char *ret_path, size_t n);

/* Connects. Blocks until an engine listens or cannot be started. 0 or -errno. */
int link_open(struct link *link, enum simgpu_role role, struct error *err);

/*
 * Sends one request and receives its reply. Sends @fd too unless it is -1. A descriptor in the
 * reply goes to *ret_fd (-1: none), and the caller closes it; ret_fd NULL: closes it here. -errno:
 * the engine is lost, and the link is unusable.
 */
int link_call(struct link *link, struct simgpu_request *request, int fd,
	struct simgpu_reply *ret_reply, int *ret_fd);

/* Returns whether the engine has closed the connection. */
int link_is_dead(const struct link *link);

void link_close(struct link *link);
/* For a forked child: closes descriptors and unmaps, without a message to the engine. */
void link_forget(struct link *link);

#endif
