/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msg_check() accepts every message in its right form, and refuses other sizes, types and contents.
 */
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
	{MSG_DIAGNOSTIC, sizeof(struct msg_diagnostic)},
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
	/*
	 * The copy is a block of exactly `size` bytes, so that AddressSanitizer finds a read beyond
	 * its end.
	 */
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

static void right_messages_are_accepted(void **state)
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

static void wrong_sizes_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		for (uint32_t size = 0; size < 1024; size++) {
			bool has_tail = messages[i].type == MSG_CONTROL ||
				messages[i].type == MSG_CONTROL_REPLY;

			if (size == messages[i].size || (has_tail && size > messages[i].size))
				continue;
			make(messages[i].type, size);
			assert_true(check(size, "bytes") < 0);
		}
	make(MSG_CONTROL, MSG_MAX + 1);
	assert_true(check(MSG_MAX + 1, "65536") < 0);
	make(MSG_BYE, sizeof(struct msg_head) + 1);
	assert_true(check(sizeof(struct msg_head), "in its header") < 0);
}

static void wrong_types_are_refused(void **state)
{
	for (uint32_t type = 0; type < 70000; type += 7) {
		if (type >= MSG_HELLO && type < MSG_TYPES)
			continue;
		make((enum msg_type)type, sizeof(struct msg_head));
		if ((uint16_t)type >= MSG_TYPES || (uint16_t)type == 0)
			assert_true(check(sizeof(struct msg_head), "unknown type") < 0);
	}
	make(MSG_BYE, sizeof(struct msg_head));
	((struct msg_head *)packet)->status = -5;
	assert_true(check(sizeof(struct msg_head), "status -5") < 0);
}

static void wrong_contents_are_refused(void **state)
{
	struct msg_hello *hello = (struct msg_hello *)packet;
	struct msg_welcome *welcome = (struct msg_welcome *)packet;
	struct msg_refused *refused = (struct msg_refused *)packet;

	make(MSG_HELLO, sizeof(*hello));
	memset(hello->command, 'x', sizeof(hello->command));
	assert_true(check(sizeof(*hello), "command") < 0);
	make(MSG_HELLO, sizeof(*hello));
	hello->devices = 1;
	assert_true(check(sizeof(*hello), "only a second registration") < 0);
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
	make(MSG_DIAGNOSTIC, sizeof(struct msg_diagnostic));
	memset(((struct msg_diagnostic *)packet)->text, 'x', MSG_TEXT);
	assert_true(check(sizeof(struct msg_diagnostic), "DIAGNOSTIC has a text") < 0);
}

/*
 * A HELLO as programs of version 1 send it. The bytes are fixed, so that no change of the code
 * changes them.
 */
static const uint8_t hello_1[] = {
	0x58,
	0x00,
	0x00,
	0x00,
	0x01,
	0x00,
	0x01,
	0x00,
	0x01,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x02,
	0x00,
	0x00,
	0x00,
	0x01,
	0x00,
	0x00,
	0x00,
	0x00,
	0x11,
	0x22,
	0x33,
	0x44,
	0x55,
	0x66,
	0x77,
	0x88,
	0x99,
	0xaa,
	0xbb,
	0xcc,
	0xdd,
	0xee,
	0xff,
	0x15,
	0xcd,
	0x5b,
	0x07,
	0x00,
	0x00,
	0x00,
	0x00,
	0x30,
	0x2f,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x70,
	0x79,
	0x74,
	0x68,
	0x6f,
	0x6e,
	0x33,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
	0x00,
};

static void put_version(uint16_t abi)
{
	((struct msg_head *)packet)->abi = abi;
}

static void the_previous_version_is_accepted(void **state)
{
	const struct msg_hello *hello = (const struct msg_hello *)packet;

	assert_int_equal(msg_newest(), 2);
	assert_int_equal(msg_oldest(), 1);
	memcpy(packet, hello_1, sizeof(hello_1));
	assert_ok(check(sizeof(hello_1), NULL));
	assert_int_equal(hello->head.abi, 1);
	assert_int_equal(hello->flags, MSG_HELLO_MEMBARRIER);
	assert_int_equal(hello->page_abi, PAGE_ABI);
	assert_int_equal(hello->driver_version, 12080);
	assert_string_equal(hello->command, "python3");
	make(MSG_DIAGNOSTIC, sizeof(struct msg_diagnostic));
	assert_ok(check(sizeof(struct msg_diagnostic), NULL));
	put_version(1);
	assert_true(check(sizeof(struct msg_diagnostic),
			    "SAY does not exist in protocol version 1") < 0);
	assert_true(msg_is_in(MSG_DIAGNOSTIC, 2));
	assert_false(msg_is_in(MSG_DIAGNOSTIC, 1));
	assert_true(msg_is_in(MSG_YIELD, 1));
	assert_false(msg_is_in(MSG_TYPES, 2));
}

static void other_versions_are_refused_with_a_message(void **state)
{
	memcpy(packet, hello_1, sizeof(hello_1));
	put_version(0);
	assert_true(check(sizeof(hello_1), "protocol version 0; expected version 1 or 2") < 0);
	assert_true(check(sizeof(hello_1), "restart programs that loaded an older library") < 0);
	put_version(3);
	assert_true(check(sizeof(hello_1), "protocol version 3; expected version 1 or 2") < 0);
	/* A reader accepts a refusal of any version. */
	make(MSG_REFUSED, sizeof(struct msg_refused));
	put_version(7);
	assert_ok(check(sizeof(struct msg_refused), NULL));
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

UNIT_MAIN(UNIT(right_messages_are_accepted), UNIT(wrong_sizes_are_refused),
	UNIT(wrong_types_are_refused), UNIT(wrong_contents_are_refused),
	UNIT(the_previous_version_is_accepted), UNIT(other_versions_are_refused_with_a_message),
	UNIT(names))
