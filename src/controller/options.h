/* SPDX-License-Identifier: Apache-2.0 */
/* divvy-controller's command line: one table, which makes the parser, --help and the man page. */
#ifndef CONTROLLER_OPTIONS_H
#define CONTROLLER_OPTIONS_H

#include "controller/controller.h"

struct options {
	struct controller_options controller;
	bool is_placeholder; /* borrows from argv and the environment */
	bool is_done;        /* --help, --version: it has been printed */
};

int options_parse(int argc, char **argv, struct options *ret_options, struct error *err);

/* Writes divvy-controller.8 into the folder. */
int options_dump_man(const char *folder, struct error *err);

#endif
