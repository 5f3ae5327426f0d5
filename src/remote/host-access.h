/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether kernels reach ordinary memory of the worker (HMM, ATS). There, a program's kernel could
 * read and write all of its worker, so that a worker serves the programs of others only where an
 * administrator has allowed this. Main thread, once the driver has begun.
 */
#ifndef REMOTE_HOST_ACCESS_H
#define REMOTE_HOST_ACCESS_H

#include <stdbool.h>

/* In a worker's environment; without one of these values the program counts as another user's. */
#define HOST_ACCESS_ENV "DIVVY_REMOTE_HOST_ACCESS"
#define HOST_ACCESS_OWN "own"     /* the program is of the user whose worker this is */
#define HOST_ACCESS_ALLOW "allow" /* an administrator has said so */

/* What its user reads, with a word of how to allow it. */
#define HOST_ACCESS_WORDS \
	"the device reaches ordinary memory of its process (HMM or ATS), also that of divvy's " \
	"worker: programs of others are not served with it, unless divvy serve " \
	"--allow-host-access, or divvyd --remote-host-access there"

/* A device that does not answer counts as one that does. */
bool host_access_is_permitted(void);

#endif
