/* SPDX-License-Identifier: Apache-2.0 */
/* Evictions, as disruption budgets allow: told on stdout as they go on. */
#ifndef KUBECTL_EVICT_H
#define KUBECTL_EVICT_H

#include "kubectl/access.h"

struct evict_options {
	uint64_t timeout_ns; /* of all together */
	int64_t grace_s;     /* < 0: each pod's own */
	bool is_in_order;    /* each is gone before the next is asked to go */
	bool is_dry_run;     /* the server says what it would do */
};

/*
 * pods: objects as the server has them. Asks each to go and waits until it has gone; one that its
 * budget holds is asked again. Returns how many are still there at the timeout, or -errno.
 */
int evict_pods(struct access *access, const json_t *pods, const struct evict_options *options,
	struct error *err);

/* Those of the node's pods that have that device, by their given keys or by what divvyd says. */
json_t *evict_tenants_of(const json_t *gpunodes, const json_t *pods, const char *uuid);

/* Nobody makes it again where it has no controller: the name of the first such, or NULL. */
const char *evict_first_bare(const json_t *pods);

#endif
