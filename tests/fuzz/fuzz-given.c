/* SPDX-License-Identifier: Apache-2.0 */
/* Given keys: each line of the input is KEY VALUE; what is accepted keeps what given.h promises. */
#include <stdlib.h>

#include "core/given.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct given *g)
{
	if (!g->spec.count || g->spec.count > SPEC_DEVICES_MAX || !g->spec.request ||
		g->spec.request > SPEC_SHARE_ONE || g->spec.limit < g->spec.request ||
		g->spec.limit > SPEC_SHARE_ONE)
		abort();
	for (uint32_t i = 0; i < g->spec.count; i++)
		if (!g->device[i][0] || g->memory_bytes[i] > INT64_MAX)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = {(const char *)data, size}, line, key;
	struct manifest_entry entry[32];
	struct manifest_list list = {entry, 0};
	struct error err;
	struct given g;

	while (list.n < 32 && str_split(&rest, '\n', &line)) {
		if (!str_split(&line, '\t', &key))
			continue;
		entry[list.n++] = (struct manifest_entry){key, line.p ? line : STR("")};
	}
	if (given_read(list, STR("train"), &g, &err) == 0)
		check(&g);
	return 0;
}
