/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl on the loop: transfers that share connections. `done` comes from the loop, never from
 * within pool_add(); in it, any transfer may be added or removed, the one that is done must be.
 * While libcurl calls back (pool_is_inside()) neither may be done. One thread.
 */
#ifndef KUBE_POOL_H
#define KUBE_POOL_H

#include <curl/curl.h>

#include "base/loop.h"

struct pool;

typedef void pool_fn(void *data, CURL *easy, CURLcode result);

struct pool_options {
	uint32_t max_connections; /* 0: as many as it takes */
	uint32_t max_streams;     /* on one connection, at most what the server allows */
};

int pool_new(struct loop *loop, const struct pool_options *options, pool_fn *done, void *data,
	struct pool **ret_pool);
/* All transfers must have been removed. */
void pool_free(struct pool *pool);

int pool_add(struct pool *pool, CURL *easy);
void pool_remove(struct pool *pool, CURL *easy);

bool pool_is_inside(const struct pool *pool);

#endif
