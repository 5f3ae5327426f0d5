/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.*: quotas under attack. Eight processes of three tenants allocate, free and die at random
 * through every allocation path for five minutes (--quick: 20 s). A breach is a change in the
 * *device's* account after which a tenant held more than its quota. At the end, ledger and device
 * must be empty. A shorter run without divvy shows that the bench finds breaches. Then two tenants,
 * each with 60 % of the memory, run with the policies wait and swap: both must finish with
 * unchanged data.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "bench/bench.h"

#define TENANTS 3
#define PIDS_MAX 65536
#define GIB (1024ull * 1024 * 1024)

static const struct {
	const char *spec;
	uint64_t quota;
	int workers;
} tenant[TENANTS] = {
	{"--request 0.3 --memory 3Gi", 3 * GIB, 3},
	{"--request 0.3 --memory 4Gi", 4 * GIB, 3},
	{"--request 0.3 --memory 2Gi", 2 * GIB, 2},
};

static size_t pids_of(struct rig *rig, pid_t parent, pid_t *ret_pids)
{
	char *text = rig_output(rig, parent);
	size_t n = 0;

	for (char *p = text; (p = strstr(p, "pid ")) && n < PIDS_MAX; p++)
		ret_pids[n++] = (pid_t)strtol(p + 4, NULL, 10);
	free(text);
	return n;
}

static unsigned long long number_after(const char *text, const char *word)
{
	const char *p = strstr(text, word);

	return p ? strtoull(p + strlen(word), NULL, 10) : 0;
}

struct storm {
	uint64_t breaches, over_bytes, changes, left_device, left_ledger;
	unsigned long long operations, refused;
	size_t processes;
};

/* Adds a tenant's figures from the device's account and from its programs' output. */
static void count(struct rig *rig, pid_t parent, int i, struct storm *s)
{
	static pid_t pids[PIDS_MAX];
	size_t n = pids_of(rig, parent, pids);
	uint64_t breaches = 0, max = 0;
	char *text = rig_output(rig, parent);

	if (simgpu_account_breaches(rig_trace(rig), pids, n, 0, tenant[i].quota, &breaches) < 0 ||
		simgpu_account_max(rig_trace(rig), pids, n, 0, 0, UINT64_MAX, &max, NULL) < 0)
		bench_die("read the account: out of memory");
	bench_note("tenant %d%s: quota %.2f GiB, most held %.2f GiB, %zu processes, %llu breaches",
		i + 1, rig->mode == RIG_BARE ? ", unshared" : "",
		(double)tenant[i].quota / (double)GIB, (double)max / (double)GIB, n,
		(unsigned long long)breaches);
	if (max > tenant[i].quota)
		s->over_bytes = MAX(s->over_bytes, max - tenant[i].quota);
	s->breaches += breaches;
	s->processes += n;
	s->operations += number_after(text, "operations ");
	s->refused += number_after(text, "refused ");
	free(text);
}

/*
 * Waits until all processes that a tenant's program started have ended; the program itself stays.
 */
static void wait_calm(struct rig *rig, pid_t parent, uint64_t deadline)
{
	for (;;) {
		char *text = rig_output(rig, parent);
		bool is_calm = strstr(text, "refused ") != NULL;
		siginfo_t info = {0};

		free(text);
		if (is_calm)
			return;
		if (clock_now_ns() > deadline ||
			waitid(P_PID, (id_t)parent, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
			info.si_pid)
			bench_die("the allocating programs did not come to their end");
		clock_sleep_until_ns(clock_now_ns() + 50 * NSEC_PER_MSEC);
	}
}

/*
 * Memory that the ledger charges to all tenants. Called when none of their processes holds memory.
 */
static uint64_t ledger_bytes(struct rig *rig)
{
	uint64_t sum = 0;
	int n = 0;
	char *text;

	if (rig_divvy(rig, "ps -o json", &text) != 0)
		bench_die("divvy ps: %s", text);
	for (char *p = text; (p = strstr(p, "\"memory_used_bytes\":")); p++, n++)
		sum += number_after(p, "\"memory_used_bytes\":");
	if (n != TENANTS)
		bench_die("divvy ps lists %d tenants, not %d: %s", n, TENANTS, text);
	free(text);
	return sum;
}

static struct storm storm(enum rig_mode mode, int seconds)
{
	struct storm s = {0};
	struct simgpu_account_record last;
	struct rig rig;
	pid_t pid[TENANTS];
	char command[256];

	rig_init(&rig, mode, "1xTest-12Gi", "context_mib=128", NULL);
	for (int i = 0; i < TENANTS; i++) {
		snprintf(command, sizeof(command), "%s %d %d %d", bench_built("bench/allocator"),
			tenant[i].workers, seconds, i + 1);
		pid[i] = rig_start(&rig, tenant[i].spec, command);
	}
	for (int i = 0; i < TENANTS; i++)
		wait_calm(&rig, pid[i], clock_now_ns() + (uint64_t)(seconds + 60) * NSEC_PER_SEC);
	clock_sleep_until_ns(clock_now_ns() + 2 * NSEC_PER_SEC);
	if (mode == RIG_SHARED && !bench_foreign())
		s.left_ledger = ledger_bytes(&rig);
	for (int i = 0; i < TENANTS; i++) {
		kill(pid[i], SIGTERM);
		if (rig_wait(&rig, pid[i]) != 0)
			bench_die("the allocating programs of tenant %d failed: see what they "
				  "said: %s",
				i + 1, rig_output(&rig, pid[i]));
	}
	for (int i = 0; i < TENANTS; i++)
		count(&rig, pid[i], i, &s);
	s.changes = simgpu_account_written(rig_trace(&rig));
	if (simgpu_account_lost(rig_trace(&rig)))
		bench_die("the device's account has lost %llu of its %llu changes, in which a "
			  "breach could be: ACCOUNT_RECORDS in rig.c must be larger",
			(unsigned long long)simgpu_account_lost(rig_trace(&rig)),
			(unsigned long long)s.changes);
	if (s.changes && simgpu_account_get(rig_trace(&rig), s.changes - 1, &last) == 0)
		s.left_device = last.device_bytes;
	rig_done(&rig);
	return s;
}

static void report(const char *metric, const char *goal, const struct storm *s)
{
	char detail[96];

	snprintf(detail, sizeof(detail),
		"%llu operations, %llu refused, %zu processes, %llu changes, over by %llu",
		s->operations, s->refused, s->processes, (unsigned long long)s->changes,
		(unsigned long long)s->over_bytes);
	bench_metric(metric, (double)s->breaches, "", goal, (unsigned int)s->changes, true, detail);
}

static void breaches(void)
{
	/*
	 * Without a limit, tenants exceed their quotas. This run shows that the count finds
	 * breaches.
	 */
	struct storm s = storm(RIG_BARE, bench_quick() ? 5 : 20);

	report("memory.unshared_breaches", ">= 1", &s);
	s = storm(RIG_SHARED, bench_quick() ? 20 : 300);
	report("memory.breaches", "= 0", &s);
	bench_metric("memory.left_device_bytes", (double)s.left_device, "B", "= 0", 1, true,
		"after all have gone");
	if (!bench_foreign())
		bench_metric("memory.left_ledger_bytes", (double)s.left_ledger, "B", "= 0", 1, true,
			"counted for tenants none of whose processes is left");
}

static void lifetime(struct rig *rig, pid_t pid, uint64_t *ret_begin, uint64_t *ret_end)
{
	struct simgpu_account_record r;
	uint64_t begin = 0, end = 0;

	for (uint64_t n = 0; n < simgpu_account_written(rig_trace(rig)); n++) {
		if (simgpu_account_get(rig_trace(rig), n, &r) < 0 || r.pid != (uint32_t)pid)
			continue;
		begin = begin ? begin : r.t_ns;
		end = r.t_ns;
	}
	*ret_begin = begin;
	*ret_end = end;
}

/* Two tenants of 60 % each: returns 1 when both finish with their data intact. */
static double oversubscribed(const char *policy)
{
	struct rig rig;
	pid_t pid[2];
	char spec[128], command[256];
	uint64_t begin[2], end[2];
	double good = 1;

	rig_init(&rig, RIG_SHARED, "1xTest-2Gi", "context_mib=32", NULL);
	for (int i = 0; i < 2; i++) {
		snprintf(spec, sizeof(spec), "--request 0.5 --memory 60%% --memory-policy %s",
			policy);
		snprintf(command, sizeof(command), "%s keep %d %d", bench_built("bench/allocator"),
			1100, i + 1);
		pid[i] = rig_start(&rig, spec, command);
	}
	for (int i = 0; i < 2; i++) {
		if (rig_wait(&rig, pid[i]) != 0) {
			char *text = rig_output(&rig, pid[i]);

			bench_note("%s: tenant %d failed: %s", policy, i + 1, text);
			free(text);
			good = 0;
		}
		lifetime(&rig, pid[i], &begin[i], &end[i]);
	}
	if (good > 0 && (begin[0] >= end[1] || begin[1] >= end[0]))
		bench_die("%s: one had finished before the other came: there was room for both",
			policy);
	rig_done(&rig);
	return good;
}

int main(int argc, char **argv)
{
	bench_init("memory", argc, argv);
	breaches();
	if (bench_foreign())
		return bench_done();
	bench_metric("memory.wait_exact", oversubscribed("wait"), "", "= 1", 2, true,
		"two tenants of 60 % finish, data bit-exact");
	bench_metric("memory.swap_exact", oversubscribed("swap"), "", "= 1", 2, true,
		"two tenants of 60 % finish, data bit-exact");
	return bench_done();
}
