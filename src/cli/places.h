/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things are: the daemon's socket, its program, the hook libraries. Looked for beside the
 * running divvy first, so that a build folder and an installed tree both work as they are. One
 * thread.
 */
#ifndef CLI_PLACES_H
#define CLI_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define PLACES_PATH 4096

/* $DIVVY_SOCKET; NULL where it is not set, or empty. */
const char *places_socket_named(void);

/* The i-th place to look for a socket; false when there is none further. */
bool places_socket(size_t i, char *ret_path, size_t size);

/* Where a daemon that this user starts puts its socket and log: see docs/control-protocol.md. */
int places_runtime(char *ret_path, size_t size, struct error *err);

/* $DIVVYD, beside divvy, the build's, the installed one. -ENOENT with what was looked for. */
int places_daemon(char *ret_path, size_t size, struct error *err);

/* A hook library ("libdivvy-cuda.so") by absolute path: in $DIVVY_HOOKS, the build's, installed. */
int places_hook(const char *library, char *ret_path, size_t size, struct error *err);

/* -EINVAL with what to do, where LD_PRELOAD cannot name that file. */
int places_check_preload(const char *path, struct error *err);

#define PLACES_PRELOAD (3u * PLACES_PATH)

/*
 * What LD_PRELOAD is to be: those two libraries, by their paths, then what stands there, without
 * libraries of ours that are from a divvy run around this one.
 */
void places_preload(const char *cuda, const char *nvml, struct buf *out);

#endif
