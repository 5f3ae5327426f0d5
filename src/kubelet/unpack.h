/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol buffers within bounds: two bytes of a message can stand for a part that takes a hundred
 * in memory, so what unpacking may take is limited as a whole. Any thread.
 */
#ifndef KUBELET_UNPACK_H
#define KUBELET_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "base/str.h"

#define UNPACK_MAX (64u << 20) /* bytes of memory of one message */

/*
 * NULL when it is no such message, or takes more than UNPACK_MAX; the caller's, for
 * protobuf_c_message_free_unpacked(message, NULL).
 */
void *unpack(const ProtobufCMessageDescriptor *type, struct str bytes);

/* The message's bytes on the heap: in `out`, which is given its maximum here. 0 or -ENOMEM. */
int pack(const ProtobufCMessage *message, struct buf *out);

/* `_cleanup_message_ void *m = unpack(...)` and the like, for any type of message. */
void message_free_p(void *message);
#define _cleanup_message_ __attribute__((cleanup(message_free_p)))

#endif
