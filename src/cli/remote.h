/* SPDX-License-Identifier: Apache-2.0 */
/* The program of `divvy run --remote`: its device is held by a worker process. One thread. */
#pragma once

#include "base/error.h"

/*
 * With the tenant and the interception libraries in the environment: starts the server that holds
 * them from now on, and leaves in their place what the program is to find, so that it holds
 * neither the tenant's secret nor the driver. The server ends with this process and those that it
 * has served.
 */
int remote_begin(const char *hooks, struct error *err);
