/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of divvy's own that runs beside the daemon and for it: found where divvy is built or
 * installed, started with descriptors, told of when it ends. It ends when the control connection
 * does, also because the daemon has. The loop's thread.
 */
#ifndef NODE_HELPER_H
#define NODE_HELPER_H

#include "base/error.h"
#include "base/loop.h"

struct helper;

#define HELPER_FDS_MAX 4u

struct helper_options {
	const char *name;        /* "divvy-remote-far" */
	const char *const *argv; /* behind the name; NULL behind the last */
	const char *const *env;  /* "NAME=value", beside what inherit.h keeps; NULL at the end */
	int fds[HELPER_FDS_MAX]; /* become 3, 4, ...: they stay the caller's */
	size_t n_fds;
	int control_at; /* which of fds is made here: the other end of helper_control() */
	void (*said)(void *data, const void *packet, size_t n); /* on control; NULL: not heard */
	void (*ended)(void *data); /* by itself; the helper is to be freed, then or later */
	void *data;
};

/* -ENOENT, -ENOMEM, -errno with a sentence. */
int helper_start(struct loop *loop, const struct helper_options *options,
	struct helper **ret_helper, struct error *err);

/* Ends the control connection, and with it the helper, by itself. NULL is fine. */
void helper_free(struct helper *helper);

#endif
