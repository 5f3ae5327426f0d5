/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of the daemon, as far as limits go. At the main socket a user is a uid. At the programs'
 * socket a uid means nothing, since a container's root is uid 0 too: there a user is a cgroup, or a
 * uid where no cgroup can be seen. At a tenant's own socket the user is the tenant.
 *
 * A user has bounded connections, bounded bytes of answers that wait to be read, a bounded part of
 * the thread's time for costly requests, and one thread that may block over its descriptors. Root
 * and the daemon's own user are bounded at the main socket by nothing but the one thread and the
 * bytes. The loop's thread only.
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

#define USER_CONNS_MAX 8192u     /* where there are descriptors for several such users */
#define USER_OUT_MAX (32u << 20) /* bytes of answers; no request is executed beyond */
#define USER_TIME_PART 4u        /* at most 1/4 of the thread's time for requests */
#define USER_TIME_BURST_NS (250 * NSEC_PER_MSEC)
#define USER_RESERVE_MAX 1024u /* descriptors kept for root, pidfds and pages */

enum user_kind {
	USER_UID,           /* main socket */
	USER_CONTAINER_UID, /* programs' socket, no cgroup seen */
	USER_CGROUP,        /* programs' socket; known by its path */
	USER_TENANT,        /* a tenant's own socket */
};

struct user {
	LIST_ENTRY(user) link;
	enum user_kind kind;
	uint32_t id;  /* uid or tenant */
	char *cgroup; /* NULL: none */
	bool is_trusted;
	uint32_t n_conns; /* with those that the closer still has */
	size_t out_bytes;
	struct closer_queue closing;
	/* client.c: connections with a request that waits, in order */
	TAILQ_HEAD(, conn) waiting;
	TAILQ_ENTRY(user) turn;
	uint64_t paid_ns; /* see user_pay */
};

struct users;

int users_new(struct users **ret_users);
/* All connections must be gone. NULL is fine. */
void users_free(struct users *users);

/*
 * Counts one more connection; the caller gives it back with user_leave(). NULL: out of memory.
 * user_may_connect() says whether the user has more than its limit by now. id: uid or tenant; 0
 * where the user is a cgroup, and only then `cgroup` is not NULL.
 */
struct user *user_join(struct users *users, enum user_kind kind, uint32_t id, const char *cgroup);
void user_leave(struct users *users, struct user *user);
bool user_may_connect(const struct users *users, const struct user *user);

/* Descriptors of one user's connections, and as many again of its tenants. */
uint32_t users_files_max(const struct users *users);

/*
 * True where descriptors are so few that this one, the last that was made, must be left to root and
 * the daemon itself.
 */
bool users_is_reserve(const struct users *users, int fd);

/* A request has taken that long; and whether the user may spend more now, or when. */
void user_pay(struct user *user, uint64_t now_ns, uint64_t elapsed_ns);
bool user_may_spend(const struct user *user, uint64_t now_ns, uint64_t *ret_when_ns);

#endif
