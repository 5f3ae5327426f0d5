/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the reflector state: list or watch next, and the pause before it. The phase becomes
 * REFLECT_WATCH only after a complete list. Once set, `is_replacing` and `is_unpaged` stay set
 * until a list is complete. Only a watch of at least REFLECT_STEADY_NS resets the backoff: short
 * watches slow down even if each list succeeds. A watch that the server closes in good order after
 * a second or more continues without a pause.
 */
#include "kube/reflect-state.h"

#include "base/cleanup.h"
#include "base/clock.h"

void reflect_state_init(struct reflect_state *state, uint64_t max_pause_ns)
{
	*state = (struct reflect_state){
		.backoff = {.base_ns = 200 * NSEC_PER_MSEC,
			.max_ns = max_pause_ns ? max_pause_ns : REFLECT_PAUSE_MAX_NS}};
}

static uint64_t reflect_state_pause_ns(
	struct reflect_state *state, uint64_t retry_after_ns, struct rand *rand)
{
	const struct retry_outcome outcome = {.retry_after_ns = retry_after_ns};

	return retry_delay_ns(&state->backoff, rand, &outcome);
}

static uint64_t end_list(struct reflect_state *state, enum reflect_end end, uint64_t retry_after_ns,
	struct rand *rand)
{
	if (end == REFLECT_OK) {
		state->phase = REFLECT_WATCH;
		state->is_replacing = state->is_unpaged = false;
		state->n_expired = state->n_errors = 0;
		return 0;
	}
	if (end == REFLECT_EXPIRED && ++state->n_expired >= REFLECT_EXPIRED_MAX)
		state->is_unpaged = true;
	state->is_replacing |= end == REFLECT_GARBLED;
	return reflect_state_pause_ns(state, retry_after_ns, rand);
}

uint64_t reflect_state_end(struct reflect_state *state, enum reflect_end end, uint64_t lived_ns,
	uint64_t retry_after_ns, struct rand *rand)
{
	if (state->phase == REFLECT_LIST)
		return end_list(state, end, retry_after_ns, rand);
	if (lived_ns >= REFLECT_STEADY_NS) {
		backoff_reset(&state->backoff);
		state->n_errors = 0;
	}
	if (end == REFLECT_OK && lived_ns >= NSEC_PER_SEC)
		return 0;
	state->n_errors += end == REFLECT_REFUSED;
	if (end == REFLECT_EXPIRED || end == REFLECT_GARBLED ||
		state->n_errors >= REFLECT_ERRORS_MAX)
		state->phase = REFLECT_LIST;
	state->is_replacing |= end == REFLECT_GARBLED;
	return reflect_state_pause_ns(state, retry_after_ns, rand);
}
