/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the program calls CUDA, so that a sanitizer's run time sees both the thread and the
 * calls. Prints "fine" and exits with 3. tests/builds.py compiles it under each sanitizer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *arg)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
	int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(
		cuda, "cuCtxCreate_v2");
	int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(
		cuda, "cuMemAlloc_v2");
	int (*sync)(void) = (int (*)(void))dlsym(cuda, "cuCtxSynchronize");
	int (*release)(uint64_t) = (int (*)(uint64_t))dlsym(cuda, "cuMemFree_v2");
	uint64_t p = 0;
	Dl_info info;

	if (!dladdr((void *)init, &info) || !strstr(info.dli_fname, "libdivvy-"))
		puts("another library");
	else if (init(0) || create(&context, 0, 0) || alloc(&p, 1 << 22) || sync() || release(p))
		puts("a call failed");
	else
		puts("fine");
	return arg;
}

int main(void)
{
	char *p = malloc(100);
	pthread_t thread;

	memset(p, 1, 100);
	free(p);
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	return 3;
}
