/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy doctor` checks one by one the conditions for sharing, and names a remedy for each problem.
 * This process runs the checks of a table, and the daemon adds its own findings.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/spawn.h"
#include "cli/bundle.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cli/container.h"
#include "cli/cuda-program.h"
#include "cli/elf-file.h"
#include "cli/cli-path.h"
#include "cli/cli-start.h"
#include "cmdline/output.h"
#include "wire/msg.h"

#define ENGINE_NS (10 * NSEC_PER_SEC)

static const struct option_row options[] = {
	{"fix", NULL, "print the next steps only"},
	{"bundle", "FILE", TEXT_DOCTOR_BUNDLE},
	{"kubeconfig", "FILE",
		"with --bundle: the kubeconfig of the cluster (default $KUBECONFIG, or "
		"~/.kube/config)"},
	CLI_OUTPUT_OPTION,
	CLI_SOCKET_OPTION,
	{0},
};

enum level { OK, NOTE, WARNING, PROBLEM };
static const char *const level_name[] = {"ok", "note", "warning", "problem"};

struct doctor {
	json_t *findings;
	const char *socket;
	const char *program; /* NULL: none was named */
	bool has_driver, is_simulated;
};

static void doctor_add_finding(
	struct doctor *d, enum level level, const char *what, const char *todo)
{
	json_array_append_new(d->findings,
		json_pack("{s:s, s:s, s:s}", "level", level_name[level], "what", what, "do", todo));
}

static void doctor_add_findingf(struct doctor *d, enum level level, const char *todo,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void doctor_add_findingf(
	struct doctor *d, enum level level, const char *todo, const char *fmt, ...)
{
	char what[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	doctor_add_finding(d, level, what, todo);
}

static void check_membarrier(struct doctor *d)
{
	const long can = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	const long need = MEMBARRIER_CMD_GLOBAL_EXPEDITED |
		MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;

	if (can >= 0 && (can & need) == need)
		doctor_add_finding(d, OK, "kernel: membarrier, expedited and global", "");
	else
		doctor_add_finding(d, WARNING,
			"kernel: no expedited membarrier; one launch per thread may pass a "
			"closing gate, and is charged",
			"use Linux 4.16 or newer, or allow membarrier in seccomp");
}

static void check_memfd(struct doctor *d)
{
	_cleanup_close_ int fd = memfd_new("divvy-doctor", 4096);

	if (fd >= 0 && memfd_seal(fd, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0)
		doctor_add_finding(d, OK, "kernel: memfd with F_SEAL_FUTURE_WRITE", "");
	else
		doctor_add_finding(d, PROBLEM,
			"kernel: no memfd with F_SEAL_FUTURE_WRITE; the shared pages need it",
			"use Linux 5.1 or newer, or allow memfd_create and fcntl seals in seccomp");
}

static void check_pidfd(struct doctor *d)
{
	_cleanup_close_ int fd = pidfd_new(getpid());

	if (fd >= 0)
		doctor_add_finding(d, OK, "kernel: pidfd", "");
	else
		doctor_add_finding(d, PROBLEM,
			"kernel: no pidfd; divvy would not notice when a program exits",
			"use Linux 5.3 or newer");
}

/* Loads the driver as a program would, so the check sees the library that the loader finds. */
static void check_driver(struct doctor *d)
{
	void *lib = dlopen("libcuda.so.1", RTLD_LAZY);
	int (*init)(unsigned int) = NULL, (*count)(int *) = NULL;
	struct link_map *map = NULL;
	int n = 0, r;

	if (!lib) {
		doctor_add_finding(d, NOTE, "driver: no libcuda.so.1; divvy offers a simulated GPU",
			"install the NVIDIA driver for real devices");
		return;
	}
	dlinfo(lib, RTLD_DI_LINKMAP, &map);
	*(void **)&init = dlsym(lib, "cuInit");
	*(void **)&count = dlsym(lib, "cuDeviceGetCount");
	r = init && count ? init(0) : -1;
	if (r == 0)
		count(&n);
	d->has_driver = r == 0 && n > 0;
	if (d->has_driver)
		doctor_add_findingf(d, OK, "", "driver: %s, %d device%s",
			map ? map->l_name : "libcuda.so.1", n, n == 1 ? "" : "s");
	else
		doctor_add_findingf(d, WARNING,
			"see `nvidia-smi` and the kernel's log, and check that you can read "
			"/dev/nvidia*",
			"driver: %s finds no device (CUDA error %d)",
			map ? map->l_name : "libcuda.so.1", r);
}

static void check_device_files(struct doctor *d)
{
	static const char *const path[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"};

	for (size_t i = 0; i < ARRAY_SIZE(path); i++)
		if (access(path[i], F_OK) == 0 && access(path[i], R_OK | W_OK) < 0)
			doctor_add_findingf(d, PROBLEM,
				"give this user read and write access (often by the group 'video')",
				"device file %s: %s", path[i], strerror(errno));
	if (getenv("CUDA_MPS_PIPE_DIRECTORY") || access("/tmp/nvidia-mps/control", F_OK) == 0)
		doctor_add_finding(d, WARNING,
			"MPS runs: its clients use the device at once, so divvy shares "
			"submissions and not device time",
			"stop it with `echo quit | nvidia-cuda-mps-control`");
}

/* A program that calls a function which our library does not export bypasses the gate. */
static void compare_exports(
	struct doctor *d, const char *hook, const char *library, const char *prefix)
{
	_cleanup_(elf_file_done) struct elf_file ours = {.map = MAP_NONE}, real = {.map = MAP_NONE};
	void *lib = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *map = NULL;
	size_t missing = 0;
	const char *first = NULL;

	if (!lib || dlinfo(lib, RTLD_DI_LINKMAP, &map) < 0 ||
		elf_file_open(map->l_name, &real, NULL) < 0 || elf_file_open(hook, &ours, NULL) < 0)
		return;
	for (size_t i = 0; i < real.n_symbols; i++) {
		const char *name = elf_file_function(&real, i);

		if (!name || strncmp(name, prefix, strlen(prefix)) != 0 ||
			elf_file_exports(&ours, name))
			continue;
		missing++;
		first = first ? first : name;
	}
	if (missing)
		doctor_add_findingf(d, NOTE,
			"divvy passes their calls to the driver unchanged; a newer divvy may "
			"know them",
			"%s: divvy does not know %zu of the driver's functions (%s, ...)", library,
			missing, first);
	else
		doctor_add_findingf(
			d, OK, "", "%s: divvy knows all of the driver's functions", library);
}

static void check_hook(struct doctor *d, const char *name, char *ret_path)
{
	_cleanup_(elf_file_done) struct elf_file file = {.map = MAP_NONE};
	struct error err = {0};

	ret_path[0] = '\0';
	if (cli_path_hook(name, ret_path, PLACES_PATH, &err) < 0 ||
		elf_file_open(ret_path, &file, &err) < 0) {
		doctor_add_finding(d, PROBLEM, err.msg,
			"install divvy's libraries, or set DIVVY_HOOKS to their folder");
		return;
	}
	doctor_add_findingf(d, OK, "", "library: %s (build-id %.12s)", ret_path,
		file.build_id.s[0] ? file.build_id.s : "none");
}

/* If a preload does not work, the loader only writes to stderr and continues. */
static void check_preload(struct doctor *d, const char *cuda, const char *nvml)
{
	_cleanup_buf_ struct buf said = BUF_INIT(64u << 10);
	char preload[2 * PLACES_PATH + 16];
	/* A container image may contain no program but divvy. */
	const bool has_true = access("/bin/true", X_OK) == 0;
	const char *argv[] = {has_true ? "/bin/true" : "/proc/self/exe", "help", NULL};
	const char *env[] = {preload, NULL};
	/* The check needs only the loader's messages on stderr, not the program's stdout. */
	_cleanup_close_ const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out[2], status = -1;
	struct error err = {0};
	pid_t pid = 0;

	if (!cuda[0] || !nvml[0])
		return;
	if (cli_path_check_preload(cuda, &err) < 0 || cli_path_check_preload(nvml, &err) < 0) {
		doctor_add_findingf(d, PROBLEM,
			"link the folder (ln -s) under a path without spaces and colons, and "
			"set DIVVY_HOOKS to the link",
			"preload: %s", err.msg);
		return;
	}
	if (pipe2(out, O_CLOEXEC) < 0)
		return;
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s:%s", cuda, nvml);
	if (spawn_run(
		    &(struct spawn){
			    .argv = argv, .env = env, .stdio_fds = (int[]){null, null, out[1]}},
		    &pid, NULL) == 0) {
		out[1] = fd_close(out[1]);
		spawn_read(pid, out[0], clock_now_ns() + 10 * NSEC_PER_SEC, &said, &status);
	}
	fd_close(out[0]);
	fd_close(out[1]);
	if (said.n || !WIFEXITED(status) || WEXITSTATUS(status))
		doctor_add_findingf(d, PROBLEM,
			"check that the libraries have the program's architecture and that "
			"every user can read them",
			"preload: the loader reports: %.200s",
			said.n ? buf_text(&said) : "(the program failed)");
	else
		doctor_add_finding(d, OK, "preload: works", "");
}

static void check_hooks(struct doctor *d)
{
	static char cuda[PLACES_PATH], nvml[PLACES_PATH];

	check_hook(d, "libdivvy-cuda.so", cuda);
	check_hook(d, "libdivvy-nvml.so", nvml);
	check_preload(d, cuda, nvml);
	if (d->has_driver && cuda[0])
		compare_exports(d, cuda, "libcuda.so.1", "cu");
}

/* ---- the simulated driver ---- */

/*
 * Runs in a child process: loads the driver that the daemon names and makes a program's first
 * calls.
 */
static int try_driver(const char *sim, const char *driver, char *why, size_t size)
{
	int (*init)(unsigned int) = NULL, (*count)(int *) = NULL;
	char path[PLACES_PATH + 32];
	void *lib;
	int n = 0, r;

	snprintf(path, sizeof(path), "%s/libcuda.so.1", driver);
	setenv("DIVVY_SIM", sim, 1);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(why, size, "%s", dlerror());
		return -1;
	}
	*(void **)&init = dlsym(lib, "cuInit");
	*(void **)&count = dlsym(lib, "cuDeviceGetCount");
	r = init && count ? init(0) : -1;
	r = r ? r : count(&n);
	snprintf(why, size, "%s: CUDA error %d, %d devices", path, r, n);
	return r || !n ? -1 : 0;
}

/* The driver may wait forever for an engine that has ended. */
#define DRIVER_WAIT_S 20u

static void run_driver(const char *sim, const char *driver, int out)
{
	char why[PLACES_PATH + 128] = "";
	int r;

	alarm(DRIVER_WAIT_S);
	r = try_driver(sim, driver, why, sizeof(why));
	if (write(out, why, strlen(why)) < 0)
		r = -1;
	_exit(r ? 1 : 0);
}

static void check_simulated_driver(struct doctor *d, const json_t *ping)
{
	const char *sim = json_text_or_empty(ping, "sim"),
		   *driver = json_text_or_empty(ping, "driver");
	_cleanup_buf_ struct buf why = BUF_INIT(64u << 10);
	int out[2], status = -1;
	pid_t pid;

	if (!sim[0] || !driver[0] || pipe2(out, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		run_driver(sim, driver, out[1]);
	fd_close(out[1]);
	fd_read_all(out[0], &why);
	fd_close(out[0]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		doctor_add_findingf(d, OK, "", "simulated driver: %s answers", driver);
	else
		doctor_add_findingf(d, PROBLEM,
			"restart the daemon; if that does not help, see its log",
			"simulated driver: programs cannot use it: %.200s",
			why.n ? buf_text(&why) : "no answer within 20 s");
}

static void add_daemon_findings(struct doctor *d, struct client *c)
{
	_cleanup_json_ json_t *answer = NULL;
	struct error err = {0};
	json_t *all, *one;
	size_t i;

	if (client_ask(c, "doctor", NULL, &answer, &err) < 0) {
		doctor_add_findingf(d, WARNING, "", "daemon: its own checks failed: %s", err.msg);
		return;
	}
	all = json_object_get(answer, "findings");
	json_array_foreach(all, i, one)
		json_array_append(d->findings, one);
}

static void check_socket_file(struct doctor *d, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return;
	if (!S_ISSOCK(st.st_mode))
		doctor_add_findingf(
			d, PROBLEM, "remove the file", "socket: '%s' is not a socket", path);
	else if (access(path, W_OK) < 0)
		doctor_add_findingf(d, PROBLEM,
			"set the socket's mode to 0666, and check the folder's mode",
			"socket: this user cannot use '%s' (%s)", path, strerror(errno));
}

/* Returns the remedy that starts the daemon at boot, or "" where systemd has no unit of divvyd. */
static const char *start_with_machine(void)
{
	static const char *const unit[] = {"/usr/lib/systemd/system/divvyd.service",
		"/usr/local/lib/systemd/system/divvyd.service",
		"/etc/systemd/system/divvyd.service"};

	for (size_t i = 0; i < ARRAY_SIZE(unit); i++)
		if (access(unit[i], F_OK) == 0)
			return "`systemctl enable --now divvyd` starts one for all users, see "
			       "divvyd(8)";
	return "";
}

static void check_daemon(struct doctor *d)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *ping = NULL;
	char path[PLACES_PATH];
	struct error err = {0};

	for (size_t i = 0; cli_path_socket(i, path, sizeof(path)); i++)
		check_socket_file(d, path);
	if (client_connect(&c, d->socket, &err) < 0) {
		if (cli_path_daemon(path, sizeof(path), &err) == 0)
			doctor_add_findingf(d, NOTE, start_with_machine(),
				"daemon: no daemon runs; `divvy run` starts %s", path);
		else
			doctor_add_finding(d, PROBLEM, err.msg,
				"install divvyd beside divvy, or set DIVVYD to its path");
		return;
	}
	if (client_ask(&c, "ping", NULL, &ping, &err) < 0) {
		doctor_add_findingf(
			d, PROBLEM, "stop that process and start it again", "daemon: %s", err.msg);
		return;
	}
	d->is_simulated = json_bool_or_false(ping, "simulated");
	doctor_add_findingf(d, OK, "", "daemon: divvyd %s, pid %d, at %s, %d device%s%s",
		json_text_or_empty(ping, "version"), (int)json_int_or_zero(ping, "pid"), c.socket,
		(int)json_int_or_zero(ping, "devices"),
		json_int_or_zero(ping, "devices") == 1 ? "" : "s",
		d->is_simulated ? " (simulated)" : "");
	if (d->is_simulated)
		check_simulated_driver(d, ping);
	if (start_check_owner(&c, ping, &err) < 0)
		doctor_add_finding(d, PROBLEM, err.msg, "");
	if (json_int_or_zero(ping, "abi") != MSG_ABI)
		doctor_add_findingf(d, WARNING, "restart the daemon; running programs continue",
			"daemon: divvyd has protocol version %d, this divvy %u",
			(int)json_int_or_zero(ping, "abi"), MSG_ABI);
	if (json_is_false(json_object_get(ping, "gate")))
		doctor_add_finding(d, WARNING,
			"daemon: DIVVY_GATE=off opens all gates; no share is enforced",
			"restart the daemon without DIVVY_GATE");
	add_daemon_findings(d, &c);
}

/*
 * Returns whether the container engine's daemon answers. `said` receives the engine's error output.
 * Podman has no daemon and always answers.
 */
static bool engine_answers(const char *path, struct buf *said)
{
	const char *argv[] = {path, "version", NULL};
	_cleanup_close_ const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out[2], status = -1;
	pid_t pid = 0;

	if (pipe2(out, O_CLOEXEC) < 0)
		return true;
	if (spawn_run(&(struct spawn){.argv = argv, .stdio_fds = (int[]){null, null, out[1]}}, &pid,
		    NULL) == 0) {
		out[1] = fd_close(out[1]);
		spawn_read(pid, out[0], clock_now_ns() + ENGINE_NS, said, &status);
	}
	fd_close(out[0]);
	fd_close(out[1]);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void check_engine(struct doctor *d, const char *engine, const char *path, struct buf *found)
{
	_cleanup_buf_ struct buf said = BUF_INIT(4096);
	struct str why;

	if (engine_answers(path, &said)) {
		buf_addf(found, "%s%s", found->n ? ", " : "", engine);
		return;
	}
	why = str_last_line(buf_str(&said));
	doctor_add_findingf(d, NOTE,
		"to share a GPU with containers, start the engine's daemon or give this user "
		"access to it",
		"containers: %s is installed, but `%s version` fails%s%.*s", engine, engine,
		why.n ? ": " : "", (int)MIN(why.n, (size_t)200), why.n ? why.p : "");
}

static void check_containers(struct doctor *d)
{
	static const char *const engine[] = {"docker", "podman", "nerdctl"};
	static const char *const folder[] = {"/usr/bin", "/usr/local/bin", "/bin"};
	_cleanup_buf_ struct buf found = BUF_INIT(256);
	bool has_any = false;

	for (size_t i = 0; i < ARRAY_SIZE(engine); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(folder); j++) {
			char path[64];

			snprintf(path, sizeof(path), "%s/%s", folder[j], engine[i]);
			if (access(path, X_OK) < 0)
				continue;
			check_engine(d, engine[i], path, &found);
			has_any = true;
			break;
		}
	}
	if (!has_any)
		doctor_add_finding(
			d, NOTE, "containers: docker, podman and nerdctl are not installed", "");
	else if (found.n && (container_has_cdi() || !d->has_driver))
		doctor_add_findingf(d, OK, "", "containers: %s", buf_text(&found));
	else if (found.n)
		doctor_add_findingf(d, NOTE,
			"nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
			"containers: %s; the devices have no CDI names, so divvy uses --gpus",
			buf_text(&found));
}

/* ---- a program ---- */

#define RUN_WITHOUT_RUNTIME \
	"use the CUDA driver API, as Numba, Triton and NVRTC do; build with nvcc -cudart shared so " \
	"that divvy's own runtime for CUDA 12 and 13 takes the place of NVIDIA's"

/* divvy run starts the program without divvy's runtime if the library is missing. */
static void check_shared_runtime(struct doctor *d, const struct cuda_program *program)
{
	static const char stem[] = "libcudart.so.";
	char name[64], path[PLACES_PATH];
	struct error err = {0};

	snprintf(name, sizeof(name), "libdivvy-cudart-%s.so", program->library + strlen(stem));
	if (cli_path_hook(name, path, sizeof(path), &err) < 0)
		doctor_add_findingf(d, WARNING,
			"install divvy's libraries, or set DIVVY_HOOKS to their folder",
			"program: %.500s loads %s, which refuses simulated and remote devices: %.200s",
			program->path, program->library, err.msg);
	else
		doctor_add_findingf(d, OK, "",
			"program: %.500s loads %s; on simulated and remote devices (--simulate, "
			"--remote), divvy run puts divvy's own runtime in its place",
			program->path, program->library);
}

static void check_program(struct doctor *d)
{
	struct cuda_program program;
	struct error err = {0};
	char runtime[64];

	if (!d->program)
		return;
	if (cuda_program_find(d->program, &program, &err) < 0) {
		doctor_add_findingf(d, PROBLEM, "give the program's path", "program: %s", err.msg);
		return;
	}
	if (program.runtime == CUDA_RUNTIME_NONE) {
		doctor_add_findingf(d, OK, "",
			"program: %.500s contains no CUDA runtime and needs none; libraries that it "
			"opens later may contain one",
			program.path);
		return;
	}
	if (program.runtime == CUDA_RUNTIME_SHARED && cli_path_has_runtime(program.library)) {
		check_shared_runtime(d, &program);
		return;
	}
	if (program.runtime == CUDA_RUNTIME_SHARED)
		snprintf(runtime, sizeof(runtime), "loads NVIDIA's CUDA runtime, %s,",
			program.library);
	else
		snprintf(runtime, sizeof(runtime), "contains NVIDIA's CUDA runtime,");
	if (d->has_driver && !d->is_simulated)
		doctor_add_findingf(d, OK, "",
			"program: %.500s %s which works with this machine's driver; simulated and "
			"remote devices (--simulate, --remote) need a program without it",
			program.path, runtime);
	else
		doctor_add_findingf(d, WARNING, RUN_WITHOUT_RUNTIME,
			"program: %.500s %s which checks that the driver is NVIDIA's; it refuses "
			"simulated and remote devices",
			program.path, runtime);
}

static void (*const checks[])(struct doctor *d) = {
	check_membarrier,
	check_memfd,
	check_pidfd,
	check_driver,
	check_device_files,
	check_hooks,
	check_daemon,
	check_containers,
	check_program,
};

static void print_findings(const json_t *findings, bool todo_only)
{
	json_t *all = json_incref((json_t *)(uintptr_t)findings), *one;
	size_t i;

	json_array_foreach(all, i, one) {
		const char *todo = json_text_or_empty(one, "do");

		if (todo_only) {
			if (todo[0])
				puts(todo);
			continue;
		}
		printf("%-8s %s\n", json_text_or_empty(one, "level"),
			json_text_or_empty(one, "what"));
		if (todo[0])
			printf("%-8s   -> %s\n", "", todo);
	}
	json_decref(all);
}

static int write_bundle(const struct cli_args *args, const json_t *findings, struct error *err)
{
	const struct bundle_options bundle = {.path = cli_get(args, "bundle"),
		.socket = cli_get(args, "socket"),
		.kubeconfig = cli_get(args, "kubeconfig"),
		.findings = findings};
	size_t n;
	const int r = bundle_write(&bundle, &n, err);

	if (r >= 0)
		fprintf(stderr, "%s: %zu files; README.txt in it lists what is left out\n",
			strcmp(bundle.path, "-") ? bundle.path : "the archive", n);
	return r;
}

static bool is_bundle_printed(const struct cli_args *args)
{
	return cli_has(args, "bundle") && !strcmp(cli_get(args, "bundle"), "-");
}

static int doctor_check(const struct cli_args *args, struct error *err)
{
	if (cli_has(args, "kubeconfig") && !cli_has(args, "bundle"))
		return fail(err, EINVAL, "--kubeconfig '%.100s' works only together with --bundle",
			cli_get(args, "kubeconfig"));
	return 0;
}

static int doctor_run(const struct cli_args *args, struct error *err)
{
	_cleanup_json_ json_t *findings = json_array();
	struct doctor d = {.findings = findings,
		.socket = cli_get(args, "socket"),
		.program = args->n_operands ? args->operand[0] : NULL};
	bool works = true;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		checks[i](&d);
	for (size_t i = 0; i < json_array_size(findings); i++)
		if (!strcmp(json_text_or_empty(json_array_get(findings, i), "level"), "problem"))
			works = false;
	r = cli_has(args, "bundle") ? write_bundle(args, findings, err) : 0;
	if (is_bundle_printed(args))
		return r < 0 ? r : works ? 0 : CLI_EXIT_FAILED;
	r = r < 0 ? r : output_as_table(args, findings, err);
	if (r < 0)
		return r;
	if (r == 1) {
		print_findings(findings, cli_has(args, "fix"));
		if (!cli_has(args, "fix"))
			puts(works ? "Sharing works here."
				   : "Sharing does not work here; solve the problems above.");
	}
	return works ? 0 : CLI_EXIT_FAILED;
}

const struct cli_command cmd_doctor = {
	.name = "doctor",
	.operands = "[-- PROGRAM [ARG...]]",
	.summary = "Check this machine for all that sharing needs, with next steps",
	.text = TEXT_DOCTOR_TEXT,
	.examples = TEXT_DOCTOR_EXAMPLES,
	.exit_status = TEXT_DOCTOR_EXIT_STATUS,
	.options = options,
	.operand = CLI_PROGRAM,
	.operands_max = -1,
	.is_program = true,
	.check = doctor_check,
	.run = doctor_run,
};
