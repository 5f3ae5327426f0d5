/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper is a divvy program that works for the daemon, such as divvy-remote-far. The daemon finds
 * it in the build or install folder, and starts it with some descriptors. A control connection
 * joins the two: when the daemon ends or closes it, the helper ends. When the helper closes it, the
 * daemon knows that the helper has ended. Only the loop's thread calls these functions.
 */
#ifndef NODE_HELPER_H
#define NODE_HELPER_H

#include "base/error.h"
#include "base/loop.h"

struct helper;

#define HELPER_FDS_MAX 4u

struct helper_options {
	const char *name;        /* "divvy-remote-far" */
	const char *const *argv; /* further arguments; NULL after the last */
	/*
	 * More variables for the helper, each "NAME=value"; NULL after the last. The helper also
	 * gets the daemon's variables that base/inherit.h names.
	 */
	const char *const *env;
	/* they become descriptors 3, 4, ... of the helper; the caller keeps its own */
	int fds[HELPER_FDS_MAX];
	size_t n_fds;
	/*
	 * Index in fds of the helper's end of the control connection, which helper_start() makes.
	 */
	int control_at;
	/* Called for each packet on the control connection; NULL: packets are ignored. */
	void (*said)(void *data, const void *packet, size_t n);
	/*
	 * Called when the helper has ended by itself. The owner calls helper_free() here or later.
	 */
	void (*ended)(void *data);
	void *data;
};

/* -ENOENT: no such program; -ENOMEM; other -errno. */
int helper_start(struct loop *loop, const struct helper_options *options,
	struct helper **ret_helper, struct error *err);

/* Closes the control connection, which makes the helper end. Does not wait. Accepts NULL. */
void helper_free(struct helper *helper);

#endif
