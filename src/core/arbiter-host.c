/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host below the tenants: a program whose threads wait for a processor, or are throttled by a
 * CPU limit, submits late. The arbiter learns this from two times per tenant, and lets the tenant
 * queue more work ahead and opens its gate earlier.
 *
 * A time counts for as long as it lasts and fades over some tens of turns: `dry_ns` is the time in
 * which the device ran dry within a turn, `wake_ns` the time from an opened gate to the first
 * submission. A program that waits for the device by itself shows such times, too. The larger
 * window means nothing to that program, since it does not queue as much.
 */
#include "base/clock.h"
#include "core/arbiter-internal.h"

/*
 * Between two looks of the caller a tenant that only just keeps its device busy seems idle. Shorter
 * times are noise.
 */
#define DRY_MIN_NS (200 * NSEC_PER_USEC)
#define DRY_MAX_NS (50 * NSEC_PER_MSEC) /* longer ones are the program's own pauses */
#define FADE_TURNS 32

/* The work of most of a turn. Longer windows would be closed as soon as they are full. */
#define WIDE_MAX_NS (24 * NSEC_PER_MSEC)

/*
 * The gate of a tenant on a quiet host opens OVERLAP ahead of the device (arbiter_config), which
 * holds a wake-up of so long.
 */
#define WAKE_QUIET_NS (300 * NSEC_PER_USEC)
#define SPREAD_QUIET_NS (180 * NSEC_PER_USEC) /* OPEN_LEAD_NS of agent/token.c */
#define LEAD_MAX_NS (4 * NSEC_PER_MSEC)
#define WAKE_MAX_NS (10 * NSEC_PER_MSEC)

void seat_note_dry(struct seat *seat, uint64_t since, uint64_t now)
{
	const uint64_t dry = clock_since_ns(now, since);

	if (dry < DRY_MIN_NS || dry > DRY_MAX_NS)
		return;
	/* What it may queue now has not been enough, by so much. */
	seat->dry_ns = MIN(seat->dry_ns + dry + dry / 4, WIDE_MAX_NS);
}

void seat_note_woken(struct seat *seat, uint64_t now)
{
	const uint64_t wake = MIN(clock_since_ns(now, seat->gate_opened_at), WAKE_MAX_NS);

	/* Rises at once and falls slowly: being late costs more than being early. */
	if (wake > seat->wake_ns)
		seat->wake_ns += (wake - seat->wake_ns) / 2;
	else
		seat->wake_ns -= (seat->wake_ns - wake) / FADE_TURNS;
}

void seat_fade(struct seat *seat)
{
	seat->dry_ns -= seat->dry_ns / FADE_TURNS;
}

uint32_t seat_wide_us(const struct seat *seat, uint64_t turn_ns)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;
	uint64_t most = MIN(turn_ns, WIDE_MAX_NS);
	uint64_t wide = config->window_us * NSEC_PER_USEC + seat->dry_ns;

	/*
	 * A latency tenant that comes back must find no more in flight than is configured. A tenant
	 * that shares with nobody loses nothing while it is idle, and with a wider window its
	 * library learns the ends of its work less exactly.
	 */
	if (seat->device->n_latency || seat->device->n_active < 2 || seat->dry_ns < DRY_MIN_NS)
		return config->window_us;
	if (seat->member->spec.limit < SPEC_SHARE_ONE)
		most = MIN(most, (uint64_t)MAX(seat->budget, INT64_C(0)) / MILLI / 2);
	return MAX((uint32_t)(MIN(wide, most) / NSEC_PER_USEC), config->window_us);
}

uint64_t seat_lead_ns(const struct seat *seat)
{
	if (seat->device->n_latency)
		return 0;
	return MIN(clock_since_ns(seat->wake_ns, WAKE_QUIET_NS), LEAD_MAX_NS);
}

bool seat_is_end_known(const struct seat *drains, uint64_t lead_ns)
{
	return drains->has_rest && drains->spread_ns <= SPREAD_QUIET_NS + lead_ns;
}
