/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that does not answer, for LD_PRELOAD. While the file DIVVY_TEST_DISK exists, fsync(2)
 * waits and makes the file DIVVY_TEST_DISK.waits.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int fsync(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	const char *disk = getenv("DIVVY_TEST_DISK");
	const struct timespec pause = {0, 10000000};
	char waits[4096];

	while (disk && access(disk, F_OK) == 0) {
		snprintf(waits, sizeof(waits), "%s.waits", disk);
		close(open(waits, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		nanosleep(&pause, NULL);
	}
	return real(fd);
}
