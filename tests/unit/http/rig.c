/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

void rig_answer(void *data, struct http_request *request)
{
	struct rig *rig = data;
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 16);

	rig->n_asked++;
	if (rig->is_holding) {
		assert_true(rig->n_held < ARRAY_SIZE(rig->held));
		rig->held[rig->n_held++] = request;
		return;
	}
	buf_addf(&text, "%s %s %zu %s", http_method(request), http_path(request),
		http_body(request).n,
		http_header(request, "X-A") ? http_header(request, "X-A") : "-");
	http_answer(request, 200, "text/plain", buf_str(&text));
}

static const struct http_route everything[] = {{"GET", "*", rig_answer}, {"POST", "*", rig_answer}};

void rig_start(struct rig *rig, const struct http_options *more)
{
	struct http_options options = more ? *more : (struct http_options){0};
	struct error err;

	options.address = "127.0.0.1:0";
	options.max_body = BODY_MAX;
	if (!options.data)
		options.data = rig;
	if (!options.routes) {
		options.routes = everything;
		options.n_routes = ARRAY_SIZE(everything);
	}
	if (!rig->loop)
		assert_ok(loop_new(&rig->loop));
	if (http_server_new(rig->loop, &options, &rig->server, &err) < 0)
		fail_msg("%s", err.msg);
}

void rig_stop(struct rig *rig)
{
	http_server_free(rig->server);
	loop_free(rig->loop);
}

void rig_turn(struct rig *rig)
{
	assert_true(loop_run_once(rig->loop, clock_now_ns() + 10 * NSEC_PER_MSEC) >= 0);
}

int rig_dial(const struct rig *rig)
{
	return rig_dial_from(rig, "127.0.0.1");
}

int rig_dial_from(const struct rig *rig, const char *from)
{
	struct sockaddr_in own = {.sin_family = AF_INET};
	const struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(http_server_port(rig->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, from, &own.sin_addr), 1);
	assert_ok(bind(fd, (const struct sockaddr *)&own, sizeof(own)));
	assert_ok(connect(fd, (const struct sockaddr *)&to, sizeof(to)));
	assert_ok(fd_set_nonblock(fd, true));
	return fd;
}

void rig_say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

bool rig_hear(struct rig *rig, int fd, struct buf *heard, const char *part)
{
	for (;;) {
		ssize_t n;

		if (part && strstr(buf_text(heard), part))
			return true;
		assert_ok(buf_reserve(heard, 4096));
		n = recv(fd, heard->p + heard->n, 4096, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		if (n > 0) {
			heard->n += (size_t)n;
			heard->p[heard->n] = '\0';
			continue;
		}
		rig_turn(rig);
	}
}
