/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the daemon when a command needs one and none runs. One thread. */
#ifndef CLI_START_H
#define CLI_START_H

#include "base/error.h"
#include "cli/client.h"
#include "simgpu/config.h"

/*
 * Connects; with no daemon about starts a detached `divvyd --exit-idle` (its log is divvyd.log in
 * the runtime folder) and waits until it answers. `simulate` NULL: whatever devices there are;
 * otherwise the specification of simulated ones, and a daemon that already runs must have the like.
 * On failure the sentence is the daemon's own last one.
 */
int start_daemon(struct client *c, const char *socket, const char *simulate, struct error *err);

/* The specification alone, without a daemon: -EINVAL with what is wrong with it. */
int start_check_simulated(const char *simulate, struct sim_config *ret_config, struct error *err);

/*
 * -EPERM with a sentence where the daemon, by its answer to `ping`, simulates another user's GPU.
 */
int start_check_owner(const struct client *c, const json_t *ping, struct error *err);

#endif
