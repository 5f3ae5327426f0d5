/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we need of libdl and libpthread, found at run time: the real functions behind the ones that
 * we interpose, and no dependency on libraries that a bash would have to open. Resolved on first
 * use; idempotent, any thread, no lock of ours. errno may change.
 */
#ifndef HOOK_SYSTEM_H
#define HOOK_SYSTEM_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/elf.h"

struct link_map;

typedef int pthread_create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct system {
	void *(*dlopen)(const char *, int);
	void *(*dlsym)(void *, const char *);
	int (*dlclose)(void *);
	char *(*dlerror)(void);
	int (*dladdr1)(const void *, Dl_info *, void **, int);
	int (*pthread_attr_init)(pthread_attr_t *);
	int (*pthread_attr_setstacksize)(pthread_attr_t *, size_t);
	int (*pthread_attr_setdetachstate)(pthread_attr_t *, int);
	pthread_create_fn *pthread_create;
};

/*
 * Never NULL, but its functions may be: a process without libdl on glibc before 2.34 lacks pthread.
 */
const struct system *system_get(void);

/* The handle (as dlopen returns it) of the object that holds `address`; NULL if unknown. */
void *system_handle_of(const void *address);

#define SYSTEM_PATH 4096u

/*
 * Finds the library `soname` where the loader would, but one that is not ours (by build-id), and
 * opens it by its absolute path, RTLD_LOCAL. An administrator's word goes first and alone:
 * $DIVVY_DRIVER, a folder, or the first line of /etc/divvy/driver, a folder. NULL if there is none.
 */
void *system_open_real(const char *soname, char ret_path[static SYSTEM_PATH]);

/*
 * Functions that a libc may lack under the name that ours gives them: a preloaded library that
 * lacks one symbol keeps its program from starting. As in libc, -1 with errno on an error.
 */
static inline int fd_control(int fd, int command, long argument)
{
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

static inline int fd_stat(int fd, struct stat *ret_stat)
{
	return (int)syscall(SYS_fstat, fd, ret_stat);
}

#endif
