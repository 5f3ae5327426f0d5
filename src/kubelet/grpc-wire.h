/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of gRPC over HTTP/2 that HTTP/2 lacks: statuses, timeouts, the status message in a
 * header, and the five-byte prefix of messages. Pure and total. Any thread. Source: the gRPC over
 * HTTP/2 protocol description.
 */
#ifndef KUBELET_GRPC_WIRE_H
#define KUBELET_GRPC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define GRPC_MESSAGE_MAX (4u << 20) /* bytes of a message; the default of other implementations */
#define GRPC_PREFIX 5u              /* bytes before a message: compression flag and length */
#define GRPC_TEXT_MAX 1024u         /* bytes of a status message */

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

/* "NOT_FOUND"; "UNKNOWN" for an undefined number. */
const char *grpc_status_name(enum grpc_status status);

/* Parses a grpc-status header; UNKNOWN for other text, as the protocol requires. */
enum grpc_status grpc_status_parse(struct str text);

/* Parses one to eight digits and a unit, "100m". Returns 0 or -EINVAL. */
int grpc_timeout_parse(struct str text, uint64_t *ret_ns);

#define GRPC_TIMEOUT_SIZE 16
/* Formats the shortest timeout that is at least ns. */
void grpc_timeout_format(uint64_t ns, char ret_text[static GRPC_TIMEOUT_SIZE]);

/*
 * Encodes a status message for a header: every byte that is not printable ASCII becomes %XX. Cuts
 * the text at GRPC_TEXT_MAX.
 */
int grpc_text_encode(struct str text, struct buf *out);
/*
 * The inverse of grpc_text_encode(). Leaves text that is no valid %XX unchanged, and cuts at
 * GRPC_TEXT_MAX too.
 */
int grpc_text_decode(struct str header, struct buf *out);

/* Appends the prefix and the message. */
int grpc_message_add(struct buf *out, struct str message);

/*
 * Takes the first message from the bytes received so far. Returns 1 with the message, borrowed from
 * `in`; 0 if it is incomplete; -EMSGSIZE beyond max (as soon as the prefix says so);
 * -EPROTONOSUPPORT if it is compressed; -EBADMSG for a faulty prefix, or bytes after the message.
 */
int grpc_message_take(struct str in, size_t max, struct str *ret_message);

#endif
