/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's management library, opened at run time: what the daemon asks of it, with its answers
 * translated into ours (the one place where nvmlReturn_t is known). Never our own interposed
 * library: that one would show a tenant's view. All functions may block; any thread. A
 * NULL library knows nothing (-EIO).
 */
#ifndef AGENT_NVML_H
#define AGENT_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct nvml;
typedef void *nvml_handle;

/* How kernels reach ordinary memory of their process. */
enum nvml_host_access {
	NVML_HOST_ACCESS_UNKNOWN, /* drivers before 580 do not say */
	NVML_HOST_ACCESS_NONE,
	NVML_HOST_ACCESS_HMM,
	NVML_HOST_ACCESS_ATS,
};

struct nvml_info {
	char uuid[96];
	char model[96];
	char pci[32];
	uint64_t memory_bytes;    /* as the driver counts it */
	uint64_t usable_bytes;    /* less what the driver keeps for itself */
	const char *compute_mode; /* "default", "exclusive", "prohibited" */
	bool has_mps;
	bool is_mig;
	char parent[96];
	int32_t numa;  /* the node whose memory is nearest; -1: not known */
	int32_t minor; /* of its device file; -1: not known */
	enum nvml_host_access host_access;
	uint32_t nvml_index;
	uint32_t gpu_instance; /* of MIG; NVML_NO_INSTANCE: none, or not known */
	nvml_handle handle;
};
#define NVML_NO_INSTANCE UINT32_MAX

struct nvml_process {
	uint32_t pid;
	bool is_graphics;
	uint64_t used_bytes; /* NVML_UNKNOWN: the driver does not say */
};
#define NVML_UNKNOWN UINT64_MAX

/*
 * folder: where libnvidia-ml.so.1 is; NULL: where the loader finds it. -ENOENT: there is none,
 * -ENODEV: it finds no driver or no device.
 */
int nvml_open(const char *folder, struct nvml **ret_nvml, struct error *err);
void nvml_close(struct nvml *nvml);

const char *nvml_driver_version(const struct nvml *nvml);

/* All devices that can be shared: MIG instances in place of their parent. Returns how many. */
int nvml_list(struct nvml *nvml, struct nvml_info *ret_infos, size_t max, struct error *err);

/* Memory in use on the device, by all. 0 or -EIO. */
int nvml_used_bytes(struct nvml *nvml, nvml_handle handle, uint64_t *ret_bytes);

/* How near two devices are, the nearest first. Instances of MIG are told no link. */
enum nvml_link { NVML_LINK_NVLINK, NVML_LINK_SWITCH, NVML_LINK_NUMA, NVML_LINK_NONE };
enum nvml_link nvml_link(struct nvml *nvml, nvml_handle a, nvml_handle b);

/*
 * Compute and graphics processes on the device; returns how many (at most max); -ENODEV: the device
 * is lost; else -EIO.
 */
int nvml_processes(
	struct nvml *nvml, nvml_handle handle, struct nvml_process *ret_processes, size_t max);

/* An error that the driver has told of. */
struct nvml_xid {
	char uuid[96];         /* of the device, also where it is an instance's; "": not known */
	uint32_t gpu_instance; /* NVML_NO_INSTANCE: the whole device */
	uint64_t xid;
};

/*
 * From now on Xids of that device are kept for nvml_next_xid(); by nvml_index, once for each.
 * -ENOTSUP: the driver, or the device, tells none.
 */
int nvml_watch_xids(struct nvml *nvml, uint32_t nvml_index);
/* The next, without waiting: 1; 0: there is none, or nothing is watched; -EIO. */
int nvml_next_xid(struct nvml *nvml, struct nvml_xid *ret_xid);

#endif
