/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks packets from untrusted peers. The table has the size of each type; packets with strings or
 * counts get further checks. The checks are total: they accept any bytes, size and alignment, and
 * copy a packet before they read its fields. No state; any thread.
 */
#include "wire/msg.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
	const char *name;
	uint32_t size;
	bool has_tail;  /* text of any length follows */
	uint16_t since; /* first version with this type; 0: all */
} types[MSG_TYPES] = {
	[MSG_HELLO] = {"HELLO", sizeof(struct msg_hello), false},
	[MSG_WELCOME] = {"WELCOME", sizeof(struct msg_welcome), false},
	[MSG_REFUSED] = {"REFUSED", sizeof(struct msg_refused), false},
	[MSG_WANT] = {"WANT", sizeof(struct msg_device_note), false},
	[MSG_RELEASE] = {"RELEASE", sizeof(struct msg_device_note), false},
	[MSG_YIELD] = {"YIELD", sizeof(struct msg_device_note), false},
	[MSG_FLUSH] = {"FLUSH", sizeof(struct msg_device_note), false},
	[MSG_MEM_RESERVE] = {"MEM_RESERVE", sizeof(struct msg_memory), false},
	[MSG_MEM_RELEASE] = {"MEM_RELEASE", sizeof(struct msg_memory), false},
	[MSG_MEM_REPLY] = {"MEM_REPLY", sizeof(struct msg_memory), false},
	[MSG_MEASURE] = {"MEASURE", sizeof(struct msg_device_note), false},
	[MSG_MEASURED] = {"MEASURED", sizeof(struct msg_memory), false},
	[MSG_BYE] = {"BYE", sizeof(struct msg_head), false},
	[MSG_CONTROL] = {"CONTROL", sizeof(struct msg_control), true},
	[MSG_CONTROL_REPLY] = {"CONTROL_REPLY", sizeof(struct msg_control), true},
	[MSG_DIAGNOSTIC] = {"SAY", sizeof(struct msg_diagnostic), false, 2},
	[MSG_MEM_SHARE] = {"MEM_SHARE", sizeof(struct msg_share), false, 2},
	[MSG_MEM_UNSHARE] = {"MEM_UNSHARE", sizeof(struct msg_share), false, 2},
};

uint16_t msg_newest(void)
{
	return MSG_ABI;
}

uint16_t msg_oldest(void)
{
	return MSG_ABI > 1 ? MSG_ABI - 1 : 1;
}

static bool msg_is_known(uint16_t type)
{
	return type < MSG_TYPES && types[type].name;
}

bool msg_is_in(enum msg_type type, uint16_t abi)
{
	return msg_is_known((uint16_t)type) && types[type].since <= abi;
}

const char *msg_type_name(uint16_t type)
{
	return msg_is_known(type) ? types[type].name : "unknown";
}

void msg_head_init(struct msg_head *head, enum msg_type type, uint32_t size, uint32_t request)
{
	*head = (struct msg_head){
		.size = size,
		.type = (uint16_t)type,
		.abi = msg_newest(),
		.request = request,
	};
}

static bool is_terminated(const char *text, size_t n)
{
	return memchr(text, 0, n) != NULL;
}

static int msg_check_hello(const void *packet, struct error *err)
{
	struct msg_hello hello;

	memcpy(&hello, packet, sizeof(hello));
	if (hello.devices > MSG_DEVICES)
		return fail(err, EBADMSG, "HELLO names %u devices; at most %u are allowed",
			hello.devices, MSG_DEVICES);
	if (hello.devices && !(hello.flags & MSG_HELLO_AGAIN))
		return fail(err, EBADMSG,
			"HELLO names %u devices, which only a second registration may do",
			hello.devices);
	if (!is_terminated(hello.command, sizeof(hello.command)))
		return fail(err, EBADMSG, "HELLO has a command name without a NUL");
	return 0;
}

static int check_welcome(const void *packet, struct error *err)
{
	struct msg_welcome welcome;

	memcpy(&welcome, packet, sizeof(welcome));
	if (welcome.devices == 0 || welcome.devices > MSG_DEVICES)
		return fail(err, EBADMSG, "WELCOME names %u devices; expected 1 to %u",
			welcome.devices, MSG_DEVICES);
	return 0;
}

static int check_refused(const void *packet, struct error *err)
{
	struct msg_refused refused;

	memcpy(&refused, packet, sizeof(refused));
	if (!is_terminated(refused.reason, sizeof(refused.reason)))
		return fail(err, EBADMSG, "REFUSED has a reason without a NUL");
	return 0;
}

static int msg_check_diagnostic(const void *packet, struct error *err)
{
	struct msg_diagnostic say;

	memcpy(&say, packet, sizeof(say));
	if (!is_terminated(say.text, sizeof(say.text)))
		return fail(err, EBADMSG, "DIAGNOSTIC has a text without a NUL");
	return 0;
}

/* REFUSED is accepted in any version, because it reports a version mismatch. */
static int check_version(const struct msg_head *head, struct error *err)
{
	if (head->type == MSG_REFUSED || (head->abi >= msg_oldest() && head->abi <= msg_newest()))
		return 0;
	if (msg_oldest() == msg_newest())
		return fail(err, EBADMSG, "message of protocol version %u; expected version %u",
			head->abi, msg_newest());
	return fail(err, EBADMSG,
		"message of protocol version %u; expected version %u or %u: restart programs "
		"that loaded an older library",
		head->abi, msg_oldest(), msg_newest());
}

int msg_check(const void *packet, uint32_t size, struct error *err)
{
	struct msg_head head;

	if (size < sizeof(head) || size > MSG_MAX)
		return fail(err, EBADMSG, "message of %u bytes; expected %zu to %u", size,
			sizeof(head), MSG_MAX);
	memcpy(&head, packet, sizeof(head));
	if (head.size != size)
		return fail(err, EBADMSG, "message of %u bytes has size %u in its header", size,
			head.size);
	if (check_version(&head, err) < 0)
		return -EBADMSG;
	if (!msg_is_known(head.type))
		return fail(err, EBADMSG, "message of unknown type %u", head.type);
	if (head.type != MSG_REFUSED && !msg_is_in(head.type, head.abi))
		return fail(err, EBADMSG, "%s does not exist in protocol version %u",
			types[head.type].name, head.abi);
	if (types[head.type].has_tail ? size < types[head.type].size
				      : size != types[head.type].size)
		return fail(err, EBADMSG, "%s of %u bytes; expected %s%u", types[head.type].name,
			size, types[head.type].has_tail ? "at least " : "", types[head.type].size);
	if (head.status < 0)
		return fail(err, EBADMSG, "%s has status %d; expected 0 or a positive errno",
			types[head.type].name, head.status);
	switch (head.type) {
	case MSG_HELLO: return msg_check_hello(packet, err);
	case MSG_WELCOME: return check_welcome(packet, err);
	case MSG_REFUSED: return check_refused(packet, err);
	case MSG_DIAGNOSTIC: return msg_check_diagnostic(packet, err);
	default: return 0;
	}
}
