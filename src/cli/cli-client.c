/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file speaks the control protocol over a SOCK_SEQPACKET socket: a request is one packet, and
 * an answer has one or more packets. The number in each packet names its request, so
 * client_receive() skips the rest of an earlier answer. A daemon of an older version refuses the
 * first request with its own version. client_call() then connects again and repeats the request in
 * that version. If neither --socket nor DIVVY_SOCKET names a daemon, the client accepts only root's
 * daemon and its user's own.
 */
#include "cli/cli-client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/cli-path.h"
#include "wire/msg.h"

static int client_try_connect(struct client *c, const char *path, struct error *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_from(path)) < 0)
		return fail(err, ENAMETOOLONG,
			"socket '%.60s...': the path is too long; at most %zu bytes are allowed",
			path, sizeof(addr.sun_path) - 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail_errno(err, errno, "create a socket");
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return fail_errno(err, errno, "connect to the daemon at '%s'", path);
	memcpy(c->socket, addr.sun_path, sizeof(c->socket));
	c->fd = TAKE_FD(fd);
	return 0;
}

/*
 * Anybody can create folders such as /tmp, so the client accepts only root's daemon and its user's
 * own.
 */
static int client_check_owner(struct client *c, struct error *err)
{
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return fail_errno(err, errno, "owner of '%s'", c->socket);
	if (peer.uid == 0 || peer.uid == geteuid())
		return 0;
	client_done(c);
	return fail(err, EACCES,
		"the daemon at '%s' belongs to user %u, neither root nor you; to use it, name "
		"it with --socket",
		c->socket, peer.uid);
}

int client_connect(struct client *c, const char *socket, struct error *err)
{
	char path[PLACES_PATH];
	int worst = -ENOENT;

	*c = CLIENT_NONE;
	if (socket)
		return client_try_connect(c, socket, err);
	for (size_t i = 0; cli_path_socket(i, path, sizeof(path)); i++) {
		int r = client_try_connect(c, path, err);

		if (r == 0)
			return cli_path_socket_named() ? 0 : client_check_owner(c, err);
		if (cli_path_socket_named())
			return fail_within(err, r, "DIVVY_SOCKET");
		/* A daemon that refuses the connection exists, so the search ends. */
		if (r != -ENOENT && r != -ECONNREFUSED)
			return r;
		if (r == -ECONNREFUSED)
			worst = r;
	}
	return fail(err, -worst,
		"no daemon runs here; `divvy run` starts one, or start divvyd "
		"(DIVVY_SOCKET names a socket elsewhere)");
}

void client_done(struct client *c)
{
	c->fd = fd_close(c->fd);
}

/* The version of the protocol: the newest version, until a daemon has asked for another. */
static uint16_t client_spoken_version(const struct client *c)
{
	return c->abi ? c->abi : msg_newest();
}

int client_send(struct client *c, json_t *request, struct error *err)
{
	_cleanup_json_ json_t *owned = request;
	_cleanup_free_ char *text = json_dumps(owned, JSON_COMPACT);
	_cleanup_free_ struct msg_control *packet = NULL;
	const size_t n = text ? strlen(text) : 0, size = sizeof(*packet) + n;

	/* Jansson makes no object with a text that is not UTF-8. */
	if (!owned)
		return fail(err, EINVAL,
			"the daemon needs names and paths in UTF-8; rename what you named here");
	if (!text)
		return fail(err, ENOMEM, "out of memory for the request");
	if (size > MSG_MAX)
		return fail(err, EMSGSIZE, "the request has %zu bytes; at most %u are allowed",
			size, MSG_MAX);
	packet = calloc(1, size);
	if (!packet)
		return fail(err, ENOMEM, "out of memory for the request");
	packet->head = (struct msg_head){.size = (uint32_t)size,
		.type = MSG_CONTROL,
		.abi = client_spoken_version(c),
		.request = ++c->request};
	memcpy(packet->text, text, n);
	if (send(c->fd, packet, size, MSG_NOSIGNAL) < 0)
		return fail_errno(err, errno, "send to the daemon at '%s'", c->socket);
	return 0;
}

/*
 * Appends one packet of the answer to text. Returns 1 if another packet follows, and 0 for the
 * last.
 */
static int receive_part(struct client *c, int timeout_ms, struct buf *text, struct error *err)
{
	_cleanup_free_ struct msg_control *packet = malloc(MSG_MAX);
	struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
	ssize_t n;
	int r;

	if (!packet)
		return fail(err, ENOMEM, "out of memory for the answer");
	r = poll(&poll_fd, 1, timeout_ms);
	if (r == 0 || (r < 0 && errno == EINTR))
		return -EAGAIN;
	n = recv(c->fd, packet, MSG_MAX, 0);
	if (n < 0)
		return fail_errno(err, errno, "receive from the daemon at '%s'", c->socket);
	if (n == 0)
		return fail(err, ECONNRESET,
			"the daemon at '%s' closed the connection before its answer was "
			"complete; try again",
			c->socket);
	if ((size_t)n >= sizeof(packet->head) && packet->head.type == MSG_REFUSED &&
		packet->head.abi >= msg_oldest() && packet->head.abi < msg_newest() && !c->abi) {
		c->abi = packet->head.abi;
		return -EPROTONOSUPPORT;
	}
	if ((size_t)n < sizeof(*packet) || packet->head.type != MSG_CONTROL_REPLY ||
		packet->head.abi != client_spoken_version(c))
		return fail(err, EPROTO,
			"the program at '%s' is not a divvyd of this version; restart the daemon",
			c->socket);
	if (packet->head.request != c->request)
		return 1; /* the rest of an earlier answer that this client stopped reading */
	buf_add(text, (struct str){packet->text, (size_t)n - sizeof(*packet)});
	if (buf_error(text) < 0)
		return fail(err, -buf_error(text), "the daemon's answer has more than %u bytes",
			CLIENT_ANSWER_MAX);
	return packet->more != 0;
}

static int check_answer(json_t *answer, struct error *err)
{
	static const struct {
		const char *name;
		int code;
	} codes[] = {{"EINVAL", EINVAL}, {"ENOSPC", ENOSPC}, {"ENOENT", ENOENT}, {"EPERM", EPERM},
		{"EACCES", EACCES}, {"EBUSY", EBUSY}, {"E2BIG", E2BIG}, {"ENODEV", ENODEV},
		{"EEXIST", EEXIST}, {"ERANGE", ERANGE}, {"ETIMEDOUT", ETIMEDOUT}};
	const char *code = json_text_or_empty(answer, "code");
	int number = EIO;

	if (json_bool_or_false(answer, "ok"))
		return json_object_del(answer, "ok");
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (!strcmp(codes[i].name, code))
			number = codes[i].code;
	return fail(err, number, "%s", json_text_or_empty(answer, "error"));
}

int client_receive(struct client *c, int timeout_ms, json_t **ret_answer, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CLIENT_ANSWER_MAX);
	_cleanup_json_ json_t *answer = NULL;
	json_error_t why;
	int r = receive_part(c, timeout_ms, &text, err);

	while (r == 1) {
		r = receive_part(c, CLIENT_TIMEOUT_S * 1000, &text, err);
		if (r == -EAGAIN)
			return fail(err, ETIMEDOUT,
				"the daemon at '%s' stopped before its answer was complete; try "
				"again",
				c->socket);
	}
	if (r < 0)
		return r;
	answer = json_loadb(buf_text(&text), text.n, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(answer))
		return fail(err, EPROTO, "the daemon's answer is not a JSON object: %s", why.text);
	r = check_answer(answer, err);
	if (r == 0)
		*ret_answer = TAKE_PTR(answer);
	return r;
}

static int client_send_request(
	struct client *c, json_t *request, json_t **ret_answer, struct error *err)
{
	int r = client_send(c, json_incref(request), err);

	return r < 0 ? r : client_receive(c, CLIENT_TIMEOUT_S * 1000, ret_answer, err);
}

int client_call(struct client *c, json_t *request, json_t **ret_answer, struct error *err)
{
	_cleanup_json_ json_t *owned = request;
	char path[sizeof(c->socket)];
	int r = client_send_request(c, owned, ret_answer, err);

	if (r == -EPROTONOSUPPORT) {
		client_done(c);
		memcpy(path, c->socket, sizeof(path));
		r = client_try_connect(c, path, err);
		r = r < 0 ? r : client_send_request(c, owned, ret_answer, err);
	}
	if (r == -EAGAIN)
		return fail(err, ETIMEDOUT,
			"the daemon at '%s' did not answer within %d s; see its log, or restart it",
			c->socket, CLIENT_TIMEOUT_S);
	return r;
}

int client_ask(struct client *c, const char *name, const char *tenant, json_t **ret_answer,
	struct error *err)
{
	return client_call(
		c, json_pack("{s:s, s:s*}", "cmd", name, "tenant", tenant), ret_answer, err);
}
