/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders among tenants of one rank, one table entry each. `share` honours requests. The other
 * entries are rules of other systems, for comparison. Pure; one thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/arbiter-internal.h"

/* ---- share: the largest lag behind the fluid ideal first (docs/adr/0003) ---- */

static int64_t share_score(const struct arbiter_td *td, uint64_t now)
{
	return td->lag;
}

static uint64_t share_passes_ns(const struct arbiter_td *holder, const struct arbiter_td *waiting,
	uint64_t rest_ns, uint64_t now)
{
	uint64_t whole = MAX(class_micro(holder), UINT64_C(1));
	/*
	 * Each ns of the holder's work lowers its lag by falls/whole and raises that of the waiting
	 * tenant by rises/whole.
	 */
	uint64_t falls = whole - MIN((uint64_t)holder->micro, whole);
	uint64_t rises = MIN((uint64_t)waiting->micro, whole);
	int64_t ahead = (holder->lag - waiting->lag) / LAG_ONE;

	if (ahead <= 0)
		return 0;
	if (falls + rises == 0)
		return NSEC_PER_MSEC;
	return clock_since_ns((uint64_t)ahead * whole / (falls + rises), rest_ns);
}

/* ---- fifo: one quantum each, in the order of wants ---- */

static int64_t fifo_score(const struct arbiter_td *td, uint64_t now)
{
	return -(int64_t)td->wants_since;
}

static uint64_t passes_at_once(const struct arbiter_td *holder, const struct arbiter_td *waiting,
	uint64_t rest_ns, uint64_t now)
{
	return 0;
}

/*
 * ---- bias: KubeGPU's rule: the tenant furthest below its request first, then the least used ----
 */

#define ABOVE_ALL (INT64_C(1) << 40)

static int64_t bias_score(const struct arbiter_td *td, uint64_t now)
{
	int64_t one = (int64_t)ARBITER_WINDOW_NS;
	int64_t used = (int64_t)td_window_ns(td, now);
	int64_t missing = one / SPEC_SHARE_ONE * td->tenant->spec.request - used;

	return missing > 0 ? ABOVE_ALL + missing : one - used;
}

/* ---- gemini: as bias, with the shortfall relative to the request ---- */

static int64_t gemini_score(const struct arbiter_td *td, uint64_t now)
{
	int64_t one = (int64_t)ARBITER_WINDOW_NS;
	int64_t used = (int64_t)td_window_ns(td, now);
	int64_t due = one / SPEC_SHARE_ONE * td->tenant->spec.request;

	return due > used ? ABOVE_ALL + (due - used) * SPEC_SHARE_ONE / (due / SPEC_SHARE_ONE)
			  : one - used;
}

static uint64_t scored_passes_ns(const struct arbiter_td *holder, const struct arbiter_td *waiting,
	uint64_t rest_ns, uint64_t now)
{
	int64_t (*score)(
		const struct arbiter_td *, uint64_t) = holder->device->arbiter->policy->score;

	return score(waiting, now) >= score(holder, now) ? 0 : NSEC_PER_MSEC;
}

static const struct arbiter_policy policies[] = {
	{"share", share_score, share_passes_ns, false},
	{"fifo", fifo_score, passes_at_once, true},
	{"bias", bias_score, scored_passes_ns, true},
	{"gemini", gemini_score, scored_passes_ns, true},
};

const struct arbiter_policy *arbiter_policy_find(const char *name)
{
	if (!name)
		return &policies[0];
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		if (!strcmp(policies[i].name, name))
			return &policies[i];
	return NULL;
}

void arbiter_policy_names(char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(policies) && n < size; i++)
		n += (size_t)snprintf(ret + n, size - n, "%s%s", i ? ", " : "", policies[i].name);
}
