// SPDX-License-Identifier: Apache-2.0
/*
 * The process that keeps a pod's namespaces: it waits, reaps orphaned processes, and ends at SIGINT
 * or SIGTERM. It is the first process of its pid namespace, where a signal without a handler has no
 * effect.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int sig)
{
	_exit(0);
}

static void reap(int sig)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(void)
{
	static const struct {
		int number;
		void (*handler)(int);
	} signals[] = {{SIGINT, end}, {SIGTERM, end}, {SIGCHLD, reap}};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction action = {.sa_handler = signals[i].handler};

		if (sigaction(signals[i].number, &action, NULL) < 0)
			return 1;
	}
	for (;;)
		pause();
}
