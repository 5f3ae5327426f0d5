/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint file of prepared claims (dra/dra-checkpoint.h). A claim is prepared when its line
 * is on the disk, and by then its other files are, too: one job of the disk worker writes the files
 * of the tenants, and then appends the lines and waits for the disk once. Changes that come during
 * a job go into the next one together, so many pods that start at once wait for few syncs.
 *
 * The file is replaced by one without old lines when it has grown, and after a failed write, which
 * may have left anything. The loop's thread makes the text of the new file; a claim of the list
 * whose files are written by the same job is in it, like in an appended line.
 *
 * struct journal is the worker's while a job runs, and the loop's otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "dra/dra-checkpoint.h"
#include "node/node-dra.h"
#include "threads/thread-worker.h"

#define CHECKPOINT_NAME "claims.jsonl"
#define GROWN_MIN (256u << 10) /* bytes of appended lines, before the file is replaced */

/* A change of one claim. */
struct change {
	STAILQ_ENTRY(change) link;
	struct dra_files *files[DRA_SHARES_MAX];
	size_t n_files;
	struct buf line;
	dra_written_fn *done; /* NULL: nobody waits any more */
	void *data;
	int result;
	struct error err;
};

STAILQ_HEAD(changes, change);

struct journal {
	struct worker_job job; /* must stay the first member */
	struct dra *dra;       /* NULL: the driver has ended, and the journal ends with its job */
	char path[PATH_MAX];
	int fd;
	size_t size;            /* of the file */
	size_t size_replaced;   /* when it was last replaced */
	bool must_replace;      /* before another line is appended */
	bool is_running;        /* the job */
	struct changes open;    /* for the next job */
	struct changes written; /* of the job */
	struct buf text;        /* of the job: the new file; empty: lines are appended */
};

static void change_free(struct change *c)
{
	for (size_t i = 0; i < c->n_files; i++)
		dra_files_free(c->files[i]);
	buf_done(&c->line);
	free(c);
}

static void journal_free(struct journal *j)
{
	struct change *c;

	STAILQ_CONCAT(&j->open, &j->written);
	while ((c = STAILQ_FIRST(&j->open))) {
		STAILQ_REMOVE_HEAD(&j->open, link);
		change_free(c);
	}
	buf_done(&j->text);
	fd_close(j->fd);
	free(j);
}

/* ---- the job, in the worker's thread ---- */

static int journal_open(struct journal *j, struct error *err)
{
	int fd = open(j->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", j->path);
	fd_close(j->fd);
	j->fd = fd;
	return 0;
}

static int journal_replace(struct journal *j, struct error *err)
{
	int r = file_replace(j->path, buf_str(&j->text), 0600, err);

	r = r < 0 ? r : journal_open(j, err);
	if (r < 0)
		return r;
	j->size = j->size_replaced = j->text.n;
	return 0;
}

static int journal_append(struct journal *j, struct str lines, struct error *err)
{
	int r = lines.n ? fd_write_all(j->fd, lines.p, lines.n) : 0;

	if (r >= 0 && lines.n && fdatasync(j->fd) < 0)
		r = -errno;
	if (r < 0)
		return fail_errno(err, -r, "write '%s'", j->path);
	j->size += lines.n;
	return 0;
}

static void journal_run(struct worker_job *job)
{
	struct journal *j = (struct journal *)job;
	_cleanup_buf_ struct buf lines = BUF_INIT(CHECKPOINT_MAX);
	struct error err;
	struct change *c;
	int r;

	STAILQ_FOREACH(c, &j->written, link)
	{
		for (size_t i = 0; i < c->n_files && c->result >= 0; i++)
			c->result = dra_files_write(c->files[i], &c->err);
		if (c->result >= 0)
			buf_add(&lines, buf_str(&c->line));
	}
	r = buf_error(&lines) < 0 ? fail_errno(&err, -buf_error(&lines), "write '%s'", j->path) : 0;
	if (r >= 0 && j->text.n)
		r = journal_replace(j, &err);
	else if (r >= 0 && j->must_replace)
		r = fail(&err, ENOMEM, "write '%s': out of memory", j->path);
	else if (r >= 0)
		r = journal_append(j, buf_str(&lines), &err);
	j->must_replace = r < 0;
	STAILQ_FOREACH(c, &j->written, link)
	{
		if (r >= 0 || c->result < 0)
			continue;
		c->result = r;
		c->err = err;
	}
}

/* ---- the loop's thread ---- */

static int add_claims(const struct dra *dra, struct buf *out)
{
	int r = checkpoint_add_version(out);

	for (const struct dra_prepared *p = dra->claims; r >= 0 && p; p = p->hh.next)
		if (p->state != PREPARED_ENDING)
			r = checkpoint_add_prepared(out, p->claim);
	return r;
}

static void journal_begin(struct journal *j)
{
	const size_t grown = j->size - j->size_replaced;

	if (j->is_running || STAILQ_EMPTY(&j->open))
		return;
	buf_clear(&j->text);
	if (j->must_replace || grown > MAX((size_t)GROWN_MIN, j->size_replaced)) {
		if (add_claims(j->dra, &j->text) < 0) {
			log_error("%s: no memory for its text", j->path);
			buf_clear(&j->text);
		}
	}
	STAILQ_CONCAT(&j->written, &j->open);
	j->is_running = true;
	worker_submit(j->dra->node->agent->disk, &j->job);
}

static void journal_done(struct worker_job *job)
{
	struct journal *j = (struct journal *)job;
	struct change *c;

	/* A callback may add changes to `open`, and may not end the driver. */
	while ((c = STAILQ_FIRST(&j->written))) {
		STAILQ_REMOVE_HEAD(&j->written, link);
		if (j->dra && c->done)
			c->done(c->data, c->result, &c->err);
		change_free(c);
	}
	j->is_running = false;
	if (j->dra)
		journal_begin(j);
	else
		journal_free(j);
}

static int journal_add(struct dra *dra, struct change *c, int r, struct error *err)
{
	if (r < 0) {
		change_free(c);
		return fail_errno(err, -r, "checkpoint of the prepared claims");
	}
	STAILQ_INSERT_TAIL(&dra->journal->open, c, link);
	journal_begin(dra->journal);
	return 0;
}

static struct change *change_new(dra_written_fn *done, void *data)
{
	struct change *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->line = BUF_INIT(CHECKPOINT_MAX);
	c->done = done;
	c->data = data;
	return c;
}

int dra_write_prepared(struct dra *dra, const struct dra_claim *claim, struct dra_files **files,
	size_t n, dra_written_fn *done, void *data, struct error *err)
{
	struct change *c = change_new(done, data);

	if (!c) {
		for (size_t i = 0; i < n; i++)
			dra_files_free(files[i]);
		return fail(err, ENOMEM, "out of memory");
	}
	if (n)
		memcpy(c->files, files, n * sizeof(files[0]));
	c->n_files = n;
	return journal_add(dra, c, checkpoint_add_prepared(&c->line, claim), err);
}

int dra_write_unprepared(
	struct dra *dra, const char *uid, dra_written_fn *done, void *data, struct error *err)
{
	struct change *c = change_new(done, data);

	if (!c)
		return fail(err, ENOMEM, "out of memory");
	return journal_add(dra, c, checkpoint_add_unprepared(&c->line, uid), err);
}

void dra_journal_free(struct dra *dra)
{
	struct journal *j = TAKE_PTR(dra->journal);

	if (!j)
		return;
	j->dra = NULL;
	if (!j->is_running)
		journal_free(j);
}

/* ---- at the start ---- */

static void load_prepared(void *data, struct dra_claim *claim)
{
	struct dra *dra = data;
	struct dra_prepared *p = dra_find(dra, claim->uid);

	if (p)
		dra_forget(dra, p);
	if (!dra_add(dra, claim, PREPARED_READY))
		dra_claim_free(claim);
}

static void load_unprepared(void *data, const char *uid)
{
	struct dra_prepared *p = dra_find(data, uid);

	if (p)
		dra_forget(data, p);
}

/* Without the file, nothing was prepared. A copy of an unreadable file stays for a person. */
static int journal_load(struct journal *j, struct error *err)
{
	const struct checkpoint_handler handler = {load_prepared, load_unprepared, j->dra};
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	char aside[PATH_MAX + 8];
	int r = file_read(j->path, &text, err);

	if (r == -ENOENT)
		return 0;
	r = r < 0 ? r : checkpoint_read(buf_str(&text), &handler, &j->size, err);
	if (r < 0) {
		log_error("%s: %s; a copy is kept as " CHECKPOINT_NAME ".bad", j->path, err->msg);
		snprintf(aside, sizeof(aside), "%s.bad", j->path);
		return text.n ? file_replace(aside, buf_str(&text), 0600, err) : 0;
	}
	j->size_replaced = j->size;
	r = journal_open(j, err);
	if (r >= 0 && j->size < text.n && ftruncate(j->fd, (off_t)j->size) < 0)
		r = fail_errno(err, errno, "cut '%s' to its complete lines", j->path);
	j->must_replace = r < 0;
	return r;
}

int dra_journal_new(struct dra *dra, struct error *err)
{
	struct journal *j = calloc(1, sizeof(*j));
	struct error why;

	if (!j)
		return fail(err, ENOMEM, "out of memory");
	j->job = (struct worker_job){.run = journal_run, .done = journal_done};
	j->dra = dra;
	j->fd = -1;
	j->must_replace = true;
	j->text = BUF_INIT(CHECKPOINT_MAX);
	STAILQ_INIT(&j->open);
	STAILQ_INIT(&j->written);
	dra->journal = j;
	if ((size_t)snprintf(j->path, sizeof(j->path), "%s/" CHECKPOINT_NAME,
		    dra->node->options.state_dir) >= sizeof(j->path))
		return fail(err, ENAMETOOLONG, "--state-dir is too long");
	if (journal_load(j, &why) < 0)
		log_error("%s", why.msg);
	return 0;
}
