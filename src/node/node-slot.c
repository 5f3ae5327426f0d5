/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the mounts, variables and device files of a slot, and writes the loader's list beside it.
 * slot_preload_write() replaces the list by a new file, because running containers have the old one
 * mounted. A container runtime may have created a folder at the list's path, so rmdir() comes
 * first. slot_nodes_find() lists the driver's common device files first, then one file for each
 * granted device. The functions keep no state, so any thread may call them.
 */
#include "node/node-slot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

void slot_edits_fill(const struct slot_plan *plan, struct slot_edits *ret)
{
	size_t n = 0, n_env = 0;

	snprintf(ret->preload, sizeof(ret->preload), "%s" SLOT_PRELOAD, plan->folder);
	ret->mounts[n++] = (struct plugin_mount){SLOT_RUNTIME, plan->folder, true};
	ret->mounts[n++] = (struct plugin_mount){SLOT_LIBRARY, plan->library, true};
	ret->mounts[n++] = (struct plugin_mount){"/etc/ld.so.preload", ret->preload, true};
	/*
	 * With this value the libraries give no device while there is no daemon. A pod may set
	 * another value, which harms only itself.
	 */
	ret->env[n_env++] = (struct plugin_pair){"DIVVY_ABSENT", "closed"};
	if (plan->sim) {
		ret->mounts[n++] = (struct plugin_mount){SLOT_SIM, plan->sim, true};
		ret->env[n_env++] = (struct plugin_pair){"DIVVY_SIM", SLOT_SIM};
		ret->env[n_env++] = (struct plugin_pair){"DIVVY_DRIVER", SLOT_DRIVER};
	} else if (plan->is_by_environment) {
		ret->env[n_env++] = (struct plugin_pair){"NVIDIA_VISIBLE_DEVICES", "all"};
		ret->env[n_env++] = (struct plugin_pair){
			"NVIDIA_DRIVER_CAPABILITIES", "compute,utility"};
	}
	for (size_t i = 0; i < plan->n_env && n_env < SLOT_ENV_MAX; i++)
		ret->env[n_env++] = plan->env[i];
	cdi_name(plan->number, ret->cdi_name);
	ret->cdi[0] = ret->cdi_name;
	ret->edits = (struct plugin_edits){.env = ret->env,
		.n_env = n_env,
		.mounts = ret->mounts,
		.n_mounts = n,
		.cdi = ret->cdi,
		.n_cdi = !plan->is_by_environment};
}

void slot_sim_fill(const char *sim, struct slot_sim *ret)
{
	ret->mount = (struct cdi_mount){sim, SLOT_SIM, false};
	ret->env[0] = (struct cdi_variable){"DIVVY_SIM", SLOT_SIM};
	ret->env[1] = (struct cdi_variable){"DIVVY_DRIVER", SLOT_DRIVER};
}

int slot_preload_write(const char *folder, bool is_remote, struct error *err)
{
	static const char *const list[] = {
		SLOT_LIBRARY "/libdivvy-cuda.so\n" SLOT_LIBRARY "/libdivvy-nvml.so\n",
		/* divvy's CUDA runtime never stands before a real driver. */
		SLOT_LIBRARY "/libdivvy-remote.so\n" SLOT_LIBRARY
			     "/libdivvy-remote-nvml.so\n" SLOT_LIBRARY
			     "/libdivvy-cudart-12.so\n" SLOT_LIBRARY "/libdivvy-cudart-13.so\n",
	};
	_cleanup_buf_ struct buf before = BUF_INIT(PATH_MAX);
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s" SLOT_PRELOAD, folder) >= sizeof(path))
		return fail(err, ENAMETOOLONG, "'%s' is too long", folder);
	if (file_read(path, &before, NULL) >= 0 && str_is(buf_str(&before), list[is_remote]))
		return 0;
	/* A runtime makes an empty folder here if the file was missing when it mounted it. */
	if (rmdir(path) < 0 && errno != ENOENT && errno != ENOTDIR)
		return fail_errno(err, errno, "remove the folder '%s'", path);
	/*
	 * A new file instead of new content, because running containers have the old one mounted.
	 */
	return file_replace(path, str_from(list[is_remote]), 0644, err);
}

static bool slot_is_there(const char *dev, const char *name)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/%s", dev, name) < sizeof(path) &&
		access(path, F_OK) == 0;
}

static int slot_add_node(
	const char *dev, const char *name, struct slot_nodes *nodes, struct error *err)
{
	char *path = nodes->path[nodes->n];

	if (!slot_is_there(dev, name))
		return fail(err, ENOENT, "the driver's device file %s/%s is not there", dev, name);
	snprintf(path, sizeof(nodes->path[0]), "/dev/%s", name);
	nodes->nodes[nodes->n++] = (struct cdi_node){path, path, "rw"};
	return 0;
}

int slot_nodes_find(
	const char *dev, const int32_t *minor, size_t n, struct slot_nodes *ret, struct error *err)
{
	static const char *const tools = "nvidia-uvm-tools"; /* for profilers, if it exists */
	int r;

	ret->n = 0;
	r = slot_add_node(dev, "nvidiactl", ret, err);
	r = r < 0 ? r : slot_add_node(dev, "nvidia-uvm", ret, err);
	if (r >= 0 && slot_is_there(dev, tools))
		r = slot_add_node(dev, tools, ret, err);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		char name[24];

		if (minor[i] < 0)
			return fail(err, EINVAL, "the driver does not say which device file it is");
		snprintf(name, sizeof(name), "nvidia%d", minor[i]);
		r = slot_add_node(dev, name, ret, err);
	}
	return r;
}

bool slot_is_runtime_insecure(const char *visible, const char *dev)
{
	return visible && *visible && strcmp(visible, "none") != 0 &&
		strcmp(visible, "void") != 0 && slot_is_there(dev, "nvidiactl");
}
