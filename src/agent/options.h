/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvyd's command line: one table, which makes the parser, --help and divvyd(8). One thread.
 */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "agent/agent.h"
#include "agent/node.h"
#include "base/man.h"

struct options {
	struct agent_options agent; /* borrows from argv */
	struct node_options node;   /* in a cluster; the same */
	bool is_cluster;
	int ready_fd; /* -1: none */
	bool is_done; /* --help, --version: it has been printed */
};

/* -EINVAL or -ERANGE with a sentence that names the option, its value and what would be right. */
int options_parse(int argc, char **argv, struct options *ret_options, struct error *err);

/* The i-th one for the man page; false when there is none further. */
bool options_describe(size_t i, struct man_option *ret_option);

#endif
