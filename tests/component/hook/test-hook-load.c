/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to load the driver. Every name and every way of loading gives the hook. The caller's RUNPATH
 * and RTLD_NEXT keep their meaning. Names outside cuda.def come from the driver, and the process
 * keeps its other properties. Runs with the hook preloaded; links no driver.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/proto.h"

#include <cmocka.h>

static bool is_in(const void *address, const char *library)
{
	Dl_info info;

	return address && dladdr(address, &info) && info.dli_fname &&
		strstr(info.dli_fname, library);
}

static void *library_path(char *path, size_t size, const char *name)
{
	snprintf(path, size, "%s/%s", getenv("DIVVY_DRIVER"), name);
	return path;
}

static void gives_hook(const char *name, int flags, const char *symbol, const char *library)
{
	void *handle = dlopen(name, flags);

	if (!handle)
		fail_msg("dlopen(\"%s\"): %s", name, dlerror());
	if (!is_in(dlsym(handle, symbol), library))
		fail_msg("dlopen(\"%s\", %#x) gives another '%s' than %s's", name, flags, symbol,
			library);
	dlclose(handle);
}

static void all_names(void)
{
	static const char *const cuda[] = {"libcuda.so.1", "libcuda.so", "libcuda.so.535.104.05",
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.560.1",
		"/usr/lib/wsl/lib/libcuda.so"};
	static const char *const nvml[] = {"libnvidia-ml.so.1", "libnvidia-ml.so",
		"libnvidia-ml.so.535.104.05", "/usr/lib64/libnvidia-ml.so.1"};
	char path[4096];

	for (size_t i = 0; i < sizeof cuda / sizeof cuda[0]; i++) {
		gives_hook(cuda[i], RTLD_NOW, "cuMemAlloc_v2", "libdivvy-cuda.so");
		gives_hook(cuda[i], RTLD_LAZY | RTLD_GLOBAL, "cuLaunchKernel", "libdivvy-cuda.so");
		gives_hook(cuda[i], RTLD_NOW | RTLD_DEEPBIND, "cuInit", "libdivvy-cuda.so");
	}
	/* the path of the driver's own file gives the hook, too */
	library_path(path, sizeof path, "libcuda.so.1");
	gives_hook(path, RTLD_NOW, "cuInit", "libdivvy-cuda.so");
	for (size_t i = 0; i < sizeof nvml / sizeof nvml[0]; i++)
		gives_hook(nvml[i], RTLD_NOW, "nvmlDeviceGetCount_v2", "libdivvy-nvml.so");
}

static void test_driver_names_give_hook(void **state)
{
	PFN_cuDriverGetVersion *version;
	int number = 0;

	all_names();
	/* all names give the hook also after the driver has been opened */
	version = (PFN_cuDriverGetVersion *)(uintptr_t)dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
	assert_int_equal(version(&number), CUDA_SUCCESS);
	assert_int_equal(number, 13000);
	all_names();
}

static void test_similar_names_do_not_give_hook(void **state)
{
	/* similar names are not the hook's */
	assert_null(dlopen("libcudart.so.99", RTLD_NOW));
	assert_null(dlopen("libcuda.so.one", RTLD_NOW));
	assert_null(dlopen("/nowhere/libcudadebugger.so.1", RTLD_NOW));
	assert_non_null(dlopen(NULL, RTLD_NOW));
	assert_non_null(dlopen("libm.so.6", RTLD_NOW));
}

/* dlmopen gives the driver itself, as documented: a new namespace has no preloaded libraries. */
static void test_dlmopen_gives_driver(void **state)
{
	char path[4096];
	void *handle = dlmopen(
		LM_ID_NEWLM, library_path(path, sizeof path, "libcuda.so.1"), RTLD_NOW);

	assert_non_null(handle);
	assert_false(is_in(dlsym(handle, "cuInit"), "libdivvy"));
	dlclose(handle);
}

typedef void *open_fn(const char *, int);
typedef void *next_fn(const char *);

static void test_caller_keeps_runpath_and_next(void **state)
{
	char path[4096];
	void *plugin = dlopen(library_path(path, sizeof path, "libcaller.so"), RTLD_NOW);
	open_fn *open_there;
	next_fn *next_there;
	void *handle;

	assert_non_null(plugin);
	open_there = (open_fn *)(uintptr_t)dlsym(plugin, "caller_dlopen");
	next_there = (next_fn *)(uintptr_t)dlsym(plugin, "caller_dlsym_next");
	assert_null(dlopen("libdivvy-test-private.so", RTLD_NOW));
	handle = open_there("libdivvy-test-private.so", RTLD_NOW);
	assert_non_null(handle);
	assert_non_null(dlsym(handle, "private_answer"));
	assert_true(
		is_in(dlsym(open_there("libcuda.so.1", RTLD_NOW), "cuInit"), "libdivvy-cuda.so"));
	/*
	 * RTLD_NEXT counts from the plugin, not from the hook; the second call gives the same
	 * result
	 */
	assert_ptr_equal(next_there("getpid"), next_there("getpid"));
	assert_non_null(next_there("getpid"));
}

static void test_unknown_names_come_from_driver(void **state)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*newer)(int *) = (CUresult(*)(int *))(uintptr_t)dlsym(
		handle, "cuStubNewerThanTheList");
	PFN_cuGetProcAddress_v2 *ask;
	void *found = NULL;
	int value = 0;

	assert_non_null(newer);
	assert_int_equal(newer(&value), CUDA_SUCCESS);
	assert_int_equal(value, 4711);
	assert_null(dlsym(handle, "cuNobodyHasThis"));
	assert_non_null(dlerror());
	ask = (PFN_cuGetProcAddress_v2 *)(uintptr_t)dlsym(handle, "cuGetProcAddress_v2");
	assert_int_equal(ask("cuStubNewerThanTheList", &found, 13000, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(found, (void *)(uintptr_t)newer);
	/*
	 * an old CUDA version gets an old form; functions that the hook ignores are the driver's
	 * own
	 */
	assert_int_equal(ask("cuMemAlloc", &found, 2000, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(found, dlsym(handle, "cuMemAlloc"));
	assert_int_equal(ask("cuMemAlloc", &found, 12000, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(found, dlsym(handle, "cuMemAlloc_v2"));
	assert_int_equal(ask("cuDeviceGetName", &found, 12000, 0, NULL), CUDA_SUCCESS);
	assert_int_equal(ask("cuEventRecord", &found, 12000, 0, NULL), CUDA_SUCCESS);
	assert_false(is_in(found, "libdivvy"));
	assert_int_equal(ask("cuLaunchKernel", &found, 12000,
				 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL),
		CUDA_SUCCESS);
	assert_ptr_equal(found, dlsym(handle, "cuLaunchKernel_ptsz"));
	assert_int_equal(ask("cuLaunchKernel", &found, -1, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(found, dlsym(handle, "cuLaunchKernel"));
	/* Whatever a driver returns, the program gets the hook's form of it. */
	setenv("STUB_PLAIN_FORMS", "1", 1);
	assert_int_equal(ask("cuLaunchKernel", &found, 6050,
				 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL),
		CUDA_SUCCESS);
	unsetenv("STUB_PLAIN_FORMS");
	assert_ptr_equal(found, dlsym(handle, "cuLaunchKernel"));
}

static void test_unknown_names_of_nvml_come_from_nvml(void **state)
{
	static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	for (size_t i = 0; i < 2; i++) {
		void *handle = dlopen(names[i], RTLD_NOW);
		int (*newer)(int *) = (int (*)(int *))(uintptr_t)dlsym(
			handle, "nvmlStubNewerThanTheList");
		int value = 0;

		assert_non_null(newer);
		assert_int_equal(newer(&value), 0);
		assert_int_equal(value, 4712);
		assert_true(is_in(dlsym(handle, "nvmlInit_v2"), "libdivvy-nvml.so"));
		assert_null(dlsym(handle, "nvmlNobodyHasThis"));
		assert_non_null(dlerror());
	}
	assert_null(dlsym(driver, "nvmlStubNewerThanTheList"));
}

/* ---- umask, signal mask and signal handlers after the use of CUDA ---- */

struct traits {
	mode_t mask;
	sigset_t blocked;
	struct sigaction action[64];
};

static void traits_read(struct traits *t)
{
	memset(t, 0, sizeof *t);
	t->mask = umask(0);
	umask(t->mask);
	sigprocmask(SIG_SETMASK, NULL, &t->blocked);
	for (int i = 1; i < 64; i++)
		sigaction(i, NULL, &t->action[i]);
}

/* Compares field by field: the C library does not initialise the rest of its structures. */
static bool traits_equal(const struct traits *a, const struct traits *b)
{
	bool same = a->mask == b->mask;

	for (int i = 1; i < 64; i++) {
		same &= sigismember(&a->blocked, i) == sigismember(&b->blocked, i);
		same &= a->action[i].sa_handler == b->action[i].sa_handler &&
			a->action[i].sa_flags == b->action[i].sa_flags;
	}
	return same;
}

static int use_everything(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	PFN_cuInit *init = (PFN_cuInit *)(uintptr_t)dlsym(handle, "cuInit");
	PFN_cuCtxCreate_v2 *create = (PFN_cuCtxCreate_v2 *)(uintptr_t)dlsym(
		handle, "cuCtxCreate_v2");
	PFN_cuMemAlloc_v2 *alloc = (PFN_cuMemAlloc_v2 *)(uintptr_t)dlsym(handle, "cuMemAlloc_v2");
	PFN_cuMemFree_v2 *release = (PFN_cuMemFree_v2 *)(uintptr_t)dlsym(handle, "cuMemFree_v2");
	PFN_cuCtxSynchronize *sync = (PFN_cuCtxSynchronize *)(uintptr_t)dlsym(
		handle, "cuCtxSynchronize");
	CUcontext context;
	CUdeviceptr p;

	errno = 77;
	if (init(0) || create(&context, 0, 0) || alloc(&p, 1 << 22) || release(p) || sync())
		return 1;
	return errno == 77 ? 0 : 2;
}

static void test_process_keeps_its_properties(void **state)
{
	struct traits before, after;
	int status, out[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		traits_read(&before);
		status = use_everything();
		traits_read(&after);
		_exit(status ? status : !traits_equal(&before, &after) ? 3 : 0);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &byte, 1), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(out[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_driver_names_give_hook),
		cmocka_unit_test(test_similar_names_do_not_give_hook),
		cmocka_unit_test(test_dlmopen_gives_driver),
		cmocka_unit_test(test_caller_keeps_runpath_and_next),
		cmocka_unit_test(test_unknown_names_come_from_driver),
		cmocka_unit_test(test_unknown_names_of_nvml_come_from_nvml),
		cmocka_unit_test(test_process_keeps_its_properties),
	};

	return cmocka_run_group_tests_name("hook-load", tests, NULL, NULL);
}
