/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for tests that use libcuda.so.1 like programs: they open it by name at run time, and a
 * table has every entry of cuda.def. Each part of a test runs in a process of its own, so that a
 * sticky error, a fork or a crash stays there. All parts report through one shared TAP counter. The
 * simulated machine's folder belongs to the test and is removed at the end.
 */
#ifndef TESTS_COMPONENT_SIMGPU_DRIVER_H
#define TESTS_COMPONENT_SIMGPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda/proto.h"

struct driver {
#define CU(abi, since, variant, action, stream, params, args, ...) PFN_##abi *abi;
#include "cuda/cuda.def"
#undef CU
};
extern struct driver drv;

/* Fills `drv` from the libcuda.so.1 that the loader finds. False: it finds none. */
bool driver_open(void);

/* Makes a machine for this test; formats as in $DIVVY_SIM_DEVICES and $DIVVY_SIM_COSTS. */
void machine_begin(const char *devices, const char *costs);
const char *machine_dir(void);
/* True if libcuda.so.1 is the remote one ($DIVVY_TEST_SERVER names its server). */
bool is_remote(void);
void machine_end(void);

/* TAP lines, numbered across processes. */
void tap_begin(void);
bool tap_ok(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned tap_failures(void);
void tap_end(void);

/* Runs a part in a child process and waits for the child; a child that dies counts as a failure. */
void part_run(const char *name, void (*part)(void));
/*
 * Like part_run(), but part_start() does not wait. part_wait() returns whether the child exited
 * with 0.
 */
pid_t part_start(void (*part)(void *), void *argument);
bool part_wait(pid_t pid);

/* A whole program that only has parts: makes a machine, runs each part, prints the summary. */
struct part {
	const char *name;
	void (*part)(void);
};
int parts_main(const char *devices, const char *costs, const struct part *parts, size_t n);

/* Compares the result with CUDA_SUCCESS (or code) and reports it as a TAP line. */
#define OK(expression) expect_result(CUDA_SUCCESS, expression, #expression, __LINE__)
#define EXPECT(code, expression) expect_result(code, expression, #expression, __LINE__)
bool expect_result(CUresult expected, CUresult got, const char *text, int line);
/* For steps that the test does not examine: prints only a failure, which ends the part. */
#define NEED(expression) need_result(expression, #expression, __LINE__)
void need_result(CUresult got, const char *text, int line);

/* set by --real: differences from the documentation are listed and do not fail the test */
extern bool driver_is_real;

/* Does what most parts begin with: cuInit(), a context on device 0, and the test kernels. */
CUcontext begin_context(void);
CUmodule load_kernels(void);
CUdeviceptr device_memory(size_t bytes);
CUstream new_stream(void); /* non-blocking */
const char *kernels_text(void);
CUfunction kernel_get(CUmodule module, const char *name);

#endif
