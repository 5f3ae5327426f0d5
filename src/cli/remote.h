/* SPDX-License-Identifier: Apache-2.0 */
/* The program of `divvy run --remote`: its device is held by a worker process. One thread. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <stdbool.h>

#include "base/error.h"

/*
 * An invitation is HOST:PORT/KEY (an address of IPv6 in brackets), as `divvy serve` prints it; here
 * it may be found, too.
 */
#define REMOTE_INVITATION 512u
#define REMOTE_ENV "DIVVY_INVITATION"

bool remote_is_local(const char *place);
/*
 * -EINVAL, in words, unless the place is "local", an invitation, or HOST[:DEVICE], for which the
 * invitation stands in the file (NULL: in the environment). NULL for no place is fine, too.
 */
int remote_check(const char *place, const char *file, struct error *err);

/*
 * With the tenant and the interception libraries in the environment: starts the server that holds
 * them from now on, and leaves in their place what the program is to find, so that it holds
 * neither the tenant's secret nor the driver. The server ends with this process and those that it
 * has served.
 */
int remote_begin(const char *hooks, struct error *err);

/* Leaves in the environment what the program would find, and starts nothing. */
int remote_pretend(struct error *err);

/*
 * The same with a server somewhere else, which has to have accepted the invitation. The file is
 * one that nobody else may read, "-" stdin.
 */
int remote_join(const char *place, const char *file, struct error *err);

#endif
