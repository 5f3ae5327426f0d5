/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 session of nghttp2 on one connected socket: reading, writing, and the end. Only for
 * the gRPC server and client. The loop's thread.
 *
 * nghttp2 calls its callbacks while the connection reads or writes. The callbacks may submit frames
 * and set is_over, but must not free anything. The owner learns of the end once, by on_end, outside
 * of these callbacks.
 */
#ifndef KUBELET_GRPC_CONN_H
#define KUBELET_GRPC_CONN_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/str.h"

#define GRPC_CONN_OUT_MAX (256u << 10) /* bytes that may wait for a slow reader */
#define GRPC_CONN_QUEUE_MAX 512u       /* waiting frames at which the connection stops reading */

struct grpc_conn;
/* The connection has ended and is closed; the owner may free it here. */
typedef void grpc_conn_end_fn(struct grpc_conn *conn);

struct grpc_conn {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer kick;
	int fd; /* owned; -1: closed */
	nghttp2_session *session;
	grpc_conn_end_fn *on_end;
	struct buf out;
	/* the owner may set it; the connection then ends when this turn of the loop ends */
	bool is_over;
};

/*
 * Takes over the descriptor and the session, also on failure. Frames that are already submitted go
 * out in the loop's next turn. On failure everything is closed and on_end is not called.
 */
int grpc_conn_open(struct grpc_conn *conn, struct loop *loop, int fd, nghttp2_session *session,
	grpc_conn_end_fn *on_end);

/* Call it after submitting frames: sends them in the loop's next turn. */
void grpc_conn_kick(struct grpc_conn *conn);

/* Closes at once, without on_end. Do not call from nghttp2's callbacks. May be repeated. */
void grpc_conn_close(struct grpc_conn *conn);

/* A header field with text that nghttp2 copies. */
nghttp2_nv grpc_header(const char *name, struct str value);

#endif
