/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections and makes room for them: see accept.h. This file listens, and libmicrohttpd
 * does not. At its limit, libmicrohttpd would remove its listener from the epoll set until the next
 * MHD_run(), and after a sweep has ended all connections nothing calls MHD_run(). The limit of
 * libmicrohttpd is above ours, so it is never reached. One thread, the loop's.
 */
#include "http/accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/listener.h"

#define BATCH 16u /* connections that are accepted in one turn of the loop */
/*
 * Silence after which a peer loses its place to a new connection. The peer loses its place at once
 * if its address has more connections than the new connection's address would then have.
 */
#define PATIENCE_NS NSEC_PER_SEC

/* ---- addresses ---- */

union any_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

/* On a unix socket the peer's user counts as its address. */
static void http_accept_read_peer(int fd, struct http_address *ret)
{
	union any_address address = {.any.sa_family = AF_UNSPEC};
	socklen_t n = sizeof(address);
	struct ucred cred;

	*ret = (struct http_address){0};
	if (getpeername(fd, &address.any, &n) < 0)
		return;
	ret->family = address.any.sa_family;
	if (ret->family == AF_INET) {
		ret->family = AF_INET6;
		ret->bytes[10] = ret->bytes[11] = 0xff;
		memcpy(ret->bytes + 12, &address.v4.sin_addr, 4);
	} else if (ret->family == AF_INET6) {
		memcpy(ret->bytes, &address.v6.sin6_addr, sizeof(ret->bytes));
	} else {
		n = sizeof(cred);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0)
			memcpy(ret->bytes, &cred.uid, sizeof(cred.uid));
	}
}

bool http_address_is_same(const struct http_address *a, const struct http_address *b)
{
	return a->family == b->family && !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

struct http_address http_address(const struct http_request *request)
{
	const struct http_peer *peer = request->connection->peer_address;

	return peer ? peer->address : (struct http_address){0};
}

static struct http_peer *http_accept_find_peer(
	const struct http_server *s, const struct http_address *address)
{
	struct http_peer *peer = NULL; /* set only for cppcheck */

	LIST_FOREACH(peer, &s->peers, link)
		if (http_address_is_same(&peer->address, address))
			return peer;
	return NULL;
}

void http_accept_add(struct connection *c)
{
	struct http_server *s = c->server;
	struct http_address address;

	http_accept_read_peer(c->fd, &address);
	c->peer_address = http_accept_find_peer(s, &address);
	if (!c->peer_address) {
		c->peer_address = calloc(1, sizeof(*c->peer_address));
		if (!c->peer_address)
			return; /* then no address counts the connection */
		c->peer_address->address = address;
		LIST_INSERT_HEAD(&s->peers, c->peer_address, link);
	}
	c->peer_address->n++;
	s->n_live++;
}

static void http_accept_forget_connection(struct connection *c)
{
	struct http_peer *peer = c->peer_address;

	if (!peer)
		return;
	c->peer_address = NULL;
	c->server->n_live--;
	if (--peer->n)
		return;
	LIST_REMOVE(peer, link);
	free(peer);
}

void http_accept_remove(struct connection *c)
{
	http_accept_forget_connection(c);
	http_accept_resume(c->server);
}

bool http_accept_is_peers_turn(const struct connection *c)
{
	const struct http_request *r = c->request;

	return !c->is_cut_off && (!r || (r->status && !r->stream));
}

void http_accept_cut_off(struct connection *c)
{
	c->is_cut_off = true;
	c->server->counts.n_refused += c->is_fresh;
	http_accept_forget_connection(c);
	shutdown(c->fd, SHUT_RDWR);
}

/* ---- room ---- */

/*
 * Whether the server waits for a request of this peer, or has waited for PATIENCE_NS until the peer
 * reads an answer.
 */
static bool http_accept_is_silent(const struct connection *c, uint64_t now)
{
	return http_accept_is_peers_turn(c) &&
		(!c->request || clock_since_ns(now, c->since_ns) >= PATIENCE_NS);
}

/* The connection that has been silent longest; peer NULL: of any address. */
static struct connection *most_silent(const struct http_server *s, const struct http_peer *peer)
{
	struct connection *c = NULL /* for cppcheck */, *found = NULL;
	const uint64_t now = clock_now_ns();

	LIST_FOREACH(c, &s->connections, link)
		if ((!peer || c->peer_address == peer) &&
			(!found || c->since_ns < found->since_ns) && http_accept_is_silent(c, now))
			found = c;
	return found;
}

/* The silent connection of the address with the most connections. */
static struct connection *most_greedy(const struct http_server *s)
{
	struct http_peer *peer = NULL; /* set only for cppcheck */
	struct connection *found = NULL;
	uint32_t n = 0;

	LIST_FOREACH(peer, &s->peers, link) {
		struct connection *c = peer->n > n ? most_silent(s, peer) : NULL;

		if (!c)
			continue;
		found = c;
		n = peer->n;
	}
	return found;
}

static bool take_place(struct connection *c, uint64_t patience_ns)
{
	if (c && c->server->options.gives_way_at_once)
		patience_ns = 0;
	if (!c || clock_since_ns(clock_now_ns(), c->since_ns) < patience_ns)
		return false;
	http_accept_cut_off(c);
	return true;
}

/*
 * Closes a silent connection if that makes room for the new connection fd. False: there is no room.
 */
static bool http_accept_close_silent(struct http_server *s, int fd)
{
	struct http_address address;
	const struct http_peer *own;
	struct connection *greedy;
	uint32_t n;

	http_accept_read_peer(fd, &address);
	own = http_accept_find_peer(s, &address);
	n = own ? own->n : 0;
	if (n >= s->options.max_per_address)
		return take_place(most_silent(s, own), PATIENCE_NS);
	if (s->n_live < s->options.max_connections)
		return true;
	greedy = most_greedy(s);
	return greedy && take_place(greedy, greedy->peer_address->n > n + 1 ? 0 : PATIENCE_NS);
}

/* Whether only the end of a request can make room. */
static bool http_accept_is_full(const struct http_server *s)
{
	return (s->n_live >= s->options.max_connections && !most_silent(s, NULL)) ||
		s->counts.n_connections >= 2 * s->options.max_connections;
}

/* ---- accepting ---- */

/* Pauses because descriptors are short, or because all connections are being answered. */
static void pause_for_a_moment(struct http_server *s)
{
	loop_mod_io(&s->listener, 0);
	loop_set_timer(&s->pause, clock_now_ns() + LISTENER_REST_NS);
}

void http_accept_resume(struct http_server *s)
{
	if (!s->listener.loop || !loop_timer_is_armed(&s->pause))
		return;
	loop_cancel_timer(&s->pause);
	loop_mod_io(&s->listener, EPOLLIN);
}

static void http_accept_on_pause_over(struct loop_timer *timer, uint64_t now)
{
	struct http_server *s = timer->data;

	loop_mod_io(&s->listener, EPOLLIN);
}

static void http_accept_on_knock(struct loop_io *io, uint32_t events)
{
	struct http_server *s = io->data;

	for (unsigned int i = 0; i < BATCH; i++) {
		union any_address address;
		socklen_t n = sizeof(address);
		int fd;

		if (http_accept_is_full(s)) {
			pause_for_a_moment(s);
			return;
		}
		fd = accept4(s->listener.fd, &address.any, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && listener_is_short(errno))
			pause_for_a_moment(s);
		if (fd < 0)
			return;
		if (!http_accept_close_silent(s, fd)) {
			s->counts.n_refused++;
			close(fd);
			continue;
		}
		/* MHD_add_connection() closes the descriptor on failure. */
		MHD_add_connection(s->http, fd, &address.any, n);
		http_server_run(s);
	}
}

int http_accept_start(struct http_server *s)
{
	int r;

	s->listener.data = s->pause.data = s;
	r = loop_add_timer(s->loop, &s->pause, http_accept_on_pause_over);
	return r < 0
		? r
		: loop_add_io(s->loop, &s->listener, s->listen_fd, EPOLLIN, http_accept_on_knock);
}

void http_accept_stop(struct http_server *s)
{
	loop_remove_io(&s->listener);
	loop_remove_timer(&s->pause);
}
