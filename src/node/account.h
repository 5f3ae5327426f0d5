/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device time for each day and namespace: requested, granted and used, as in
 * GPUNode.status.accounts. One device for one second is 10^9 ns. Days are UTC days. Pure; one
 * thread.
 */
#ifndef NODE_ACCOUNT_H
#define NODE_ACCOUNT_H

#include <jansson.h>
#include <stdint.h>

#define ACCOUNT_DAY sizeof("2026-11-22")
#define ACCOUNT_DAYS 35u
#define ACCOUNT_ROWS_MAX 1024u /* beyond this, rows of the oldest days are dropped */

struct account {
	char day[ACCOUNT_DAY];
	char space[64]; /* the Kubernetes namespace */
	uint64_t asked_ns, granted_ns, used_ns;
};

/* Rows ordered by day, then by arrival. A zeroed struct is empty. */
struct accounts {
	struct account *v;
	uint32_t n, room;
};

void accounts_done(struct accounts *accounts);

/*
 * Adds to the row of the namespace and of the day of real_ns (nanoseconds since 1970). Returns 0 or
 * -ENOMEM.
 */
int accounts_add(
	struct accounts *accounts, uint64_t real_ns, const char *space, const struct account *more);

/* Returns the rows with times in milliseconds. NULL: out of memory. */
json_t *accounts_json(const struct accounts *accounts);
/*
 * Adds the rows of a list that accounts_json() made, here or in an earlier run. Skips invalid rows.
 * Returns 0 or -ENOMEM.
 */
int accounts_load(struct accounts *accounts, const json_t *list);

#endif
