/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of prepared claims. A claim is prepared when its checkpoint is on the disk, and by then
 * its other files are, too: one job of the disk worker writes the files of the slots, then the CDI
 * files, and the checkpoint last. One worker runs all jobs in order, so a checkpoint never names a
 * claim whose files a later job writes.
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
#include "dra/dra-checkpoint.h"
#include "kube/kube-json.h"
#include "kubelet/cdi.h"
#include "node/node-dra.h"
#include "node/node-files.h"
#include "threads/thread-worker.h"

#define CHECKPOINT_NAME "claims.json"

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

/* ---- the job ---- */

struct dra_write {
	struct worker_job job; /* must stay the first member */
	LIST_ENTRY(dra_write) link;
	struct dra_files *files[DRA_SHARES_MAX];
	size_t n_files;
	char path[PATH_MAX];
	struct buf checkpoint;
	dra_written_fn *done; /* NULL: dropped, and the list is gone */
	void *data;
	int result;
	struct error err;
};

static void write_free(struct dra_write *w)
{
	for (size_t i = 0; i < w->n_files; i++)
		dra_files_free(w->files[i]);
	buf_done(&w->checkpoint);
	free(w);
}

static void write_run(struct worker_job *job)
{
	struct dra_write *w = (struct dra_write *)job;

	for (size_t i = 0; i < w->n_files && w->result >= 0; i++)
		w->result = dra_files_write(w->files[i], &w->err);
	if (w->result >= 0)
		w->result = file_replace(w->path, buf_str(&w->checkpoint), 0600, &w->err);
}

static void write_done(struct worker_job *job)
{
	struct dra_write *w = (struct dra_write *)job;

	if (w->done) {
		LIST_REMOVE(w, link);
		w->done(w->data, w->result, &w->err);
	}
	write_free(w);
}

static int checkpoint_path(const struct node *node, char ret[static PATH_MAX], struct error *err)
{
	return (size_t)snprintf(ret, PATH_MAX, "%s/" CHECKPOINT_NAME, node->options.state_dir) <
			PATH_MAX
		? 0
		: fail(err, ENAMETOOLONG, "--state-dir is too long");
}

static int format_claims(const struct dra *dra, struct buf *out, struct error *err)
{
	_cleanup_json_ json_t *all = json_array();
	const struct dra_prepared *p;
	int r = 0;

	LIST_FOREACH(p, &dra->claims, link)
		if (p->state != PREPARED_ENDING)
			r |= json_array_append_new(all, checkpoint_claim(p->claim));
	r = r < 0 ? -ENOMEM : checkpoint_format(all, out);
	return r < 0 ? fail_errno(err, -r, "checkpoint of the prepared claims") : 0;
}

int dra_write(struct dra *dra, struct dra_files **files, size_t n, dra_written_fn *done, void *data,
	struct error *err)
{
	struct dra_write *w = calloc(1, sizeof(*w));
	int r;

	if (!w) {
		for (size_t i = 0; i < n; i++)
			dra_files_free(files[i]);
		return fail(err, ENOMEM, "out of memory");
	}
	w->job = (struct worker_job){.run = write_run, .done = write_done};
	memcpy(w->files, files, n * sizeof(files[0]));
	w->n_files = n;
	w->checkpoint = BUF_INIT(CHECKPOINT_MAX);
	w->done = done;
	w->data = data;
	r = checkpoint_path(dra->node, w->path, err);
	r = r < 0 ? r : format_claims(dra, &w->checkpoint, err);
	if (r < 0) {
		write_free(w);
		return r;
	}
	LIST_INSERT_HEAD(&dra->writes, w, link);
	worker_submit(dra->node->agent->disk, &w->job);
	return 0;
}

void dra_drop_writes(struct dra *dra)
{
	struct dra_write *w;

	while ((w = LIST_FIRST(&dra->writes))) {
		LIST_REMOVE(w, link);
		w->done = NULL;
	}
}

/* ---- at the start ---- */

static void take_claim(void *data, struct dra_claim *claim)
{
	struct dra *dra = data;
	struct dra_prepared *p = calloc(1, sizeof(*p));

	if (!p) {
		dra_claim_free(claim);
		return;
	}
	p->claim = claim;
	p->state = PREPARED_READY;
	LIST_INSERT_HEAD(&dra->claims, p, link);
}

void dra_load(struct dra *dra)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	char path[PATH_MAX], aside[PATH_MAX + 8];
	struct error err = {0};
	int r = checkpoint_path(dra->node, path, &err);

	r = r < 0 ? r : file_read(path, &text, &err);
	if (r == -ENOENT)
		return;
	r = r < 0 ? r : checkpoint_read(buf_str(&text), take_claim, dra, &err);
	if (r >= 0)
		return;
	/* The next claim replaces the file, so what could not be read is kept for a person. */
	log_error("%s: %s; a copy is kept as " CHECKPOINT_NAME ".bad", path, err.msg);
	snprintf(aside, sizeof(aside), "%s.bad", path);
	if (text.n && file_replace(aside, buf_str(&text), 0600, &err) < 0)
		log_warn("%s", err.msg);
}
