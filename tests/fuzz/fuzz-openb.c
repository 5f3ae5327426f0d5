/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of the OpenB trace: any text is refused with a message, or gives rows within the
 * bounds of replay/openb.h. The first byte chooses the file.
 */
#include <errno.h>
#include <stdlib.h>

#include "replay/openb.h"
#include "spec/spec.h"
#include "fuzz.h"

#define ROWS 100u

static void check_node(const struct openb_node *node)
{
	FUZZ_CHECK(node->name.n && node->name.n < SPEC_LABEL && node->model.n < SPEC_LABEL);
	FUZZ_CHECK(node->n_devices <= OPENB_DEVICES_MAX && node->cpu_milli <= INT32_MAX);
}

static void check_pod(const struct openb_pod *pod)
{
	FUZZ_CHECK(pod->count <= SPEC_DEVICES_MAX && pod->share <= SPEC_SHARE_ONE);
	FUZZ_CHECK(!pod->count == !pod->share && pod->cpu_milli <= INT32_MAX);
	FUZZ_CHECK(!pod->has_times || pod->created_s <= pod->deleted_s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct str text = {(const char *)data + 1, n ? n - 1 : 0};
	_cleanup_free_ struct openb_node *nodes = NULL;
	_cleanup_free_ struct openb_pod *pods = NULL;
	_cleanup_free_ uint32_t *order = NULL;
	struct error err = {0};
	int r;

	if (!n)
		return 0;
	r = data[0] == 'n'       ? openb_nodes(text, &nodes, &err)
		: data[0] == 'p' ? openb_pods(text, &pods, &err)
				 : openb_order(text, ROWS, &order, &err);
	FUZZ_CHECK(r >= 0 || r == -EINVAL);
	FUZZ_CHECK(r >= 0 || (err.msg[0] && !nodes && !pods && !order));
	for (int i = 0; i < r; i++) {
		if (nodes)
			check_node(&nodes[i]);
		if (pods)
			check_pod(&pods[i]);
		if (order)
			FUZZ_CHECK(order[i] < ROWS);
	}
	return 0;
}
