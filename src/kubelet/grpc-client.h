/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC call to a server on a unix socket: one request, one answer, a deadline. Each call has a
 * connection of its own, which costs two system calls, and leaves no state when the server
 * restarts. One thread, the loop's; nothing blocks.
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
	const char *text; /* message of a status other than OK, else "" */
	struct str message;
	void *data;
};

/* Called once, unless the request is freed before. The answer is valid until it returns. */
typedef void grpc_answer_fn(const struct grpc_answer *answer);

struct grpc_call_params {
	const char *socket;
	const char *path;   /* "/package.Service/Method" */
	struct str message; /* at most GRPC_MESSAGE_MAX; copied */
	uint64_t timeout_ns;
	size_t answer_max; /* bytes; 0: GRPC_MESSAGE_MAX */
	grpc_answer_fn *answered;
	void *data;
};

/*
 * Starts a call. The request ends when `answered` returns; freeing it before that cancels the call.
 * Returns 0, or -errno if the server is absent (-ENOENT, -ECONNREFUSED, -EAGAIN). If the server
 * disappears later, the call ends with status UNAVAILABLE.
 */
int grpc_request_new(struct loop *loop, const struct grpc_call_params *params,
	struct grpc_request **ret_request, struct error *err);

/* As grpc_request_new(), on a connected stream socket, which it takes over, also on failure. */
int grpc_request_new_on(struct loop *loop, const struct grpc_call_params *params, int fd,
	struct grpc_request **ret_request, struct error *err);

/* Do not call from `answered`. Accepts NULL. */
void grpc_request_free(struct grpc_request *request);

#endif
