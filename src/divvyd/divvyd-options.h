/* SPDX-License-Identifier: Apache-2.0 */
/* divvyd's command line and divvyd(8). One thread. */
#ifndef DIVVYD_DIVVYD_OPTIONS_H
#define DIVVYD_DIVVYD_OPTIONS_H

#include "agent/agent.h"
#include "base/program.h"
#include "node/node.h"

struct options {
	struct agent_options agent; /* borrows from argv */
	struct node_options node;   /* for --cluster; borrows from argv */
	bool is_cluster;
	bool is_rolling; /* --rolling */
	int ready_fd;    /* -1: none */
};

/* Sets the values that apply without any option. */
void options_init(struct options *options);

extern const struct program options_program;

#endif
