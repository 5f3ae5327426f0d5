/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemini's resource-config.txt: the number of clients, then a line `ID REQUEST LIMIT MEMORY` each.
 * Each becomes a tenant (lifetime keep, source apply), and the file is followed: what changes in it
 * takes effect, what is gone from it is removed.
 */
#ifndef AGENT_APPLY_H
#define AGENT_APPLY_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/agent.h"
#include "base/str.h"

#define APPLY_FILES_MAX 16u

int apply_new(struct agent *agent, struct error *err);
void apply_free(struct agent *agent);

/* Reads it now, and follows it if asked. ret_tenants: what was done, for the reply. */
int apply_file(struct agent *agent, const char *path, bool does_follow, json_t **ret_tenants,
	struct error *err);
/* Ends following and removes its tenants. */
int apply_stop(struct agent *agent, const char *path, json_t **ret_tenants, struct error *err);

#endif
