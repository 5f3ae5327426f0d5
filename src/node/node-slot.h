/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container with a slot finds in itself: its tenant's socket, the libraries, and the
 * loader's list that names them; all of it read-only, none of it of the host's own. A slot's folder
 * is made once and stays, since containers have it mounted; only the socket in it comes and goes.
 * It is with what survives the machine's restart: the kubelet starts containers again before
 * divvyd, and what is not there to be mounted a runtime makes an empty folder of. A program that
 * finds the libraries and no daemon has no device; one that finds no libraries had it to itself.
 */
#ifndef NODE_NODE_SLOT_H
#define NODE_NODE_SLOT_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "kubelet/cdi.h"
#include "kubelet/plugin.h"
#include "spec/spec.h"

/* In the container; as for engines of one machine (cli/container.h). */
#define SLOT_RUNTIME "/run/divvy"
#define SLOT_LIBRARY "/opt/divvy"
#define SLOT_REMOTE "remote.sock" /* there, where its devices are elsewhere */
#define SLOT_SIM "/run/divvy-sim"
#define SLOT_PRELOAD ".preload" /* behind the folder's name: it is none of what is in it */

/* Paths on the host. */
struct slot_plan {
	const char *folder;  /* the slot's own */
	const char *library; /* as library_install() (node-library.h) has made it */
	const char *sim;     /* of simulated devices; NULL: real ones */
	/*
	 * Real ones: by the slot's CDI name, behind which stand the granted ones and no others when
	 * the container starts; or by NVIDIA's variables, which can say no more than "all" before
	 * it is known whose the slot is.
	 */
	uint32_t number;
	bool is_by_environment;
	const struct plugin_pair *env; /* more of it: at most SLOT_ENV_MORE */
	size_t n_env;
};

#define SLOT_MOUNTS_MAX 4
#define SLOT_ENV_MORE 32u /* NODE_ENV_MAX */
#define SLOT_ENV_MAX (4u + SLOT_ENV_MORE)
struct slot_edits {
	char preload[PATH_MAX];
	struct plugin_mount mounts[SLOT_MOUNTS_MAX];
	struct plugin_pair env[SLOT_ENV_MAX];
	char cdi_name[CDI_NAME_SIZE];
	const char *cdi[1];
	struct plugin_edits edits;
};

/* Pure; borrows from the plan, and edits from ret itself. */
void slot_edits_fill(const struct slot_plan *plan, struct slot_edits *ret);

/*
 * The loader's list beside the slot's folder: the libraries that stand before the driver, or those
 * that take its place where the devices are elsewhere. As the container starts, and not later.
 */
int slot_preload_write(const char *folder, bool is_remote, struct error *err);

/* Device files for real devices, in the container at the host's own places. */
#define SLOT_NODES_MAX (SPEC_DEVICES_MAX + 3u)
struct slot_nodes {
	char path[SLOT_NODES_MAX][32];
	struct cdi_node nodes[SLOT_NODES_MAX]; /* borrow from path */
	size_t n;
};
/*
 * dev: where the host's /dev is seen; minor: of each granted device. -ENOENT names the file that is
 * not there, -EINVAL: the driver has not said which file it is.
 */
int slot_nodes_find(
	const char *dev, const int32_t *minor, size_t n, struct slot_nodes *ret, struct error *err);

/*
 * Whether the runtime gives devices to any container that sets a variable: divvyd itself is one
 * that has no other right to them. visible: its NVIDIA_VISIBLE_DEVICES, NULL: not set; dev: its
 * own /dev.
 */
bool slot_is_runtime_insecure(const char *visible, const char *dev);

#endif
