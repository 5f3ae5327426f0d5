/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-scheduler's command line: one table, which makes the parser, --help and
 * divvy-scheduler(8). One thread.
 */
#ifndef SCHEDULER_OPTIONS_H
#define SCHEDULER_OPTIONS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/man.h"

struct options {
	const char *kubeconfig; /* NULL: the pod's own, or KUBECONFIG */
	const char *scheduler_name, *space, *lease_space;
	const char *listen;                         /* "": nothing is served */
	const char *tls_cert, *tls_key, *client_ca; /* NULL: none */
	bool is_elected;                            /* --leader-elect */
	bool is_done;                               /* --help, --version: it has been printed */
};

/* Borrows from argv. -EINVAL with a sentence that names the option and what would be right. */
int options_parse(int argc, char **argv, struct options *ret_options, struct error *err);

/* The i-th one for the man page; false when there is none further. */
bool options_describe(size_t i, struct man_option *ret_option);

/* Writes divvy-scheduler.8. */
int man_dump(const char *folder, struct error *err);

#endif
