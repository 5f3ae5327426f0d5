/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who carries a tenant's secret: the programs of a container have it in their environment from the
 * container's start, long before one of them may use a device, and are no children of whoever
 * started it. Which container it is, is known by its cgroup once a program of it has registered;
 * before that the search reads the environments of all processes, where it can wait without end for
 * one that is stuck: so it has a thread of its own.
 */
#ifndef AGENT_CARRIER_H
#define AGENT_CARRIER_H

struct tenant;

/*
 * Ends the tenant unless its container lives or it is in use again by the time that is known; only
 * what was not found twice, some seconds apart, is gone. May be called as often as one likes: it
 * searches every few seconds at most.
 */
void carrier_seek(struct tenant *tenant);

#endif
