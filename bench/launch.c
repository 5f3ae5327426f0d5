/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.*, alloc.*: time that the hook library adds to a driver call. The program of calls.c
 * measures, and runs as a tenant. The driver behind the hook is a stub whose calls return at once
 * (stub/), or with --real the machine's own. The tenant is registered with a daemon that has a
 * simulated device; the stub takes that device's UUID, and the device itself does not affect the
 * numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "bench/bench.h"
#include "cli/cli-client.h"

#define DEVICE "1xH200-141Gi"
#define ALONE "--request 0.9 --limit 1 --memory 80%"
#define TENANTS 1000

struct numbers {
	double bare, added_mean, added_p50, added_p99, batches, closed, preempted, marker_fraction;
};

static void read_numbers(char *text, struct numbers *ret)
{
	struct {
		const char *name;
		double *value;
	} fields[] = {
		{"bare", &ret->bare},
		{"added_mean", &ret->added_mean},
		{"added_p50", &ret->added_p50},
		{"added_p99", &ret->added_p99},
		{"batches", &ret->batches},
		{"closed", &ret->closed},
		{"preempted", &ret->preempted},
		{"marker_fraction", &ret->marker_fraction},
	};
	char name[32], *save = NULL;
	double value;

	memset(ret, 0, sizeof(*ret));
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		for (size_t i = 0;
			sscanf(line, "%31s %lf", name, &value) == 2 && i < ARRAY_SIZE(fields); i++)
			if (!strcmp(name, fields[i].name))
				*fields[i].value = value;
	if (ret->batches < 1)
		bench_die("the measuring program printed no result");
}

/* ---- one machine ---- */

static char uuid[96]; /* UUID of the rig's device, which the stub reports as its own */

/* Gets the UUID of the daemon's device, for the stub. */
static void learn_uuid(struct rig *rig)
{
	char *text = NULL, *at;

	if (rig_divvy(rig, "devices -o json", &text) != 0)
		bench_die("divvy devices failed: %s", text);
	at = strstr(text, "GPU-");
	if (!at || sscanf(at, "%95[-0-9A-Za-z]", uuid) != 1)
		bench_die("divvy devices names no UUID: %s", text);
	free(text);
}

static void set_up(struct rig *rig)
{
	rig_init(rig, RIG_SHARED, DEVICE, "", NULL);
	if (!bench_foreign() && !bench_real())
		learn_uuid(rig);
}

static pid_t start(struct rig *rig, const char *spec, const char *what)
{
	char command[1024];
	size_t n = 0;

	/*
	 * `divvy run` sets DIVVY_DRIVER for its program; env then replaces that driver by the stub
	 */
	if (!bench_real())
		n = (size_t)snprintf(command, sizeof(command),
			"/usr/bin/env DIVVY_DRIVER=%s LD_LIBRARY_PATH=%s:%s STUB_UUID=%s ",
			bench_built("bench/stub"), bench_built("bench/stub"),
			bench_built("src/simgpu"), uuid[0] ? uuid : "GPU-0");
	snprintf(command + n, sizeof(command) - n, "%s %s", bench_built("bench/calls"), what);
	return rig_start(rig, spec, command);
}

static void measure_beside(struct rig *rig, const char *spec, const char *what, struct numbers *ret)
{
	pid_t pid = start(rig, spec, what);
	char *text;
	int status = rig_wait(rig, pid);

	if (status)
		bench_die("calls %s ended with status %d", what, status);
	text = rig_output(rig, pid);
	read_numbers(text, ret);
	free(text);
}

static void measure(const char *what, struct numbers *ret)
{
	struct rig rig;

	bench_note("%s", what);
	set_up(&rig);
	measure_beside(&rig, ALONE, what, ret);
	rig_done(&rig);
}

/* ---- launches ---- */

static const char *driver(void)
{
	return bench_real() ? "" : ", driver stub";
}

static void report_launches(const char *variant, const char *of, const struct numbers *v, bool goal)
{
	char name[64], detail[96];

	snprintf(detail, sizeof(detail), "%s%s; bare %.2f ns; %.0f preempted", of, driver(),
		v->bare, v->preempted);
	snprintf(name, sizeof(name), "launch.added_ns_p50%s", variant);
	bench_metric(name, v->added_p50, "ns", goal ? "<= 5" : "", (unsigned int)v->batches, false,
		detail);
	snprintf(name, sizeof(name), "launch.added_ns_p99%s", variant);
	bench_metric(name, v->added_p99, "ns", goal ? "<= 20" : "", (unsigned int)v->batches, false,
		detail);
}

static unsigned int batches(void)
{
	/* some 5 us of device time a launch: 2,000 batches of 1,000 launches take 10 s */
	return bench_quick() ? 300 : bench_real() ? 1000 : 5000;
}

static void alone(void)
{
	static const struct {
		const char *variant, *options, *of;
		bool goal;
	} runs[] = {
		{"", "--streams 1", "one stream", true},
		{"_default_stream", "--streams 0", "the default stream", true},
		{"_64streams", "--streams 64", "64 streams round robin", true},
		{"_1024streams", "--streams 1024", "1,024 streams round robin", true},
		{"_8threads", "--threads 8", "8 threads, CPU time", true},
		{"_mixed", "--mixed", "default and another stream in turn", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		struct numbers v;
		char what[96];

		snprintf(what, sizeof(what), "launch %s --batches %u", runs[i].options, batches());
		measure(what, &v);
		report_launches(runs[i].variant, runs[i].of, &v, runs[i].goal);
	}
}

/* Registers tenants that live as long as this process. */
static void register_tenants(struct rig *rig, unsigned int n)
{
	_cleanup_client_ struct client client = CLIENT_NONE;
	struct error err;
	char socket[128];

	snprintf(socket, sizeof(socket), "%s/divvyd.sock", rig->dir);
	if (client_connect(&client, socket, &err) < 0)
		bench_die("%s", err.msg);
	for (unsigned int i = 0; i < n; i++) {
		_cleanup_json_ json_t *answer = NULL;

		if (client_call(&client,
			    json_pack("{s:s, s:{s:s, s:s}}", "cmd", "create", "spec", "request",
				    "0.001", "memory", "1Mi"),
			    &answer, &err) < 0)
			bench_die("tenant %u of %u: %s", i + 1, n, err.msg);
	}
}

static void among_tenants(void)
{
	struct numbers v;
	struct rig rig;
	char what[96];

	bench_note("launch beside %d other tenants", TENANTS - 1);
	set_up(&rig);
	register_tenants(&rig, TENANTS - 1);
	snprintf(what, sizeof(what), "launch --batches %u", batches());
	measure_beside(&rig, "--request 0.001 --limit 1 --memory 50%", what, &v);
	rig_done(&rig);
	report_launches("_1000tenants", "1,000 tenants registered", &v, true);
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid;
}

static void contended(void)
{
	struct numbers v;
	struct rig rig;
	char detail[96];
	pid_t other;

	bench_note("launch while another tenant waits");
	set_up(&rig);
	other = start(&rig, "--request 0.4 --limit 1 --memory 20%", "backlog");
	clock_sleep_until_ns(clock_now_ns() + NSEC_PER_SEC);
	measure_beside(&rig, "--request 0.4 --limit 1 --memory 20%",
		bench_quick() ? "launch --leave-out --seconds 2" : "launch --leave-out --seconds 8",
		&v);
	if (has_ended(other) || v.closed < 1)
		bench_die("the other tenant did not wait for the device all the time");
	rig_end(&rig, other);
	rig_done(&rig);
	snprintf(detail, sizeof(detail), "mean, %.0f batches left out: gate closed%s; bare %.2f ns",
		v.closed, driver(), v.bare);
	bench_metric("launch.contended_added_ns", v.added_mean, "ns", "<= 100",
		(unsigned int)v.batches, false, detail);
	if (!bench_real())
		bench_metric("launch.marker_fraction", v.marker_fraction, "", "<= 0.02",
			(unsigned int)v.batches, false, "value writes / launches in that run");
}

/* ---- allocations ---- */

static void allocations(void)
{
	/* behind a real driver the allocations are small: two sets of them must fit the device */
	static const struct {
		const char *name;
		unsigned int live, bytes;
	} runs[] = {
		{"alloc.added_ns_live0", 0, 2 << 20},
		{"alloc.added_ns_live10k", 10000, 2 << 20},
		{"alloc.added_ns_live50k", 50000, 2 << 20},
		{"alloc.added_ns_live50k_small", 50000, 64 << 10},
	};

	for (size_t i = 0; i < ARRAY_SIZE(runs) - bench_real(); i++) {
		unsigned int bytes = bench_real() ? 64u << 10 : runs[i].bytes;
		struct numbers v;
		char what[96], detail[96];

		snprintf(what, sizeof(what), "alloc --live %u --bytes %u --batches %u",
			runs[i].live, bytes, bench_real() ? 200 : batches());
		measure(what, &v);
		snprintf(detail, sizeof(detail),
			"allocation + free of %u KiB, p50; p99 %.0f%s; bare %.1f ns", bytes >> 10,
			v.added_p99, driver(), v.bare);
		bench_metric(runs[i].name, v.added_p50, "ns", "<= 1000", (unsigned int)v.batches,
			false, detail);
	}
}

int main(int argc, char **argv)
{
	bench_init("launch", argc, argv);
	alone();
	if (!bench_foreign()) {
		among_tenants();
		contended();
	}
	allocations();
	return bench_done();
}
