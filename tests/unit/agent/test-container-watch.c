/* SPDX-License-Identifier: Apache-2.0 */
/* A process whose environment cannot be read does not keep tenants of other containers alive. */
#include "unit.h"

#include <dirent.h>
#include <unistd.h>

#include "agent/container-watch.h"
#include "agent/conf.h"
#include "base/fd.h"
#include "base/process.h"
#include "own-agent.h"
#include "../../patience.h"
#include "stuck-process.h"

/* Shorter than the default, so that the test takes less time. */
#define SEARCH_NS (NSEC_PER_SEC / 2)

static struct rig rig;

static void container_rig_start(void)
{
	rig_start(&rig);
	rig.agent->options.search_ns = SEARCH_NS;
}

/*
 * Makes a tenant of a removed container, whose engine's command lived from tick `since` to tick
 * `until`.
 */
static uint32_t make_gone(uint64_t since, uint64_t until)
{
	struct tenant *t;

	assert_ok(rig_make_tenant(&rig, 0, &t));
	t->lifetime = TENANT_PROCESS;
	t->container = TENANT_CONTAINER_AWAITED;
	t->owner_start = since;
	t->owner_end = until;
	return t->id;
}

static void run_for(uint64_t ns)
{
	const uint64_t until_ns = clock_now_ns() + ns;

	while (clock_now_ns() < until_ns) {
		assert_true(loop_run_once(rig.agent->loop, until_ns) >= 0);
		agent_after_batch(rig.agent);
	}
}

static void await_end(uint32_t id)
{
	const uint64_t until_ns = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);

	while (tenant_by_id(rig.agent, id)) {
		assert_true(clock_now_ns() < until_ns);
		run_for(NSEC_PER_SEC / 10);
	}
}

static void the_tenant_of_a_dead_container_ends(void **state)
{
	uint32_t id;

	container_rig_start();
	id = make_gone(1, 2);
	await_end(id);
	rig_stop(&rig);
}

static void a_stuck_process_keeps_no_other_tenant(void **state)
{
	struct stuck_process stuck;
	uint32_t before, during;
	uint64_t start;

	stuck_start(&stuck);
	assert_ok(process_start_ticks(stuck.pid, &start));
	container_rig_start();
	before = make_gone(1, start - 1);
	during = make_gone(start, start);
	await_end(before);
	/* The stuck process may belong to the container of `during`. */
	run_for(8 * SEARCH_NS);
	assert_non_null(tenant_by_id(rig.agent, during));
	stuck_end(&stuck);
	await_end(during);
	rig_stop(&rig);
}

/* Threads of this process that wait in the kernel where no signal but SIGKILL reaches them. */
static uint32_t n_blocked_now(void)
{
	DIR *tasks = opendir("/proc/self/task");
	uint32_t n = 0;
	struct dirent *task;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		_cleanup_buf_ struct buf text = BUF_INIT(4096);
		char path[64];
		const char *name_end;

		snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", task->d_name);
		if (file_read(path, &text, NULL) < 0)
			continue;
		name_end = strrchr(buf_text(&text), ')');
		n += name_end && name_end[1] && name_end[2] == 'D';
	}
	closedir(tasks);
	return n;
}

/* The smallest number in 20 looks, because some looks also find threads that wait for the disk. */
static uint32_t n_blocked(void)
{
	uint32_t n = UINT32_MAX;

	for (int i = 0; i < 20; i++) {
		n = MIN(n, n_blocked_now());
		usleep(10000);
	}
	return n;
}

static void stuck_processes_of_one_cgroup_hold_few_threads(void **state)
{
	struct stuck_process stuck[CONTAINER_WATCH_STUCK_EACH + 1];
	char cgroup[CONF_CGROUP];
	uint32_t n, id;

	for (size_t i = 0; i < ARRAY_SIZE(stuck); i++)
		stuck_start(&stuck[i]);
	container_rig_start();
	/*
	 * No process starts at that tick, so no skipped process can belong to this tenant's
	 * container.
	 */
	id = make_gone(UINT64_MAX, UINT64_MAX);
	await_end(id);
	n = n_blocked();
	for (size_t i = ARRAY_SIZE(stuck); i-- > 0;)
		stuck_end(&stuck[i]);
	/* The abandoned searches complete, so that rig_stop() can join their threads. */
	run_for(3 * NSEC_PER_SEC);
	assert_ok(conf_cgroup(getpid(), cgroup, NULL));
	if (cgroup[0] && cgroup[1])
		assert_int_equal(n, CONTAINER_WATCH_STUCK_EACH);
	else
		assert_int_equal(n, CONTAINER_WATCH_STUCK_EACH + 1);
	rig_stop(&rig);
}

UNIT_MAIN(UNIT(the_tenant_of_a_dead_container_ends), UNIT(a_stuck_process_keeps_no_other_tenant),
	UNIT(stuck_processes_of_one_cgroup_hold_few_threads))
