/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.*: quotas under attack. Eight processes of three tenants allocate, free and are killed at
 * random through every allocation path for five minutes (--quick: 20 s); a breach is a change in
 * the *device's* account after which a tenant held more than its quota. Afterwards ledger and
 * device are empty. Then two tenants of 60 % of the memory each with the policies wait and swap:
 * both finish, the data bit-exact.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void breaches(void)
{
	const int seconds = bench_quick() ? 20 : 300;
	static pid_t pids[PIDS_MAX];
	uint64_t count = 0, changes, worst_over = 0, device_left = 0;
	unsigned long long operations = 0, refused = 0, ledger_left = 0;
	size_t killed = 0;
	struct sim_account_record last;
	struct rig rig;
	pid_t pid[TENANTS];
	char command[256], detail[96], *text, *p;

	rig_init(&rig, RIG_SHARED, "1xTest-12Gi", "context_mib=128", NULL);
	for (int i = 0; i < TENANTS; i++) {
		snprintf(command, sizeof(command), "%s %d %d %d", bench_built("bench/allocator"),
			tenant[i].workers, seconds, i + 1);
		pid[i] = rig_start(&rig, tenant[i].spec, command);
	}
	for (int i = 0; i < TENANTS; i++)
		if (rig_wait(&rig, pid[i]) != 0)
			bench_die("the allocating programs of tenant %d failed: see what they "
				  "said: %s",
				i + 1, rig_output(&rig, pid[i]));
	clock_sleep_until_ns(clock_now_ns() + 2 * NSEC_PER_SEC);
	for (int i = 0; i < TENANTS; i++) {
		size_t n = pids_of(&rig, pid[i], pids);
		uint64_t here = 0, max = 0;

		if (sim_account_breaches(rig_trace(&rig), pids, n, 0, tenant[i].quota, &here) < 0 ||
			sim_account_max(rig_trace(&rig), pids, n, 0, 0, UINT64_MAX, &max, NULL) < 0)
			bench_die("read the account: out of memory");
		text = rig_output(&rig, pid[i]);
		operations += number_after(text, "operations ");
		refused += number_after(text, "refused ");
		free(text);
		bench_note("tenant %d: quota %.2f GiB, most held %.2f GiB, %zu processes, %llu "
			   "breaches",
			i + 1, (double)tenant[i].quota / (double)GIB, (double)max / (double)GIB, n,
			(unsigned long long)here);
		worst_over = max > tenant[i].quota ? MAX(worst_over, max - tenant[i].quota)
						   : worst_over;
		count += here;
		killed += n;
	}
	changes = sim_account_written(rig_trace(&rig));
	if (changes && sim_account_get(rig_trace(&rig), changes - 1, &last) == 0)
		device_left = last.device_bytes;
	if (rig_divvy(&rig, "devices -o json", &text) != 0)
		bench_die("divvy devices: %s", text);
	for (p = text; (p = strstr(p, "\"memory_promised_bytes\":")); p++)
		ledger_left += number_after(p, "\"memory_promised_bytes\":");
	free(text);
	snprintf(detail, sizeof(detail),
		"%llu operations, %llu refused, %zu processes, %llu changes, over by %llu",
		operations, refused, killed, (unsigned long long)changes,
		(unsigned long long)worst_over);
	bench_metric(
		"memory.breaches", (double)count, "", "= 0", (unsigned int)changes, true, detail);
	bench_metric("memory.left_device_bytes", (double)device_left, "B", "= 0", 1, true,
		"after all have gone");
	bench_metric("memory.left_ledger_bytes", (double)ledger_left, "B", "= 0", 1, true,
		"after all have gone");
	rig_done(&rig);
}

/* Two tenants of 60 % each: 1 when both finish with their data as written. */
static double oversubscribed(const char *policy)
{
	struct rig rig;
	pid_t pid[2];
	char spec[128], command[256];
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
	}
	rig_done(&rig);
	return good;
}

int main(int argc, char **argv)
{
	bench_init("memory", argc, argv);
	breaches();
	bench_metric("memory.wait_exact", oversubscribed("wait"), "", "= 1", 2, true,
		"two tenants of 60 % finish, data bit-exact");
	bench_metric("memory.swap_exact", oversubscribed("swap"), "", "= 1", 2, true,
		"two tenants of 60 % finish, data bit-exact");
	return bench_done();
}
