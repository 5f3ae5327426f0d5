/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.*: resources of the node daemon: memory with 100 tenants, processor time while no device
 * is contended, and the daemon's reaction beside slow work (reaction.c). register.*: time in which
 * 1,000 started processes register. recovery.*: time until the next tenant runs, after the tenant
 * that held the token was killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/reaction.h"

#define TENANTS 100
#define PROCESSES 1000
#define KILLS 20

static unsigned long long status_kib(pid_t pid, const char *field)
{
	char path[64], line[256];
	unsigned long long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		bench_die("open '%s': %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0)
			kib = strtoull(line + strlen(field) + 1, NULL, 10);
	fclose(f);
	return kib;
}

static double cpu_seconds(pid_t pid)
{
	char path[64], line[1024], *p;
	unsigned long long user = 0, system = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		bench_die("read '%s'", path);
	fclose(f);
	p = strrchr(line, ')');
	if (!p ||
		sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			&system) != 2)
		bench_die("'%s' has another form", path);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void residence(void)
{
	struct rig rig;
	char command[256];
	double cpu;
	int contexts = 0;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command),
		"%s --count 2 --batch 1 --burst-on 1 --burst-off 600000 --seed 1 --quiet",
		bench_built("tests/programs/spin"));
	/*
	 * --burst-off also pauses before the first burst, for a random time. So the programs have
	 * contexts and run nothing while this function measures.
	 */
	for (int i = 0; i < TENANTS; i++)
		rig_start(&rig, "--request 0.01", command);
	for (uint64_t end = clock_now_ns() + 30 * NSEC_PER_SEC; clock_now_ns() < end;) {
		char *text = NULL, *p;

		contexts = 0;
		clock_sleep_until_ns(clock_now_ns() + 500 * NSEC_PER_MSEC);
		if (rig_divvy(&rig, "ps -o json", &text) != 0)
			bench_die("divvy ps failed: %s", text);
		for (p = text; (p = strstr(p, "\"command\"")); p++)
			contexts++;
		free(text);
		if (contexts >= TENANTS)
			break;
	}
	if (contexts < TENANTS)
		bench_die("only %d of %d tenants came up", contexts, TENANTS);
	cpu = cpu_seconds(rig.daemon);
	clock_sleep_until_ns(clock_now_ns() + 5 * NSEC_PER_SEC);
	cpu = cpu_seconds(rig.daemon) - cpu;
	bench_metric("daemon.rss_mib", (double)status_kib(rig.daemon, "RssAnon:") / 1024, "MiB",
		"<= 10", TENANTS, true, "RssAnon, 100 tenants");
	bench_metric("daemon.idle_cpu", cpu / 5, "cores", "<= 0.01", TENANTS, true,
		"100 tenants, nobody contends, over 5 s");
	rig_done(&rig);
}

/*
 * Measures how long n processes take to register. They wait for a file and then register; the last
 * to finish ends the measured time.
 */
static void registration(void)
{
	const int n = bench_quick() ? 200 : PROCESSES;
	struct rig rig;
	char command[256], go[128];
	uint64_t begin;
	FILE *f;
	pid_t pid;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(go, sizeof(go), "%s/go", rig.dir);
	snprintf(command, sizeof(command), "%s %d %s", bench_built("bench/register"), n, go);
	pid = rig_start(&rig, "--request 0.5", command);
	/* The parent prints "ready" once all its children wait. */
	for (;;) {
		char *text = rig_output(&rig, pid);
		bool ready = strstr(text, "ready") != NULL;

		free(text);
		if (ready)
			break;
		if (waitpid(pid, NULL, WNOHANG) == pid)
			bench_die("the registering processes could not be started");
		clock_sleep_until_ns(clock_now_ns() + 50 * NSEC_PER_MSEC);
	}
	begin = clock_now_ns();
	f = fopen(go, "we");
	if (!f)
		bench_die("open '%s': %s", go, strerror(errno));
	fclose(f);
	if (rig_wait(&rig, pid) != 0)
		bench_die("some of the %d processes could not register", n);
	bench_metric("register.s_per_1000", (double)(clock_now_ns() - begin) / 1e9 * 1000 / n, "s",
		"<= 2", (unsigned int)n, true, "cuInit to the answer, processes already started");
	rig_done(&rig);
}

static uint64_t next_start(struct rig *rig, pid_t pid, uint64_t after)
{
	struct simgpu_trace *trace = rig_trace(rig);
	struct simgpu_trace_record r;

	for (uint64_t n = simgpu_trace_lost(trace); n < simgpu_trace_written(trace); n++)
		if (simgpu_trace_get(trace, n, &r) == 0 && r.pid == (uint32_t)pid &&
			r.engine == SIMGPU_ENGINE_COMPUTE && r.kind == SIMGPU_TRACE_KERNEL &&
			r.start_ns >= after)
			return r.start_ns;
	return 0;
}

/*
 * Returns the process for which the device worked, or to which the device had switched, at a past
 * instant.
 */
static pid_t holder_at(struct rig *rig, uint64_t instant)
{
	struct simgpu_trace *trace = rig_trace(rig);
	struct simgpu_trace_record r;
	uint64_t last = 0;
	pid_t holder = 0;

	for (uint64_t n = simgpu_trace_lost(trace); n < simgpu_trace_written(trace); n++) {
		if (simgpu_trace_get(trace, n, &r) < 0 || r.engine != SIMGPU_ENGINE_COMPUTE ||
			r.start_ns > instant || r.start_ns < last)
			continue;
		last = r.start_ns;
		holder = (pid_t)r.pid;
	}
	return holder;
}

/*
 * Kills one of two tenants some time after their start. Returns the milliseconds until the other
 * tenant's next kernel began, or -1 if the trace shows that the victim did not hold the device.
 */
static double kill_one(int victim, uint64_t delay_ns)
{
	struct rig rig;
	char command[256];
	uint64_t at, next, first = 0;
	bool held;
	pid_t pid[2];

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s --kernel-us 1000 --quiet",
		bench_built("tests/programs/spin"));
	for (int k = 0; k < 2; k++)
		pid[k] = rig_start(&rig, "--request 0.5", command);
	for (int k = 0; k < 2; k++)
		while (!(first = rig_first_ns(&rig, pid[k])))
			clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
	clock_sleep_until_ns(first + 200 * NSEC_PER_MSEC + delay_ns);
	at = clock_now_ns();
	kill(pid[victim], SIGKILL);
	rig_wait(&rig, pid[victim]);
	clock_sleep_until_ns(at + 500 * NSEC_PER_MSEC);
	held = holder_at(&rig, at) == pid[victim];
	next = next_start(&rig, pid[!victim], at);
	if (!next)
		bench_die("the other tenant did not run within 0.5 s");
	rig_done(&rig);
	return held ? (double)(next - at) / 1e6 : -1;
}

static void recovery(void)
{
	const int kills = bench_quick() ? 5 : KILLS;
	double ms[KILLS];
	char detail[96];
	int n = 0, tries = 0;

	while (n < kills) {
		double took = kill_one(tries % 2, (uint64_t)tries * 3 * NSEC_PER_MSEC);

		tries++;
		if (took >= 0)
			ms[n++] = took;
		else if (tries >= 10 * kills)
			bench_die(
				"the killed one held the device in only %d of %d times", n, tries);
	}
	bench_sort(ms, (size_t)n);
	snprintf(detail, sizeof(detail),
		"kill to the next tenant's first kernel, the worst; %d kills of one that waited "
		"left out",
		tries - n);
	bench_metric("recovery.holder_killed_ms", ms[n - 1], "ms", "<= 5", (unsigned int)n, true,
		detail);
	bench_metric("recovery.holder_killed_ms_p50", ms[n / 2], "ms", "", (unsigned int)n, true,
		"median");
}

int main(int argc, char **argv)
{
	bench_init("daemon", argc, argv);
	if (bench_foreign()) {
		bench_note("is of divvy's own daemon: nothing to measure of another library");
		return bench_done();
	}
	if (bench_wants("residence"))
		residence();
	if (bench_wants("registration"))
		registration();
	if (bench_wants("recovery"))
		recovery();
	if (bench_wants("reaction"))
		reaction_measure();
	return bench_done();
}
