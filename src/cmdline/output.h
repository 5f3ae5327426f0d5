/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of commands: tables for people; JSON and YAML of the daemon's answer for
 * programs. One thread.
 */
#ifndef CMDLINE_OUTPUT_H
#define CMDLINE_OUTPUT_H

#include <jansson.h>

#include "base/str.h"
#include "base/table.h"
#include "cmdline/command.h"

#define OUTPUT_MAX (64u << 20)

#define CLI_SOCKET_OPTION \
	{ \
		"socket", "PATH", "the daemon's socket (default: see divvy(1))" \
	}
#define CLI_OUTPUT_OPTION \
	{ \
		"output", "FORMAT", "output format: table, json or yaml (default table)", \
			.letter = 'o', .choices = "table json yaml" \
	}

/*
 * Returns 1 if --output asks for a table. Otherwise prints the value as JSON or YAML and returns 0,
 * or -errno.
 */
int output_as_table(const struct cli_args *args, const json_t *value, struct error *err);

int output_json(const json_t *value, struct error *err);
/* YAML 1.2 in block style; quotes texts that could be read as another type. */
void output_yaml(const json_t *value, struct buf *out);

int output_table(const struct table *table, struct error *err);
int output_buf(const struct buf *text, struct error *err);
/* Flushes stdout. Returns 0, or -errno if any write to stdout has failed. */
int output_end(struct error *err);

/* Prints a line on stdout if the answer says that the devices are simulated. */
void output_simulated(const json_t *answer);

#endif
