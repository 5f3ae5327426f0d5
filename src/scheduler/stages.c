/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/stages.h"

#include <string.h>

#include "base/cleanup.h"

static bool is_on(const struct stage *s, const char *uuid)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (!strcmp(s->device[i], uuid))
			return true;
	return false;
}

/* The first that stays on the device, or the first of those that do not. */
static struct stage *host_of(struct stage *stage, uint32_t n, const char *uuid)
{
	struct stage *host = NULL;

	for (uint32_t i = 0; i < n; i++) {
		struct stage *s = &stage[i];

		if (!is_on(s, uuid))
			continue;
		if (s->kind != MANIFEST_INIT)
			return s;
		if (!host)
			host = s;
	}
	return host;
}

/* What has to be kept of the device beyond what is kept by now. */
static void find_lack(const struct stage *stage, uint32_t n, const char *uuid, uint32_t *ret_share,
	uint64_t *ret_bytes)
{
	struct manifest_sum share = {0}, bytes = {0}, kept_share = {0}, kept_bytes = {0};
	uint64_t most;

	for (uint32_t i = 0; i < n; i++) {
		const struct stage *s = &stage[i];

		if (!is_on(s, uuid))
			continue;
		manifest_sum_add(&share, s->kind, s->share);
		manifest_sum_add(&bytes, s->kind, s->bytes);
		manifest_sum_add(&kept_share, MANIFEST_MAIN, s->kept_share);
		manifest_sum_add(&kept_bytes, MANIFEST_MAIN, s->kept_bytes);
	}
	most = manifest_sum_value(&share);
	*ret_share = (uint32_t)MIN(
		most - MIN(most, manifest_sum_value(&kept_share)), (uint64_t)SPEC_SHARE_ONE);
	most = manifest_sum_value(&bytes);
	*ret_bytes = most - MIN(most, manifest_sum_value(&kept_bytes));
}

/* Of those devices that only init containers are on, or of the others. */
static void settle_devices(struct stage *stage, uint32_t n, bool is_of_init)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < stage[i].n; k++) {
			const char *uuid = stage[i].device[k];
			struct stage *host = host_of(stage, n, uuid);
			uint32_t share;
			uint64_t bytes;

			if ((host->kind == MANIFEST_INIT) != is_of_init)
				continue;
			find_lack(stage, n, uuid, &share, &bytes);
			host->has_room = false;
			host->kept_share = MIN(host->kept_share + share, SPEC_SHARE_ONE);
			host->kept_bytes += bytes;
		}
}

void stages_settle(struct stage *stage, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct stage *s = &stage[i];

		s->has_room = s->kind == MANIFEST_INIT;
		s->kept_share = s->has_room ? 0 : s->share;
		s->kept_bytes = s->has_room ? 0 : s->bytes;
	}
	/* Who has devices to itself anyhow has as much of the others. */
	settle_devices(stage, n, true);
	settle_devices(stage, n, false);
}
