/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets to the daemon from a hostile or careless client: any fields, any descriptors.
 */
#ifndef TESTS_PACKET_H
#define TESTS_PACKET_H

#include <stdint.h>
#include <string.h>

#include "wire/msg.h"
#include "wire/page.h"

union packet {
	struct msg_head head;
	struct msg_hello hello;
	struct msg_control control;
	char bytes[256];
};

/* These return the packet's size in bytes. The text must fit. */
static inline uint32_t make_control(union packet *p, const char *text)
{
	const uint32_t size = (uint32_t)(sizeof(p->control) + strlen(text));

	memset(p, 0, sizeof(*p));
	msg_head_init(&p->head, MSG_CONTROL, size, 1);
	memcpy(p->control.text, text, strlen(text));
	return size;
}

/* With MSG_HELLO_AGAIN in flags the packet announces the pages of one device. */
static inline uint32_t make_hello(union packet *p, uint32_t flags)
{
	memset(p, 0, sizeof(*p));
	msg_head_init(&p->head, MSG_HELLO, sizeof(p->hello), 1);
	p->hello.page_abi = PAGE_ABI;
	p->hello.flags = flags;
	p->hello.devices = flags & MSG_HELLO_AGAIN ? 1 : 0;
	return sizeof(p->hello);
}

#endif
