/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapts turns to a busy host. A program whose threads wait for a processor, or are throttled by a
 * CPU limit, submits late. The arbiter measures two times for each tenant, widens its in-flight
 * window and opens its gate earlier. Pure; one thread.
 *
 * `dry_ns` is the time in which the device ran dry within a turn, `wake_ns` the time from an opened
 * gate to the first submission. Both fade over some tens of turns. A program that waits for its own
 * results before it submits more shows such times even on a quiet host. The wider window does not
 * matter then, because that program does not fill it.
 */
#include "base/clock.h"
#include "core/arbiter-internal.h"

/*
 * Shorter times are noise: a tenant that barely keeps its device busy seems idle between two looks.
 */
#define DRY_MIN_NS (200 * NSEC_PER_USEC)
#define DRY_MAX_NS (50 * NSEC_PER_MSEC) /* longer times are the program's own pauses */
#define FADE_TURNS 32

/*
 * Widest window: most of a turn's work. The turn contains its work in flight, so with a wider
 * window the gate would close as soon as the window is full.
 */
#define WIDE_MAX_NS (24 * NSEC_PER_MSEC)

/*
 * On a quiet host a gate opens overlap_ns (arbiter_config) before the device is free, which covers
 * a wake-up of this length.
 */
#define WAKE_QUIET_NS (300 * NSEC_PER_USEC)
#define SPREAD_QUIET_NS (180 * NSEC_PER_USEC) /* the same as OPEN_LEAD_NS in agent/token.c */
#define LEAD_MAX_NS (4 * NSEC_PER_MSEC)
#define WAKE_MAX_NS (10 * NSEC_PER_MSEC)

void td_note_dry(struct arbiter_td *td, uint64_t since, uint64_t now)
{
	const uint64_t dry = clock_since_ns(now, since);

	if (dry < DRY_MIN_NS || dry > DRY_MAX_NS)
		return;
	/* The present window was too small by `dry`. */
	td->dry_ns = MIN(td->dry_ns + dry + dry / 4, WIDE_MAX_NS);
}

void td_note_woken(struct arbiter_td *td, uint64_t now)
{
	const uint64_t wake = MIN(clock_since_ns(now, td->gate_opened_at), WAKE_MAX_NS);

	/*
	 * The value rises fast and falls slowly, because a late opening costs more than an early
	 * one.
	 */
	if (wake > td->wake_ns)
		td->wake_ns += (wake - td->wake_ns) / 2;
	else
		td->wake_ns -= (td->wake_ns - wake) / FADE_TURNS;
}

void td_fade(struct arbiter_td *td)
{
	td->dry_ns -= td->dry_ns / FADE_TURNS;
}

uint32_t td_wide_us(const struct arbiter_td *td, uint64_t turn_ns)
{
	const struct arbiter_config *config = &td->device->arbiter->config;
	uint64_t most = MIN(turn_ns, WIDE_MAX_NS);
	uint64_t wide = config->window_us * NSEC_PER_USEC + td->dry_ns;

	/*
	 * A returning latency tenant waits for the work in flight, so the window then stays as
	 * configured. A tenant alone on its device keeps the configured window, too: its idle time
	 * costs no other tenant, and with a wider window its library learns the ends of its work
	 * less exactly.
	 */
	if (td->device->n_latency || td->device->n_active < 2 || td->dry_ns < DRY_MIN_NS)
		return config->window_us;
	if (td->tenant->spec.limit < SPEC_SHARE_ONE)
		most = MIN(most, (uint64_t)MAX(td->budget, INT64_C(0)) / MILLI / 2);
	return MAX((uint32_t)(MIN(wide, most) / NSEC_PER_USEC), config->window_us);
}

uint64_t td_lead_ns(const struct arbiter_td *td)
{
	if (td->device->n_latency)
		return 0;
	return MIN(clock_since_ns(td->wake_ns, WAKE_QUIET_NS), LEAD_MAX_NS);
}

bool td_is_end_known(const struct arbiter_td *drains, uint64_t lead_ns)
{
	return drains->has_drain_estimate && drains->spread_ns <= SPREAD_QUIET_NS + lead_ns;
}
