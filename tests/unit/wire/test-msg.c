/* SPDX-License-Identifier: Apache-2.0 */
/* Every message in its right form is accepted; every other size, type and content is not. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "wire/msg.h"

static const struct {
	enum msg_type type;
	uint32_t size;
} messages[] = {
	{MSG_HELLO, sizeof(struct msg_hello)},
	{MSG_REFUSED, sizeof(struct msg_refused)},
	{MSG_WANT, sizeof(struct msg_device_note)},
	{MSG_RELEASE, sizeof(struct msg_device_note)},
	{MSG_FLUSH, sizeof(struct msg_device_note)},
	{MSG_MEM_RESERVE, sizeof(struct msg_memory)},
	{MSG_MEM_RELEASE, sizeof(struct msg_memory)},
	{MSG_MEM_REPLY, sizeof(struct msg_memory)},
	{MSG_MEASURE, sizeof(struct msg_device_note)},
	{MSG_MEASURED, sizeof(struct msg_memory)},
	{MSG_BYE, sizeof(struct msg_head)},
	{MSG_CONTROL, sizeof(struct msg_control)},
	{MSG_CONTROL_REPLY, sizeof(struct msg_control)},
};

static _Alignas(8) uint8_t packet[MSG_MAX + 1];

static void make(enum msg_type type, uint32_t size)
{
	memset(packet, 0, sizeof(packet));
	msg_head_init((struct msg_head *)packet, type, size, 7);
}

static int check(uint32_t size, const char *says)
{
	struct error err = {0};
	/* Exactly as large as it says: what lies beyond must not be read (AddressSanitizer). */
	uint8_t *copy = malloc(size ? size : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, packet, size);
	r = msg_check(copy, size, &err);
	free(copy);
	if (r < 0) {
		assert_int_equal(r, -EBADMSG);
		if (says)
			assert_contains(err.msg, says);
	}
	return r;
}

static void right_ones(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		make(messages[i].type, messages[i].size);
		assert_ok(check(messages[i].size, NULL));
	}
	make(MSG_WELCOME, sizeof(struct msg_welcome));
	((struct msg_welcome *)packet)->devices = MSG_DEVICES;
	assert_ok(check(sizeof(struct msg_welcome), NULL));
	make(MSG_CONTROL, MSG_MAX);
	assert_ok(check(MSG_MAX, NULL));
}

static void wrong_sizes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		for (uint32_t size = 0; size < 1024; size++) {
			bool has_tail = messages[i].type >= MSG_CONTROL;

			if (size == messages[i].size || (has_tail && size > messages[i].size))
				continue;
			make(messages[i].type, size);
			assert_true(check(size, "bytes") < 0);
		}
	make(MSG_CONTROL, MSG_MAX + 1);
	assert_true(check(MSG_MAX + 1, "65536") < 0);
	make(MSG_BYE, sizeof(struct msg_head) + 1);
	assert_true(check(sizeof(struct msg_head), "says") < 0);
}

static void wrong_types(void **state)
{
	for (uint32_t type = 0; type < 70000; type += 7) {
		if (type >= MSG_HELLO && type < MSG_TYPES)
			continue;
		make((enum msg_type)type, sizeof(struct msg_head));
		if ((uint16_t)type >= MSG_TYPES || (uint16_t)type == 0)
			assert_true(check(sizeof(struct msg_head), "unknown type") < 0);
	}
	make(MSG_BYE, sizeof(struct msg_head));
	((struct msg_head *)packet)->abi = MSG_ABI + 1;
	assert_true(check(sizeof(struct msg_head), "protocol version 2") < 0);
	make(MSG_BYE, sizeof(struct msg_head));
	((struct msg_head *)packet)->status = -5;
	assert_true(check(sizeof(struct msg_head), "status -5") < 0);
}

static void wrong_contents(void **state)
{
	struct msg_hello *hello = (struct msg_hello *)packet;
	struct msg_welcome *welcome = (struct msg_welcome *)packet;
	struct msg_refused *refused = (struct msg_refused *)packet;

	make(MSG_HELLO, sizeof(*hello));
	memset(hello->command, 'x', sizeof(hello->command));
	assert_true(check(sizeof(*hello), "command") < 0);
	make(MSG_HELLO, sizeof(*hello));
	hello->devices = 1;
	assert_true(check(sizeof(*hello), "not a second registration") < 0);
	hello->flags = MSG_HELLO_AGAIN;
	assert_ok(check(sizeof(*hello), NULL));
	hello->devices = MSG_DEVICES + 1;
	assert_true(check(sizeof(*hello), "at most 16") < 0);
	make(MSG_WELCOME, sizeof(*welcome));
	assert_true(check(sizeof(*welcome), "1 to 16") < 0);
	welcome->devices = MSG_DEVICES + 1;
	assert_true(check(sizeof(*welcome), "1 to 16") < 0);
	make(MSG_REFUSED, sizeof(*refused));
	memset(refused->reason, 'x', sizeof(refused->reason));
	assert_true(check(sizeof(*refused), "reason") < 0);
}

static void names(void **state)
{
	assert_string_equal(msg_type_name(MSG_HELLO), "HELLO");
	assert_string_equal(msg_type_name(MSG_CONTROL_REPLY), "CONTROL_REPLY");
	assert_string_equal(msg_type_name(0), "unknown");
	assert_string_equal(msg_type_name(UINT16_MAX), "unknown");
	for (uint16_t type = MSG_HELLO; type < MSG_TYPES; type++)
		assert_string_not_equal(msg_type_name(type), "unknown");
}

UNIT_MAIN(UNIT(right_ones), UNIT(wrong_sizes), UNIT(wrong_types), UNIT(wrong_contents), UNIT(names))
