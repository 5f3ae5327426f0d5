/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error code with its message.
 *
 * A function that can fail in more than one way takes a `struct error *err` last and returns
 * `fail(err, ENOENT, "open '%s'", path)`. That call returns -ENOENT and writes the message to err.
 * err is the caller's memory; it may be NULL, and is written only on failure. Nothing here
 * allocates or locks. So errors work when memory is exhausted and inside other people's programs,
 * and can be sent over a socket. All functions preserve errno. Any thread.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

struct error {
	int code;      /* positive errno; 0 while there is none */
	char msg[256]; /* always terminated; cut with "..." when longer */
};

/* Writes code and message; returns -code. A code that is not an errno becomes EINVAL. */
int fail(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As fail(), and appends ": " and strerror's text of the code, for a failed system call. */
int fail_errno(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message that err already has; returns r unchanged. */
int fail_within(struct error *err, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
