/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the hook's tests. The test programs link the stub driver and run with the hook
 * preloaded, so that every cu* symbol is the hook's. Each scenario runs in a child process,
 * together with a thread that acts as its daemon.
 */
#ifndef TESTS_COMPONENT_HOOK_RIG_H
#define TESTS_COMPONENT_HOOK_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cuda/proto.h"
#include "fake-daemon.h"

/* cmocka.h is last, because it has a macro named fail */
#include <cmocka.h>

#define GiB (UINT64_C(1) << 30)
#define MiB (UINT64_C(1) << 20)
#define CONTEXT_BYTES (256 * MiB)

/* Fills the options that most tests use: one device, open gates, a quota of 8 GiB. */
void rig_options(struct fake_options *ret_options);

/*
 * Starts a daemon at a path of this test and sets DIVVY_SOCKET to this path. Returns NULL after a
 * line on stderr.
 */
struct fake_daemon *rig_start(const struct fake_options *options);
void rig_stop(struct fake_daemon *daemon);
/* Folder of the current scenario. rig_child() removes it, with its files, after the scenario. */
const char *rig_folder(void);

/* Calls cuInit and returns a new context on device 0. */
CUcontext rig_context(void);

/* Bytes that the daemon charges to the tenant on the device. */
uint64_t rig_charged(struct fake_daemon *daemon, uint32_t device);

/* Runs fn in a child that has not called CUDA. The test fails unless fn returns 0 within 60 s. */
void rig_child(int (*fn)(void *), void *arg);

/* For a scenario: prints a condition that does not hold, and returns 1. */
#define check(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			return 1; \
		} \
	} while (0)

#endif
