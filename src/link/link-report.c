/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the numbers of a link to the daemon as control messages over a socket that never blocks.
 * report_send() first reads the replies to earlier requests, so a missing tenant shows one report
 * late. Only a reply with ENOENT means that the tenant is missing; an unreachable daemon does not.
 * After a failed send the next report connects again. Each packet contains the tenant's secret, so
 * report_send() erases its buffer.
 */
#include "link/link-report.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"
#include "wire/msg.h"

#define TEXT_MAX 512
#define ANSWER_MS 1000

static int dial_daemon(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("DIVVY_SOCKET");
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || !path ||
		str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)) < 0 ||
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* Reads the replies to earlier requests, for which no caller waits. */
static bool link_report_read_answer(struct report *report)
{
	_Alignas(8) char packet[sizeof(struct msg_control) + TEXT_MAX];
	const struct msg_control *msg = (const struct msg_control *)packet;
	bool is_there = true;
	ssize_t n;

	while ((n = recv(report->fd, packet, sizeof(packet), MSG_DONTWAIT)) > 0)
		if ((size_t)n >= sizeof(*msg) && msg->head.type == MSG_CONTROL_REPLY) {
			report->heard = msg->head.request;
			is_there &= msg->head.status != ENOENT;
		}
	return is_there;
}

bool report_send(struct report *report, const struct report_numbers *n)
{
	_Alignas(8) char packet[sizeof(struct msg_control) + TEXT_MAX] = "";
	struct msg_control *msg = (struct msg_control *)packet;
	const char *tenant = getenv("DIVVY_TENANT");
	int size;

	if (!tenant)
		return true;
	if (report->fd < 0)
		report->fd = dial_daemon();
	if (report->fd < 0)
		return true;
	if (!link_report_read_answer(report))
		return false;
	size = snprintf(msg->text, TEXT_MAX, "{\"cmd\":\"remote\",\"secret\":\"%.64s\"", tenant);
	if (n)
		size += snprintf(msg->text + size, TEXT_MAX - (size_t)size,
			",\"peer\":\"%s\",\"processes\":%" PRIu32 ",\"rtt_us\":%" PRIu64
			",\"received_per_s\":%" PRIu64 ",\"sent_per_s\":%" PRIu64,
			n->peer, n->processes, n->rtt_us, n->received_per_s, n->sent_per_s);
	msg->text[size++] = '}';
	msg_head_init(&msg->head, MSG_CONTROL, (uint32_t)(sizeof(*msg) + (size_t)size),
		++report->request);
	/* The next report connects to the daemon again. */
	if (send(report->fd, packet, msg->head.size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		report->fd = fd_close(report->fd);
	explicit_bzero(packet, sizeof(packet));
	return true;
}

bool report_ask(struct report *report)
{
	bool is_there = report_send(report, NULL);
	struct pollfd p = {.fd = report->fd, .events = POLLIN};

	while (is_there && p.fd >= 0 && report->heard != report->request &&
		poll(&p, 1, ANSWER_MS) > 0 && !(p.revents & POLLHUP))
		is_there = link_report_read_answer(report);
	return is_there;
}
