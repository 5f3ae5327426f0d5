/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminating tasks and reserved places. Each terminating task has a notice; all grace periods are
 * equal, so notices stay in order of their ends. Each task with a reserved place has a claim, and
 * starts when the last notice with the same `round` is removed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "replay/replay-queue.h"

void terminate_done(struct queue *q)
{
	free(q->notices);
	free(q->claims);
}

uint64_t terminate_next_ns(const struct queue *q)
{
	return q->n_notices ? q->notices[0].at_ns : CLOCK_NEVER;
}

struct claim *claim_of(struct queue *q, uint32_t tenant)
{
	for (uint32_t i = 0; i < q->n_claims; i++)
		if (q->claims[i].tenant == tenant)
			return &q->claims[i];
	return NULL;
}

static void remove_claim(struct queue *q, struct claim *claim)
{
	const struct claim *end = &q->claims[q->n_claims--], was = *claim;

	memmove(claim, claim + 1, (size_t)(end - claim - 1) * sizeof(*claim));
	q->run->waiting -= n_counted_of(q, was.at, 1);
}

int terminate_claim(struct queue *q, uint32_t at, const struct place_member *member)
{
	if (array_grow(&q->claims, &q->claims_room, q->n_claims + 1ull, sizeof(*q->claims)) < 0)
		return -ENOMEM;
	q->claims[q->n_claims++] = (struct claim){
		.at = at, .tenant = member->tenant, .round = q->round, .choice = member->choice};
	q->run->waiting += n_counted_of(q, at, 1);
	return 0;
}

/*
 * Gives up the reserved place of a task that has not started: the task waits again. The victims of
 * this task keep terminating.
 */
static int terminate_give_up_claim(struct queue *q, struct claim *claim)
{
	const struct claim was = *claim;
	int r = place_remove(q->run->place, was.tenant);

	remove_claim(q, claim);
	note_freed(q, was.choice.node);
	return r < 0 ? r : wait_again(q, was.at);
}

int terminate_begin(struct queue *q, uint32_t tenant, uint32_t comer)
{
	struct claim *claim = claim_of(q, tenant);

	if (claim)
		return terminate_give_up_claim(q, claim);
	if (array_grow(&q->notices, &q->notices_room, q->n_notices + 1ull, sizeof(*q->notices)) < 0)
		return -ENOMEM;
	q->notices[q->n_notices++] = (struct notice){
		.at_ns = clock_add_ns(q->tasks.now_ns, q->run->in->grace_ns),
		.tenant = tenant,
		.round = q->round,
		.comer = comer};
	note_for(q, REPLAY_TERMINATING, q->tasks.slots[q->tasks.slot_of[tenant]].task, comer);
	return 0;
}

uint32_t terminate_awaited(const struct queue *q, uint32_t round)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->n_notices; i++)
		n += q->notices[i].round == round;
	return n;
}

/*
 * Removes notice i. If it was the last notice with its `round`, starts the tasks of all claims with
 * that `round`.
 */
static int remove_notice(struct queue *q, uint32_t i)
{
	const uint32_t round = q->notices[i].round;
	uint32_t k = 0;
	int r = 0;

	q->n_notices--;
	memmove(&q->notices[i], &q->notices[i + 1], (q->n_notices - i) * sizeof(*q->notices));
	if (terminate_awaited(q, round))
		return 0;
	while (r == 0 && k < q->n_claims) {
		const struct claim claim = q->claims[k];

		if (claim.round != round) {
			k++;
			continue;
		}
		remove_claim(q, &q->claims[k]);
		r = claim.tenant == PLACE_NONE
			? wait_again(q, claim.at)
			: start_task(q, q->arrivals[claim.at], &claim.choice, claim.tenant);
	}
	return r;
}

int terminate_ended(struct queue *q, uint32_t tenant)
{
	for (uint32_t i = 0; i < q->n_notices; i++)
		if (q->notices[i].tenant == tenant)
			return remove_notice(q, i);
	return 0;
}

int terminate_due(struct queue *q)
{
	int r = 0;

	while (r == 0 && terminate_next_ns(q) <= q->tasks.now_ns) {
		const struct notice notice = q->notices[0];

		r = place_remove(q->run->place, notice.tenant);
		r = r < 0 ? r : evict(q, notice.tenant, notice.comer);
		r = r < 0 ? r : remove_notice(q, 0);
		q->may_defrag = true;
	}
	return r;
}
