/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon for one test, in its own folder, with fake devices. A failure here ends the test
 * program.
 */
#ifndef TESTS_COMPONENT_AGENT_RIG_H
#define TESTS_COMPONENT_AGENT_RIG_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct rig {
	char folder[64];
	char socket[108];
	char processes[96]; /* the file with the devices' processes: see fake-nvml.c */
	pid_t daemon;
	unsigned int files_max; /* the daemon's limit of descriptors; 0: as the test's */
};

/* Starts the daemon with `--simulate SIMULATE` and `args`, which ends with NULL. */
void rig_start(struct rig *rig, const char *simulate, const char *const *args);
/* As rig_start(), with a limit of descriptors for the daemon. */
void rig_start_with_files(
	struct rig *rig, const char *simulate, const char *const *args, unsigned int files_max);
/* Starts a daemon in the same folder again. */
void rig_restart(struct rig *rig, const char *simulate, const char *const *args);
/*
 * Starts a further daemon in the same folder: with --replace, or without, which must fail. Returns
 * its exit status, or -1 if it serves.
 */
int rig_another(struct rig *rig, const char *simulate, const char *const *args, pid_t *ret_pid);
/* Kills the daemon by SIGKILL and reaps it. */
void rig_kill(struct rig *rig);
/*
 * Ends the daemon by SIGTERM. It must exit with 0 and leave only its state files. Removes the
 * folder.
 */
void rig_stop(struct rig *rig);

/* Sends a control request, with `format` as for json_pack. The caller owns the answer. */
json_t *rig_ask(struct rig *rig, const char *format, ...);
/* As rig_ask(); the answer must be ok. */
json_t *rig_do(struct rig *rig, const char *format, ...);
/* Makes a tenant owned by the test's process and returns its id. `spec` is JSON. */
int rig_tenant(struct rig *rig, const char *spec, char ret_secret[static 33]);
/* Returns a member by its path, as "a.0.b"; without such a member the test ends. */
const json_t *rig_get(const json_t *json, const char *path);
long long rig_number(const json_t *json, const char *path);
const char *rig_text(const json_t *json, const char *path);

/* Reaps a child and returns its exit status. */
int rig_wait(pid_t pid);

/* Repeats fn until it returns true; false after the time limit. */
bool rig_until(bool (*fn)(void *data), void *data, int timeout_ms);

#endif
