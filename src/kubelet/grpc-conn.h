/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 session of nghttp2 on one connected socket: reading, writing, and the end. Used by the
 * server and by the client, nobody else. The loop's thread.
 *
 * nghttp2's callbacks run within reading and writing. They may submit and mark, but nothing may be
 * freed in them: what ends a connection is noted, and its owner hears of it once, outside of them.
 */
#ifndef KUBELET_GRPC_CONN_H
#define KUBELET_GRPC_CONN_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/str.h"

#define GRPC_CONN_OUT_MAX (256u << 10) /* bytes that a slow reader lets wait */
#define GRPC_CONN_QUEUE_MAX 512u /* frames that a slow reader lets wait: then we do not read */

struct grpc_conn;
/* The connection is at its end and closed already; the last thing done with it: it may be freed. */
typedef void grpc_conn_end_fn(struct grpc_conn *conn);

struct grpc_conn {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer kick;
	int fd; /* ours; -1: closed */
	nghttp2_session *session;
	grpc_conn_end_fn *on_end;
	struct buf out;
	bool is_over; /* the owner may set it, too: it ends with the turn */
};

/*
 * Takes over the descriptor (always) and the session (always); what is submitted already goes out
 * in the loop's next turn. On failure all is closed and on_end is not called.
 */
int grpc_conn_open(struct grpc_conn *conn, struct loop *loop, int fd, nghttp2_session *session,
	grpc_conn_end_fn *on_end);

/* Something was submitted: it goes out in the loop's next turn. */
void grpc_conn_kick(struct grpc_conn *conn);

/* At once, on_end is not called. Not within nghttp2's callbacks. Twice is fine. */
void grpc_conn_close(struct grpc_conn *conn);

/* A header field of text that nghttp2 copies. */
nghttp2_nv grpc_header(const char *name, struct str value);

#endif
