/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users: see user.h. The kernel gives a new descriptor the lowest free number, so a new
 * descriptor's number shows how many are in use. The code counts nothing that the kernel already
 * counts. The loop's thread only.
 */
#include "agent/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define BUCKETS 256u
/* Descriptors must suffice for this many users. */
#define USERS_AT_LEAST 4u
#define FILES_PER_CONN 2u /* the socket and the pidfd */

struct users {
	LIST_HEAD(, user) buckets[BUCKETS];
	uint32_t n_programs; /* connections of all users at the programs' socket */
	uint32_t conns_max;  /* connections of one user */
	int reserve_from;    /* descriptors from this number on are for root and the daemon */
};

int users_new(struct users **ret_users)
{
	struct users *users = calloc(1, sizeof(*users));
	struct rlimit files = {0};
	uint64_t max;

	if (!users)
		return -ENOMEM;
	getrlimit(RLIMIT_NOFILE, &files);
	max = MIN((uint64_t)files.rlim_cur, (uint64_t)INT32_MAX);
	max -= MIN(max / 4, (uint64_t)USER_RESERVE_MAX);
	users->reserve_from = (int)max;
	users->conns_max = (uint32_t)MIN(
		max / (FILES_PER_CONN * USERS_AT_LEAST), (uint64_t)USER_CONNS_MAX);
	*ret_users = users;
	return 0;
}

static void user_free(struct user *u)
{
	LIST_REMOVE(u, link);
	free(u->cgroup);
	free(u);
}

void users_free(struct users *users)
{
	struct user *u;

	for (uint32_t i = 0; users && i < BUCKETS; i++)
		while ((u = LIST_FIRST(&users->buckets[i])))
			user_free(u);
	free(users);
}

static bool is_of_programs(enum user_kind kind)
{
	return kind == USER_CGROUP || kind == USER_CONTAINER_UID;
}

static bool is_it(const struct user *u, enum user_kind kind, uint32_t id, const char *cgroup)
{
	return u->kind == kind && u->id == id && (!cgroup || !strcmp(u->cgroup, cgroup));
}

struct user *user_join(struct users *users, enum user_kind kind, uint32_t id, const char *cgroup)
{
	const uint64_t hash = cgroup ? str_hash(str_from(cgroup)) : id;
	const uint32_t bucket = (uint32_t)(hash ^ hash >> 32 ^ (uint64_t)kind << 6) % BUCKETS;
	struct user *u;

	LIST_FOREACH(u, &users->buckets[bucket], link)
		if (is_it(u, kind, id, cgroup))
			break;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (u && cgroup)
			u->cgroup = strdup(cgroup);
		if (!u || (cgroup && !u->cgroup)) {
			free(u);
			return NULL;
		}
		u->kind = kind;
		u->id = id;
		u->is_trusted = kind == USER_UID && (id == 0 || id == getuid());
		TAILQ_INIT(&u->waiting);
		closer_queue_init(&u->closing);
		LIST_INSERT_HEAD(&users->buckets[bucket], u, link);
	}
	u->n_conns++;
	users->n_programs += is_of_programs(kind);
	return u;
}

void user_leave(struct users *users, struct user *u)
{
	users->n_programs -= is_of_programs(u->kind);
	if (!--u->n_conns)
		user_free(u);
}

bool user_may_connect(const struct users *users, const struct user *u)
{
	if (u->is_trusted)
		return true;
	/* A container's root can make cgroups at will, so all programs together have a limit. */
	return u->n_conns <= users->conns_max &&
		(!is_of_programs(u->kind) ||
			users->n_programs <= users->conns_max * USERS_AT_LEAST / 2);
}

uint32_t users_files_max(const struct users *users)
{
	return users->conns_max * FILES_PER_CONN;
}

bool users_is_reserve(const struct users *users, int fd)
{
	return fd >= users->reserve_from;
}

void user_pay(struct user *u, uint64_t now_ns, uint64_t elapsed_ns)
{
	u->paid_ns = MAX(u->paid_ns, now_ns) + elapsed_ns * USER_TIME_PART;
}

bool user_may_spend(const struct user *u, uint64_t now_ns, uint64_t *ret_when_ns)
{
	*ret_when_ns = clock_since_ns(u->paid_ns, USER_TIME_BURST_NS);
	return u->is_trusted || *ret_when_ns <= now_ns;
}
