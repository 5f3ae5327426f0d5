/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file encodes protobuf messages, and decodes them with an allocator that subtracts every
 * allocation from a budget. The allocator fails once the budget is exceeded, and it never adds
 * freed bytes back. The allocator hands out malloc's own pointers. Therefore protobuf-c's default
 * allocator can free a message after its budget has ended.
 */
#include "kubelet/unpack.h"

#include <errno.h>
#include <stdlib.h>

struct budget {
	size_t left;
};

/* Freed bytes are not added back to the budget, because unpacking frees little. */
static void *budget_alloc(void *data, size_t size)
{
	struct budget *budget = data;

	if (size > budget->left)
		return NULL;
	budget->left -= size;
	return malloc(size);
}

static void unpack_budget_free(void *data, void *p)
{
	free(p);
}

void *unpack(const ProtobufCMessageDescriptor *type, struct str bytes)
{
	struct budget budget = {.left = UNPACK_MAX};
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc, .free = unpack_budget_free, .allocator_data = &budget};

	return protobuf_c_message_unpack(type, &allocator, bytes.n,
		bytes.n ? (const uint8_t *)bytes.p : (const uint8_t *)"");
}

int pack(const ProtobufCMessage *message, struct buf *out)
{
	size_t n = protobuf_c_message_get_packed_size(message);

	*out = BUF_INIT(n + 1);
	if (buf_reserve(out, n + 1) < 0)
		return -ENOMEM;
	out->n = protobuf_c_message_pack(message, (uint8_t *)out->p);
	out->p[out->n] = '\0';
	return 0;
}

void message_free_p(void *message)
{
	ProtobufCMessage *m = *(ProtobufCMessage **)message;

	if (m)
		protobuf_c_message_free_unpacked(m, NULL);
}
