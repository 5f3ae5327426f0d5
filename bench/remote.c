/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.*: one program as a local tenant and with a remote device: in a worker process of this
 * machine (`divvy run --remote local`, shm); behind a link over TLS (`divvy serve`, tcp) of this
 * machine; behind a link that tests/programs/link-shim delays. The programs run one after
 * the other, and results are medians of rounds. remote-load.c is the program and measures.
 *   remote.launch_ns_shm, _tcp    an asynchronous launch
 *   remote.sync_over_rtt_us, _shm time of a synchronisation less that of an echo from the worker
 *   remote.loop_ratio_shm, _tcp   time of a training-like loop, remote / local
 *   remote.loop_ratio_20us ...    the same with a link that delays each message by 20 us ...
 *   remote.copy_fraction_shm      throughput of copies of 64 MiB of page-locked memory, in the
 *                                 slower direction, / that of memcpy; _shm_paged: of pageable
 *                                 memory
 *   remote.copy_fraction_tcp      the same, / the throughput of a loopback connection
 *   remote.share_error_pp         error of the shares of two remote tenants and a local one, which
 *                                 request 0.3, 0.3 and 0.4
 *   remote.free_ms_shm, _tcp      a program that computes and holds 1 GiB is killed: time until the
 *                                 device's account has no memory of it, the longest of all
 *   remote.client_mib             200 idle processes of one server: memory of each beyond that of
 *                                 a local one
 */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "bench/bench.h"

#define ROUNDS 3
#define WISH "--request 0.9 --memory 50%"
#define PATIENCE_NS (60 * NSEC_PER_SEC)

struct numbers {
	double launch_ns, sync_us, echo_us, loop_ms;
	double in, out, paged_in, paged_out, memcpy, tcp;
};

enum place { LOCAL, SHM, TCP, TCP_20US, TCP_200US, TCP_2MS, PLACES };

static const unsigned delays_us[PLACES] = {[TCP_20US] = 20, [TCP_200US] = 200, [TCP_2MS] = 2000};

/* ---- programs ---- */

/* The first line of a program's output, without its end. Static storage. */
static const char *first_line(struct rig *rig, pid_t pid)
{
	const uint64_t deadline = clock_now_ns() + PATIENCE_NS;
	static char line[128];

	for (;;) {
		char *text = rig_output(rig, pid), *stop = strchr(text, '\n');

		if (stop)
			snprintf(line, sizeof(line), "%.*s", (int)(stop - text), text);
		free(text);
		if (stop)
			return line;
		if (clock_now_ns() > deadline)
			bench_die("process %d says nothing", (int)pid);
		clock_sleep_until_ns(clock_now_ns() + 5 * NSEC_PER_MSEC);
	}
}

/* Starts a server; returns in `spec` the options with which `divvy run` uses its device. */
static void serve(struct rig *rig, unsigned delay_us, const char *wish, char *spec, size_t size)
{
	char command[512], invitation[128];
	const char *key;

	snprintf(command, sizeof(command), "%s serve --listen 127.0.0.1:0 %s",
		bench_built("src/cli/divvy"), wish);
	snprintf(invitation, sizeof(invitation), "%s",
		first_line(rig, rig_start(rig, NULL, command)));
	key = strchr(invitation, '/');
	if (!key)
		bench_die("divvy serve says '%s'", invitation);
	if (delay_us == 0) {
		snprintf(spec, size, "--remote %s", invitation);
		return;
	}
	snprintf(command, sizeof(command), "%s %.*s delay=%u",
		bench_built("tests/programs/link-shim"), (int)(key - invitation), invitation,
		delay_us);
	snprintf(spec, size, "--remote 127.0.0.1:%s%s",
		first_line(rig, rig_start(rig, NULL, command)), key);
}

static void read_numbers(char *text, struct numbers *ret)
{
	struct {
		const char *name;
		double *value;
	} fields[] = {{"launch_ns", &ret->launch_ns}, {"sync_us", &ret->sync_us},
		{"echo_us", &ret->echo_us}, {"loop_ms", &ret->loop_ms}, {"in", &ret->in},
		{"out", &ret->out}, {"paged_in", &ret->paged_in}, {"paged_out", &ret->paged_out},
		{"memcpy", &ret->memcpy}, {"tcp", &ret->tcp}};
	char name[32], *save = NULL;
	double value;

	memset(ret, 0, sizeof(*ret));
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		for (size_t i = 0;
			sscanf(line, "%31s %lf", name, &value) == 2 && i < ARRAY_SIZE(fields); i++)
			if (!strcmp(name, fields[i].name))
				*fields[i].value = value;
	if (ret->loop_ms <= 0)
		bench_die("remote-load printed no result");
}

static void measure(enum place place, struct numbers *ret)
{
	char command[256], spec[256] = WISH;
	struct rig rig;
	char *text;
	pid_t pid;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s %d%s", bench_built("bench/remote-load"),
		bench_quick() ? 5 : 25, delays_us[place] ? " steps" : "");
	if (place == SHM)
		snprintf(spec, sizeof(spec), "%s --remote local", WISH);
	else if (place != LOCAL)
		serve(&rig, delays_us[place], WISH, spec, sizeof(spec));
	pid = rig_start(&rig, spec, command);
	if (rig_wait(&rig, pid) != 0)
		bench_die("remote-load failed");
	text = rig_output(&rig, pid);
	read_numbers(text, ret);
	free(text);
	rig_done(&rig);
}

/* ---- calls, the loop, copies ---- */

struct results {
	double launch[PLACES][ROUNDS], sync[PLACES][ROUNDS], loop[PLACES][ROUNDS];
	double copy[PLACES][ROUNDS], paged[ROUNDS], over_local[ROUNDS];
	struct numbers last[PLACES];
};

static void one_round(struct results *r, size_t i)
{
	struct numbers *n = r->last;

	/*
	 * Alternates the order of the measurements, so that drift of the machine favours neither a
	 * local nor a remote run.
	 */
	for (size_t k = 0; k < PLACES; k++) {
		const enum place place = (enum place)(i % 2 ? PLACES - 1 - k : k);

		measure(place, &n[place]);
	}
	for (size_t k = SHM; k < PLACES; k++) {
		r->launch[k][i] = n[k].launch_ns;
		r->sync[k][i] = n[k].sync_us - n[k].echo_us;
		r->loop[k][i] = n[k].loop_ms / n[LOCAL].loop_ms;
	}
	r->copy[SHM][i] = MIN(n[SHM].in, n[SHM].out) / n[SHM].memcpy;
	r->copy[TCP][i] = MIN(n[TCP].in, n[TCP].out) / n[TCP].tcp;
	r->paged[i] = MIN(n[SHM].paged_in, n[SHM].paged_out) / n[SHM].memcpy;
	r->over_local[i] = MIN(n[SHM].in / n[LOCAL].in, n[SHM].out / n[LOCAL].out);
}

static void say_loop(const char *name, double *ratio, size_t rounds, const char *goal,
	const struct numbers *remote, const struct numbers *local)
{
	char detail[160];

	snprintf(detail, sizeof(detail), "step %.2f ms, local %.2f ms; echo %.0f us",
		remote->loop_ms, local->loop_ms, remote->echo_us);
	bench_metric(name, bench_median(ratio, rounds), "", goal, (unsigned)rounds, true, detail);
}

static void say_copies(struct results *r, size_t rounds)
{
	const struct numbers *local = &r->last[LOCAL], *shm = &r->last[SHM], *tcp = &r->last[TCP];
	const unsigned n = (unsigned)rounds;
	char detail[160];

	snprintf(detail, sizeof(detail),
		"in %.2f, out %.2f, memcpy %.2f GB/s; local in %.2f, out %.2f", shm->in, shm->out,
		shm->memcpy, local->in, local->out);
	bench_metric("remote.copy_fraction_shm", bench_median(r->copy[SHM], rounds), "", ">= 0.9",
		n, true, detail);
	bench_metric("remote.copy_over_local_shm", bench_median(r->over_local, rounds), "", "", n,
		true, "the same of what the driver does for a local program");
	snprintf(detail, sizeof(detail), "in %.2f, out %.2f; local in %.2f, out %.2f",
		shm->paged_in, shm->paged_out, local->paged_in, local->paged_out);
	bench_metric("remote.copy_fraction_shm_paged", bench_median(r->paged, rounds), "", "", n,
		true, detail);
	snprintf(detail, sizeof(detail), "in %.2f, out %.2f, TCP alone %.2f GB/s", tcp->in,
		tcp->out, tcp->tcp);
	bench_metric("remote.copy_fraction_tcp", bench_median(r->copy[TCP], rounds), "", ">= 0.9",
		n, true, detail);
}

static void calls(void)
{
	const size_t rounds = bench_quick() ? 1 : ROUNDS;
	const unsigned n = (unsigned)rounds;
	static struct results r;
	const struct numbers *last = r.last;
	char detail[160];

	for (size_t i = 0; i < rounds; i++)
		one_round(&r, i);
	snprintf(detail, sizeof(detail), "local %.0f ns", last[LOCAL].launch_ns);
	bench_metric("remote.launch_ns_shm", bench_median(r.launch[SHM], rounds), "ns", "<= 400", n,
		true, detail);
	bench_metric("remote.launch_ns_tcp", bench_median(r.launch[TCP], rounds), "ns", "<= 1000",
		n, true, detail);
	snprintf(detail, sizeof(detail), "TLS over loopback: sync %.1f us, echo %.1f us",
		last[TCP].sync_us, last[TCP].echo_us);
	bench_metric("remote.sync_over_rtt_us", bench_median(r.sync[TCP], rounds), "us", "<= 10", n,
		true, detail);
	snprintf(detail, sizeof(detail), "sync %.1f us, echo %.1f us", last[SHM].sync_us,
		last[SHM].echo_us);
	bench_metric("remote.sync_over_rtt_us_shm", bench_median(r.sync[SHM], rounds), "us",
		"<= 10", n, true, detail);
	say_loop("remote.loop_ratio_shm", r.loop[SHM], rounds, "<= 1.03", &last[SHM], &last[LOCAL]);
	say_loop("remote.loop_ratio_tcp", r.loop[TCP], rounds, "", &last[TCP], &last[LOCAL]);
	say_loop("remote.loop_ratio_20us", r.loop[TCP_20US], rounds, "<= 1.05", &last[TCP_20US],
		&last[LOCAL]);
	say_loop("remote.loop_ratio_200us", r.loop[TCP_200US], rounds, "<= 1.15", &last[TCP_200US],
		&last[LOCAL]);
	say_loop(
		"remote.loop_ratio_2ms", r.loop[TCP_2MS], rounds, "", &last[TCP_2MS], &last[LOCAL]);
	say_copies(&r, rounds);
}

/* ---- shares ---- */

static void shares(void)
{
	static const struct {
		const char *name, *spec;
		double share;
	} tenant[] = {
		{"a", "--name a --request 0.3 --memory 10% --remote local", 0.3},
		{"b", "--name b --request 0.3 --memory 10% --remote local", 0.3},
		{"c", "--name c --request 0.4 --memory 10%", 0.4},
	};
	const uint64_t length_ns = (bench_quick() ? 2 : 10) * NSEC_PER_SEC;
	double worst = 0, got[ARRAY_SIZE(tenant)];
	pid_t pid[ARRAY_SIZE(tenant)];
	char command[256], detail[96];
	struct rig rig;
	uint64_t begin;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s --kernel-us=500 --duration=60",
		bench_built("tests/programs/spin"));
	for (size_t i = 0; i < ARRAY_SIZE(tenant); i++) {
		rig_start(&rig, tenant[i].spec, command);
		while (rig_processes(&rig, tenant[i].name, &pid[i], 1) == 0)
			clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	}
	begin = clock_now_ns() + 2 * NSEC_PER_SEC;
	clock_sleep_until_ns(begin + length_ns);
	for (size_t i = 0; i < ARRAY_SIZE(tenant); i++) {
		got[i] = rig_share(&rig, pid[i], 0, begin, begin + length_ns);
		worst = fmax(worst, 100 * fabs(got[i] - tenant[i].share));
	}
	rig_done(&rig);
	snprintf(detail, sizeof(detail), "remote %.3f, %.3f, local %.3f of the device", got[0],
		got[1], got[2]);
	bench_metric(
		"remote.share_error_pp", worst, "pp", "<= 2", ARRAY_SIZE(tenant), true, detail);
}

/* ---- the end ---- */

#define ENDS 20
#define HELD_MIB 1024

/*
 * Returns the time at which the process held from `least` to `most` bytes, searched from record
 * `since` on.
 */
static uint64_t await_held(
	struct rig *rig, pid_t pid, uint64_t since, uint64_t least, uint64_t most)
{
	const uint64_t deadline = clock_now_ns() + PATIENCE_NS;
	struct simgpu_account_record r;

	while (clock_now_ns() < deadline) {
		for (; since < simgpu_account_written(rig_trace(rig)); since++)
			if (simgpu_account_get(rig_trace(rig), since, &r) == 0 &&
				r.pid == (uint32_t)pid && r.bytes >= least && r.bytes <= most)
				return r.t_ns;
		clock_sleep_until_ns(clock_now_ns() + NSEC_PER_MSEC);
	}
	bench_die("process %d never held %llu to %llu bytes", (int)pid, (unsigned long long)least,
		(unsigned long long)most);
}

static double free_ms(struct rig *rig, bool is_tcp)
{
	char command[256], spec[256] = "--name end --request 0.1 --memory 5% --remote local";
	uint64_t begin, written;
	pid_t program, worker;

	snprintf(command, sizeof(command), "%s --kernel-us=500 --duration=60 --memory=%d",
		bench_built("tests/programs/spin"), HELD_MIB);
	if (is_tcp)
		serve(rig, 0, "--name end --request 0.1 --memory 5%", spec, sizeof(spec));
	program = rig_start(rig, spec, command);
	while (rig_processes(rig, "end", &worker, 1) == 0)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	await_held(rig, worker, 0, (uint64_t)HELD_MIB << 20, UINT64_MAX);
	clock_sleep_until_ns(clock_now_ns() + 100 * NSEC_PER_MSEC);
	written = simgpu_account_written(rig_trace(rig));
	begin = clock_now_ns();
	kill(program, SIGKILL);
	begin = await_held(rig, worker, written, 0, 0) - begin;
	rig_wait(rig, program);
	while (rig_processes(rig, "end", &worker, 1) != 0)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	return (double)begin / NSEC_PER_MSEC;
}

static void ends(const char *name, bool is_tcp)
{
	const size_t n = bench_quick() ? 3 : ENDS;
	double took[ENDS];
	char detail[64];
	struct rig rig;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	for (size_t i = 0; i < n; i++)
		took[i] = free_ms(&rig, is_tcp);
	rig_done(&rig);
	bench_sort(took, n);
	snprintf(detail, sizeof(detail), "median %.1f ms", took[n / 2]);
	bench_metric(name, took[n - 1], "ms", "<= 100", (unsigned)n, true, detail);
}

/* ---- memory ---- */

#define CLIENTS 200

/* Proportional set size in KiB: shared pages count in parts. */
static uint64_t memory_kib(pid_t pid)
{
	unsigned long long kib = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (kib == 0)
		bench_die("read %s", path);
	return kib;
}

/* Mean memory of an idle process, with its worker. */
static double client_kib(bool is_remote, unsigned clients)
{
	static pid_t pid[CLIENTS + 8];
	char command[256], *text, *save = NULL;
	uint64_t kib = 0, deadline;
	struct rig rig;
	pid_t program;
	size_t n = 0;
	int value;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s %u idle", bench_built("bench/remote-load"), clients);
	program = rig_start(&rig,
		is_remote ? "--name idle --request 0.9 --memory 95% --remote local"
			  : "--name idle --request 0.9 --memory 95%",
		command);
	first_line(&rig, program);
	text = rig_output(&rig, program);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "pid %d", &value) == 1)
			kib += memory_kib((pid_t)value);
	free(text);
	deadline = clock_now_ns() + PATIENCE_NS;
	while (is_remote && (n = rig_processes(&rig, "idle", pid, CLIENTS + 8)) < clients)
		if (clock_now_ns() > deadline)
			bench_die("%zu workers of %u processes", n, clients);
	for (size_t i = 0; i < n; i++)
		kib += memory_kib(pid[i]);
	rig_done(&rig);
	return (double)kib / clients;
}

static void memory(void)
{
	const unsigned clients = bench_quick() ? 20 : CLIENTS;
	const double local = client_kib(false, clients), remote = client_kib(true, clients);
	char detail[96];

	snprintf(detail, sizeof(detail), "%.2f MiB each with their workers, local %.2f MiB",
		remote / 1024, local / 1024);
	bench_metric(
		"remote.client_mib", (remote - local) / 1024, "MiB", "<= 3", clients, true, detail);
}

int main(int argc, char **argv)
{
	bench_init("remote", argc, argv);
	calls();
	shares();
	ends("remote.free_ms_shm", false);
	ends("remote.free_ms_tcp", true);
	memory();
	return bench_done();
}
