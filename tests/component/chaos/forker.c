/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forker: a program that forks in every way while it uses a device.
 * usage: forker before        the parent forks before its first CUDA call: both use CUDA
 *        forker after         the parent has used CUDA: the driver refuses its children's calls
 *        forker threads N     two threads submit while two others fork N times: children exit at
 *                             once, run a program, or exec another program that uses CUDA
 *        forker twice N       a chain of N programs, each replaced by the next with exec
 *        forker work          uses a device once
 * Prints one line for each result. An unexpected failure of a driver call ends the program.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda-min.h"
#include "kernels.h"

#define KERNEL_NS UINT64_C(100000)

extern char **environ;

static cu_handle context, function;
static _Atomic bool is_over;
static _Atomic int launches;

static void prepare(void)
{
	char *text = kernels_read();
	cu_handle module = NULL;

	cuda_check(cuda.init(0), "cuInit");
	cuda_check(cuda.ctx_create(&context, 0, 0), "context");
	cuda_check(cuda.module_load(&module, text), "module");
	free(text);
	cuda_check(cuda.module_function(&function, module, "spin_ns"), "function");
}

static void launch(cu_handle stream)
{
	uint64_t ns = KERNEL_NS;
	void *params[] = {&ns};

	cuda_check(cuda.launch(function, 16, 1, 1, 32, 1, 1, 0, stream, params, NULL), "launch");
	atomic_fetch_add(&launches, 1);
}

static void work(void)
{
	cu_pointer p = 0;

	prepare();
	cuda_check(cuda.mem_alloc(&p, 4 << 20), "allocation");
	for (int i = 0; i < 40; i++)
		launch(NULL);
	cuda_check(cuda.ctx_synchronize(), "synchronise");
	cuda_check(cuda.mem_free(p), "free");
	cuda_check(cuda.ctx_destroy(context), "destroy");
}

static void await(pid_t pid, int expected)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("forker: child");
		exit(1);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) {
		fprintf(stderr, "forker: a child ended with status %#x, expected exit %d\n",
			(unsigned int)status, expected);
		exit(1);
	}
}

static void before(void)
{
	pid_t pid = fork();

	work();
	if (!pid)
		_exit(7);
	await(pid, 7);
	puts("both worked");
}

static void after(void)
{
	for (int i = 0; i < 4; i++) {
		pid_t pid;

		if (!i)
			prepare();
		launch(NULL);
		pid = fork();
		if (!pid) {
			uint64_t ns = KERNEL_NS;
			void *params[] = {&ns};
			cu_pointer p = 0;

			/* any answer of the driver is right here */
			if (!cuda.init(0) || !cuda.mem_alloc(&p, 4096) ||
				!cuda.launch(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL))
				_exit(1);
			_exit(7);
		}
		await(pid, 7);
	}
	cuda_check(cuda.ctx_synchronize(), "synchronise");
	puts("children were refused");
}

static void *submit(void *arg)
{
	cu_handle stream = NULL;

	cuda_check(cuda.ctx_set(context), "context of a thread");
	cuda_check(cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING), "stream");
	while (!atomic_load(&is_over)) {
		for (int i = 0; i < 8; i++)
			launch(stream);
		cuda_check(cuda.stream_synchronize(stream), "synchronise");
	}
	return NULL;
}

static void run_true(void)
{
	char *argv[] = {(char *)(uintptr_t) "true", NULL};
	pid_t pid = -1;

	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ))
		pid = -1;
	await(pid, 0);
}

static void become_another(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/proc/self/exe", "forker", "work", (char *)NULL);
		_exit(126);
	}
	await(pid, 0);
}

static void *fork_often(void *arg)
{
	for (int i = 0; i < *(const int *)arg; i++) {
		pid_t pid;

		switch (i % 4) {
		case 0:
		case 1:
			pid = fork();
			if (!pid)
				_exit(3);
			await(pid, 3);
			break;
		case 2: run_true(); break;
		default: become_another();
		}
	}
	return NULL;
}

static void threads(int n)
{
	pthread_t submitter[2], forker[2];

	prepare();
	for (int i = 0; i < 2; i++) {
		if (pthread_create(&submitter[i], NULL, submit, NULL) ||
			pthread_create(&forker[i], NULL, fork_often, &n)) {
			perror("forker: thread");
			exit(1);
		}
	}
	for (int i = 0; i < 2; i++)
		pthread_join(forker[i], NULL);
	atomic_store(&is_over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(submitter[i], NULL);
	cuda_check(cuda.ctx_synchronize(), "synchronise");
	printf("launched %s\n", atomic_load(&launches) > 0 ? "throughout" : "nothing");
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
	char text[16];

	cuda_open("forker");
	if (!strcmp(way, "before")) {
		before();
	} else if (!strcmp(way, "after")) {
		after();
	} else if (!strcmp(way, "threads")) {
		threads(n);
	} else if (!strcmp(way, "twice")) {
		prepare();
		launch(NULL);
		if (n > 1) {
			snprintf(text, sizeof(text), "%d", n - 1);
			execl("/proc/self/exe", "forker", "twice", text, (char *)NULL);
			return 126;
		}
		cuda_check(cuda.ctx_synchronize(), "synchronise");
		puts("the last one worked");
	} else if (!strcmp(way, "work")) {
		work();
	} else {
		fputs("usage: forker before|after|threads N|twice N|work\n", stderr);
		return 2;
	}
	return 0;
}
