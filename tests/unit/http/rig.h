/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a loop, and peers with sockets of their own. The tests run the loop in turns. */
#ifndef TESTS_UNIT_HTTP_RIG_H
#define TESTS_UNIT_HTTP_RIG_H

#include "unit.h"

#include "base/cleanup.h"
#include "base/loop.h"
#include "http/server.h"

#define BODY_MAX 4096u

struct rig {
	struct loop *loop;
	struct http_server *server;
	struct http_request *held[64];
	unsigned int n_held, n_asked;
	bool is_holding;
};

/*
 * A handler that answers with the request's method, path, body size and X-A, or holds the request.
 */
void rig_answer(void *rig, struct http_request *request);

/*
 * more: options, or NULL. The rig sets address and body limit; by default all routes lead to
 * rig_answer().
 */
void rig_start(struct rig *rig, const struct http_options *more);
void rig_stop(struct rig *rig);
void rig_turn(struct rig *rig);

int rig_dial(const struct rig *rig);
/* As rig_dial(), from another address of the loopback device. */
int rig_dial_from(const struct rig *rig, const char *from);
void rig_say(int fd, const char *text);
/*
 * Runs the loop until `heard` contains the part (true) or the server has closed the connection
 * (false).
 */
bool rig_hear(struct rig *rig, int fd, struct buf *heard, const char *part);

#define GET "GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-A: y\r\n\r\n"

#endif
