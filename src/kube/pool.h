/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl on the loop: transfers that share connections. `done` comes from the loop, never from
 * within pool_add(); in it, any transfer may be added or removed, the one that is done must be.
 * While libcurl calls back neither may be done.
 *
 * libcurl gives a transfer any connection that looks alive, and nobody can tell it that one is not:
 * one that has gone silent would be given out again and again. pool_renew() sets all connections
 * there are aside for the transfers that they have, and starts anew for those to come. One thread.
 */
#ifndef KUBE_POOL_H
#define KUBE_POOL_H

#include <curl/curl.h>

#include "base/loop.h"

struct pool;
struct pool_lane; /* some of its connections */

typedef void pool_fn(void *data, CURL *easy, CURLcode result);

struct pool_options {
	uint32_t max_connections; /* 0: as many as it takes */
	uint32_t max_streams;     /* on one connection, at most what the server allows */
};

int pool_new(struct loop *loop, const struct pool_options *options, pool_fn *done, void *data,
	struct pool **ret_pool);
/* All transfers must have been removed. */
void pool_free(struct pool *pool);

/* The lane is for pool_remove(). */
int pool_add(struct pool *pool, CURL *easy, struct pool_lane **ret_lane);
void pool_remove(struct pool_lane *lane, CURL *easy);

/* The connections of that lane are not to be trusted. */
void pool_renew(struct pool *pool, const struct pool_lane *lane);

#endif
