/* SPDX-License-Identifier: Apache-2.0 */
/* Contract: driver.h. */
#include "driver.h"

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
#include "sim/link.h"

struct driver drv;
bool driver_is_real;

static struct {
	_Atomic unsigned n, failed;
	pthread_mutex_t lock; /* of a line and its number */
} * tap;
static char dir[64];

bool driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		tap_note("%s", dlerror());
		return false;
	}
#define CU(abi, since, variant, action, stream, params, args) \
	drv.abi = (PFN_##abi *)dlsym(library, #abi);
#include "cuda/cuda.def"
#undef CU
	return drv.cuInit != NULL;
}

/*
 * With $DIVVY_TEST_SERVER the libcuda.so.1 of this program is the remote one: a server of the test's
 * own is started, whose workers find the simulated driver in $DIVVY_TEST_DRIVER.
 */
static void remote_begin(void)
{
	const char *server = getenv("DIVVY_TEST_SERVER"), *driver = getenv("DIVVY_TEST_DRIVER");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char number[16], self[16];
	int sock;

	if (!server || !driver)
		return;
	snprintf(address.sun_path, sizeof(address.sun_path), "%.64s/remote.sock", dir);
	sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (sock < 0 || bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(sock, 64) < 0)
		exit(99);
	snprintf(number, sizeof(number), "%d", sock);
	snprintf(self, sizeof(self), "%d", (int)getpid());
	if (fork() == 0) {
		setenv("LD_LIBRARY_PATH", driver, 1);
		execl(server, server, number, self, NULL);
		_exit(99);
	}
	close(sock);
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
	snprintf(engine, sizeof(engine), "%s/src/sim/divvy-sim-engine", build);
	setenv(SIM_ENV_DIR, dir, 1);
	setenv(SIM_ENV_ENGINE, engine, 1);
	setenv(SIM_ENV_DEVICES, devices, 1);
	setenv(SIM_ENV_COSTS, costs ? costs : "", 1);
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
	struct sim_request stop = {.type = SIM_MSG_STOP};
	struct sim_reply reply;
	struct link link;
	char byte;

	if (dir[0] == '\0')
		return;
	if (link_open(&link, SIM_ROLE_ADMIN, NULL) == 0) {
		link_call(&link, &stop, -1, &reply, NULL);
		/* The end of the connection is the end of the engine. */
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
	/* "#" would begin a directive. */
	for (char *c = text; *c; c++)
		*c = *c == '#' || *c == '\n' ? ' ' : *c;
	/* Numbers have to come in their order, from whatever thread or process. */
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
	snprintf(path, sizeof(path), "%s/src/sim/kernels.ptx", source ? source : ".");
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
