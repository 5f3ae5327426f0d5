/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device time by day and namespace: what was asked, granted and used, as GPUNode.status.accounts
 * says it. A whole device for a second is 10^9 ns. Days are those of UTC. Pure; one thread.
 */
#ifndef NODE_ACCOUNT_H
#define NODE_ACCOUNT_H

#include <jansson.h>
#include <stdint.h>

#define ACCOUNT_DAY sizeof("2026-11-22")
#define ACCOUNT_DAYS 35u
#define ACCOUNT_ROWS_MAX 1024u /* of the oldest days are dropped first */

struct account {
	char day[ACCOUNT_DAY];
	char space[64]; /* the namespace */
	uint64_t asked_ns, granted_ns, used_ns;
};

/* By day, then in the order of their coming. Zeroed: empty. */
struct accounts {
	struct account *v;
	uint32_t n, room;
};

void accounts_done(struct accounts *accounts);

/* Adds to the row of that namespace and of the day of real_ns (since 1970). -ENOMEM. */
int accounts_add(
	struct accounts *accounts, uint64_t real_ns, const char *space, const struct account *more);

/* To milliseconds. NULL: out of memory. */
json_t *accounts_json(const struct accounts *accounts);
/* What accounts_json has made, here or in an earlier life; what is none is left out. -ENOMEM. */
int accounts_load(struct accounts *accounts, const json_t *list);

#endif
