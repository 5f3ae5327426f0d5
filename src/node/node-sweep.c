/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file removes old libraries by a job of the disk worker. The job has copies of what the
 * loop's thread knows: the slots that are in use, and those of them that need a record. The disk
 * worker runs jobs in order, so a record that is ordered later is written after the job.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "node/node-internal.h"
#include "threads/thread-worker.h"

#define IDS_MAX (1u << 20)

struct sweep_job {
	struct worker_job job;
	struct node *node; /* NULL: the node was freed */
	char *state_dir, *library;
	struct buf in_use, listed; /* ids of slots, with a newline before and after each */
	int result;                /* result of library_sweep(); 1: a record is missing */
	struct error err;
};

static void add_id(struct buf *ids, const char *id)
{
	buf_addf(ids, "%s%s\n", ids->n ? "" : "\n", id);
}

static bool is_in_use(void *data, const char *slot)
{
	const struct sweep_job *job = data;
	char line[64];

	/* No slot has a name that does not fit, so no container has such a slot. */
	if (snprintf(line, sizeof(line), "\n%s\n", slot) >= (int)sizeof(line))
		return false;
	return strstr(buf_text(&job->in_use), line) != NULL;
}

/*
 * Whether each slot has a record. Slots that were allocated before divvyd kept records may have any
 * library.
 */
static bool is_each_noted(const struct sweep_job *job)
{
	struct str rest = buf_str(&job->listed), line;
	char id[32];

	while (str_split(&rest, '\n', &line))
		if (line.n && str_copy(id, sizeof(id), line) >= 0 &&
			!library_is_noted(job->state_dir, id))
			return false;
	return true;
}

static void sweep_run(struct worker_job *arg)
{
	struct sweep_job *job = (struct sweep_job *)arg;

	job->result = !is_each_noted(job)
		? 1
		: library_sweep(job->state_dir, job->library, is_in_use, job, &job->err);
}

static void sweep_job_free(struct sweep_job *job)
{
	free(job->state_dir);
	free(job->library);
	buf_done(&job->in_use);
	buf_done(&job->listed);
	free(job);
}

static void sweep_done(struct worker_job *arg)
{
	struct sweep_job *job = (struct sweep_job *)arg;

	if (job->result < 0)
		log_warn("%s", job->err.msg);
	if (job->node) {
		job->node->has_old_libraries = job->result != 0;
		job->node->sweep_job = NULL;
	}
	sweep_job_free(job);
}

/*
 * Collects the slots in use. Slots that were allocated after the question for the list are
 * included, because the list may lack them.
 */
static void find_in_use(
	const struct node *node, const struct podres_list *list, struct sweep_job *job)
{
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct slot *slot = &node->slots[i];

		if (slot->n_writing || slot->allocated_ns >= node->sweep_asked_ns ||
			node_slot_pod((struct node *)node, slot))
			add_id(&job->in_use, slot->id);
	}
	for (size_t i = 0; i < list->n_containers; i++) {
		const struct podres_container *c = &list->containers[i];

		for (size_t k = 0; k < c->n_devices; k++) {
			if (strcmp(c->devices[k].resource, NODE_RESOURCE) != 0)
				continue;
			add_id(&job->in_use, c->devices[k].id);
			if (node_slot((struct node *)node, c->devices[k].id))
				add_id(&job->listed, c->devices[k].id);
		}
	}
}

void node_sweep_libraries(struct node *node, const struct podres_list *list)
{
	struct sweep_job *job;

	if (!node->has_old_libraries || node->sweep_job)
		return;
	job = calloc(1, sizeof(*job));
	if (!job)
		return; /* the next sweep tries again */
	job->job = (struct worker_job){.run = sweep_run, .done = sweep_done};
	job->node = node;
	job->in_use = job->listed = (struct buf)BUF_INIT(IDS_MAX);
	job->state_dir = str_dup(str_from(node->options.state_dir));
	job->library = str_dup(str_from(node->library));
	find_in_use(node, list, job);
	/* With an incomplete list, the job would remove libraries in use. */
	if (!job->state_dir || !job->library || buf_error(&job->in_use) < 0 ||
		buf_error(&job->listed) < 0) {
		sweep_job_free(job);
		return;
	}
	node->sweep_job = job;
	worker_submit(node->agent->disk, &job->job);
}

void node_sweep_free(struct node *node)
{
	if (node->sweep_job)
		node->sweep_job->node = NULL;
	node->sweep_job = NULL;
}
