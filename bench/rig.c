/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for one measurement: folder, simulated GPU, daemon, programs. rig_done, and an
 * interrupted bench, end all started processes by pid and remove the folder. One thread.
 */
#include "bench/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
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
#include "base/error.h"
#include "bench/bench.h"

#define RIGS_MAX 4
/* The memory bench writes 3 million changes in five minutes. Unwritten records take no space. */
#define ACCOUNT_RECORDS "8388608"
#define WORDS_MAX 64
/* ends a start that hangs; enough for a busy machine */
#define START_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define END_TIMEOUT_NS (2 * NSEC_PER_SEC)

static struct rig *living[RIGS_MAX];

const char *bench_built(const char *path)
{
	static char buffer[8][512];
	static unsigned int next;
	const char *build = getenv("DIVVY_BUILD");
	char *b = buffer[next++ % 8];

	snprintf(b, sizeof(buffer[0]), "%s/%s", build ? build : DIVVY_BUILD_ROOT, path);
	return b;
}

static size_t split(char *text, char **words, size_t max)
{
	size_t n = 0;
	char *save = NULL;

	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		if (n + 1 >= max)
			bench_die("more than %zu words in a command", max);
		words[n++] = w;
	}
	words[n] = NULL;
	return n;
}

static void set_environment(const struct rig *rig, bool daemon_or_bare)
{
	setenv("DIVVY_RUNTIME_DIR", rig->dir, 1);
	if (bench_real())
		return;
	setenv("DIVVY_SIM", rig->sim, 1);
	setenv("DIVVY_SIM_DEVICES", rig->devices, 1);
	if (rig->costs[0])
		setenv("DIVVY_SIM_COSTS", rig->costs, 1);
	setenv("DIVVY_SIM_ENGINE", bench_built("src/simgpu/divvy-sim-engine"), 1);
	if (daemon_or_bare)
		setenv("LD_LIBRARY_PATH", bench_built("src/simgpu"), 1);
}

/* In the child, before exec: opens its output file and lets it die with the bench. */
static void become(const struct rig *rig, const char *output)
{
	int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		_exit(127);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		dup2(fd, STDIN_FILENO);
	set_environment(rig, rig->mode == RIG_BARE || bench_foreign());
}

static int wait_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void end_pid(pid_t pid)
{
	uint64_t deadline = clock_now_ns() + END_TIMEOUT_NS;

	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	kill(pid, SIGCONT);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (clock_now_ns() > deadline)
			kill(pid, SIGKILL);
		clock_sleep_until_ns(clock_now_ns() + 2 * NSEC_PER_MSEC);
	}
}

static void on_signal(int signal_number)
{
	(void)signal_number;
	rig_end_all();
	_exit(130);
}

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t n = 0;
	ssize_t got = f ? getdelim(&text, &n, '\0', f) : -1;

	if (!f || (got < 0 && ferror(f)))
		bench_die("read '%s': %s", path, strerror(errno));
	fclose(f);
	if (got >= 0)
		return text;
	free(text); /* getdelim leaves the buffer of an empty file uninitialised */
	return strdup("");
}

/* Prints the daemon's log, which vanishes with the rig's folder, and ends the bench. */
static void die_of_daemon(const char *log)
{
	fputs(slurp(log), stderr);
	bench_die("divvyd did not start; its log is above");
}

static void start_daemon(struct rig *rig, const char *const *args)
{
	const char *argv[WORDS_MAX] = {bench_built("src/divvyd/divvyd")};
	char path[128], log[128];
	uint64_t deadline = clock_now_ns() + START_TIMEOUT_NS;
	size_t n = 1;

	if (!bench_real()) {
		argv[n++] = "--simulate";
		argv[n++] = rig->devices;
	}
	for (; args && *args && n + 1 < WORDS_MAX; args++)
		argv[n++] = *args;
	argv[n] = NULL;
	snprintf(log, sizeof(log), "%s/divvyd.log", rig->dir);
	rig->daemon = fork();
	if (rig->daemon < 0)
		bench_die("fork: %s", strerror(errno));
	if (rig->daemon == 0) {
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGTERM);
		set_environment(rig, true);
		fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
		if (fd >= 0) {
			dup2(fd, STDOUT_FILENO);
			dup2(fd, STDERR_FILENO);
		}
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	snprintf(path, sizeof(path), "%s/divvyd.sock", rig->dir);
	while (access(path, F_OK) < 0) {
		if (clock_now_ns() > deadline || waitpid(rig->daemon, NULL, WNOHANG) > 0)
			die_of_daemon(log);
		clock_sleep_until_ns(clock_now_ns() + 5 * NSEC_PER_MSEC);
	}
}

/*
 * Gives the simulated device's memory account more records than by default. A change whose record
 * was overwritten cannot be checked.
 */
static void write_config(const struct rig *rig)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/config", rig->sim);
	if (mkdir(rig->sim, 0700) < 0 || !(f = fopen(path, "we")))
		bench_die("create '%s': %s", path, strerror(errno));
	fputs("account.records = " ACCOUNT_RECORDS "\n", f);
	fclose(f);
}

void rig_init(struct rig *rig, enum rig_mode mode, const char *devices, const char *costs,
	const char *const *daemon_args)
{
	rig_init_prepared(rig, mode, devices, costs, daemon_args, NULL);
}

void rig_init_prepared(struct rig *rig, enum rig_mode mode, const char *devices, const char *costs,
	const char *const *daemon_args, void (*prepare)(struct rig *rig))
{
	struct sigaction action = {.sa_handler = on_signal};
	size_t i = 0;

	memset(rig, 0, sizeof(*rig));
	rig->mode = mode;
	snprintf(rig->devices, sizeof(rig->devices), "%s", devices);
	snprintf(rig->costs, sizeof(rig->costs), "%s", costs);
	snprintf(rig->dir, sizeof(rig->dir), "/tmp/divvy-bench-XXXXXX");
	if (!mkdtemp(rig->dir))
		bench_die("make a temporary folder: %s", strerror(errno));
	snprintf(rig->sim, sizeof(rig->sim), "%s/sim", rig->dir);
	while (i < RIGS_MAX && living[i])
		i++;
	if (i == RIGS_MAX)
		bench_die("more than %d rigs at a time", RIGS_MAX);
	living[i] = rig;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGPIPE, &action, NULL);
	if (!bench_real())
		write_config(rig);
	if (prepare)
		prepare(rig);
	if (mode == RIG_SHARED && !bench_foreign())
		start_daemon(rig, daemon_args);
}

static double spec_value(const char *spec, const char *option, double missing)
{
	const char *p = strstr(spec, option);

	return p ? strtod(p + strlen(option), NULL) : missing;
}

/* Replaces {request}, {limit} and {memory} in a value of --env by the tenant's numbers. */
static void expand(const char *text, const char *spec, char *ret, size_t size)
{
	const char *memory = strstr(spec, "--memory ");
	bool in_gib = memory && strncmp(memory + strcspn(memory, "%GM"), "Gi", 2) == 0;
	const struct {
		const char *name;
		double value;
	} known[] = {
		{"{request}", 100 * spec_value(spec, "--request ", 1)},
		{"{limit}", 100 * spec_value(spec, "--limit ", 1)},
		{"{memory}", in_gib ? 1024 * spec_value(spec, "--memory ", 0) : 0},
	};
	size_t n = 0;

	while (*text && n + 24 < size) {
		size_t k = 0;

		while (k < ARRAY_SIZE(known) &&
			strncmp(text, known[k].name, strlen(known[k].name)) != 0)
			k++;
		if (k == ARRAY_SIZE(known)) {
			ret[n++] = *text++;
			continue;
		}
		n += (size_t)snprintf(ret + n, size - n, "%.0f", known[k].value);
		text += strlen(known[k].name);
	}
	ret[n] = '\0';
}

/* In the child: preloads another project's library and sets its environment. */
static void set_hook(const char *spec)
{
	setenv("LD_PRELOAD", bench_hook.path, 1);
	for (size_t i = 0; i < bench_hook.n_env; i++) {
		const char *equals = strchr(bench_hook.env[i], '=');
		char name[256], value[512];

		snprintf(name, sizeof(name), "%.*s", (int)(equals - bench_hook.env[i]),
			bench_hook.env[i]);
		expand(equals + 1, spec, value, sizeof(value));
		setenv(name, value, 1);
	}
}

pid_t rig_start(struct rig *rig, const char *spec, const char *command)
{
	char spec_copy[256], command_copy[512], output[128];
	char *words[WORDS_MAX], *argv[WORDS_MAX * 2];
	bool divvy = spec && rig->mode == RIG_SHARED && !bench_foreign();
	size_t n = 0, n_words;
	pid_t pid;

	if (rig->programs == RIG_PROGRAMS)
		bench_die("more than %d programs", RIG_PROGRAMS);
	if (divvy) {
		argv[n++] = (char *)bench_built("src/cli/divvy");
		argv[n++] = (char *)"run";
		snprintf(spec_copy, sizeof(spec_copy), "%s", spec);
		n += split(spec_copy, argv + n, WORDS_MAX);
		argv[n++] = (char *)"--";
	}
	snprintf(command_copy, sizeof(command_copy), "%s", command);
	n_words = split(command_copy, words, WORDS_MAX);
	memcpy(argv + n, words, (n_words + 1) * sizeof(*words));
	snprintf(output, sizeof(output), "%s/%zu.out", rig->dir, rig->programs);
	/* Creates the file now: a caller may read it before the child has opened it. */
	close(open(output, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	pid = fork();
	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		become(rig, output);
		if (spec && rig->mode == RIG_SHARED && bench_foreign())
			set_hook(spec);
		execvp(argv[0], argv);
		_exit(127);
	}
	rig->program[rig->programs++] = pid;
	return pid;
}

static size_t find(const struct rig *rig, pid_t pid)
{
	for (size_t i = 0; i < rig->programs; i++)
		if (rig->program[i] == pid || rig->program[i] == -pid)
			return i;
	bench_die("process %d was not started here", (int)pid);
}

/* Keeps an ended program as -pid, so that its output can still be read. */
int rig_wait(struct rig *rig, pid_t pid)
{
	size_t i = find(rig, pid);
	int status;

	if (rig->program[i] < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			bench_die("wait for process %d: %s", (int)pid, strerror(errno));
	rig->program[i] = -pid;
	return wait_status(status);
}

void rig_end(struct rig *rig, pid_t pid)
{
	size_t i = find(rig, pid);

	if (rig->program[i] < 0)
		return;
	end_pid(pid);
	rig->program[i] = -pid;
}

char *rig_output(struct rig *rig, pid_t pid)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%zu.out", rig->dir, find(rig, pid));
	return slurp(path);
}

struct simgpu_trace *rig_trace(struct rig *rig)
{
	uint64_t deadline = clock_now_ns() + START_TIMEOUT_NS;
	struct error err = {0};

	while (!rig->trace && simgpu_trace_open(rig->sim, &rig->trace, &err) < 0) {
		if (clock_now_ns() > deadline)
			bench_die("trace of the simulated device: %s", err.msg);
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	}
	return rig->trace;
}

uint64_t rig_first_ns(struct rig *rig, pid_t pid)
{
	struct simgpu_trace *trace = rig_trace(rig);
	struct simgpu_trace_record r;

	for (uint64_t n = simgpu_trace_lost(trace); n < simgpu_trace_written(trace); n++)
		if (simgpu_trace_get(trace, n, &r) == 0 && r.pid == (uint32_t)pid &&
			r.engine == SIMGPU_ENGINE_COMPUTE && r.kind == SIMGPU_TRACE_KERNEL)
			return r.start_ns;
	return 0;
}

/*
 * Ends the bench if the trace has lost records after t0, because they would read as an idle device.
 */
static void check_kept(struct simgpu_trace *trace, uint64_t t0)
{
	uint64_t lost = simgpu_trace_lost(trace);
	struct simgpu_trace_record r;

	if (lost && (simgpu_trace_get(trace, lost, &r) < 0 || r.end_ns > t0))
		bench_die("the trace of the device has lost its first %llu records, which reach "
			  "into the time that is measured: measure less of it",
			(unsigned long long)lost);
}

void rig_busy(struct rig *rig, pid_t pid, int device, uint64_t t0, uint64_t t1,
	struct simgpu_busy *ret_busy)
{
	if (simgpu_busy_load(rig_trace(rig), pid ? &pid : NULL, 1, device, SIMGPU_ENGINE_COMPUTE,
		    t0, t1, ret_busy) < 0)
		bench_die("read the trace: out of memory");
	check_kept(rig_trace(rig), t0);
}

double rig_share(struct rig *rig, pid_t pid, int device, uint64_t t0, uint64_t t1)
{
	struct simgpu_busy busy;
	double share;

	rig_busy(rig, pid, device, t0, t1, &busy);
	share = (double)simgpu_busy_ns(&busy, t0, t1) / (double)(t1 - t0);
	simgpu_busy_done(&busy);
	return share;
}

int rig_divvy(struct rig *rig, const char *args, char **ret_output)
{
	char copy[512], output[128];
	char *argv[WORDS_MAX] = {(char *)bench_built("src/cli/divvy")};
	int status;
	pid_t pid;

	snprintf(copy, sizeof(copy), "%s", args);
	split(copy, argv + 1, WORDS_MAX - 1);
	snprintf(output, sizeof(output), "%s/divvy.out", rig->dir);
	pid = fork();
	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		become(rig, output);
		execv(argv[0], argv);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (ret_output)
		*ret_output = slurp(output);
	return wait_status(status);
}

size_t rig_processes(struct rig *rig, const char *name, pid_t *ret_pids, size_t max)
{
	char *text;
	json_t *tenants, *tenant;
	size_t i, n = 0;

	if (rig_divvy(rig, "ps -o json", &text) != 0)
		bench_die("divvy ps failed: %s", text);
	tenants = json_loads(text, 0, NULL);
	json_array_foreach(tenants, i, tenant) {
		const json_t *all = json_object_get(tenant, "processes");

		if (strcmp(json_string_value(json_object_get(tenant, "name")), name) != 0)
			continue;
		for (n = 0; n < json_array_size(all) && n < max; n++)
			ret_pids[n] = (pid_t)json_integer_value(
				json_object_get(json_array_get(all, n), "pid"));
	}
	json_decref(tenants);
	free(text);
	return n;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

/* The engine exits once no process uses it; waits for that, so that no process is left. */
static void end_engine(struct rig *rig)
{
	char path[128];
	uint64_t deadline = clock_now_ns() + END_TIMEOUT_NS;
	pid_t pid;

	if (bench_real())
		return;
	pid = fork();
	if (pid == 0) {
		int fd = open("/dev/null", O_WRONLY);

		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		execl(bench_built("src/simgpu/divvy-simctl"), "divvy-simctl", "--dir", rig->sim,
			"stop", NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	snprintf(path, sizeof(path), "%s/engine.sock", rig->sim);
	while (access(path, F_OK) == 0 && clock_now_ns() < deadline)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
}

void rig_done(struct rig *rig)
{
	for (size_t i = 0; i < rig->programs; i++)
		if (rig->program[i] > 0)
			end_pid(rig->program[i]);
	rig->programs = 0;
	end_pid(rig->daemon);
	rig->daemon = 0;
	simgpu_trace_close(rig->trace);
	rig->trace = NULL;
	end_engine(rig);
	nftw(rig->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	for (size_t i = 0; i < RIGS_MAX; i++)
		if (living[i] == rig)
			living[i] = NULL;
}

void rig_end_all(void)
{
	for (size_t i = 0; i < RIGS_MAX; i++)
		if (living[i])
			rig_done(living[i]);
	host_end();
}
