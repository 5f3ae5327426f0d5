/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to the engine: finds the machine's directory, starts the engine when none
 * runs, says HELLO, maps the state file and (for CUDA) the shared memory.
 *
 * A struct link belongs to one process. link_call may be used by any thread, one at a time: the
 * caller locks. After a fork the child calls link_forget and nothing else.
 */
#ifndef SIMGPU_LINK_H
#define SIMGPU_LINK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "simgpu/proto.h"

struct link {
	int sock;            /* -1 when not connected */
	int doorbell;        /* CUDA only, else -1 */
	struct sim_shm *shm; /* CUDA only, else NULL */
	const struct sim_state *state;
	uint32_t seq;
	int engine_pid;
};

/* The machine's directory, as proto.h says. Returns 0 or -ENAMETOOLONG. */
int link_directory(char *ret_path, size_t n);

/* Connects; blocks until an engine listens or cannot be started. 0 or -errno. */
int link_open(struct link *link, enum sim_role role, struct error *err);

/*
 * One request and its reply. @fd goes along unless -1; a descriptor in the reply is stored in
 * *ret_fd, which the caller closes (-1 if there was none); ret_fd NULL closes it. -errno when the
 * engine is gone: the link is then of no further use.
 */
int link_call(struct link *link, struct sim_request *request, int fd, struct sim_reply *ret_reply,
	int *ret_fd);

/* Whether the engine has closed the connection. */
int link_is_dead(const struct link *link);

void link_close(struct link *link);
/* In a forked child: closes descriptors, unmaps, tells the engine nothing. */
void link_forget(struct link *link);

#endif
