/* SPDX-License-Identifier: Apache-2.0 */
/* Evictions, as disruption budgets allow: told on stdout as they go on. */
#ifndef KUBECTL_EVICT_H
#define KUBECTL_EVICT_H

#include <signal.h>

#include "kubectl/access.h"

struct evict_options {
	uint64_t timeout_ns;                   /* of all together */
	int64_t grace_s;                       /* < 0: each pod's own */
	bool is_in_order;                      /* each is gone before the next is asked to go */
	bool is_dry_run;                       /* the server says what it would do */
	const volatile sig_atomic_t *is_ended; /* by a signal handler: -EINTR soon; NULL: never */
};

/*
 * pods: objects as the server has them. Asks each to go and waits until it has gone; one that its
 * budget holds is asked again. Returns how many are still there at the timeout, or -errno.
 */
int evict_pods(struct access *access, const json_t *pods, const struct evict_options *options,
	struct error *err);

/* Those of the node's pods that have that device, by their given keys or by what divvyd says. */
json_t *evict_tenants_of(const json_t *gpunodes, const json_t *pods, const char *uuid);

/* Those that a controller makes again; or the others, which nobody does. */
json_t *evict_made(const json_t *pods, bool is_made);

/* It has ended by itself, well or not. */
bool evict_is_over(const json_t *pod);

#endif
