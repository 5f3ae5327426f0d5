/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemini's resource-config.txt as specs: a first line with the number of clients, then as many
 * lines `ID REQUEST LIMIT MEMORY`, shares as decimals, memory in bytes.
 */
#ifndef AGENT_GEMINI_H
#define AGENT_GEMINI_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "core/spec.h"

struct gemini_client {
	char id[64]; /* '/' and what else a name cannot have is turned into '.' */
	struct spec spec;
};

/* The whole text or nothing. -EINVAL names the line. */
int gemini_parse(struct str text, struct gemini_client *ret_clients, size_t max, size_t *ret_n,
		 struct error *err);

#endif
