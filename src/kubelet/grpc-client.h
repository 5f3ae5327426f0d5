/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC call to a server on a unix socket: one request, one answer, a deadline; each on a
 * connection of its own, which costs two system calls and leaves nothing to look after when the
 * other side restarts. One thread, the loop's; nothing blocks.
 */
#ifndef KUBELET_GRPC_CLIENT_H
#define KUBELET_GRPC_CLIENT_H

#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"
#include "kubelet/grpc-wire.h"

struct grpc_request;

struct grpc_answer {
	enum grpc_status status;
	const char *text; /* the sentence of a status that is not OK, else "" */
	struct str message;
	void *data;
};

/* Called once, unless the request is freed before; the answer is borrowed until it returns. */
typedef void grpc_answer_fn(const struct grpc_answer *answer);

struct grpc_wish {
	const char *socket;
	const char *path;   /* "/package.Service/Method" */
	struct str message; /* at most GRPC_MESSAGE_MAX; copied */
	uint64_t timeout_ns;
	size_t answer_max; /* bytes; 0: GRPC_MESSAGE_MAX */
	grpc_answer_fn *answered;
	void *data;
};

/*
 * The request is gone when `answered` returns; until it is called it may be freed, which cancels
 * the call. A server that is not there is an error here (-ENOENT, -ECONNREFUSED, -EAGAIN), one that
 * goes away later is the status UNAVAILABLE.
 */
int grpc_request_new(struct loop *loop, const struct grpc_wish *wish,
	struct grpc_request **ret_request, struct error *err);

/* As above, on a connected stream socket, which is the request's, also on failure. */
int grpc_request_new_on(struct loop *loop, const struct grpc_wish *wish, int fd,
	struct grpc_request **ret_request, struct error *err);

/* Not within `answered`. NULL is fine. */
void grpc_request_free(struct grpc_request *request);

#endif
