/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a claim's tenant: those of its slot, and the CDI file, which has all that the device
 * plugin says in its two answers. Only dra_files_write() waits for the disk. The files of a slot
 * stay when its tenant ends, and the next tenant of the slot finds them. So they are made before
 * the first tenant needs them: see dra_files_warm().
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "kubelet/cdi.h"
#include "node/node-dra.h"
#include "node/node-files.h"
#include "node/node-library.h"

struct dra_files {
	char folder[PATH_MAX], state_dir[PATH_MAX], library[PATH_MAX], cdi_dir[PATH_MAX];
	char slot[16], sim[PATH_SIZE_MAX];
	struct slot_edits edits;
	struct slot_nodes nodes;
	char devices[SPEC_DEVICES_MAX * (DRA_UUID + 1)];
	struct cdi_variable env[1 + SLOT_ENV_MAX];
	struct cdi_mount mounts[SLOT_MOUNTS_MAX];
	struct cdi_slot cdi;
};

/* ---- one tenant's files ---- */

static int files_paths(
	struct dra_files *f, const struct node *node, const struct slot *slot, struct error *err)
{
	const struct device_set *set = node->agent->devices;

	if (str_copy(f->state_dir, sizeof(f->state_dir), str_from(node->options.state_dir)) < 0 ||
		str_copy(f->library, sizeof(f->library), str_from(node->library)) < 0 ||
		str_copy(f->cdi_dir, sizeof(f->cdi_dir), str_from(node->options.cdi_dir)) < 0)
		return fail(err, ENAMETOOLONG, "a folder of --state-dir or --cdi-dir is too long");
	memcpy(f->slot, slot->id, sizeof(f->slot));
	memcpy(f->sim, set->sim_dir, sizeof(f->sim));
	return node_slot_folder(node, slot, f->folder, sizeof(f->folder), err);
}

/* A claim's CDI file has all that the device plugin says in its two answers. */
static void files_fill_cdi(struct dra_files *f, const struct slot *slot)
{
	const struct plugin_edits *edits = &f->edits.edits;

	f->env[0] = (struct cdi_variable){"DIVVY_DEVICES", f->devices};
	for (size_t i = 0; i < edits->n_env; i++)
		f->env[1 + i] = (struct cdi_variable){edits->env[i].name, edits->env[i].value};
	for (size_t i = 0; i < edits->n_mounts; i++)
		f->mounts[i] = (struct cdi_mount){edits->mounts[i].host_path,
			edits->mounts[i].container_path, !edits->mounts[i].is_read_only};
	f->cdi = (struct cdi_slot){.slot = slot->number,
		.env = f->env,
		.mounts = f->mounts,
		.nodes = f->nodes.nodes,
		.n_env = 1 + edits->n_env,
		.n_mounts = edits->n_mounts,
		.n_nodes = f->nodes.n};
}

int dra_files_new(const struct node *node, const struct slot *slot, const struct tenant *t,
	struct dra_files **ret_files, struct error *err)
{
	const bool is_simulated = node->agent->devices->is_simulated;
	struct dra_files *f = calloc(1, sizeof(*f));
	int32_t minor[SPEC_DEVICES_MAX];
	int r;

	if (!f)
		return fail(err, ENOMEM, "out of memory");
	r = files_paths(f, node, slot, err);
	for (uint32_t i = 0; i < t->n; i++) {
		const size_t n = strlen(f->devices);

		snprintf(f->devices + n, sizeof(f->devices) - n, "%s%s", i ? "," : "",
			t->devices[i].device->info.uuid);
		minor[i] = t->devices[i].device->info.minor;
	}
	if (r >= 0 && !is_simulated)
		r = slot_nodes_find(node->options.dev_dir, minor, t->n, &f->nodes, err);
	if (r < 0) {
		dra_files_free(f);
		return r;
	}
	slot_edits_fill(&(struct slot_plan){.folder = f->folder,
				.library = f->library,
				.sim = is_simulated ? f->sim : NULL,
				.number = slot->number},
		&f->edits);
	files_fill_cdi(f, slot);
	*ret_files = f;
	return 0;
}

void dra_files_free(struct dra_files *f)
{
	free(f);
}

int dra_files_write(const struct dra_files *f, struct error *err)
{
	const struct slot_files_params params = {.folder = f->folder,
		.state_dir = f->state_dir,
		.slot = f->slot,
		.library = f->library};
	int r = slot_files_make(&params, err);

	return r < 0 ? r : cdi_write(f->cdi_dir, &f->cdi, err);
}

/* ---- slots without a tenant ---- */

static void warm_next(struct dra *dra);

static void on_warmed(void *data, int result, const struct error *err)
{
	struct dra *dra = data;

	dra->warming = NULL;
	if (result < 0)
		log_warn("files of slot %u: %s", dra->n_warm, err->msg);
	else
		dra->n_warm++;
	if (result >= 0)
		warm_next(dra);
}

/* One slot after another, so that a claim waits for one slot's files at most. */
static void warm_next(struct dra *dra)
{
	const struct node *node = dra->node;
	const struct slot *slot = &node->slots[dra->n_warm];
	char folder[PATH_MAX];
	const struct slot_files_params params = {.folder = folder,
		.state_dir = node->options.state_dir,
		.slot = slot->id,
		.library = node->library};

	if (dra->n_warm < MIN(DRA_SLOTS_WARM, node->n_regular) &&
		node_slot_folder(node, slot, folder, sizeof(folder), NULL) >= 0)
		slot_files_write(node->agent->disk, &params, on_warmed, dra, &dra->warming);
}

void dra_files_warm(struct dra *dra)
{
	const struct node_options *options = &dra->node->options;
	char folder[PATH_MAX];

	/* A daemon that was killed may have left temporary files. */
	folder_clear_temporary(options->cdi_dir);
	folder_clear_temporary(options->state_dir);
	snprintf(folder, sizeof(folder), "%s/slots", options->state_dir);
	folder_clear_temporary(folder);
	snprintf(folder, sizeof(folder), "%s/" LIBRARY_RECORDS, options->state_dir);
	folder_clear_temporary(folder);
	warm_next(dra);
}

void dra_files_cool(struct dra *dra)
{
	slot_files_forget(TAKE_PTR(dra->warming));
}
