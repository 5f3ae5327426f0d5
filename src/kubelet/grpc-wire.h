/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of gRPC over HTTP/2 that are gRPC's own: statuses, timeouts, the text of a status in a
 * header, and the five bytes before each message. Pure; any bytes may come in. Any thread.
 * Source: the gRPC over HTTP/2 protocol description.
 */
#ifndef KUBELET_GRPC_WIRE_H
#define KUBELET_GRPC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define GRPC_MESSAGE_MAX (4u << 20) /* bytes of a message; what other implementations take */
#define GRPC_PREFIX 5u              /* bytes before a message: compressed or not, length */
#define GRPC_TEXT_MAX 1024u         /* bytes of a status' sentence */

#define GRPC_STATUS_LIST(X) \
	X(0, OK) \
	X(1, CANCELLED) \
	X(2, UNKNOWN) \
	X(3, INVALID_ARGUMENT) \
	X(4, DEADLINE_EXCEEDED) \
	X(5, NOT_FOUND) \
	X(6, ALREADY_EXISTS) \
	X(7, PERMISSION_DENIED) \
	X(8, RESOURCE_EXHAUSTED) \
	X(9, FAILED_PRECONDITION) \
	X(10, ABORTED) \
	X(11, OUT_OF_RANGE) \
	X(12, UNIMPLEMENTED) \
	X(13, INTERNAL) \
	X(14, UNAVAILABLE) \
	X(15, DATA_LOSS) \
	X(16, UNAUTHENTICATED)

enum grpc_status {
#define GRPC_STATUS_ENUM(number, name) GRPC_##name = number,
	GRPC_STATUS_LIST(GRPC_STATUS_ENUM)
#undef GRPC_STATUS_ENUM
};

/* "NOT_FOUND"; "UNKNOWN" for a number that is none. */
const char *grpc_status_name(enum grpc_status status);

/* The text of a grpc-status header; what is no status is UNKNOWN, as the protocol wants. */
enum grpc_status grpc_status_parse(struct str text);

/* "100m": one to eight digits and a unit. -EINVAL when it is no timeout. */
int grpc_timeout_parse(struct str text, uint64_t *ret_ns);

#define GRPC_TIMEOUT_SIZE 16
/* The next longer one that can be written. */
void grpc_timeout_format(uint64_t ns, char ret_text[static GRPC_TIMEOUT_SIZE]);

/* The sentence of a status as a header: all but printable ASCII as %XX; cut at GRPC_TEXT_MAX. */
int grpc_text_encode(struct str text, struct buf *out);
/* Back again; what is no %XX stays as it is. Cut like that, too. */
int grpc_text_decode(struct str header, struct buf *out);

/* Appends the prefix and the message. */
int grpc_message_add(struct buf *out, struct str message);

/*
 * The first message in what has come so far: 1 with it, borrowed from `in`; 0 when more must come.
 * -EMSGSIZE beyond max (as soon as the prefix says so), -EPROTONOSUPPORT when it is compressed,
 * -EBADMSG when the prefix is none, or when anything stands behind the message.
 */
int grpc_message_take(struct str in, size_t max, struct str *ret_message);

#endif
