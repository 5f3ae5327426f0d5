/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker gives up before it serves: docs/adr/0024-workers-confined.md. Main thread, once the
 * driver and the interception library have begun.
 */
#ifndef REMOTE_CONFINE_H
#define REMOTE_CONFINE_H

#include <stdint.h>

/*
 * Overwrites the tenant's secret in the environment, which the interception library has shown the
 * daemon, with a word that is made of it: workers of one tenant still find each other by that word,
 * and it opens nothing.
 */
void confine_secret(void);

/* In a worker's environment: the granted devices' minor numbers, a bit each; 0 or none: unknown. */
#define CONFINE_MINORS_ENV "DIVVY_REMOTE_MINORS"

/*
 * From now on this thread, and those that it starts, open no device file ROOT/dev/nvidiaN but those
 * of these minor numbers, and no file outside of ROOT. Before the driver is loaded. Root is "/",
 * but for tests. 0; -ENOSYS: the kernel has no Landlock; -errno.
 */
int confine_devices(const char *root, uint64_t minors);

/*
 * From now on no thread of this process starts a program or a process, looks into another process,
 * opens a socket but a unix one, or asks for what only administrators do. 0 or -errno.
 */
int confine_calls(void);

/* Both. 0 or -errno. */
int confine(void);

#endif
