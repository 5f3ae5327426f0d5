/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container engine's command line, rewritten so that what runs inside is a tenant: the
 * programs' socket (by its folder, so that the next daemon's is found there; never the daemon's own
 * folder, which has everybody's secrets) and the hook libraries mounted read-only, the environment
 * passed by name (so that the secret stands in no argument list), the devices by CDI name where the
 * engine's host has them.
 * Pure but for container_has_cdi. One thread.
 */
#ifndef CLI_CONTAINER_H
#define CLI_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define CONTAINER_ARGS_MAX 512
#define CONTAINER_DEVICES_MAX 16
/* Where things are inside. */
#define CONTAINER_RUNTIME "/run/divvy"
#define CONTAINER_HOOKS "/opt/divvy"

struct container_plan {
	const char *engine;                     /* docker, podman, nerdctl */
	const char *programs_folder;            /* host folder with no more than their socket */
	const char *hook_cuda, *hook_nvml;      /* host files */
	const char *sim_folder, *driver_folder; /* simulated devices; NULL: real ones */
	const char *uuid[CONTAINER_DEVICES_MAX];
	size_t n_uuids;
	bool has_cdi;
};

struct container_args {
	char *argv[CONTAINER_ARGS_MAX + 1]; /* NULL-terminated, each on the heap */
	size_t n;
};

void container_args_done(struct container_args *args);

/*
 * `given`, of all functions: "run ...", "container run ..." or "create ...", behind options of the
 * engine itself and behind its name, if they are there. -EINVAL: a command that makes no container,
 * or no image.
 */
int container_check(const char *engine, char *const *given, struct error *err);

/* The image of "run" or "create", as far as the options before it are known; NULL: none. */
const char *container_image(const char *engine, char *const *given);

/*
 * What is ours comes first behind the verb, so that options of the user's win; but for a preload,
 * which is put behind ours. As container_check, and -E2BIG.
 */
int container_rewrite(const struct container_plan *plan, char *const *given,
	struct container_args *ret, struct error *err);

/*
 * Whether the engine's command ends before the container does: "create", or "run" with -d among its
 * options, alone or with other letters.
 */
bool container_outlives(const char *engine, char *const *given);

/* Whether the host has CDI specifications of NVIDIA devices in the usual folders. */
bool container_has_cdi(void);

/* For people: arguments that a shell would read back. */
void container_format(char *const *argv, struct buf *out);

#endif
