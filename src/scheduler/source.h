/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of objects that the scheduler watches and passes to cluster_set(), with their APIs. */
#ifndef SCHEDULER_SOURCE_H
#define SCHEDULER_SOURCE_H

#include <stdbool.h>

#include "kube/discovery.h"

#define CLUSTER_SOURCES 24

struct cluster_source {
	int kind; /* kind for cluster_set() */
	enum kube_api api;
	bool is_leases;     /* the objects are in the namespace of the nodes' Leases */
	bool is_waited_for; /* no decision is made before the first list of this kind */
};

/*
 * Pods come last, because a Node or GPUNode that arrives after its pods has their tenants added
 * again.
 */
extern const struct cluster_source cluster_sources[CLUSTER_SOURCES];

#endif
