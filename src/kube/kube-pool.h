/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl on the loop: transfers that share connections. `done` is called from the loop, never
 * within pool_add(). `done` may add and remove any transfers, and must remove the finished
 * transfer. No transfer may be added or removed while libcurl calls back.
 *
 * libcurl reuses any connection that looks alive, and has no function to mark a silent connection
 * as dead. pool_renew() therefore retires all present connections: their transfers keep them, and
 * new transfers get new connections. One thread.
 */
#ifndef KUBE_KUBE_POOL_H
#define KUBE_KUBE_POOL_H

#include <curl/curl.h>

#include "base/loop.h"

struct pool;
struct pool_lane; /* connections that new transfers may share until pool_renew() */

typedef void pool_fn(void *data, CURL *easy, CURLcode result);

struct pool_options {
	uint32_t max_connections; /* 0: no limit */
	uint32_t max_streams;     /* streams on one connection; the server may allow fewer */
};

int pool_new(struct loop *loop, const struct pool_options *options, pool_fn *done, void *data,
	struct pool **ret_pool);
/* All transfers must have been removed. */
void pool_free(struct pool *pool);

/* Adds a transfer; pass the lane to pool_remove(). Returns 0, -ENOMEM or -EINVAL. */
int pool_add(struct pool *pool, CURL *easy, struct pool_lane **ret_lane);
void pool_remove(struct pool_lane *lane, CURL *easy);

/* Retires the connections of that lane. */
void pool_renew(struct pool *pool, const struct pool_lane *lane);

#endif
