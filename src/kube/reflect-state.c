/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the reflector state: list or watch next, and the pause before it. The phase becomes
 * COURSE_WATCH only after a complete list. Once set, `is_replacing` and `is_unpaged` stay set until
 * a list is complete. Only a watch of at least COURSE_STEADY_NS resets the backoff: short watches
 * slow down even if each list succeeds. A watch that the server closes in good order after a second
 * or more continues without a pause.
 */
#include "kube/reflect-state.h"

#include "base/cleanup.h"
#include "base/clock.h"

void course_init(struct course *course, uint64_t max_pause_ns)
{
	*course = (struct course){
		.backoff = {.base_ns = 200 * NSEC_PER_MSEC,
			.max_ns = max_pause_ns ? max_pause_ns : COURSE_PAUSE_MAX_NS}};
}

static uint64_t pause_ns(struct course *course, uint64_t retry_after_ns, struct rand *rand)
{
	const struct retry_outcome outcome = {.retry_after_ns = retry_after_ns};

	return retry_delay_ns(&course->backoff, rand, &outcome);
}

static uint64_t end_list(
	struct course *course, enum course_end end, uint64_t retry_after_ns, struct rand *rand)
{
	if (end == COURSE_OK) {
		course->phase = COURSE_WATCH;
		course->is_replacing = course->is_unpaged = false;
		course->n_expired = course->n_errors = 0;
		return 0;
	}
	if (end == COURSE_EXPIRED && ++course->n_expired >= COURSE_EXPIRED_MAX)
		course->is_unpaged = true;
	course->is_replacing |= end == COURSE_GARBLED;
	return pause_ns(course, retry_after_ns, rand);
}

uint64_t course_end(struct course *course, enum course_end end, uint64_t lived_ns,
	uint64_t retry_after_ns, struct rand *rand)
{
	if (course->phase == COURSE_LIST)
		return end_list(course, end, retry_after_ns, rand);
	if (lived_ns >= COURSE_STEADY_NS) {
		backoff_reset(&course->backoff);
		course->n_errors = 0;
	}
	if (end == COURSE_OK && lived_ns >= NSEC_PER_SEC)
		return 0;
	course->n_errors += end == COURSE_REFUSED;
	if (end == COURSE_EXPIRED || end == COURSE_GARBLED || course->n_errors >= COURSE_ERRORS_MAX)
		course->phase = COURSE_LIST;
	course->is_replacing |= end == COURSE_GARBLED;
	return pause_ns(course, retry_after_ns, rand);
}
