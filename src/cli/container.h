/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites a container engine's command line so that the container becomes a tenant. The container
 * mounts the folder of the programs' socket read-only, so that the container also finds the next
 * daemon there. The container never mounts the daemon's own folder, which has the secrets of all
 * tenants. Its mounts of the interception libraries are read-only. Environment variables pass by
 * name, so that no argument list shows the secret. Devices are added by CDI name if the engine's
 * host has CDI specifications. Pure except container_has_cdi(). One thread.
 */
#ifndef CLI_CONTAINER_H
#define CLI_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define CONTAINER_ARGS_MAX 512
#define CONTAINER_DEVICES_MAX 16
#define CONTAINER_RUNTIMES 2
/* Paths in the container. */
#define CONTAINER_RUNTIME "/run/divvy"
#define CONTAINER_HOOKS "/opt/divvy"

struct container_plan {
	const char *engine;                /* docker, podman, nerdctl */
	const char *programs_folder;       /* host folder with nothing but the programs' socket */
	const char *hook_cuda, *hook_nvml; /* files of the host */
	const char *sim_folder, *driver_folder;  /* simulated devices; NULL: real ones */
	const char *runtime[CONTAINER_RUNTIMES]; /* divvy's CUDA runtimes, for simulated devices */
	size_t n_runtimes;
	const char *uuid[CONTAINER_DEVICES_MAX];
	size_t n_uuids;
	bool has_cdi;
};

struct container_args {
	char *argv[CONTAINER_ARGS_MAX + 1]; /* NULL-terminated; each on the heap */
	size_t n;
};

void container_args_done(struct container_args *args);

/*
 * Checks a command of any engine: "run ...", "container run ..." or "create ...". `given` may begin
 * with the engine's name and options. -EINVAL: the command makes no container, or names no image.
 */
int container_check(const char *engine, char *const *given, struct error *err);

/* The image of "run" or "create", if the options before it are known; NULL: none. */
const char *container_image(const char *engine, char *const *given);

/*
 * Inserts divvy's options directly after the verb, so that the user's options override them. An
 * LD_PRELOAD of the user follows divvy's libraries. Errors of container_check(), and -E2BIG.
 */
int container_rewrite(const struct container_plan *plan, char *const *given,
	struct container_args *ret, struct error *err);

/*
 * Returns whether the engine's command ends before the container does: "create", or "run" with
 * option -d, alone or among other letters.
 */
bool container_outlives(const char *engine, char *const *given);

/* Returns whether the usual folders have CDI specifications of NVIDIA devices. */
bool container_has_cdi(void);

/* Writes arguments as a shell would read them, for people. */
void container_format(char *const *argv, struct buf *out);

#endif
