/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the parts of gRPC that HTTP/2 itself lacks. Tables hold the names of the
 * statuses and the units of timeouts, from nanoseconds to hours. grpc_timeout_format() takes the
 * first unit in which eight digits are enough, and rounds up. grpc_timeout_parse() returns
 * CLOCK_NEVER for a timeout that exceeds 64 bits of nanoseconds.
 */
#include "kubelet/grpc-wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"

#define TIMEOUT_DIGITS 8u
#define TIMEOUT_VALUE_MAX 99999999u

static const char *const status_names[] = {
#define STATUS_NAME(number, name) [number] = #name,
	GRPC_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
};

const char *grpc_status_name(enum grpc_status status)
{
	return (size_t)status < ARRAY_SIZE(status_names) ? status_names[status] : "UNKNOWN";
}

enum grpc_status grpc_status_parse(struct str text)
{
	uint64_t number;

	if (parse_uint(text, 0, ARRAY_SIZE(status_names) - 1, &number, NULL) < 0)
		return GRPC_UNKNOWN;
	return (enum grpc_status)number;
}

/* ---- timeouts ---- */

static const struct {
	char name;
	uint64_t ns;
} units[] = {
	{'n', 1},
	{'u', NSEC_PER_USEC},
	{'m', NSEC_PER_MSEC},
	{'S', NSEC_PER_SEC},
	{'M', 60 * NSEC_PER_SEC},
	{'H', 3600 * NSEC_PER_SEC},
};

int grpc_timeout_parse(struct str text, uint64_t *ret_ns)
{
	uint64_t value;

	if (text.n < 2 || text.n > TIMEOUT_DIGITS + 1)
		return -EINVAL;
	if (parse_uint((struct str){text.p, text.n - 1}, 0, TIMEOUT_VALUE_MAX, &value, NULL) < 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (units[i].name == text.p[text.n - 1]) {
			/* 1e8 hours are 3.6e20 ns: too many for 64 bits. */
			*ret_ns = value > UINT64_MAX / units[i].ns ? CLOCK_NEVER
								   : value * units[i].ns;
			return 0;
		}
	return -EINVAL;
}

void grpc_timeout_format(uint64_t ns, char ret_text[static GRPC_TIMEOUT_SIZE])
{
	size_t i = 0;
	uint64_t value = ns;

	while (value > TIMEOUT_VALUE_MAX && i + 1 < ARRAY_SIZE(units)) {
		i++;
		value = ns / units[i].ns + (ns % units[i].ns != 0);
	}
	snprintf(ret_text, GRPC_TIMEOUT_SIZE, "%llu%c", (unsigned long long)value, units[i].name);
}

/* ---- status messages ---- */

int grpc_text_encode(struct str text, struct buf *out)
{
	for (size_t i = 0; i < MIN(text.n, (size_t)GRPC_TEXT_MAX); i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c < ' ' || c > '~' || c == '%')
			buf_addf(out, "%%%02X", c);
		else
			buf_add_byte(out, (char)c);
	}
	return buf_error(out);
}

int grpc_text_decode(struct str header, struct buf *out)
{
	const size_t end = out->n + GRPC_TEXT_MAX;
	uint8_t byte;

	for (size_t i = 0; i < header.n && out->n < end; i++) {
		if (header.p[i] == '%' && i + 2 < header.n &&
			parse_hex((struct str){header.p + i + 1, 2}, &byte, 1, NULL) == 0) {
			buf_add_byte(out, (char)byte);
			i += 2;
		} else if (buf_add_byte(out, header.p[i]) < 0) {
			break;
		}
	}
	return buf_error(out);
}

/* ---- messages ---- */

int grpc_message_add(struct buf *out, struct str message)
{
	const uint32_t n = (uint32_t)message.n;
	const char prefix[GRPC_PREFIX] = {
		0, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};

	if (message.n > UINT32_MAX)
		return -EMSGSIZE;
	if (buf_reserve(out, GRPC_PREFIX + message.n) < 0)
		return buf_error(out);
	buf_add(out, (struct str){prefix, sizeof(prefix)});
	return buf_add(out, message);
}

int grpc_message_take(struct str in, size_t max, struct str *ret_message)
{
	const unsigned char *p = (const unsigned char *)in.p;
	size_t n;

	if (in.n && p[0] > 1)
		return -EBADMSG;
	if (in.n && p[0] == 1)
		return -EPROTONOSUPPORT;
	if (in.n < GRPC_PREFIX)
		return 0;
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (n > max)
		return -EMSGSIZE;
	if (in.n - GRPC_PREFIX > n)
		return -EBADMSG;
	if (in.n - GRPC_PREFIX < n)
		return 0;
	*ret_message = (struct str){in.p + GRPC_PREFIX, n};
	return 1;
}
