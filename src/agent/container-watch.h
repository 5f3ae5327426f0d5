/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of a container have their tenant's secret in their environment from the container's
 * start, long before one of them may use a device. They are no children of the process that started
 * the container. The daemon knows the container's cgroup once a program of the container has
 * registered. Before that a search reads the environments of all processes.
 *
 * Reading one environment can block without end, for example while the process waits for a FUSE
 * file system within mmap(2). So searches run one at a time in a thread of their own, and a search
 * that makes no progress is left behind with its thread. While that thread is blocked, searches
 * skip the process at which it blocks. If CONTAINER_WATCH_STUCK_EACH such processes are in one
 * cgroup, searches skip all processes there. A skipped process counts as one of each container
 * whose engine's command ran when the process started. CONTAINER_WATCH_STUCK_MAX threads may be
 * blocked. Then only cgroups are searched, and tenants without a known cgroup stay.
 */
#ifndef AGENT_CONTAINER_WATCH_H
#define AGENT_CONTAINER_WATCH_H

#include <stdint.h>

/*
 * Least time between two searches that find no process. A container may have no process with the
 * secret for a moment, when its engine restarts the container or when a program is within execve.
 */
#define CONTAINER_WATCH_NS (UINT64_C(3) * 1000000000)
#define CONTAINER_WATCH_STUCK_MAX 16u
#define CONTAINER_WATCH_STUCK_EACH 2u

struct agent;
struct tenant;

/*
 * Ends the tenant if its container has no process. Two searches, some seconds apart, must find
 * none, and no process may use the tenant meanwhile. The function never blocks, and searches only
 * every few seconds however often it is called. Call it in the loop's thread.
 */
void container_watch_seek(struct tenant *tenant);

/*
 * Waits at most a second for the running search. A search that is still blocked then keeps its
 * thread and memory.
 */
void container_watch_free(struct agent *agent);

#endif
