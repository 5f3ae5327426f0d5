/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on a unix socket, for calls with one request and one answer or a stream of answers.
 * One thread, the loop's; nothing blocks; no function may be called from another thread. Faulty
 * input ends the call with a status, or the connection.
 *
 * A handler may answer at once or later. A call ends with grpc_call_reply() or grpc_call_end(), or
 * from outside: by its deadline, a reset, or the end of its connection. After that the pointer is
 * invalid. Code that keeps the pointer after the handler has returned calls grpc_call_watch(),
 * which reports an end from outside. The server must not be freed in a handler.
 */
#ifndef KUBELET_GRPC_SERVER_H
#define KUBELET_GRPC_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"
#include "kubelet/grpc-wire.h"

#define GRPC_SERVER_CONNS_MAX 64u          /* simultaneous connections; further ones are closed */
#define GRPC_SERVER_STREAMS_MAX 128u       /* simultaneous calls on a connection */
#define GRPC_SERVER_BUFFER_MAX (16u << 20) /* bytes of unfinished requests on a connection */
/* longest path of a method; the server treats a longer path as unknown */
#define GRPC_PATH_MAX 128u

struct grpc_server;
struct grpc_call;

/* The request is valid until the handler returns. */
typedef void grpc_handler_fn(struct grpc_call *call, struct str request);
typedef void grpc_closed_fn(void *data);

struct grpc_method {
	const char *path; /* "/package.Service/Method" */
	grpc_handler_fn *handle;
};

/* Borrows the methods; grpc_call_data() returns `data`. Returns 0 or -ENOMEM. */
int grpc_server_new(struct loop *loop, const struct grpc_method *methods, size_t n_methods,
	void *data, struct grpc_server **ret_server);

/*
 * Ends all calls, reports that to their watches, closes connections, unlinks the socket. Accepts
 * NULL.
 */
void grpc_server_free(struct grpc_server *server);

/*
 * Listens at the path, for root and our own user only. Closes an earlier listening socket;
 * connections stay. Replaces a stale socket at the path. Returns 0, -EADDRINUSE if another process
 * listens there, or another -errno.
 */
int grpc_server_listen(struct grpc_server *server, const char *path, struct error *err);

/*
 * Unlinks a socket on which no process listens; ignores a missing file. Returns 0, -EADDRINUSE, or
 * another -errno.
 */
int grpc_socket_clear(const char *path, struct error *err);

/* Whether the server listens, and the file at its path is still its own socket. */
bool grpc_server_is_there(const struct grpc_server *server);

/*
 * Serves a connected stream socket, which it takes over, also on failure. Returns 0, -EUSERS or
 * -ENOMEM.
 */
int grpc_server_serve(struct grpc_server *server, int fd);

/* The `data` of grpc_server_new(). */
void *grpc_call_data(const struct grpc_call *call);

/* Calls gone(data) when the call ends from outside. gone must not end calls of this server. */
void grpc_call_watch(struct grpc_call *call, grpc_closed_fn *gone, void *data);

/*
 * Sends one message of a stream in which each message replaces the state before it. If the peer
 * reads slowly, only the newest waiting message is kept. Returns 0; -EMSGSIZE beyond
 * GRPC_MESSAGE_MAX; -ENOMEM.
 */
int grpc_call_send(struct grpc_call *call, struct str message);

/* Sends the answer and ends the call. */
void grpc_call_reply(struct grpc_call *call, struct str message);

/* Ends the call with a status and a message, after all messages sent before. */
void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
