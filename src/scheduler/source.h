/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of kinds that the scheduler reads for cluster_set(), with their APIs. */
#ifndef SCHEDULER_SOURCE_H
#define SCHEDULER_SOURCE_H

#include <stdbool.h>

#include "kube/discovery.h"

#define CLUSTER_SOURCES 16

struct cluster_source {
	int kind; /* as for cluster_set() */
	enum kube_api api;
	bool is_leases;     /* in the namespace of the nodes' Leases */
	bool is_waited_for; /* decisions wait for it */
};

/* In an order that avoids double work: pods last. */
extern const struct cluster_source cluster_sources[CLUSTER_SOURCES];

#endif
