/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a container with a slot: the tenant's socket, the libraries, and the loader's
 * list that names them. All of these are read-only, and none are the host's own files.
 *
 * A slot's folder is made once and stays, because containers mount it; only the socket in it comes
 * and goes. The folder is among the files that survive a restart of the machine, because the
 * kubelet starts containers before divvyd. For a missing mount source a runtime would create an
 * empty folder. A program that finds the libraries but no daemon gets no device. A program without
 * the libraries would have the device to itself.
 */
#ifndef NODE_NODE_SLOT_H
#define NODE_NODE_SLOT_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "kubelet/cdi.h"
#include "kubelet/plugin.h"
#include "spec/spec.h"

/* Paths in the container, the same as for container engines on one machine (cli/container.h). */
#define SLOT_RUNTIME "/run/divvy"
#define SLOT_LIBRARY "/opt/divvy"
#define SLOT_REMOTE "remote.sock" /* in SLOT_RUNTIME, if the devices are elsewhere */
#define SLOT_SIM "/run/divvy-sim"
#define SLOT_DRIVER SLOT_LIBRARY "/driver" /* of simulated devices */
/* Appended to the folder's name, so that the file is beside the folder. */
#define SLOT_PRELOAD ".preload"

/* Paths on the host. */
struct slot_plan {
	const char *folder;  /* the slot's own folder */
	const char *library; /* folder that library_install() (node-library.h) made */
	const char *sim;     /* folder of the simulated machine; NULL: real devices */
	/*
	 * These two fields decide how the container gets its devices. With CDI, the slot's CDI name
	 * stands for the granted devices when the container starts. With NVIDIA's variables
	 * (is_by_environment), only "all" is possible, because the slot's container is not known
	 * yet.
	 */
	uint32_t number;
	bool is_by_environment;
	const struct plugin_pair *env; /* further variables, at most SLOT_ENV_MORE */
	size_t n_env;
};

#define SLOT_MOUNTS_MAX 4
#define SLOT_ENV_MORE 32u /* the same number as NODE_ENV_MAX */
#define SLOT_ENV_MAX (4u + SLOT_ENV_MORE)
struct slot_edits {
	char preload[PATH_MAX];
	struct plugin_mount mounts[SLOT_MOUNTS_MAX];
	struct plugin_pair env[SLOT_ENV_MAX];
	char cdi_name[CDI_NAME_SIZE];
	const char *cdi[1];
	struct plugin_edits edits;
};

/* Pure. Borrows from the plan; ret->edits borrows from *ret. */
void slot_edits_fill(const struct slot_plan *plan, struct slot_edits *ret);

/*
 * Writes the loader's list beside the slot's folder. The list names the interception libraries, or
 * the remote libraries if the devices are elsewhere. Call when the container starts, not later.
 * Syncs a new list to the disk before it returns, which may block (node-files.h).
 */
int slot_preload_write(const char *folder, bool is_remote, struct error *err);

/*
 * Part of the slot's CDI file for simulated devices. slot_edits_fill() adds the same mount and
 * variables, because kubelets before 1.29 drop CDI names by default. A runtime replaces a mount or
 * variable that is there already.
 */
struct slot_sim {
	struct cdi_mount mount;
	struct cdi_variable env[2];
};
/* Pure. Borrows sim, the folder of the simulated machine. */
void slot_sim_fill(const char *sim, struct slot_sim *ret);

/* Device files of real devices, with the same paths in the container as on the host. */
#define SLOT_NODES_MAX (SPEC_DEVICES_MAX + 3u)
struct slot_nodes {
	char path[SLOT_NODES_MAX][32];
	struct cdi_node nodes[SLOT_NODES_MAX]; /* their paths point into `path` */
	size_t n;
};
/*
 * dev: path of the host's /dev; minor: number of each granted device. -ENOENT: a file is missing,
 * and the message names it; -EINVAL: a minor is negative, since the driver gave no number.
 */
int slot_nodes_find(
	const char *dev, const int32_t *minor, size_t n, struct slot_nodes *ret, struct error *err);

/*
 * Whether the runtime gives devices to any container that sets a variable. divvyd's own container
 * shows this, because it has no other right to devices. visible: divvyd's NVIDIA_VISIBLE_DEVICES,
 * NULL: not set; dev: its own /dev.
 */
bool slot_is_runtime_insecure(const char *visible, const char *dev);

#endif
