/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device for tests of the executor: memory of the test at its own addresses, one thread. Each run
 * loads a module, launches one kernel and returns the result.
 */
#ifndef TESTS_UNIT_PTX_PTX_MACHINE_H
#define TESTS_UNIT_PTX_PTX_MACHINE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ptx/ptx.h"
#include "unit.h"

enum { MACHINE_BYTES = 1 << 20, MACHINE_TEXT = 1 << 16 };

struct machine {
	struct ptx_device device;
	_Alignas(4096) uint8_t memory[MACHINE_BYTES];
	char printed[MACHINE_TEXT];
	size_t n_printed;
};

static struct machine machine;

static int machine_range(void *user, uint64_t address, struct ptx_range *ret_range)
{
	const uint64_t lo = (uint64_t)(uintptr_t)machine.memory;

	if (address < lo || address >= lo + MACHINE_BYTES)
		return -EFAULT;
	*ret_range = (struct ptx_range){lo, lo + MACHINE_BYTES, true};
	return 0;
}

static void machine_print(void *user, const char *text, size_t n)
{
	if (n > sizeof(machine.printed) - machine.n_printed - 1)
		n = sizeof(machine.printed) - machine.n_printed - 1;
	memcpy(machine.printed + machine.n_printed, text, n);
	machine.n_printed += n;
	machine.printed[machine.n_printed] = '\0';
}

static void machine_init(void)
{
	memset(&machine, 0, sizeof(machine));
	machine.device = (struct ptx_device){
		.range = machine_range,
		.print = machine_print,
		.sm_count = 4,
		.sm = 90,
		.steps_max = 50000000,
	};
}

static struct ptx *machine_load(const char *text)
{
	struct error err = {0};
	struct ptx *ptx = NULL;

	if (ptx_load(str_from(text), &(struct ptx_loading){.memory = machine.device.memory}, &ptx,
		    &err) < 0)
		fail_msg("%s", err.msg);
	return ptx;
}

/* Runs the first kernel. */
static struct ptx_result machine_run(const struct ptx *ptx, uint32_t grid, uint32_t block,
	uint32_t shared, const void *params, uint32_t param_bytes)
{
	struct ptx_launch launch = {
		.ptx = ptx,
		.grid = {grid, 1, 1},
		.block = {block, 1, 1},
		.shared_bytes = shared,
		.params = params,
		.param_bytes = param_bytes,
		.device = &machine.device,
	};
	struct ptx_result result;
	struct ptx_job *job;

	assert_ok(ptx_job_new(&launch, &job));
	ptx_job_work(job);
	result = ptx_job_result(job);
	ptx_job_free(job);
	return result;
}

#endif
