/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the hook share. They are linked with the stub driver and run with the hook
 * preloaded, so that every cu* symbol is the hook's. A scenario runs in a process of its own,
 * together with its daemon, which is a thread there.
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

/* last: it has a macro named fail */
#include <cmocka.h>

#define GiB (UINT64_C(1) << 30)
#define MiB (UINT64_C(1) << 20)
#define CONTEXT_BYTES (256 * MiB)

/* Options as most tests want them: one device, gates open, 8 GiB. */
void rig_options(struct fake_options *ret_options);

/*
 * A daemon at a path of this test's own, which DIVVY_SOCKET then names. NULL with a line on stderr.
 */
struct fake_daemon *rig_start(const struct fake_options *options);
void rig_stop(struct fake_daemon *daemon);
/* The scenario's own, removed with the files in it when it has ended. */
const char *rig_folder(void);

/* cuInit and a context on device 0. */
CUcontext rig_context(void);

/* What the tenant is charged on the device, in bytes. */
uint64_t rig_charged(struct fake_daemon *daemon, uint32_t device);

/*
 * Runs fn in a child that has not touched CUDA; the test fails unless it returns 0 there within 60
 * s.
 */
void rig_child(int (*fn)(void *), void *arg);

/* For a scenario: says what was not so, and returns 1. */
#define check(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			return 1; \
		} \
	} while (0)

#endif
