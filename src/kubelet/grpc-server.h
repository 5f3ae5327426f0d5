/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on a unix socket: calls with one request and one answer, or with one request and a
 * stream of answers. One thread, the loop's; nothing blocks; no function here may be called from
 * another. Whatever comes over a connection ends as a status, or with the connection.
 *
 * A handler may answer at once or later. A call ends with grpc_call_reply() or grpc_call_end(), or
 * from outside: by the deadline that came with it, a reset, or the end of its connection. Either
 * way the pointer is not to be used afterwards; who keeps it beyond the handler learns of an end
 * from outside by grpc_call_watch(). The server may not be freed in a handler.
 */
#ifndef KUBELET_GRPC_SERVER_H
#define KUBELET_GRPC_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"
#include "kubelet/grpc-wire.h"

#define GRPC_SERVER_CONNS_MAX 64u          /* connections at once; more are closed */
#define GRPC_SERVER_STREAMS_MAX 128u       /* calls of one connection at once */
#define GRPC_SERVER_BUFFER_MAX (16u << 20) /* bytes of unfinished requests of one connection */
#define GRPC_PATH_MAX 128u                 /* of a method; a longer one does not exist */

struct grpc_server;
struct grpc_call;

/* The request is borrowed until the handler returns. */
typedef void grpc_handler_fn(struct grpc_call *call, struct str request);
typedef void grpc_gone_fn(void *data);

struct grpc_method {
	const char *path; /* "/package.Service/Method" */
	grpc_handler_fn *handle;
};

/* The methods are borrowed; `data` is for the handlers. */
int grpc_server_new(struct loop *loop, const struct grpc_method *methods, size_t n_methods,
	void *data, struct grpc_server **ret_server);

/* Ends all calls (their watches are told) and connections, unlinks the socket. NULL is fine. */
void grpc_server_free(struct grpc_server *server);

/*
 * Binds and listens, for root and our own user alone; the socket before it, if any, is closed,
 * connections stay. A socket left behind at that path is replaced, one at which somebody listens is
 * -EADDRINUSE.
 */
int grpc_server_listen(struct grpc_server *server, const char *path, struct error *err);

/* Whether it listens and the socket still stands at its path. */
bool grpc_server_is_there(const struct grpc_server *server);

/* Serves a connected stream socket, which becomes the server's also on failure. */
int grpc_server_serve(struct grpc_server *server, int fd);

/* As given to grpc_server_new(). */
void *grpc_call_data(const struct grpc_call *call);

/* Calls gone(data) when the call ends from outside. gone may not end calls of this server. */
void grpc_call_watch(struct grpc_call *call, grpc_gone_fn *gone, void *data);

/*
 * One message of a stream that says how things are: of those that wait for a slow reader only the
 * newest is kept. -EMSGSIZE beyond GRPC_MESSAGE_MAX.
 */
int grpc_call_send(struct grpc_call *call, struct str message);

/* The answer, and the end. */
void grpc_call_reply(struct grpc_call *call, struct str message);

/* The end, with a status and a sentence; what was sent before arrives before it. */
void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
