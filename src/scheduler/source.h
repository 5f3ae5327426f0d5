/* SPDX-License-Identifier: Apache-2.0 */
/* Where what cluster_set() takes comes from: the one list of what the scheduler reads. */
#ifndef SCHEDULER_SOURCE_H
#define SCHEDULER_SOURCE_H

#include <stdbool.h>

#include "kube/discovery.h"

#define CLUSTER_SOURCES 16

struct cluster_source {
	int kind; /* as cluster_set() takes it */
	enum kube_api api;
	bool is_leases;     /* of the namespace with the nodes' Leases */
	bool is_waited_for; /* nothing is decided without it */
};

/* In an order in which nothing is read twice: pods last. */
extern const struct cluster_source cluster_sources[CLUSTER_SOURCES];

#endif
