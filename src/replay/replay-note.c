/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the notes that a caller of replay_run() receives about each task, with the reason for a
 * place or a refusal. Without a note callback the run_note functions return at once.
 * run_note_placed() removes the new tenant under a savepoint, explains the choice, and rolls back.
 * So the explanation describes the free capacity without that task.
 */
#include <stdio.h>
#include <string.h>

#include "place/place-queue.h"
#include "replay/replay-internal.h"

void run_note(const struct run *run, enum replay_event event, uint64_t at_ns, uint32_t task,
	const struct place_choice *choice, const char *why)
{
	struct replay_note note = {.event = event, .at_ns = at_ns, .task = task, .why = why};
	struct place_node_view node;

	if (!run->in->note)
		return;
	if (choice && place_node_get(run->place, choice->node, &node)) {
		note.node = node.name;
		note.n_devices = choice->n;
		for (uint32_t i = 0; i < choice->n; i++)
			note.devices[i] = choice->device[i] - node.first_device;
	}
	run->in->note(run->in->note_arg, &note);
}

void run_note_placed(const struct run *run, uint64_t at_ns, uint32_t task,
	const struct place_choice *choice, uint32_t tenant)
{
	char why[PLACE_WHY];
	uint32_t savepoint;

	if (!run->in->note)
		return;
	/*
	 * The explanation must describe the state without this task, but with the other tasks of
	 * its gang.
	 */
	savepoint = place_savepoint(run->place);
	if (place_remove(run->place, tenant) < 0)
		why[0] = '\0';
	else
		place_choice_format(run->place, &run->specs[task], choice, why);
	place_rollback(run->place, savepoint);
	place_release(run->place);
	run_note(run, REPLAY_PLACED, at_ns, task, choice, why);
}

void explain_limit(const struct run *run, const struct place_spec *spec, char *ret, size_t size)
{
	struct place_spec one = *spec;
	struct place_device_view device;
	struct place_verdict verdict;

	for (uint32_t i = 0; place_device_get(run->place, i, &device); i++) {
		if (place_device_reason(run->place, spec, i) != PLACE_OVER_LIMIT)
			continue;
		one.models = UINT64_C(1) << device.model;
		if (place_queue_admit(run->place, &one, &verdict, NULL) == 0)
			snprintf(ret, size, "; %s", verdict.why);
		return;
	}
}

/* Explains a refusal: the task's queue does not admit it, or no node has room for it. */
static void replay_note_explain(
	const struct run *run, const struct place_spec *spec, char ret[static REPLAY_WHY])
{
	struct place_verdict verdict = {.admission = PLACE_ADMIT_NOW};
	struct place_why why;

	if (spec->queue)
		place_queue_admit(run->place, spec, &verdict, NULL);
	if (verdict.admission > PLACE_ADMIT_BORROW) {
		snprintf(ret, REPLAY_WHY, "%s", verdict.why);
		return;
	}
	place_explain(run->place, spec, &why);
	place_why_format(&why, spec, ret);
	if (why.nodes[PLACE_OVER_LIMIT])
		explain_limit(run, spec, ret + strlen(ret), REPLAY_WHY - strlen(ret));
}

void run_note_refused(const struct run *run, enum replay_event event, uint64_t at_ns, uint32_t task,
	uint32_t n, uint32_t least)
{
	char why[REPLAY_WHY];

	if (!run->in->note)
		return;
	if (n > 1)
		snprintf(why, sizeof(why),
			"%u of %u tasks of the gang must start together, and fewer fit", least, n);
	else
		replay_note_explain(run, &run->specs[task], why);
	run_note(run, event, at_ns, task, NULL, why);
}
