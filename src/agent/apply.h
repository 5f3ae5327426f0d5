/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows resource-config.txt files of Gemini, another system that shares GPUs. Such a file has the
 * number of clients, then a line `ID REQUEST LIMIT MEMORY` for each client. Each client becomes a
 * tenant with lifetime keep and source apply. A change in a followed file takes effect at once, and
 * a removed line removes its tenant.
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

/*
 * Reads the file now, and follows it if does_follow is set. *ret_tenants lists the changes for the
 * reply; the caller owns it.
 */
int apply_file(struct agent *agent, const char *path, bool does_follow, json_t **ret_tenants,
	struct error *err);
/*
 * Stops following the file and removes its tenants. -ENOENT: the file is not followed, and no
 * tenant comes from it.
 */
int apply_stop(struct agent *agent, const char *path, json_t **ret_tenants, struct error *err);

#endif
