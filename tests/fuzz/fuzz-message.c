/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks packets from a socket. The decoder reads nothing beyond a packet's end, and a refusal has
 * a message. An accepted packet has the size of its type, terminated strings and counts within
 * bounds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wire/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct error err = {0};
	struct msg_head head;
	uint8_t *packet;
	int r;

	if (n > UINT32_MAX)
		return 0;
	/* exactly the packet's size, so that AddressSanitizer reports a read beyond it */
	packet = malloc(n ? n : 1);
	if (!packet)
		return 0;
	memcpy(packet, data, n);
	r = msg_check(packet, (uint32_t)n, &err);
	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	if (r < 0) {
		FUZZ_CHECK(err.msg[0]);
		free(packet);
		return 0;
	}
	memcpy(&head, packet, sizeof(head));
	FUZZ_CHECK(head.size == n && n <= MSG_MAX && head.status >= 0);
	FUZZ_CHECK(strcmp(msg_type_name(head.type), "unknown"));
	if (head.type == MSG_HELLO) {
		struct msg_hello hello;

		FUZZ_CHECK(n == sizeof(hello));
		memcpy(&hello, packet, sizeof(hello));
		FUZZ_CHECK(memchr(hello.command, 0, sizeof(hello.command)));
		FUZZ_CHECK(hello.devices <= MSG_DEVICES);
	} else if (head.type == MSG_WELCOME) {
		struct msg_welcome welcome;

		FUZZ_CHECK(n == sizeof(welcome));
		memcpy(&welcome, packet, sizeof(welcome));
		FUZZ_CHECK(welcome.devices >= 1 && welcome.devices <= MSG_DEVICES);
	}
	free(packet);
	return 0;
}
