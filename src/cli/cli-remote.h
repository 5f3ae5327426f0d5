/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the program of `divvy run --remote`, whose device a worker process holds. One thread. */
#ifndef CLI_CLI_REMOTE_H
#define CLI_CLI_REMOTE_H

#include <stdbool.h>

#include "base/error.h"

/*
 * An invitation is HOST:PORT/KEY, with brackets around an IPv6 address, as `divvy serve` prints it.
 * The environment variable REMOTE_ENV may hold an invitation.
 */
#define REMOTE_INVITATION 512u
#define REMOTE_ENV "DIVVY_INVITATION"

bool remote_is_local(const char *place);
/*
 * Checks the value of --remote: "local", an invitation, or HOST[:DEVICE] with an invitation in
 * `file` (NULL: in the environment). -EINVAL with a message. place may be NULL: --remote was not
 * given.
 */
int remote_check(const char *place, const char *file, struct error *err);

/*
 * Call with the tenant and the interception libraries in the environment. Starts a server that
 * takes over both, and leaves only the variables that the program needs. The program gets neither
 * the tenant's secret nor the driver. The server ends with this process and the processes that it
 * has served.
 */
int remote_begin(const char *hooks, struct error *err);

/* Sets the environment as remote_begin() does, but starts no server. */
int remote_pretend(struct error *err);

/*
 * As remote_begin(), with a server on another machine, which must accept the invitation. No other
 * user may be able to read the file; "-" is stdin.
 */
int remote_join(const char *place, const char *file, struct error *err);

#endif
