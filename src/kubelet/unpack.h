/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes protocol buffers within a memory limit, because two bytes of a message can become a
 * struct of a hundred bytes. Any thread.
 */
#ifndef KUBELET_UNPACK_H
#define KUBELET_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "base/str.h"

#define UNPACK_MAX (64u << 20) /* bytes of memory for one message */

/*
 * Returns NULL if the bytes are no message of this type, or need more than UNPACK_MAX. The caller
 * frees the result by protobuf_c_message_free_unpacked(message, NULL).
 */
void *unpack(const ProtobufCMessageDescriptor *type, struct str bytes);

/*
 * Encodes the message into `out`, which it initialises and the caller frees. Returns 0 or -ENOMEM.
 */
int pack(const ProtobufCMessage *message, struct buf *out);

/* For any type of message: `_cleanup_message_ void *m = unpack(...)`. */
void message_free_p(void *message);
#define _cleanup_message_ __attribute__((cleanup(message_free_p)))

#endif
