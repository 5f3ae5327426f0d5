/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether kernels can access ordinary memory of the worker (HMM, ATS). If so, a program's kernel
 * could read and write all memory of its worker. So on such a machine a worker serves programs of
 * other users only with an administrator's permission. The main thread calls this once the driver
 * has started.
 */
#ifndef REMOTE_HOST_ACCESS_H
#define REMOTE_HOST_ACCESS_H

#include <stdbool.h>

/*
 * Variable in a worker's environment. Without one of these values the program counts as another
 * user's.
 */
#define HOST_ACCESS_ENV "DIVVY_REMOTE_HOST_ACCESS"
#define HOST_ACCESS_OWN "own"     /* the worker's own user runs the program */
#define HOST_ACCESS_ALLOW "allow" /* an administrator has permitted it */

/* The message for the program's user, which says how to permit it. */
#define HOST_ACCESS_WORDS \
	"kernels on the device can access all memory of divvy's worker (HMM or ATS), so it serves " \
	"no programs of others; to allow it, use divvy serve --allow-host-access or divvyd " \
	"--remote-host-access there"

/*
 * Whether the worker may serve this program. A device that does not answer counts as one with host
 * access.
 */
bool host_access_is_permitted(void);

#endif
