/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the daemon when a command needs it and none runs. One thread. */
#ifndef CLI_CLI_START_H
#define CLI_CLI_START_H

#include "base/error.h"
#include "cli/cli-client.h"
#include "simgpu/simgpu-config.h"

/*
 * Connects to a daemon. If there is none, starts a detached `divvyd --exit-idle`, with the log
 * divvyd.log in the runtime folder, and waits until it answers. simulate: the specification of
 * simulated devices, which a running daemon must match; NULL: the daemon uses the devices of the
 * machine. After a failed start, the message is the last line that the daemon logged.
 */
int start_daemon(struct client *c, const char *socket, const char *simulate, struct error *err);

/* Checks the specification without a daemon. -EINVAL: the message says what is wrong. */
int start_check_simulated(
	const char *simulate, struct simgpu_config *ret_config, struct error *err);

/* -EPERM with a message if the daemon, by its answer to `ping`, simulates another user's GPU. */
int start_check_owner(const struct client *c, const json_t *ping, struct error *err);

#endif
