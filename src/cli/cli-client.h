/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the daemon: docs/control-protocol.md. One connection and one request at a time;
 * functions block. JSON objects are jansson's, and the caller owns an answer (json_decref()). One
 * thread.
 */
#ifndef CLI_CLI_CLIENT_H
#define CLI_CLI_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cmdline/json-member.h"

#define CLIENT_ANSWER_MAX (64u << 20)
/* A daemon that works answers in milliseconds. After this time the client reports an error. */
#define CLIENT_TIMEOUT_S 15

struct client {
	int fd;
	uint16_t abi; /* wire version in use; 0: the newest */
	uint32_t request;
	char socket[108]; /* size of sockaddr_un.sun_path */
};

#define CLIENT_NONE ((struct client){.fd = -1})

/*
 * socket NULL: $DIVVY_SOCKET, or the first of the usual places with a daemon. -ENOENT or
 * -ECONNREFUSED: no daemon; the message says how to start one.
 */
int client_connect(struct client *c, const char *socket, struct error *err);
void client_done(struct client *c);
#define _cleanup_client_ _cleanup_(client_done)

/*
 * Takes over the request, sends it and waits for the answer. If the daemon reports an older wire
 * version, sends the request again in that version. For an answer with "ok": false, returns the
 * daemon's -errno and its message. client_send() and client_receive() are the two halves.
 * client_receive() returns -EAGAIN when nothing has come within timeout_ms (-1: no limit), and may
 * be called again.
 */
int client_call(struct client *c, json_t *request, json_t **ret_answer, struct error *err);
int client_send(struct client *c, json_t *request, struct error *err);
int client_receive(struct client *c, int timeout_ms, json_t **ret_answer, struct error *err);

/* client_call() with {"cmd": name}, and with "tenant": T if tenant is not NULL. */
int client_ask(struct client *c, const char *name, const char *tenant, json_t **ret_answer,
	struct error *err);

static inline void json_decref_p(json_t **j)
{
	json_decref(*j);
}
#define _cleanup_json_ _cleanup_(json_decref_p)

#endif
