/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pool.h"

#include <errno.h>
#include <stdlib.h>

struct pool {
	struct loop *loop;
	CURLM *multi;
	struct loop_timer timer;
	pool_fn *done;
	void *data;
	bool is_inside;
};

struct pool_socket {
	struct loop_io io;
	struct pool *pool;
};

bool pool_is_inside(const struct pool *pool)
{
	return pool->is_inside;
}

static void act(struct pool *pool, curl_socket_t fd, int mask)
{
	int running, left;
	CURLMsg *message;

	pool->is_inside = true;
	curl_multi_socket_action(pool->multi, fd, mask, &running);
	pool->is_inside = false;
	while ((message = curl_multi_info_read(pool->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			pool->done(pool->data, message->easy_handle, message->data.result);
}

static void on_socket(struct loop_io *io, uint32_t events)
{
	struct pool_socket *socket = io->data;
	int mask = 0;

	if (events & EPOLLIN)
		mask |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		mask |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		mask |= CURL_CSELECT_ERR;
	act(socket->pool, io->fd, mask);
}

static void on_timer(struct loop_timer *timer, uint64_t now_ns)
{
	act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *multi, long timeout_ms, void *data)
{
	struct pool *pool = data;

	if (timeout_ms < 0)
		loop_cancel_timer(&pool->timer);
	else
		loop_set_timer(&pool->timer, clock_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC);
	return 0;
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
	struct pool *pool = data;
	struct pool_socket *socket = socket_data;
	uint32_t events = 0;

	if (what == CURL_POLL_REMOVE) {
		if (socket)
			loop_remove_io(&socket->io);
		free(socket);
		curl_multi_assign(pool->multi, fd, NULL);
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
	*socket = (struct pool_socket){.pool = pool, .io.data = socket};
	if (loop_add_io(pool->loop, &socket->io, fd, events, on_socket) < 0) {
		free(socket);
		return -1;
	}
	curl_multi_assign(pool->multi, fd, socket);
	return 0;
}

int pool_new(struct loop *loop, const struct pool_options *options, pool_fn *done, void *data,
	struct pool **ret_pool)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return -ENOMEM;
	*pool = (struct pool){.loop = loop,
		.multi = curl_multi_init(),
		.timer.data = pool,
		.done = done,
		.data = data};
	r = pool->multi ? loop_add_timer(loop, &pool->timer, on_timer) : -ENOMEM;
	if (r < 0) {
		pool_free(pool);
		return r;
	}
	curl_multi_setopt(pool->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(pool->multi, CURLMOPT_SOCKETDATA, pool);
	curl_multi_setopt(pool->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(pool->multi, CURLMOPT_TIMERDATA, pool);
	curl_multi_setopt(pool->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
	curl_multi_setopt(pool->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)options->max_streams);
	curl_multi_setopt(
		pool->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)options->max_connections);
	*ret_pool = pool;
	return 0;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	/* Calls set_socket() for what is left. */
	curl_multi_cleanup(pool->multi);
	loop_remove_timer(&pool->timer);
	free(pool);
}

int pool_add(struct pool *pool, CURL *easy)
{
	const CURLMcode code = curl_multi_add_handle(pool->multi, easy);

	return code == CURLM_OK ? 0 : code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
}

void pool_remove(struct pool *pool, CURL *easy)
{
	curl_multi_remove_handle(pool->multi, easy);
}
