/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of the daemon, for limits. At the main socket a user is a uid. At the programs' socket a
 * uid identifies nobody, because a container's root is uid 0 too. There a user is a cgroup, or a
 * uid if the daemon sees no cgroup. At a tenant's own socket the user is the tenant.
 *
 * A user has limits on connections, on bytes of unread answers, and on the loop's time for costly
 * requests. At most one thread at a time blocks on the user's descriptors. At the main socket root
 * and the daemon's own user have only the limits of bytes and of that one thread. Only the loop's
 * thread calls these functions.
 */
#ifndef AGENT_USER_H
#define AGENT_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "threads/closer.h"

#define USER_CONNS_MAX 8192u     /* if descriptors suffice for several such users */
#define USER_OUT_MAX (32u << 20) /* bytes of unread answers; from there on no request runs */
#define USER_TIME_PART 4u        /* one user's requests take at most 1/4 of the thread's time */
#define USER_TIME_BURST_NS (250 * NSEC_PER_MSEC)
#define USER_RESERVE_MAX 1024u /* descriptors kept for root, pidfds and pages */

enum user_kind {
	USER_UID,           /* main socket */
	USER_CONTAINER_UID, /* programs' socket, cgroup not visible */
	USER_CGROUP,        /* programs' socket, identified by the cgroup's path */
	USER_TENANT,        /* a tenant's own socket */
};

struct user {
	LIST_ENTRY(user) link;
	enum user_kind kind;
	uint32_t id;  /* uid or tenant */
	char *cgroup; /* NULL: none */
	bool is_trusted;
	uint32_t n_conns; /* including those that the closer still holds */
	size_t out_bytes;
	struct closer_queue closing;
	/* agent-client.c: connections with a waiting request, in order */
	TAILQ_HEAD(, conn) waiting;
	TAILQ_ENTRY(user) turn;
	uint64_t paid_ns; /* see user_pay() */
};

struct users;

int users_new(struct users **ret_users);
/* All connections must have left. Accepts NULL. */
void users_free(struct users *users);

/*
 * Counts one more connection of a user; the caller calls user_leave() for it later. Check
 * user_may_connect() afterwards. id: a uid or a tenant; 0 for USER_CGROUP, which alone has a
 * `cgroup`. NULL: out of memory.
 */
struct user *user_join(struct users *users, enum user_kind kind, uint32_t id, const char *cgroup);
void user_leave(struct users *users, struct user *user);
bool user_may_connect(const struct users *users, const struct user *user);

/* Descriptors for the connections of one user, and again as many for the user's tenants. */
uint32_t users_files_max(const struct users *users);

/* True if fd is one of the last descriptors, which stay free for root and the daemon itself. */
bool users_is_reserve(const struct users *users, int fd);

/*
 * user_pay() charges the time of a request. user_may_spend() says whether the user has time left.
 * If not, *ret_when_ns is the time when the user has time again.
 */
void user_pay(struct user *user, uint64_t now_ns, uint64_t elapsed_ns);
bool user_may_spend(const struct user *user, uint64_t now_ns, uint64_t *ret_when_ns);

#endif
