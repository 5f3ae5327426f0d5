/* SPDX-License-Identifier: Apache-2.0 */
/* See driver.h. */
#include "driver.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "simgpu/simgpu-link.h"

struct driver drv;
bool driver_is_real;

static struct {
	_Atomic unsigned n, failed;
	pthread_mutex_t lock; /* protects one TAP line and its number */
} * tap;
static char dir[64];

bool driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		tap_note("%s", dlerror());
		return false;
	}
#define CU(abi, since, variant, action, stream, params, args, ...) \
	drv.abi = (PFN_##abi *)dlsym(library, #abi);
#include "cuda/cuda.def"
#undef CU
	return drv.cuInit != NULL;
}

static void start(const char *program, const char *verb, int listener, const char *follow)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", listener);
	if (fork() == 0) {
		setenv("LD_LIBRARY_PATH", getenv("DIVVY_TEST_DRIVER"), 1);
		/*
		 * A program that waits for the end of the test's stdout must not wait for this
		 * child.
		 */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		if (verb)
			execl(program, program, verb, number, follow, NULL);
		else
			execl(program, program, number, follow, NULL);
		_exit(99);
	}
	close(listener);
}

/* Starts both ends of a TLS link; $DIVVY_TEST_LINK names the program. */
static void start_link(int listener, const char *follow)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(address);
	int sock = socket(AF_INET, SOCK_STREAM, 0);
	char invitation[128];

	if (sock < 0 || bind(sock, (struct sockaddr *)&address, n) < 0 || listen(sock, 64) < 0 ||
		getsockname(sock, (struct sockaddr *)&address, &n) < 0)
		exit(99);
	snprintf(invitation, sizeof(invitation), "127.0.0.1:%u/%064u", ntohs(address.sin_port), 7);
	setenv("DIVVY_INVITATION", invitation, 1);
	start(getenv("DIVVY_TEST_LINK"), "serve", sock, "1");
	start(getenv("DIVVY_TEST_LINK"), "join", listener, follow);
	unsetenv("DIVVY_INVITATION");
}

/*
 * With $DIVVY_TEST_SERVER this program's libcuda.so.1 is the remote one. Starts a server for this
 * test, whose workers find the simulated driver in $DIVVY_TEST_DRIVER.
 */
static void remote_begin(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char self[16];
	int sock;

	if (!is_remote())
		return;
	snprintf(address.sun_path, sizeof(address.sun_path), "%.64s/remote.sock", dir);
	sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (sock < 0 || bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(sock, 64) < 0)
		exit(99);
	snprintf(self, sizeof(self), "%d", (int)getpid());
	if (getenv("DIVVY_TEST_LINK"))
		start_link(sock, self);
	else
		start(getenv("DIVVY_TEST_SERVER"), NULL, sock, self);
	setenv("DIVVY_REMOTE", address.sun_path, 1);
}

void machine_begin(const char *devices, const char *costs)
{
	const char *build = getenv("DIVVY_BUILD");
	char engine[4096];

	snprintf(dir, sizeof(dir), "/tmp/divvy-sim-test-XXXXXX");
	if (!build || !mkdtemp(dir)) {
		fprintf(stderr, "DIVVY_BUILD has to name the build folder\n");
		exit(99);
	}
	snprintf(engine, sizeof(engine), "%s/src/simgpu/divvy-sim-engine", build);
	setenv(SIMGPU_ENV_DIR, dir, 1);
	setenv(SIMGPU_ENV_ENGINE, engine, 1);
	setenv(SIMGPU_ENV_DEVICES, devices, 1);
	setenv(SIMGPU_ENV_COSTS, costs ? costs : "", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	remote_begin();
}

bool is_remote(void)
{
	return getenv("DIVVY_TEST_SERVER") != NULL;
}

const char *machine_dir(void)
{
	return dir;
}

static void remove_folder(const char *path)
{
	DIR *d = opendir(path);
	char file[4096];

	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		unlink(file);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

void machine_end(void)
{
	struct simgpu_request stop = {.type = SIMGPU_MSG_STOP};
	struct simgpu_reply reply;
	struct link link;
	char byte;

	if (dir[0] == '\0')
		return;
	if (link_open(&link, SIMGPU_ROLE_ADMIN, NULL) == 0) {
		link_call(&link, &stop, -1, &reply, NULL);
		/* The engine closes the connection when it exits. */
		while (recv(link.sock, &byte, 1, 0) > 0)
			;
		link_close(&link);
	}
	remove_folder(dir);
}

void tap_begin(void)
{
	pthread_mutexattr_t attr;

	setvbuf(stdout, NULL, _IOLBF, 0);
	tap = mmap(NULL, sizeof(*tap), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap == MAP_FAILED)
		exit(99);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&tap->lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

bool tap_ok(bool ok, const char *format, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (!ok)
		atomic_fetch_add(&tap->failed, 1);
	/* In TAP "#" would begin a directive. */
	for (char *c = text; *c; c++)
		*c = *c == '#' || *c == '\n' ? ' ' : *c;
	/* TAP numbers are in order, whichever thread or process prints them. */
	if (pthread_mutex_lock(&tap->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&tap->lock);
	printf("%sok %u - %s%s\n", ok || driver_is_real ? "" : "not ",
		atomic_fetch_add(&tap->n, 1) + 1,
		ok                       ? ""
			: driver_is_real ? "the driver disagrees: "
					 : "",
		text);
	pthread_mutex_unlock(&tap->lock);
	return ok;
}

void tap_note(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	printf("# ");
	vprintf(format, ap);
	printf("\n");
	va_end(ap);
}

unsigned tap_failures(void)
{
	return atomic_load(&tap->failed);
}

void tap_end(void)
{
	printf("1..%u\n", atomic_load(&tap->n));
}

bool part_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int parts_main(const char *devices, const char *costs, const struct part *parts, size_t n)
{
	tap_begin();
	machine_begin(devices, costs);
	if (!driver_open())
		return 1;
	for (size_t i = 0; i < n; i++)
		part_run(parts[i].name, parts[i].part);
	machine_end();
	tap_end();
	return tap_failures() != 0;
}

pid_t part_start(void (*part)(void *), void *argument)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		part(argument);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

static void run(void *part)
{
	void (*fn)(void);

	memcpy(&fn, part, sizeof(fn));
	fn();
}

void part_run(const char *name, void (*part)(void))
{
	tap_note("%s", name);
	if (!part_wait(part_start(run, &part)))
		tap_ok(false, "%s ended early", name);
}

static const char *result_name(CUresult r)
{
	const char *name = NULL;

	if (drv.cuGetErrorName && drv.cuGetErrorName(r, &name) == CUDA_SUCCESS)
		return name;
	return "an unknown code";
}

bool expect_result(CUresult expected, CUresult got, const char *text, int line)
{
	if (got == expected)
		return tap_ok(true, "%s: %s", text, result_name(got));
	return tap_ok(false, "line %d: %s: %s (%d) instead of %s (%d)", line, text,
		result_name(got), got, result_name(expected), expected);
}

void need_result(CUresult got, const char *text, int line)
{
	if (got == CUDA_SUCCESS)
		return;
	tap_ok(false, "line %d: %s: %s (%d), the rest of this part is left out", line, text,
		result_name(got), got);
	fflush(stdout);
	_exit(0);
}

CUcontext begin_context(void)
{
	CUcontext context;

	NEED(drv.cuInit(0));
	NEED(drv.cuCtxCreate_v2(&context, 0, 0));
	return context;
}

const char *kernels_text(void)
{
	static char *text;
	const char *source = getenv("DIVVY_SOURCE");
	_cleanup_fclose_ FILE *f = NULL;
	char path[4096];
	size_t n;

	if (text)
		return text;
	snprintf(path, sizeof(path), "%s/src/simgpu/kernels.ptx", source ? source : ".");
	f = fopen(path, "re");
	text = calloc(1, 1 << 16);
	if (!f || !text) {
		tap_ok(false, "read %s", path);
		_exit(0);
	}
	n = fread(text, 1, (1 << 16) - 1, f);
	text[n] = '\0';
	return text;
}

CUmodule load_kernels(void)
{
	CUmodule module;

	NEED(drv.cuModuleLoadData(&module, kernels_text()));
	return module;
}

CUfunction kernel_get(CUmodule module, const char *name)
{
	CUfunction function;

	NEED(drv.cuModuleGetFunction(&function, module, name));
	return function;
}

CUdeviceptr device_memory(size_t bytes)
{
	CUdeviceptr p;

	NEED(drv.cuMemAlloc_v2(&p, bytes));
	return p;
}

CUstream new_stream(void)
{
	CUstream stream;

	NEED(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}
