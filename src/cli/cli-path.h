/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of the daemon's socket, its program and the interception libraries. The search begins in
 * the folders beside the running divvy, so a build folder and an installed tree both work. One
 * thread.
 */
#ifndef CLI_CLI_PATH_H
#define CLI_CLI_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define PLACES_PATH 4096

/* $DIVVY_SOCKET; NULL: not set, or empty. */
const char *cli_path_socket_named(void);

/* The i-th path to try for a socket; false: there are no more. */
bool cli_path_socket(size_t i, char *ret_path, size_t size);

/* Folder of the socket and log of a daemon that this user starts: see docs/control-protocol.md. */
int cli_path_runtime(char *ret_path, size_t size, struct error *err);

/*
 * Path of divvyd: $DIVVYD, beside divvy, in the build folder, or installed. -ENOENT: the message
 * lists the places that were searched.
 */
int cli_path_daemon(char *ret_path, size_t size, struct error *err);

/*
 * Absolute path of an interception library ("libdivvy-cuda.so"): in $DIVVY_HOOKS, the build folder,
 * or installed.
 */
int cli_path_hook(const char *library, char *ret_path, size_t size, struct error *err);

/* -EINVAL: LD_PRELOAD cannot name that file; the message says what to do. */
int cli_path_check_preload(const char *path, struct error *err);

/* divvy's CUDA runtimes, for simulated and remote devices. */
#define CLI_PATH_RUNTIMES 2u

struct cli_path_runtimes {
	char path[CLI_PATH_RUNTIMES][PLACES_PATH];
	size_t n;
};

/* Whether divvy's runtimes include this library, such as libcudart.so.13. */
bool cli_path_has_runtime(const char *soname);

/* Finds divvy's runtimes. A folder of $DIVVY_HOOKS may lack them: *ret then has none. */
void cli_path_runtimes(struct cli_path_runtimes *ret);

/* -EINVAL: LD_PRELOAD cannot name one of them, as for cli_path_check_preload(). */
int cli_path_check_runtimes(const struct cli_path_runtimes *runtimes, struct error *err);

#define PLACES_PRELOAD (5u * PLACES_PATH)

/*
 * The new value of LD_PRELOAD: the two libraries and the runtimes by path, then the old value
 * without the libraries of an outer `divvy run`. runtimes may be NULL.
 */
void cli_path_preload(const char *cuda, const char *nvml, const struct cli_path_runtimes *runtimes,
	struct buf *out);

/*
 * The new value of LD_LIBRARY_PATH: a folder beside the library `cuda` that has the libraries by
 * the names libcuda.so and libnvidia-ml.so, then the old value without the folders of an outer
 * `divvy run`. A module that a program loads with RTLD_DEEPBIND calls the C library's dlopen(),
 * which the interception library cannot see, and a remote program's dlopen() is the C library's
 * anyway. Returns false and writes nothing if there is no such folder.
 */
bool cli_path_library_path(const char *cuda, struct buf *out);

#endif
