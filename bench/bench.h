/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of the benches: results (one JSON object a line, a table at the end) and the rig. A
 * rig is a machine of its own for one measurement: a simulated GPU in a fresh folder, with or
 * without divvy, the programs started on it, and the device's trace.
 *
 * A bench is a program that measures one family of metrics. Options of all benches:
 *   --out FILE      append results to FILE (default out/bench.jsonl)
 *   --quick         shorter runs, for trying; the results record this option
 *   --only TEXT     only the cases whose name contains TEXT (shares, busy, churn, place, daemon,
 *                   openb); results are written only with --out
 *   --strict        exit status 1 when a goal is missed; otherwise that is a result like any other
 *   --hook PATH     instead of divvy, preload this library (another project's) in shared runs
 *   --env K=V       set K for that library, may be repeated; in V, {request} and {limit} are the
 *                   program's in percent, {memory} is its quota in MiB (0: no quota in Gi)
 *   --real          the machine's own GPU and driver instead of simulated ones; only for benches
 *                   that need no trace of the device
 * When the rig itself fails, these functions end the program with a message. One thread.
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
/* Should the case of this name run? See --only. */
bool bench_wants(const char *name);
/* Is another project's hook library measured? Then only cases without divvy's own daemon run. */
bool bench_foreign(void);
/*
 * Does the bench use the machine's own GPU and driver? Rigs then simulate nothing and leave the
 * environment alone.
 */
bool bench_real(void);

/*
 * Writes a result and shows it. goal: "<= 5", ">= 0.98", "= 0", or "" for a value without a goal.
 * `detail` (may be NULL) says in a few words what was measured. Returns whether the goal holds.
 */
bool bench_metric(const char *metric, double value, const char *unit, const char *goal,
	unsigned int n, bool simulated, const char *detail);
/* Prints the table of the written results; returns main's exit status. */
int bench_done(void);
/* One line of progress on stderr. */
void bench_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

double bench_median(double *v, size_t n);
/* Quantile p (0..1) of a sorted array. */
double bench_quantile(const double *sorted, size_t n, double p);
void bench_sort(double *v, size_t n);

/*
 * Returns the path of a file under the build folder, e.g. "src/cli/divvy". The text is in static
 * storage, and later calls overwrite it.
 */
const char *bench_built(const char *path);

enum rig_mode {
	RIG_BARE,   /* programs use the simulated driver without divvy */
	RIG_SHARED, /* programs run through divvy, or through the library of --hook */
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
	struct simgpu_trace *trace;
};

/*
 * costs: "switch_us=450,..." or "". daemon_args: further options of divvyd, NULL-terminated, or
 * NULL.
 */
void rig_init(struct rig *rig, enum rig_mode mode, const char *devices, const char *costs,
	const char *const *daemon_args);
/* As rig_init(); `prepare` (may be NULL) puts files into rig->dir before the daemon starts. */
void rig_init_prepared(struct rig *rig, enum rig_mode mode, const char *devices, const char *costs,
	const char *const *daemon_args, void (*prepare)(struct rig *rig));
/*
 * Starts a program; returns its pid, which is the pid in the trace. `spec` are options of `divvy
 * run` in one string ("--request 0.3 --limit 0.6"), used in shared mode only; NULL: the program
 * runs without divvy. The function splits `command` at spaces. Standard output goes to DIR/N.out.
 */
pid_t rig_start(struct rig *rig, const char *spec, const char *command);
/* Waits for the program; returns its exit status as a shell reports it. */
int rig_wait(struct rig *rig, pid_t pid);
/* Ends the program (SIGTERM, then SIGKILL after 2 s) and waits. */
void rig_end(struct rig *rig, pid_t pid);
/* The program's output so far, malloc'ed. */
char *rig_output(struct rig *rig, pid_t pid);
/* The trace, opened at the first call. */
struct simgpu_trace *rig_trace(struct rig *rig);
/* Start of the process's first kernel; 0: none yet. */
uint64_t rig_first_ns(struct rig *rig, pid_t pid);
/* Runs divvy with these arguments against the rig's daemon; returns its exit status. */
int rig_divvy(struct rig *rig, const char *args, char **ret_output);
/* Fills in the processes of the named tenant (its workers if remote); returns their number. */
size_t rig_processes(struct rig *rig, const char *name, pid_t *ret_pids, size_t max);
/* Ends all programs, the daemon and the engine; removes the folder. */
void rig_done(struct rig *rig);

/*
 * Reads from the trace when the device's compute engine worked in [t0, t1) for a process, or for
 * all (pid 0). The caller frees the result with simgpu_busy_done().
 */
void rig_busy(struct rig *rig, pid_t pid, int device, uint64_t t0, uint64_t t1,
	struct simgpu_busy *ret_busy);
/* Returns the part of [t0, t1) in which the process was busy. */
double rig_share(struct rig *rig, pid_t pid, int device, uint64_t t0, uint64_t t1);

#endif
