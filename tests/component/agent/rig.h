/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon of the test's own, in a folder of its own, with fake devices. What fails here ends the
 * test program.
 */
#ifndef TESTS_COMPONENT_AGENT_RIG_H
#define TESTS_COMPONENT_AGENT_RIG_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct rig {
	char folder[64];
	char socket[108];
	char processes[96]; /* what the devices say: see fake-nvml.c */
	pid_t daemon;
	unsigned int files_max; /* the daemon's limit of descriptors; 0: the test's own */
};

/* args: up to a NULL, after `--simulate SPEC-80Gi`. */
void rig_start(struct rig *rig, const char *simulate, const char *const *args);
/* The same, with a limit of descriptors of its own. */
void rig_start_with_files(
	struct rig *rig, const char *simulate, const char *const *args, unsigned int files_max);
/* Again in the same folder. */
void rig_restart(struct rig *rig, const char *simulate, const char *const *args);
/*
 * Another daemon in the same folder (--replace, or one too many); its exit status, -1 if it
 * serves.
 */
int rig_another(struct rig *rig, const char *simulate, const char *const *args, pid_t *ret_pid);
/* SIGKILL, reaped. */
void rig_kill(struct rig *rig);
/* SIGTERM; must end with 0 and leave no file but state. Removes the folder. */
void rig_stop(struct rig *rig);

/* A control request; the caller owns the answer. `format` as json_pack. */
json_t *rig_ask(struct rig *rig, const char *format, ...);
/* The same, must be ok. */
json_t *rig_do(struct rig *rig, const char *format, ...);
/* Makes a tenant of the test's own process; returns its id. spec: a JSON text. */
int rig_tenant(struct rig *rig, const char *spec, char ret_secret[static 33]);
/* Member by path "a.0.b"; dies when there is none. */
const json_t *rig_get(const json_t *json, const char *path);
long long rig_number(const json_t *json, const char *path);
const char *rig_text(const json_t *json, const char *path);

/* The exit status of a child. */
int rig_wait(pid_t pid);

/* Repeats until fn says true; false after that time. */
bool rig_until(bool (*fn)(void *data), void *data, int timeout_ms);

#endif
