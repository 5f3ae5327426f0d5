/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's management library, opened at run time. This is the one place that knows
 * nvmlReturn_t: answers are translated here. nvml_open() never opens divvy's own interception
 * library, which would show a tenant's view. All functions may block, and any thread may call them,
 * also while another thread is in nvml_reopen(); only nvml_open() and nvml_close() need the library
 * for themselves. With a NULL library all queries fail with -EIO.
 */
#ifndef DRIVER_DRIVER_NVML_H
#define DRIVER_DRIVER_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct nvml;
typedef void *nvml_handle;

/* How GPU kernels access ordinary memory of their process. */
enum nvml_host_access {
	NVML_HOST_ACCESS_UNKNOWN, /* drivers before 580 do not answer */
	NVML_HOST_ACCESS_NONE,
	NVML_HOST_ACCESS_HMM,
	NVML_HOST_ACCESS_ATS,
};

struct nvml_info {
	char uuid[96];
	char model[96];
	char pci[32];
	uint64_t memory_bytes;                 /* the driver's total */
	uint64_t usable_bytes;                 /* the total minus the driver's own reserve */
	const char *compute_mode;              /* "default", "exclusive", "prohibited" */
	const char *architecture;              /* "Hopper"; "": not known */
	uint32_t compute_major, compute_minor; /* CUDA's compute capability; 0: not known */
	bool has_mps;
	bool is_mig;
	char parent[96];
	int32_t numa;  /* the NUMA node with the nearest memory; -1: not known */
	int32_t minor; /* number of its device file; -1: not known */
	enum nvml_host_access host_access;
	uint32_t nvml_index;
	uint32_t gpu_instance; /* MIG's GPU instance; NVML_NO_INSTANCE: none, or not known */
	nvml_handle handle;
};
#define NVML_NO_INSTANCE UINT32_MAX

/* Recovery that the driver asks an administrator for, as nvmlDeviceGpuRecoveryAction_t. */
enum nvml_recovery {
	NVML_RECOVERY_NONE,
	NVML_RECOVERY_RESET,
	NVML_RECOVERY_REBOOT,
	NVML_RECOVERY_DRAIN_P2P,
	NVML_RECOVERY_DRAIN_AND_RESET,
	NVML_RECOVERY_UNKNOWN, /* drivers before R570 do not answer */
};

struct nvml_process {
	uint32_t pid;
	bool is_graphics;
	uint64_t used_bytes; /* NVML_UNKNOWN: the driver does not say */
};
#define NVML_UNKNOWN UINT64_MAX

/*
 * folder: holds libnvidia-ml.so.1; NULL: the loader's search path. -ENOENT: no library; -ENODEV:
 * the library finds no driver or no device.
 */
int nvml_open(const char *folder, struct nvml **ret_nvml, struct error *err);
void nvml_close(struct nvml *nvml);

const char *nvml_driver_version(const struct nvml *nvml);
/* The newest CUDA that the driver serves: 12080 is 12.8; 0: not known. */
uint32_t nvml_cuda_version(const struct nvml *nvml);

/* Lists the devices to share, with MIG instances in place of their parent. Returns their number. */
int nvml_list(struct nvml *nvml, struct nvml_info *ret_infos, size_t max, struct error *err);

/*
 * Ends the library's use of the driver and begins it again. A process that has lost a device cannot
 * reach the device again in another way. Afterwards nvml_find() gives the new handles; former ones
 * are invalid. Waits until nvml_await_xid() returns, and then for the driver; ret_took_ns is the
 * wait for the driver alone. -EIO: the driver has no device now. -ENOTSUP: the library cannot find
 * devices by UUID; the handles stay, and ret_took_ns is 0.
 */
int nvml_reopen(struct nvml *nvml, uint64_t *ret_took_ns);
/* Finds a device or MIG instance by its UUID. NULL: the driver does not reach it. */
nvml_handle nvml_find(struct nvml *nvml, const char *uuid);

/* Only a whole device answers, not a MIG instance. */
enum nvml_recovery nvml_recovery(struct nvml *nvml, nvml_handle handle);

/* Memory in use on the device by all processes. Returns 0 or -EIO. */
int nvml_used_bytes(struct nvml *nvml, nvml_handle handle, uint64_t *ret_bytes);

/* How near two devices are, nearest first. MIG instances have NVML_LINK_NONE. */
enum nvml_link { NVML_LINK_NVLINK, NVML_LINK_SWITCH, NVML_LINK_NUMA, NVML_LINK_NONE };
enum nvml_link nvml_link(struct nvml *nvml, nvml_handle a, nvml_handle b);

/*
 * Compute and graphics processes on the device. Returns their number, at most max. -ENODEV: the
 * device is lost; -EIO: other failures.
 */
int nvml_processes(
	struct nvml *nvml, nvml_handle handle, struct nvml_process *ret_processes, size_t max);

/* An Xid error that the driver reported. */
struct nvml_xid {
	char uuid[96];         /* UUID of the device, also for a MIG instance; "": not known */
	uint32_t gpu_instance; /* NVML_NO_INSTANCE: the Xid concerns the whole device */
	uint64_t xid;
	enum nvml_recovery recovery; /* what the driver asks for after the Xid */
};

/*
 * Collects the Xids of the device with this index for nvml_await_xid(). Call once for each index.
 * -ENOTSUP: the driver or the device reports none.
 */
int nvml_watch_xids(struct nvml *nvml, uint32_t nvml_index);
/*
 * Waits at most timeout_ms for the next Xid. Returns 1; 0 if there is none; -EIO, at once, if no
 * device is watched or the driver fails.
 */
int nvml_await_xid(struct nvml *nvml, uint32_t timeout_ms, struct nvml_xid *ret_xid);

#endif
