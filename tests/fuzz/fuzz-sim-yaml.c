/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the file of `divvy sim --spec`: any text is refused with a message, or gives nodes and
 * tasks that the placement model accepts and that a replay can run.
 */
#include <errno.h>

#include "simcli/sim.h"
#include "fuzz-yaml.h"
#include "fuzz.h"

#define RUN_MAX 64u /* inputs with at most this many tasks are also replayed */

static void run(
	const struct cluster *cluster, const struct workload *workload, enum replay_preempt preempt)
{
	struct replay_result *result = NULL;
	struct replay_scheme scheme;
	struct error err = {0};
	int r = replay_scheme_find("best-fit", &scheme, &err);

	FUZZ_CHECK(r == 0);
	r = replay_run(&(struct replay_input){.cluster = cluster,
			       .workload = workload,
			       .scheme = &scheme,
			       .mode = cluster->n_networks ? REPLAY_DROP : REPLAY_QUEUE,
			       .preempt = preempt,
			       .defrag = {.period_ns = preempt == REPLAY_KEEP ? 0 : 1000000000,
				       .n_moves = 3}},
		&result, &err);
	FUZZ_CHECK(r == 0 || err.msg[0]);
	FUZZ_CHECK(r < 0 || result->n_placed <= workload->n);
	replay_free(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	_cleanup_cluster_ struct cluster cluster = {0};
	_cleanup_workload_ struct workload workload = {0};
	struct error err = {0};
	const struct str text = {(const char *)data, n};
	const int r = sim_yaml(text, &cluster, &workload, &err);

	FUZZ_CHECK(r == 0 || ((r == -EINVAL || r == -ENOSPC) && err.msg[0]));
	if (r < 0)
		return 0;
	for (uint32_t i = 0; i < workload.n; i++) {
		FUZZ_CHECK(place_spec_check(&workload.tasks[i].spec, NULL) == 0);
		FUZZ_CHECK(workload.tasks[i].limit >= workload.tasks[i].spec.share);
		FUZZ_CHECK(!workload.has_times || workload.tasks[i].work_ns > 0);
	}
	for (int i = REPLAY_KEEP; i <= REPLAY_RESUME; i++)
		if (cluster.n <= RUN_MAX && workload.n <= RUN_MAX && workload.has_times)
			run(&cluster, &workload, (enum replay_preempt)i);
	return 0;
}
