/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes rights from a worker before it serves: docs/adr/0024-workers-confined.md. The main thread
 * calls these functions once the driver and the interception library have started.
 */
#ifndef REMOTE_CONFINE_H
#define REMOTE_CONFINE_H

#include <stdint.h>

/*
 * Overwrites the tenant's secret in the environment with a hash of it. The daemon has seen the
 * secret by then. Workers of one tenant still recognise each other by the hash, which gives no
 * access.
 */
void confine_secret(void);

/*
 * Variable in a worker's environment: one bit for each minor number of a granted device; 0 or
 * unset: unknown.
 */
#define CONFINE_MINORS_ENV "DIVVY_REMOTE_MINORS"

/*
 * Restricts files for this thread and the threads that it starts. Afterwards these threads can open
 * no file outside ROOT, and of the device files ROOT/dev/nvidiaN only those with a minor number in
 * `minors`.
 * Call before the driver is loaded. root is "/", except in tests. 0; -ENOSYS: the kernel has no
 * Landlock; -errno.
 */
int confine_devices(const char *root, uint64_t minors);

/*
 * Forbids system calls for all threads of this process: starting programs or processes, access to
 * other processes, sockets other than unix sockets, and administrators' calls. 0 or -errno.
 */
int confine_calls(void);

/* Calls confine_secret() and confine_calls(). 0 or -errno. */
int confine(void);

#endif
