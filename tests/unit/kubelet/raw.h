/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of a server's (or client's) connection, frame by frame: what a well-behaved one
 * sends and what none would. Runs the server's loop while it waits.
 */
#ifndef TESTS_UNIT_KUBELET_RAW_H
#define TESTS_UNIT_KUBELET_RAW_H

#include <nghttp2/nghttp2.h>

#include "base/loop.h"
#include "base/str.h"
#include "kubelet/grpc-server.h"

#define RAW_WINDOW (1 << 20)

struct raw {
	struct loop *loop;
	int fd;
	nghttp2_hd_inflater *inflater;
	struct buf in;
};

struct raw_frame {
	uint8_t type, flags;
	uint32_t stream;
	struct buf bytes;   /* the payload */
	struct buf headers; /* "name: value\n" ... of HEADERS */
};

/* Preface and SETTINGS are sent; the window of each stream is so many bytes. */
void raw_open(struct raw *raw, struct loop *loop, struct grpc_server *server, uint32_t window);
void raw_open_at(struct raw *raw, struct loop *loop, const char *path, uint32_t window);
/* The other end of a client's connection: a server's SETTINGS are sent, its call has come. */
void raw_serve(struct raw *raw, struct loop *loop, int fd);
void raw_close(struct raw *raw);

void raw_send(struct raw *raw, const void *bytes, size_t n);
void raw_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t stream, struct str bytes);
/* Names and values in turn, then NULL. */
void raw_headers(struct raw *raw, uint32_t stream, unsigned int flags, ...);
/* HEADERS as a gRPC client sends them, without END_STREAM. */
void raw_begin(struct raw *raw, uint32_t stream, const char *path);
/* DATA with one message. */
void raw_message(struct raw *raw, uint32_t stream, uint8_t flags, struct str message);
/* Both, and the end. */
void raw_call(struct raw *raw, uint32_t stream, const char *path, struct str message);

/*
 * The next frame that is not about settings or windows: 1, or 0 when the server has closed the
 * connection. The frame is the caller's, for raw_frame_done().
 */
int raw_next(struct raw *raw, struct raw_frame *ret_frame);
void raw_frame_done(struct raw_frame *frame);

/* Until the status of that stream: -1 when it or the connection is reset; messages go to *out. */
int raw_status(struct raw *raw, uint32_t stream, struct buf *out, struct buf *ret_headers);

/* All that was sent has been dealt with: a PING is answered. False when the server has closed. */
bool raw_ping(struct raw *raw);

#endif
