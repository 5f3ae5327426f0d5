/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine: devices, costs and faults. The engine reads them once at its start, and
 * reads faults again on demand. The functions are pure, except simgpu_config_load(), which reads
 * files and the environment.
 *
 * The config file has lines `key = value`; # begins a comment:
 *   devices = 2xH200-141Gi,1xTest-1Gi     count x model - memory; count and memory are optional
 *   cost.switch_us = 450                  any key of costs.def
 *   link.0.1 = 18                         NVLinks between two devices
 *   numa.1 = 1
 *   trace.records = 2097152
 *   account.records = 1048576
 *   compute = auto                        off: kernels only take time; require: all need PTX
 *   linger = 1s                           after the last client; "stay = yes": for ever
 *   fault = oom device=0 nth=5            like a line of the faults file
 *
 * The faults file has one fault on each line:
 *   oom device=0 nth=5 [count=1]          the nth allocation from now on fails, and count-1 more
 *   ecc device=0 after=100 | at=2s        after that many kernels, or that time after the start
 *   lost device=0 after=100 | at=2s
 *   xid device=0 code=79 after=100 | at=2s [pid=123] [action=reset]
 *                                         the driver reports that Xid; work continues
 *   reset device=0 at=2s                  the device is reset: it is not lost, and needs no reset
 *   hang device=0 after=100               the kernel after that many never ends
 *   slow device=0 factor=3 [after=100]    kernels take that many times as long (1 to 1000)
 *
 * Functions return 0, or -errno with a message in *err.
 */
#ifndef SIMGPU_SIMGPU_CONFIG_H
#define SIMGPU_SIMGPU_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "simgpu/simgpu-proto.h"

struct simgpu_costs {
#define COST(field, key, scale, value, comment) uint64_t field;
#include "simgpu/costs.def"
#undef COST
};

struct simgpu_model {
	char name[SIMGPU_NAME_MAX];
	uint32_t sm_count, cc_major, cc_minor;
	uint64_t mem_bytes;
	uint64_t mem_rate; /* bytes/s */
	uint64_t gflops;
	uint32_t pci_id;
	uint32_t clock_khz, mem_clock_khz, mem_bus_bits, l2_bytes, power_mw;
	uint32_t nvlinks; /* total number of NVLinks; 0: none */
};

enum simgpu_fault_kind {
	SIMGPU_FAULT_OOM,
	SIMGPU_FAULT_ECC,
	SIMGPU_FAULT_LOST,
	SIMGPU_FAULT_HANG,
	SIMGPU_FAULT_SLOW,
	SIMGPU_FAULT_XID,
	SIMGPU_FAULT_RESET,
	SIMGPU_FAULT_KINDS,
};

#define SIMGPU_MAX_FAULTS 64

struct simgpu_fault {
	enum simgpu_fault_kind kind;
	uint32_t device;
	/*
	 * Number of kernels that come before the fault; for oom, number of allocations (nth - 1).
	 */
	uint64_t after;
	uint64_t at_ns; /* time after the engine's start; 0: not by time */
	/* Oom: number of failing allocations; slow: factor; xid: number of the Xid. */
	uint64_t count;
	uint32_t pid;    /* xid: process that the kernel log names; 0: of the kernel, or none */
	uint32_t action; /* xid: the recovery action that the driver then asks for; 0: none */
	bool done;
};

struct simgpu_faults {
	struct simgpu_fault v[SIMGPU_MAX_FAULTS];
	uint32_t n;
};

struct simgpu_config {
	struct simgpu_model devices[SIMGPU_MAX_DEVICES];
	uint32_t n;
	uint32_t numa[SIMGPU_MAX_DEVICES];
	uint32_t links[SIMGPU_MAX_DEVICES][SIMGPU_MAX_DEVICES];
	struct simgpu_costs costs;
	struct simgpu_faults faults;
	uint64_t trace_records, account_records;
	uint64_t linger_ns;
	bool stay;
	enum simgpu_compute compute;
};

/* Sets one H200 with 141 GiB and the default costs. */
void simgpu_config_init(struct simgpu_config *c);
int simgpu_config_parse_devices(struct simgpu_config *c, struct str spec, struct error *err);
/* Parses a text such as "switch_us=450,slice_us=1000". */
int simgpu_config_parse_costs(struct simgpu_costs *c, struct str text, struct error *err);
int simgpu_config_parse_faults(struct simgpu_faults *f, struct str text, struct error *err);
/* Checks that all faults name an existing device. */
int simgpu_faults_check(const struct simgpu_faults *f, uint32_t devices, struct error *err);
int simgpu_config_parse(struct simgpu_config *c, struct str text, struct error *err);
/*
 * Reads DIR/config and DIR/faults if they exist, then the environment (SIMGPU_ENV_*), then
 * `devices` (may be NULL).
 */
int simgpu_config_load(
	struct simgpu_config *c, const char *dir, const char *devices, struct error *err);

#endif
