/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributes the capacity that a pod needs over its containers. Main containers and sidecars keep
 * what they request. An init container runs in the capacity that other containers keep on its
 * devices. If the init container needs more, the device's host keeps the difference: the first main
 * container or sidecar on the device, or without those the first init container. Devices that only
 * init containers use come first, because a host's share counts on all its devices. An init
 * container that is no host keeps nothing.
 */
#include "scheduler/stages.h"

#include <string.h>

#include "base/cleanup.h"

/* Index of the device in the stage; s->n if absent. */
static uint32_t stages_device_index(const struct stage *s, const char *uuid)
{
	uint32_t i = 0;

	while (i < s->n && strcmp(s->device[i], uuid) != 0)
		i++;
	return i;
}

uint64_t stage_kept_on(const struct stage *stage, const char *uuid)
{
	const uint32_t i = stages_device_index(stage, uuid);

	return i < stage->n ? stage->kept_bytes[i] : 0;
}

/*
 * Returns the device's host, which keeps what the pod needs beyond the amounts of the other
 * containers: the first main container or sidecar on the device, or else the first init container.
 */
static struct stage *stages_find_host(struct stage *stage, uint32_t n, const char *uuid)
{
	struct stage *host = NULL;

	for (uint32_t i = 0; i < n; i++) {
		struct stage *s = &stage[i];

		if (stages_device_index(s, uuid) == s->n)
			continue;
		if (s->kind != MANIFEST_INIT)
			return s;
		if (!host)
			host = s;
	}
	return host;
}

/* Computes how much more the pod needs on the device than its containers keep now. */
static void find_lack(const struct stage *stage, uint32_t n, const char *uuid, uint32_t *ret_share,
	uint64_t *ret_bytes)
{
	struct manifest_sum share = {0}, bytes = {0}, kept_share = {0}, kept_bytes = {0};
	uint64_t most;

	for (uint32_t i = 0; i < n; i++) {
		const struct stage *s = &stage[i];
		const uint32_t k = stages_device_index(s, uuid);

		if (k == s->n)
			continue;
		manifest_sum_add(&share, s->kind, s->share);
		manifest_sum_add(&bytes, s->kind, s->bytes[k]);
		manifest_sum_add(&kept_share, MANIFEST_MAIN, s->kept_share);
		manifest_sum_add(&kept_bytes, MANIFEST_MAIN, s->kept_bytes[k]);
	}
	most = manifest_sum_value(&share);
	*ret_share = (uint32_t)MIN(
		most - MIN(most, manifest_sum_value(&kept_share)), (uint64_t)SPEC_SHARE_ONE);
	most = manifest_sum_value(&bytes);
	*ret_bytes = most - MIN(most, manifest_sum_value(&kept_bytes));
}

/*
 * Adds to the host of each device what the pod needs there beyond the kept amounts. is_of_init:
 * only on devices that only init containers use; else only on the other devices.
 */
static void settle_devices(struct stage *stage, uint32_t n, bool is_of_init)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < stage[i].n; k++) {
			const char *uuid = stage[i].device[k];
			struct stage *host = stages_find_host(stage, n, uuid);
			uint32_t share;
			uint64_t bytes;

			if ((host->kind == MANIFEST_INIT) != is_of_init)
				continue;
			find_lack(stage, n, uuid, &share, &bytes);
			host->has_room = false;
			host->kept_share = MIN(host->kept_share + share, SPEC_SHARE_ONE);
			host->kept_bytes[stages_device_index(host, uuid)] += bytes;
		}
}

void stages_settle(struct stage *stage, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct stage *s = &stage[i];

		s->has_room = s->kind == MANIFEST_INIT;
		s->kept_share = s->has_room ? 0 : s->share;
		for (uint32_t k = 0; k < s->n; k++)
			s->kept_bytes[k] = s->has_room ? 0 : s->bytes[k];
	}
	/*
	 * The host of a device is the container that keeps what the other containers of the pod
	 * lack there. A host keeps the same share on all its devices. So a share that the first
	 * pass adds to a host also counts on the host's devices in the second pass.
	 */
	settle_devices(stage, n, true);
	settle_devices(stage, n, false);
}
