/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container watcher. A container's programs have their tenant's secret in the environment from
 * the start, long before they use a device. They are no children of the process that started the
 * container, so the daemon has to search for them. It searches the container's cgroup once a
 * program of the container has registered. Before that, it searches the environments of all
 * processes. Such a read may block for ever on a stuck process, so a thread of its own searches.
 */
#ifndef AGENT_CARRIER_H
#define AGENT_CARRIER_H

struct tenant;

/*
 * Ends the tenant, unless its container lives or a process uses the tenant again meanwhile. Two
 * searches, some seconds apart, must find nothing. The function never blocks, and searches only
 * every few seconds however often it is called.
 */
void carrier_seek(struct tenant *tenant);

#endif
