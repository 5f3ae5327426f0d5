/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container with a slot finds in itself: its tenant's socket, the libraries, and the
 * loader's list that names them; all of it read-only, none of it of the host's own. A slot's folder
 * is made once and stays, since containers have it mounted; only the socket in it comes and goes.
 *
 * Libraries are in a folder by version and contents, which is written once and never changed: what
 * a running program has mapped is not replaced by an upgrade.
 */
#ifndef AGENT_NODE_SLOT_H
#define AGENT_NODE_SLOT_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "kubelet/plugin.h"

/* In the container; as for engines of one machine (cli/container.h). */
#define SLOT_RUNTIME "/run/divvy"
#define SLOT_LIBRARY "/opt/divvy"
#define SLOT_SIM "/run/divvy-sim"
#define SLOT_PRELOAD "ld.so.preload"

/* Paths on the host. */
struct slot_plan {
	const char *folder;  /* the slot's own */
	const char *library; /* as library_install() has made it */
	const char *sim;     /* of simulated devices; NULL: real ones */
};

#define SLOT_MOUNTS_MAX 4
#define SLOT_ENV_MAX 4
struct slot_edits {
	char preload[PATH_MAX];
	struct plugin_mount mounts[SLOT_MOUNTS_MAX];
	struct plugin_pair env[SLOT_ENV_MAX];
	struct plugin_edits edits;
};

/* Pure; borrows from the plan, and edits from ret itself. */
void slot_edits_fill(const struct slot_plan *plan, struct slot_edits *ret);

/*
 * Puts the hook libraries (and the simulated driver, if driver is not NULL) below
 * state_dir/lib, and says in which folder. Blocks as files do.
 */
int library_install(const char *state_dir, const char *driver, char ret_folder[static PATH_MAX],
	struct error *err);

#endif
