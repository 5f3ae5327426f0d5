/* SPDX-License-Identifier: Apache-2.0 */
/* Evicts pods when their disruption budgets allow, and prints the progress to stdout. */
#ifndef KUBECTL_EVICT_H
#define KUBECTL_EVICT_H

#include <signal.h>

#include "kubectl/kubectl-access.h"

struct evict_options {
	uint64_t timeout_ns; /* timeout for all pods together */
	int64_t grace_s;     /* grace period of the evictions; < 0: each pod's own */
	bool is_in_order;    /* each pod is deleted before the next one is evicted */
	bool is_dry_run;     /* the API server checks the evictions and changes nothing */
	/* A signal handler may set it; evict_pods() then returns -EINTR soon. NULL: no handler. */
	const volatile sig_atomic_t *is_ended;
};

/*
 * Evicts the pods, a list of API objects, and waits until they are deleted. If a disruption budget
 * refuses an eviction, it is tried again. Returns how many pods still exist at the timeout, or
 * -errno.
 */
int evict_pods(struct access *access, const json_t *pods, const struct evict_options *options,
	struct error *err);

/* Returns the pods that use the device, by their assigned keys or by GPUNode.status. */
json_t *evict_tenants_of(const json_t *gpunodes, const json_t *pods, const char *uuid);

/*
 * Returns the pods that have a controller, which would create them again; is_made false: the pods
 * without a controller.
 */
json_t *evict_made(const json_t *pods, bool is_made);

#endif
