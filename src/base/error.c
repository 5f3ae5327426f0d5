/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file formats errors in the caller's memory, on the stack and without a lock. A message that
 * does not fit ends in "...". Every function restores errno before it returns. Any thread.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int positive_errno(int code)
{
	if (code < 0 && code > -4096)
		return -code;
	return code > 0 && code < 4096 ? code : EINVAL;
}

/* If a text of `wanted` bytes did not fit, ends it with "...". */
static void mark_cut(char *buf, size_t size, int wanted)
{
	if (wanted >= 0 && (size_t)wanted < size)
		return;
	memcpy(buf + size - 4, "...", 4);
}

int fail(struct error *err, int code, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	code = positive_errno(code);
	if (err) {
		err->code = code;
		va_start(ap, fmt);
		mark_cut(
			err->msg, sizeof(err->msg), vsnprintf(err->msg, sizeof(err->msg), fmt, ap));
		va_end(ap);
	}
	errno = saved;
	return -code;
}

int fail_errno(struct error *err, int code, const char *fmt, ...)
{
	int saved = errno;
	char what[sizeof(err->msg)];
	char text[64];
	va_list ap;
	int n;

	code = positive_errno(code);
	if (err) {
		va_start(ap, fmt);
		vsnprintf(what, sizeof(what), fmt, ap);
		va_end(ap);
		err->code = code;
		n = snprintf(err->msg, sizeof(err->msg), "%s: %s", what,
			strerror_r(code, text, sizeof(text)));
		mark_cut(err->msg, sizeof(err->msg), n);
	}
	errno = saved;
	return -code;
}

int fail_within(struct error *err, int r, const char *fmt, ...)
{
	int saved = errno;
	char inner[sizeof(err->msg)];
	char context[sizeof(err->msg)];
	va_list ap;
	int n;

	if (err) {
		va_start(ap, fmt);
		vsnprintf(context, sizeof(context), fmt, ap);
		va_end(ap);
		memcpy(inner, err->msg, sizeof(inner));
		n = snprintf(err->msg, sizeof(err->msg), "%s: %s", context, inner);
		mark_cut(err->msg, sizeof(err->msg), n);
	}
	errno = saved;
	return r;
}
