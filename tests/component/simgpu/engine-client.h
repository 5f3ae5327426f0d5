/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bare client of the simulated device: it uses only the protocol of simgpu/simgpu-proto.h. A
 * failure ends the test with a message. One thread per client.
 */
#ifndef TESTS_COMPONENT_SIMGPU_ENGINE_CLIENT_H
#define TESTS_COMPONENT_SIMGPU_ENGINE_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "simgpu/simgpu-proto.h"

struct client {
	int sock, bell;
	struct simgpu_shm *shm;
	uint32_t seq;
	uint64_t stream_seq[64];
};

/* Starts the engine of $DIVVY_BUILD; formats as in $DIVVY_SIM_DEVICES and $DIVVY_SIM_COSTS. */
void client_setup(const char *devices, const char *costs);
const char *client_dir(void);
void client_teardown(void);

void client_connect(struct client *c);
void client_close(struct client *c);
/*
 * Returns the status. q is the request; fd is sent if >= 0. ret_reply may be NULL; a received fd
 * goes to *ret_fd.
 */
uint32_t client_call(struct client *c, struct simgpu_request q, int fd,
	struct simgpu_reply *ret_reply, int *ret_fd);
/* Makes context 0 on a device, with the legacy stream 0 and blocking streams 1..n. */
void client_context(struct client *c, uint32_t context, int device, int streams);
void client_put(struct client *c, struct simgpu_entry *e, const void *trailing, size_t bytes);
void client_kernel(struct client *c, uint32_t stream, enum simgpu_kernel kernel, uint32_t blocks,
	const void *params, size_t bytes);
void client_spin_ns(struct client *c, uint32_t stream, uint64_t ns);
uint32_t client_sync(struct client *c, uint32_t stream); /* returns the context's error */
uint64_t client_alloc(struct client *c, uint64_t bytes);

#define CALL(...) ((struct simgpu_request){__VA_ARGS__})

#endif
