/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error with its sentence.
 *
 * A function that can fail in more than one way takes a `struct error *err` last and returns
 * `fail(err, ENOENT, "open '%s'", path)`: -ENOENT, with the sentence in err. err may be NULL (then
 * the sentence is dropped), lives in the caller's memory, and is only written on failure.
 * No heap and no lock: works out of memory, in a hooked program, and can be sent over a socket.
 * errno is preserved. Any thread.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

struct error {
	int code;      /* positive errno; 0 while there is none */
	char msg[256]; /* always terminated; cut with "..." when longer */
};

/* Records the sentence, returns -code. A code that is not a positive errno becomes EINVAL. */
int fail(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As fail(), and adds ": " and the text of the code, for what the system refused. */
int fail_errno(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "context: " before the sentence already there and returns r unchanged. */
int fail_within(struct error *err, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
