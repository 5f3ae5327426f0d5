/* SPDX-License-Identifier: Apache-2.0 */
/* Evicts pods as disruption budgets allow, with progress on stdout. */
#ifndef KUBECTL_EVICT_H
#define KUBECTL_EVICT_H

#include <signal.h>

#include "kubectl/kubectl-access.h"

struct evict_options {
	uint64_t timeout_ns; /* for all pods together */
	int64_t grace_s;     /* < 0: each pod's own */
	bool is_in_order;    /* each pod is gone before the next is evicted */
	bool is_dry_run;     /* the server says what it would do */
	/* set by a signal handler: -EINTR soon; NULL: never */
	const volatile sig_atomic_t *is_ended;
};

/*
 * Evicts the pods (API objects) and waits until they are gone. A pod that its budget holds is tried
 * again. Returns how many still exist at the timeout, or -errno.
 */
int evict_pods(struct access *access, const json_t *pods, const struct evict_options *options,
	struct error *err);

/* The node's pods with that device, by their assigned keys or by divvyd's status. */
json_t *evict_tenants_of(const json_t *gpunodes, const json_t *pods, const char *uuid);

/* The pods that a controller would create again, or the other pods. */
json_t *evict_made(const json_t *pods, bool is_made);

/* Whether the pod has ended by itself, with success or without. */
bool evict_is_over(const json_t *pod);

#endif
