/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caller CALL: repeats one kind of call for ever, holding 64 MiB. The program prints "going" after
 * the first call, or before a call that does not return. At the first error the program prints the
 * error's name and the names of the following calls' errors, and exits with 1. Tests end the
 * caller, its worker or a process between them meanwhile. `threads` uses two threads, all others
 * one.
 *
 * caller leave: the first thread exits; another thread then synchronises and exits, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../programs/kernels.h"
#include "../simgpu/driver.h"

enum { N = 3 << 20 }; /* several frames */

static CUstream stream;
static CUdeviceptr memory;
static CUfunction spin;
static CUevent event;
static uint8_t *pageable, *locked;
static char *kernels;

static CUresult sync_stream(CUresult before)
{
	return before ? before : drv.cuStreamSynchronize(stream);
}

static CUresult launch_ns(unsigned long long ns)
{
	void *params[] = {&ns};

	return drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult launch(void)
{
	return launch_ns(1000);
}

static CUresult synchronise(void)
{
	return sync_stream(CUDA_SUCCESS);
}

static CUresult copy_in(void)
{
	return drv.cuMemcpyHtoD_v2(memory, pageable, N);
}

static CUresult copy_out(void)
{
	return drv.cuMemcpyDtoH_v2(pageable, memory, N);
}

static CUresult copy_later(void)
{
	CUresult r = drv.cuMemcpyDtoHAsync_v2(locked, memory, N, stream);

	r = r ? r : drv.cuMemcpyHtoDAsync_v2(memory, locked, N, stream);
	return sync_stream(r);
}

static CUresult allocate(void)
{
	CUdeviceptr p;
	CUresult r = drv.cuMemAlloc_v2(&p, 1 << 20);

	return r ? r : drv.cuMemFree_v2(p);
}

static CUresult load(void)
{
	CUmodule module;
	CUresult r = drv.cuModuleLoadData(&module, kernels);

	return r ? r : drv.cuModuleUnload(module);
}

static void nothing(void *unused)
{
}

static CUresult host_function(void)
{
	return sync_stream(drv.cuLaunchHostFunc(stream, nothing, NULL));
}

static CUresult record(void)
{
	CUresult r = drv.cuEventRecord(event, stream);

	return r ? r : drv.cuEventSynchronize(event);
}

static CUresult graph(void)
{
	CUgraph made;
	CUgraphExec exec;
	CUresult r = drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

	r = r ? r : launch();
	r = r ? r : drv.cuStreamEndCapture(stream, &made);
	r = r ? r : drv.cuGraphInstantiateWithFlags(&exec, made, 0);
	r = r ? r : drv.cuGraphLaunch(exec, stream);
	r = sync_stream(r);
	r = r ? r : drv.cuGraphExecDestroy(exec);
	return r ? r : drv.cuGraphDestroy(made);
}

/* Waits for a kernel that takes an hour. */
static CUresult wait_long(void)
{
	return sync_stream(launch_ns(3600ull * 1000000000));
}

/* A host function that never returns. */
static void sleep_long(void *unused)
{
	for (;;)
		pause();
}

static CUresult wait_for_host(void)
{
	return sync_stream(drv.cuLaunchHostFunc(stream, sleep_long, NULL));
}

static void *lane_main(void *context)
{
	drv.cuCtxSetCurrent(context);
	while (!copy_out())
		;
	return NULL;
}

static CUresult threads(void)
{
	static pthread_t other;
	CUcontext context;

	if (!other &&
		(drv.cuCtxGetCurrent(&context) || pthread_create(&other, NULL, lane_main, context)))
		return CUDA_ERROR_UNKNOWN;
	return synchronise();
}

static const struct {
	const char *name;
	CUresult (*call)(void);
	bool comes_back;
} calls[] = {
	{"launch", launch, true},
	{"synchronise", synchronise, true},
	{"copy-in", copy_in, true},
	{"copy-out", copy_out, true},
	{"copy-later", copy_later, true},
	{"allocate", allocate, true},
	{"load", load, true},
	{"host-function", host_function, true},
	{"record", record, true},
	{"graph", graph, true},
	{"threads", threads, true},
	{"wait-long", wait_long, false},
	{"wait-for-host", wait_for_host, false},
};

static void say(const char *call, CUresult r)
{
	const char *name = NULL;

	drv.cuGetErrorName(r, &name);
	printf("%s: %s\n", call, name ? name : "?");
}

static int begin(void)
{
	CUcontext context;
	CUmodule module;
	CUresult r = drv.cuInit(0);

	kernels = kernels_read();
	r = r ? r : drv.cuCtxCreate_v2(&context, 0, 0);
	r = r ? r : drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	r = r ? r : drv.cuEventCreate(&event, 0);
	r = r ? r : drv.cuMemAlloc_v2(&memory, 64 << 20);
	r = r ? r : drv.cuMemHostAlloc((void **)(uintptr_t)&locked, N, 0);
	r = r ? r : drv.cuModuleLoadData(&module, kernels);
	r = r ? r : drv.cuModuleGetFunction(&spin, module, "spin_ns");
	pageable = malloc(N);
	if (r)
		say("begin", r);
	return r || !pageable ? 1 : 0;
}

static void *last_one(void *context)
{
	usleep(200000);
	if (!drv.cuCtxSetCurrent(context) && !launch() && !drv.cuStreamSynchronize(stream))
		puts("done");
	return NULL;
}

static _Noreturn void leave(void)
{
	CUcontext context = NULL;
	pthread_t thread;

	if (drv.cuCtxGetCurrent(&context) || pthread_create(&thread, NULL, last_one, context))
		exit(1);
	puts("going");
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	CUresult r = CUDA_SUCCESS;
	bool has_said = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!driver_open() || begin())
		return 1;
	if (argc == 2 && !strcmp(argv[1], "leave"))
		leave();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (argc != 2 || strcmp(calls[i].name, argv[1]))
			continue;
		while (!r) {
			if (!has_said && !calls[i].comes_back)
				puts("going");
			r = calls[i].call();
			if (!has_said && calls[i].comes_back && !r)
				puts("going");
			has_said = true;
		}
		say(argv[1], r);
		say("cuMemAlloc", drv.cuMemAlloc_v2(&memory, 4096));
		say("cuCtxSynchronize", drv.cuCtxSynchronize());
		return 1;
	}
	fprintf(stderr, "usage: caller CALL\n");
	return 2;
}
