/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benches share: results (one JSON object a line, a table at the end) and the rig, a
 * machine of its own for one measurement: a simulated GPU in a fresh folder, with or without divvy
 * in front of it, the programs started on it, and the device's trace when they are done.
 *
 * A bench is a program that measures one family of metrics. Options of all of them:
 *   --out FILE      append results there (default out/bench.jsonl)
 *   --quick         shorter runs, for trying; the results say so
 *   --only TEXT     only the cases whose name contains it (shares, busy, churn, place, daemon,
 *                   openb); written only with --out
 *   --strict        exit status 1 when a goal was missed, which else is a result like any other
 *   --hook PATH     instead of divvy, preload this library (another project's) in shared runs
 *   --env K=V       set this for it, may be repeated; in V, {request} and {limit} are the program's
 *                   in percent, {memory} is its quota in MiB (0: none that is said in Gi)
 *   --real          the machine's own GPU and driver instead of simulated ones; only benches that
 *                   need no trace of the device know what to do with it
 * Functions here end the program with a sentence when the rig itself fails: there is nothing to
 * measure then. One thread.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "simgpu/trace.h"

/* Reads the options; unknown ones end the program. `name` is the family, used in messages. */
void bench_init(const char *name, int argc, char **argv);
bool bench_quick(void);
/* Is the case of this name asked for? See --only. */
bool bench_wants(const char *name);
/* Another project's hook library is measured: only what does not need divvy's own daemon. */
bool bench_foreign(void);
/* The machine's own GPU: rigs simulate nothing, and start their programs without its folder. */
bool bench_real(void);

/*
 * Writes a result and shows it. goal: "<= 5", ">= 0.98", "= 0", or "" when it is only reported.
 * `detail` (may be NULL) says in a few words what the value is of. Returns whether the goal holds.
 */
bool bench_metric(const char *metric, double value, const char *unit, const char *goal,
	unsigned int n, bool simulated, const char *detail);
/* The table of what was written; returns main's exit status. */
int bench_done(void);
/* One line of progress on stderr. */
void bench_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

double bench_median(double *v, size_t n);
/* p in 0..1, of a sorted array. */
double bench_quantile(const double *sorted, size_t n, double p);
void bench_sort(double *v, size_t n);

/* A file under the build folder, e.g. "src/cli/divvy". Static storage of the last few calls. */
const char *bench_built(const char *path);

enum rig_mode {
	RIG_BARE,   /* programs talk to the simulated driver: alone, or side by side unshared */
	RIG_SHARED, /* through divvy (or --hook) */
};

#define RIG_PROGRAMS 2048

struct rig {
	enum rig_mode mode;
	char dir[64];     /* removed by rig_done */
	char sim[96];     /* DIVVY_SIM */
	char devices[64]; /* "1xH200-141Gi" */
	char costs[256];
	pid_t daemon; /* 0: none */
	pid_t program[RIG_PROGRAMS];
	size_t programs;
	struct sim_trace *trace;
};

/*
 * costs: "switch_us=450,..." or "". daemon_args: further options of divvyd, NULL-terminated, or
 * NULL.
 */
void rig_init(struct rig *rig, enum rig_mode mode, const char *devices, const char *costs,
	const char *const *daemon_args);
/* The same; `prepare` (may be NULL) puts files into rig->dir before the daemon starts. */
void rig_init_prepared(struct rig *rig, enum rig_mode mode, const char *devices, const char *costs,
	const char *const *daemon_args, void (*prepare)(struct rig *rig));
/*
 * Starts a program; `spec` are options of `divvy run` in one string ("--request 0.3 --limit 0.6"),
 * used in shared mode only; NULL: it is started as it is, and no tenant. command is split at
 * spaces. Its stdout goes to DIR/N.out. Returns its pid, which is the pid in the trace.
 */
pid_t rig_start(struct rig *rig, const char *spec, const char *command);
/* Waits for it; its exit status as the shell would say it. */
int rig_wait(struct rig *rig, pid_t pid);
/* Ends it (SIGTERM, then SIGKILL after 2 s) and waits. */
void rig_end(struct rig *rig, pid_t pid);
/* What a program wrote to stdout, malloc'ed. */
char *rig_output(struct rig *rig, pid_t pid);
/* The trace, opened when first asked for. */
struct sim_trace *rig_trace(struct rig *rig);
/* When the first kernel of the process started, 0: none yet. */
uint64_t rig_first_ns(struct rig *rig, pid_t pid);
/* Runs divvy with these arguments against the rig's daemon; exit status. */
int rig_divvy(struct rig *rig, const char *args, char **ret_output);
/* The processes of the tenant of that name, which for a remote one are its workers; how many. */
size_t rig_processes(struct rig *rig, const char *name, pid_t *ret_pids, size_t max);
/* Ends all programs, the daemon and the engine; removes the folder. */
void rig_done(struct rig *rig);

/* When the compute engine was busy in [t0, t1) with a process, or all (pid 0); sim_busy_done(). */
void rig_busy(struct rig *rig, pid_t pid, int device, uint64_t t0, uint64_t t1,
	struct sim_busy *ret_busy);
/* The share of [t0, t1) that this is. */
double rig_share(struct rig *rig, pid_t pid, int device, uint64_t t0, uint64_t t1);

#endif
