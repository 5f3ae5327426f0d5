/* SPDX-License-Identifier: Apache-2.0 */
/* The state file of a whole daemon in this process: the daemon rewrites it despite failures. */
#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent-state.h"
#include "base/clock.h"
#include "base/fd.h"
#include "own-agent.h"
#include "threads/thread-worker.h"

#define HANGS_NS (120 * NSEC_PER_SEC)
#define COMPACTED_BYTES (2u << 20)
#define LARGE_BYTES (32u << 20)

static off_t file_size(const struct rig *rig)
{
	struct stat st;
	char path[96];

	snprintf(path, sizeof(path), "%s/state", rig->folder);
	assert_ok(stat(path, &st));
	return st.st_size;
}

static void grow(const struct rig *rig, struct tenant *t, off_t size)
{
	struct error err;

	while (file_size(rig) <= size)
		for (int i = 0; i < 256; i++)
			assert_ok(state_tenant(t, &err));
}

static bool shrinks(struct rig *rig)
{
	const uint64_t end_ns = clock_now_ns() + HANGS_NS;

	while (file_size(rig) >= COMPACTED_BYTES) {
		if (clock_now_ns() > end_ns)
			return false;
		assert_true(
			loop_run_once(rig->agent->loop, clock_now_ns() + NSEC_PER_SEC / 10) >= 0);
		agent_after_batch(rig->agent);
	}
	return true;
}

static void a_failed_compaction_is_repeated(void **state)
{
	struct tenant *t;
	struct rig rig;
	char path[96];

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t));
	snprintf(path, sizeof(path), "%s/state.next", rig.folder);
	assert_ok(mkdir(path, 0700));
	grow(&rig, t, COMPACTED_BYTES);
	assert_true(shrinks(&rig));
	assert_ok(rmdir(path));
	rig_stop(&rig);
}

struct hold {
	struct worker_job job;
	int fd;
};

static void run_hold(struct worker_job *job)
{
	char byte;

	if (read(((struct hold *)job)->fd, &byte, 1) < 0)
		return;
}

static void hold_done(struct worker_job *job)
{
}

static void a_file_stays_small_while_the_disk_hangs(void **state)
{
	struct hold hold = {.job = {.run = run_hold, .done = hold_done}};
	struct tenant *t;
	struct rig rig;
	int ends[2];

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t));
	assert_ok(pipe(ends));
	hold.fd = ends[0];
	worker_submit(rig.agent->disk, &hold.job);
	grow(&rig, t, LARGE_BYTES);
	assert_true(shrinks(&rig));
	close(ends[1]);
	rig_stop(&rig);
	close(ends[0]);
}

static void the_file_has_all_of_a_pod(void **state)
{
	static const char *const members[] = {"\"uid\":\"pod-uid\"", "\"namespace\":\"team-a\"",
		"\"name\":\"trainer-0\"", "\"container\":\"gpu\"", "\"slot\":\"7\"",
		"\"claim\":\"half\"", "\"epoch\":3", "\"overcommit\":1500"};
	const struct tenant_pod pod = {.uid = "pod-uid",
		.space = "team-a",
		.name = "trainer-0",
		.container = "gpu",
		.slot = "7",
		.claim = "half",
		.epoch = 3,
		.overcommit = 1500};
	struct tenant_params params = {.name = "trainer-0",
		.origin = "pod-uid/gpu",
		.lifetime = TENANT_KEEP,
		.source = TENANT_POD,
		.pod = &pod};
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
	struct tenant *t;
	struct error err;
	struct rig rig;
	char path[96];

	rig_start(&rig);
	spec_init(&params.spec);
	assert_ok(spec_set(&params.spec, "request", "0.001", &err));
	assert_ok(spec_finish(&params.spec, &err));
	assert_ok(tenant_new(rig.agent, &params, &t, &err));
	snprintf(path, sizeof(path), "%s/state", rig.folder);
	assert_ok(file_read(path, &text, &err));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		assert_contains(buf_text(&text), members[i]);
	rig_stop(&rig);
}

UNIT_MAIN(UNIT(the_file_has_all_of_a_pod), UNIT(a_failed_compaction_is_repeated),
	UNIT(a_file_stays_small_while_the_disk_hangs))
