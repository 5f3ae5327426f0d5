/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects libcurl's multi interface to the loop. set_socket() and pool_set_timer() register what
 * libcurl waits for; pool_act_on_socket() passes events on and reports complete transfers. Each
 * lane is one multi handle with connections of its own. New transfers join `current`; pool_renew()
 * retires that lane, and the next pool_add() makes another one. pool_sweep_transfers() frees a
 * retired lane without transfers, but never while pool_act_on_socket() runs for that lane
 * (`is_busy`).
 */
#include "kube/kube-pool.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

struct pool_lane {
	struct pool *pool;
	struct pool_lane *prev, *next;
	CURLM *multi;
	struct loop_timer timer;
	size_t n; /* number of transfers */
	bool is_busy;
};

struct pool {
	struct loop *loop;
	struct pool_options options;
	struct pool_lane *lanes;
	struct pool_lane *current; /* lane for new transfers; NULL: pool_add() makes one */
	pool_fn *done;
	void *data;
};

struct pool_socket {
	struct loop_io io;
	struct pool_lane *lane;
};

static void lane_free(struct pool_lane *lane)
{
	DL_DELETE(lane->pool->lanes, lane);
	/* curl_multi_cleanup() calls set_socket() for each socket that is left. */
	curl_multi_cleanup(lane->multi);
	loop_remove_timer(&lane->timer);
	free(lane);
}

/* Frees retired lanes without transfers. */
static void pool_sweep_transfers(struct pool *pool)
{
	struct pool_lane *lane, *next;

	DL_FOREACH_SAFE(pool->lanes, lane, next)
		if (lane != pool->current && !lane->n && !lane->is_busy)
			lane_free(lane);
}

static void pool_act_on_socket(struct pool_lane *lane, curl_socket_t fd, int mask)
{
	struct pool *pool = lane->pool;
	int running, left;
	CURLMsg *message;

	lane->is_busy = true;
	curl_multi_socket_action(lane->multi, fd, mask, &running);
	while ((message = curl_multi_info_read(lane->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			pool->done(pool->data, message->easy_handle, message->data.result);
	lane->is_busy = false;
	pool_sweep_transfers(pool);
}

static void pool_on_socket(struct loop_io *io, uint32_t events)
{
	struct pool_socket *socket = io->data;
	int mask = 0;

	if (events & EPOLLIN)
		mask |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		mask |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		mask |= CURL_CSELECT_ERR;
	pool_act_on_socket(socket->lane, io->fd, mask);
}

static void pool_on_timer(struct loop_timer *timer, uint64_t now_ns)
{
	pool_act_on_socket(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int pool_set_timer(CURLM *multi, long timeout_ms, void *data)
{
	struct pool_lane *lane = data;

	if (timeout_ms < 0)
		loop_cancel_timer(&lane->timer);
	else
		loop_set_timer(&lane->timer, clock_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC);
	return 0;
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
	struct pool_lane *lane = data;
	struct pool_socket *socket = socket_data;
	uint32_t events = 0;

	if (what == CURL_POLL_REMOVE) {
		if (socket)
			loop_remove_io(&socket->io);
		free(socket);
		curl_multi_assign(lane->multi, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		events |= EPOLLOUT;
	if (socket)
		return loop_mod_io(&socket->io, events) < 0 ? -1 : 0;
	socket = calloc(1, sizeof(*socket));
	if (!socket)
		return -1;
	*socket = (struct pool_socket){.lane = lane, .io.data = socket};
	if (loop_add_io(lane->pool->loop, &socket->io, fd, events, pool_on_socket) < 0) {
		free(socket);
		return -1;
	}
	curl_multi_assign(lane->multi, fd, socket);
	return 0;
}

static int pool_lane_new(struct pool *pool)
{
	struct pool_lane *lane = calloc(1, sizeof(*lane));
	CURLM *multi;

	if (!lane)
		return -ENOMEM;
	*lane = (struct pool_lane){.pool = pool, .multi = curl_multi_init(), .timer.data = lane};
	DL_APPEND(pool->lanes, lane);
	if (!lane->multi || loop_add_timer(pool->loop, &lane->timer, pool_on_timer) < 0) {
		lane_free(lane);
		return -ENOMEM;
	}
	multi = lane->multi;
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, lane);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, pool_set_timer);
	curl_multi_setopt(multi, CURLMOPT_TIMERDATA, lane);
	curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
	curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)pool->options.max_streams);
	curl_multi_setopt(
		multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)pool->options.max_connections);
	pool->current = lane;
	return 0;
}

int pool_new(struct loop *loop, const struct pool_options *options, pool_fn *done, void *data,
	struct pool **ret_pool)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	*pool = (struct pool){.loop = loop, .options = *options, .done = done, .data = data};
	*ret_pool = pool;
	return 0;
}

void pool_free(struct pool *pool)
{
	struct pool_lane *lane, *next;

	if (!pool)
		return;
	DL_FOREACH_SAFE(pool->lanes, lane, next)
		lane_free(lane);
	free(pool);
}

int pool_add(struct pool *pool, CURL *easy, struct pool_lane **ret_lane)
{
	CURLMcode code;
	int r = pool->current ? 0 : pool_lane_new(pool);

	if (r < 0)
		return r;
	code = curl_multi_add_handle(pool->current->multi, easy);
	if (code != CURLM_OK)
		return code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
	pool->current->n++;
	*ret_lane = pool->current;
	return 0;
}

void pool_remove(struct pool_lane *lane, CURL *easy)
{
	curl_multi_remove_handle(lane->multi, easy);
	lane->n--;
	pool_sweep_transfers(lane->pool);
}

void pool_renew(struct pool *pool, const struct pool_lane *lane)
{
	if (lane && lane == pool->current)
		pool->current = NULL;
}
