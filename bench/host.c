/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See host.h. A quota is a cgroup of its own below the bench's: of the cpu controller of version 1,
 * or of version 2 where the bench may create a group. A loop dies with the bench (PDEATHSIG).
 */
#include "bench/host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/rig.h"

static struct host *living; /* the load that must end with the bench; NULL: no load */

static const struct {
	const char *folder, *file, *text;
} quotas[] = {
	{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"},
	{"/sys/fs/cgroup", "cpu.max", "50000 100000"},
};

static bool write_file(const char *folder, const char *file, const char *text)
{
	char path[192];
	FILE *f;
	bool is_written;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	f = fopen(path, "we");
	if (!f)
		return false;
	is_written = fputs(text, f) >= 0;
	return fclose(f) == 0 && is_written;
}

static bool add_group(struct host *host)
{
	char *group = host->group[host->n_groups];

	for (size_t i = 0; i < ARRAY_SIZE(quotas); i++) {
		snprintf(group, sizeof(host->group[0]), "%s/divvy-bench-%d-%zu", quotas[i].folder,
			(int)getpid(), host->n_groups);
		if (mkdir(group, 0755) < 0)
			continue;
		if (write_file(group, quotas[i].file, quotas[i].text)) {
			host->n_groups++;
			return true;
		}
		rmdir(group);
	}
	return false;
}

/* From now on the calling thread runs on this processor only. */
static void stay_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void loop_on(int processor)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stay_on(processor);
	for (volatile unsigned int i = 0;; i++)
		;
}

static void start_loops(struct host *host)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		bench_die("the processors of this machine: %s", strerror(errno));
	for (int i = 0; i < CPU_SETSIZE && host->n_loops < HOST_LOOPS_MAX; i++) {
		pid_t pid;

		if (!CPU_ISSET((size_t)i, &allowed))
			continue;
		pid = fork();
		if (pid < 0)
			bench_die("fork: %s", strerror(errno));
		if (pid == 0)
			loop_on(i);
		host->loop[host->n_loops++] = pid;
	}
}

bool host_init(struct host *ret_host, enum host_load load)
{
	*ret_host = (struct host){.load = load};
	living = ret_host;
	if (load == HOST_QUOTA) {
		/* The first group shows whether the bench may create groups. */
		if (!add_group(ret_host)) {
			bench_note("no cgroup with a CPU quota can be made here (needs root)");
			living = NULL;
			return false;
		}
	}
	if (load == HOST_BUSY)
		start_loops(ret_host);
	return true;
}

void host_add(struct host *host, pid_t pid)
{
	const size_t at = host->n_added++;
	char text[24];

	if (host->load != HOST_QUOTA)
		return;
	if (at == host->n_groups && (at == HOST_QUOTAS_MAX || !add_group(host)))
		bench_die("no cgroup for program %zu", at + 1);
	snprintf(text, sizeof(text), "%d", (int)pid);
	if (!write_file(host->group[at], "cgroup.procs", text))
		bench_die(
			"process %d cannot be moved into a cgroup: %s", (int)pid, strerror(errno));
}

/*
 * cpu.stat of both cgroup versions has these lines. The kernel does not count periods without a
 * running program.
 */
static double throttled_part(const char *group)
{
	unsigned long long value, n_periods = 0, n_throttled = 0;
	char path[192], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cpu.stat", group);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "nr_periods %llu", &value) == 1)
			n_periods = value;
		else if (sscanf(line, "nr_throttled %llu", &value) == 1)
			n_throttled = value;
	fclose(f);
	return n_periods ? (double)n_throttled / (double)n_periods : -1;
}

double host_throttled(const struct host *host)
{
	double least = host->n_groups ? 1 : -1;

	for (size_t i = 0; i < host->n_groups; i++)
		least = MIN(least, throttled_part(host->group[i]));
	return least;
}

void host_done(struct host *host)
{
	for (size_t i = 0; i < host->n_loops; i++) {
		kill(host->loop[i], SIGKILL);
		waitpid(host->loop[i], NULL, 0);
	}
	for (size_t i = 0; i < host->n_groups; i++)
		if (rmdir(host->group[i]) < 0)
			bench_note("cgroup '%s' stays: %s", host->group[i], strerror(errno));
	host->n_loops = host->n_groups = 0;
	living = NULL;
}

void host_end(void)
{
	if (living)
		host_done(living);
}

/* ---- stalls ---- */

#define WATCH_STALLS 1024
#define WATCH_SLEEP_NS NSEC_PER_MSEC
#define WATCH_PRIORITY 10

/* One processor's watcher. Only its thread writes stall and n until it has been joined. */
struct watch {
	pthread_t thread;
	int processor;
	struct host_stall stall[WATCH_STALLS];
	size_t n;
};

static struct watch watches[HOST_LOOPS_MAX];
static size_t n_watches;
static bool is_watch_ended;                    /* atomic */
static struct host_stall stalls[WATCH_STALLS]; /* of all processors, by time */

static void *watch_run(void *data)
{
	struct watch *watch = data;
	uint64_t last;

	stay_on(watch->processor);
	last = clock_now_ns();
	while (!__atomic_load_n(&is_watch_ended, __ATOMIC_RELAXED)) {
		uint64_t late;

		clock_sleep_until_ns(last + WATCH_SLEEP_NS);
		late = clock_since_ns(clock_now_ns(), last + WATCH_SLEEP_NS);
		last += WATCH_SLEEP_NS + late;
		if (late < HOST_STALL_NS || watch->n == WATCH_STALLS)
			continue;
		watch->stall[watch->n].end_ns = last;
		watch->stall[watch->n++].ns = late;
	}
	return NULL;
}

static bool watch_begin(struct watch *watch, int processor)
{
	const struct sched_param priority = {.sched_priority = WATCH_PRIORITY};
	pthread_attr_t attributes;
	bool is_begun;

	*watch = (struct watch){.processor = processor};
	if (pthread_attr_init(&attributes))
		return false;
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_RR);
	pthread_attr_setschedparam(&attributes, &priority);
	is_begun = pthread_create(&watch->thread, &attributes, watch_run, watch) == 0;
	pthread_attr_destroy(&attributes);
	return is_begun;
}

void host_watch_start(void)
{
	cpu_set_t allowed;

	is_watch_ended = false;
	n_watches = 0;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return;
	for (int i = 0; i < CPU_SETSIZE && n_watches < HOST_LOOPS_MAX; i++)
		if (CPU_ISSET((size_t)i, &allowed) && watch_begin(&watches[n_watches], i))
			n_watches++;
}

static int compare_ends(const void *a, const void *b)
{
	const struct host_stall *x = a, *y = b;

	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

size_t host_watch_stop(const struct host_stall **ret_stalls)
{
	size_t n = 0;

	__atomic_store_n(&is_watch_ended, true, __ATOMIC_RELAXED);
	for (size_t w = 0; w < n_watches; w++) {
		pthread_join(watches[w].thread, NULL);
		for (size_t i = 0; i < watches[w].n && n < ARRAY_SIZE(stalls); i++)
			stalls[n++] = watches[w].stall[i];
	}
	n_watches = 0;
	qsort(stalls, n, sizeof(stalls[0]), compare_ends);
	*ret_stalls = stalls;
	return n;
}
