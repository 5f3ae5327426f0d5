/* SPDX-License-Identifier: Apache-2.0 */
/*
 * register N FILE: starts N processes of one tenant that have loaded the driver's library by name
 * and wait until FILE appears. Then each initialises the driver, which registers it with the
 * daemon. Prints "ready" when all wait; exits 0 when all got a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/programs/cuda-min.h"

/*
 * Reports that it is ready, waits until the other end of `go` is closed, then initialises the
 * driver.
 */
static int child(int go, int ready)
{
	int count = 0;
	char c;

	cuda_open("register");
	if (write(ready, "r", 1) != 1 || read(go, &c, 1) != 0)
		return 1;
	cuda_check(cuda.init(0), "cuInit");
	cuda_check(cuda.device_count(&count), "devices");
	return count > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const long n = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	int ready[2], go[2], failed = 0, status;
	char c;

	if (n <= 0 || n > 100000) {
		fputs("usage: register N FILE\n", stderr);
		return 2;
	}
	if (pipe(ready) < 0 || pipe(go) < 0) {
		perror("register: pipe");
		return 1;
	}
	for (long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("register: fork");
			return 1;
		}
		if (pid == 0) {
			close(go[1]);
			_exit(child(go[0], ready[1]));
		}
	}
	for (long i = 0; i < n; i++)
		if (read(ready[0], &c, 1) != 1)
			return 1;
	puts("ready");
	fflush(stdout);
	while (access(argv[2], F_OK) < 0)
		clock_sleep_until_ns(clock_now_ns() + NSEC_PER_MSEC);
	close(go[1]);
	for (long i = 0; i < n; i++)
		failed += wait(&status) < 0 || status != 0;
	return failed ? 1 : 0;
}
