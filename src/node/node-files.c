/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes the files of a slot in the disk worker. The worker touches only the job's own
 * copies. One worker runs all jobs in order, so of several lists for a slot the last one stays.
 */
#include "node/node-files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "node/node-library.h"
#include "node/node-slot.h"
#include "threads/thread-worker.h"

struct slot_files {
	struct worker_job job;
	struct slot_files_params params; /* the texts in it belong to this object */
	slot_files_fn *done;             /* NULL: forgotten */
	void *data;
	int result;
	struct error err;
};

int slot_files_make(const struct slot_files_params *p, struct error *err)
{
	int r = folder_make(p->folder, 0755, err);

	if (r >= 0)
		r = slot_preload_write(p->folder, p->is_remote, err);
	if (r >= 0 && p->library)
		r = library_note(p->state_dir, p->slot, p->library, err);
	return r;
}

static void files_free(struct slot_files *f)
{
	free((char *)f->params.folder);
	free((char *)f->params.state_dir);
	free((char *)f->params.slot);
	free((char *)f->params.library);
	free(f);
}

static void files_run(struct worker_job *job)
{
	struct slot_files *f = (struct slot_files *)job;

	f->result = slot_files_make(&f->params, &f->err);
}

static void files_done(struct worker_job *job)
{
	struct slot_files *f = (struct slot_files *)job;

	if (f->done)
		f->done(f->data, f->result, &f->err);
	files_free(f);
}

int slot_files_write(struct worker *disk, const struct slot_files_params *p, slot_files_fn *done,
	void *data, struct slot_files **ret_files)
{
	struct slot_files *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->job = (struct worker_job){.run = files_run, .done = files_done};
	f->done = done;
	f->data = data;
	f->params.folder = str_dup(str_from(p->folder));
	f->params.is_remote = p->is_remote;
	if (p->library) {
		f->params.state_dir = str_dup(str_from(p->state_dir));
		f->params.slot = str_dup(str_from(p->slot));
		f->params.library = str_dup(str_from(p->library));
	}
	if (!f->params.folder ||
		(p->library && (!f->params.state_dir || !f->params.slot || !f->params.library))) {
		files_free(f);
		return -ENOMEM;
	}
	*ret_files = f;
	worker_submit(disk, &f->job);
	return 0;
}

void slot_files_forget(struct slot_files *f)
{
	if (f)
		f->done = NULL;
}
