/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the name of a sharing scheme to a policy and to the change of each task's request. Every
 * placement policy is a scheme that keeps the requested shares; the table `schemes` adds four other
 * schemes. Indexes of schemes count the policies first, and then the rows of `schemes`. An adapt
 * function changes the run's copy of a request; the workload keeps the original.
 */
#include "replay/scheme.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Default of Deepomatic's device plugin (DP_NUMBER_CONTAINERS_PER_GPU). */
#define REPLICAS 100u

/*
 * The task gets the whole device with all its memory, whatever memory the task requested. So its
 * user has to request a model with enough memory.
 */
static void as_whole(const struct cluster *cluster, struct place_spec *spec)
{
	spec->share = SPEC_SHARE_ONE;
	spec->is_exclusive = true;
	spec->device_permille = 0;
}

/* A replica is one hundredth of a device; neither time nor memory is counted. */
static void as_replica(const struct cluster *cluster, struct place_spec *spec)
{
	spec->share = SPEC_SHARE_ONE / REPLICAS;
	spec->is_exclusive = false;
	spec->device_bytes = 0;
	spec->device_permille = 0;
}

/*
 * Best fit by memory: the memory request replaces the share, if the task requests memory. A byte
 * request becomes its fraction of the largest device's memory. On smaller devices the true fraction
 * is larger, so every device runs out of bytes before it runs out of permille.
 */
static void as_memory(const struct cluster *cluster, struct place_spec *spec)
{
	const uint64_t size = cluster->device_bytes_max;
	uint64_t part = spec->device_permille ? spec->device_permille : spec->share;

	if (spec->device_bytes && size)
		part = MAX(spec->device_bytes / (size / SPEC_SHARE_ONE + 1), UINT64_C(1));
	spec->share = (uint32_t)MIN(part, (uint64_t)SPEC_SHARE_ONE);
	spec->is_exclusive = false;
	spec->device_permille = 0;
}

static const struct replay_scheme schemes[] = {
	{"whole", "each task gets whole devices, as with Kubernetes", &place_best_fit, as_whole,
		true, false},
	{"replicas", "a device counts as 100 devices, assigned in turn and without limits",
		&place_in_turn, as_replica, false, false},
	{"memory-only", "best fit by device memory, without limits on time", &place_by_memory,
		as_memory, false, false},
	{"random", "any node and device with enough free capacity", &place_random, NULL, true,
		false},
};

static size_t n_policies(void)
{
	size_t n = 0;

	while (place_policies[n])
		n++;
	return n;
}

const char *replay_scheme_name(size_t i)
{
	const size_t n = n_policies();

	if (i < n)
		return place_policies[i]->name;
	return i - n < ARRAY_SIZE(schemes) ? schemes[i - n].name : NULL;
}

const char *replay_scheme_about(size_t i)
{
	const size_t n = n_policies();

	return i < n ? place_policies[i]->about : schemes[i - n].about;
}

int replay_scheme_find(const char *name, struct replay_scheme *ret_scheme, struct error *err)
{
	const struct place_policy *policy = place_policy_find(name);
	_cleanup_buf_ struct buf known = BUF_INIT(256);

	if (policy) {
		*ret_scheme = (struct replay_scheme){.name = name,
			.about = policy->about,
			.policy = policy,
			.has_limits = true,
			.knows_mix = policy == &place_fgd};
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (!strcmp(schemes[i].name, name)) {
			*ret_scheme = schemes[i];
			return 0;
		}
	for (size_t i = 0; replay_scheme_name(i); i++)
		buf_addf(&known, " %s", replay_scheme_name(i));
	return fail(err, EINVAL, "'%s': unknown policy; expected one of: default%s", name,
		buf_text(&known));
}
