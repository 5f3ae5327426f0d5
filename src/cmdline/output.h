/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands print: tables for people, JSON and YAML of the daemon's answer for programs. One
 * thread.
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
		"socket", "PATH", "the daemon's socket, instead of looking for it" \
	}
#define CLI_OUTPUT_OPTION \
	{ \
		"output", "FORMAT", "what to print: table, json or yaml (default table)", \
			.letter = 'o', .choices = "table json yaml" \
	}

/* Whether a table is asked; otherwise the value has been printed. Returns 1, 0 or -errno. */
int output_as_table(const struct cli_args *args, const json_t *value, struct error *err);

int output_json(const json_t *value, struct error *err);
/* YAML 1.2 block style; texts that could be read as something else are quoted. */
void output_yaml(const json_t *value, struct buf *out);

int output_table(const struct table *table, struct error *err);
int output_buf(const struct buf *text, struct error *err);
/* Whether all that has been printed is out. */
int output_end(struct error *err);

/* Says once on stdout that the devices are not real, where the answer says so. */
void output_simulated(const json_t *answer);

#endif
