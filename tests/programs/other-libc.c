/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program as a shell does: itself, with "child". The child looks names up, starts a thread
 * and asks for a GPU; a driver exists only for glibc. Prints its findings; exits with 5.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *arg)
{
	return arg;
}

static int child(void)
{
	void *self = dlopen(NULL, RTLD_NOW), *cuda;
	int (*init)(unsigned int) = NULL;
	pthread_t thread;

	if (!self || !dlsym(self, "printf") || !dlsym(RTLD_NEXT, "printf"))
		return 1;
	if (dlsym(self, "nobody_has_this") || !dlerror() ||
		dlopen("libnobody-has-this.so", RTLD_NOW))
		return 2;
	if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
		return 3;
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (cuda)
		init = (int (*)(unsigned int))dlsym(cuda, "cuInit");
	printf("cuInit: %d\n", init ? init(0) : -1);
	return 5;
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t pid;

	if (argc > 1 && !strcmp(argv[1], "child"))
		return child();
	pid = fork();
	if (pid == 0) {
		execl(argv[0], argv[0], "child", (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 4;
	return WEXITSTATUS(status);
}
