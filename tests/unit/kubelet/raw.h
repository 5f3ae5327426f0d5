/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer of a server's (or client's) connection, frame by frame: it can send correct frames, and
 * frames that no correct peer sends. The peer runs the server's loop while it waits.
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
	struct buf headers; /* fields of a HEADERS frame: "name: value\n" ... */
};

/* Connects, and sends preface and SETTINGS with this window (bytes) for each stream. */
void raw_open(struct raw *raw, struct loop *loop, struct grpc_server *server, uint32_t window);
void raw_open_at(struct raw *raw, struct loop *loop, const char *path, uint32_t window);
/* Plays the server on a client's connection: sends SETTINGS and waits for the client's call. */
void raw_serve(struct raw *raw, struct loop *loop, int fd);
void raw_close(struct raw *raw);

void raw_send(struct raw *raw, const void *bytes, size_t n);
void raw_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t stream, struct str bytes);
/* Sends HEADERS with names and values in turn, then NULL. */
void raw_headers(struct raw *raw, uint32_t stream, unsigned int flags, ...);
/* Sends HEADERS as a gRPC client does, without END_STREAM. */
void raw_begin(struct raw *raw, uint32_t stream, const char *path);
/* Sends DATA with one message. */
void raw_message(struct raw *raw, uint32_t stream, uint8_t flags, struct str message);
/* Sends HEADERS, then DATA with END_STREAM. */
void raw_call(struct raw *raw, uint32_t stream, const char *path, struct str message);

/*
 * Receives the next frame other than SETTINGS and WINDOW_UPDATE. Returns 1, or 0 if the server has
 * closed the connection. The caller frees the frame with raw_frame_done().
 */
int raw_next(struct raw *raw, struct raw_frame *ret_frame);
void raw_frame_done(struct raw_frame *frame);

/*
 * Receives frames until the stream's status arrives, and returns the status; -1 after a reset. Adds
 * the messages to *out.
 */
int raw_status(struct raw *raw, uint32_t stream, struct buf *out, struct buf *ret_headers);

/*
 * Returns true when the server has answered a PING, and so has handled everything sent before;
 * false if it has closed the connection.
 */
bool raw_ping(struct raw *raw);

#endif
