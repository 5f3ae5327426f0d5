/* SPDX-License-Identifier: Apache-2.0 */
/* The program of `divvy run --remote`: its device is held by a worker process. One thread. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* HOST:PORT/KEY, as `divvy serve` prints it. */
#define REMOTE_INVITATION 512u
bool remote_is_invitation(const char *place);
/* -EINVAL, in words, unless it is one, or "local". */
int remote_check(const char *place, struct error *err);

/*
 * With the tenant and the interception libraries in the environment: starts the server that holds
 * them from now on, and leaves in their place what the program is to find, so that it holds
 * neither the tenant's secret nor the driver. The server ends with this process and those that it
 * has served.
 */
int remote_begin(const char *hooks, struct error *err);

/* The same with a server somewhere else, which has to have accepted the invitation. */
int remote_join(const char *invitation, struct error *err);
