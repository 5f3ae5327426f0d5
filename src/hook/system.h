/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of libdl and libpthread, found at run time: the real functions behind the interposed
 * ones. At link time the library does not depend on libdl and libpthread, which even bash would
 * then load. Each function is resolved at its first use, perhaps by several threads. Any thread;
 * takes no lock of this library. errno may change.
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
 * Never NULL, but its members may be: a process without libdl on glibc before 2.34 lacks pthread
 * functions.
 */
const struct system *system_get(void);

/* The handle (as from dlopen) of the object that contains `address`; NULL: unknown. */
void *system_handle_of(const void *address);

#define SYSTEM_PATH 4096u

/*
 * Finds the library `soname` where the loader would, but not this library (by build-id), and opens
 * it by its absolute path with RTLD_LOCAL. If an administrator names a folder, in $DIVVY_DRIVER or
 * in the first line of /etc/divvy/driver, only that folder is searched. NULL: none.
 */
void *system_open_real(const char *soname, char ret_path[static SYSTEM_PATH]);

/*
 * System calls whose wrappers have other names in some libc. A preloaded library that lacks one
 * symbol keeps its program from starting. The functions return -1 and set errno on an error, as in
 * libc.
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
