/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the options of divvy-scheduler, from which its help and the man page divvy-scheduler(8)
 * are made.
 */
#ifndef SCHEDULER_SCHEDULER_OPTIONS_H
#define SCHEDULER_SCHEDULER_OPTIONS_H

#include <stdbool.h>

#include "base/program.h"

/* Texts are borrowed from argv. */
struct options {
	const char *kubeconfig; /* NULL: the pod's own, or KUBECONFIG */
	const char *scheduler_name, *space, *lease_space, *rack_label;
	const char *listen;                         /* NULL: nothing is served */
	const char *health_listen;                  /* second address for probes; NULL: none */
	const char *tls_cert, *tls_key, *client_ca; /* NULL: none */
	bool is_elected;                            /* --leader-elect */
};

extern const struct program options_program;

#endif
