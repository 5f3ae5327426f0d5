/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that this daemon shares out: the machine's, or simulated ones. device_set_open()
 * makes the list once at the start. A device's index in it is its number in messages, pages and the
 * arbiter.
 */
#ifndef AGENT_DEVICE_H
#define AGENT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/device-lock.h"
#include "driver/driver-nvml.h"
#include "base/error.h"
#include "core/arbiter.h"
#include "core/ledger.h"

#define PATH_SIZE_MAX 1024

struct tenant;

/* The faults of a device, the gravest first. A device may have several at once. */
enum device_fault {
	DEVICE_LOST,     /* the driver reports that it has lost the device */
	DEVICE_XID,      /* an Xid that no program caused */
	DEVICE_RECOVERY, /* the driver asks for a reset or a restart */
	DEVICE_SILENT,   /* DEVICE_SILENT_MAX queries in a row without an answer */
	DEVICE_FAULTS,
};

struct device {
	uint32_t index;
	uint8_t uuid[16];
	struct nvml_info info;
	struct ledger *ledger; /* quotas and reservations of the device's memory */
	struct lock lock;
	/* Memory that a tenant's next CUDA context is expected to take: see context-cost.h. */
	uint64_t context_guess_bytes; /* for all tenants, before any measurement */
	/* For tenants without a figure of their own, except those of context_owner_bytes. */
	uint64_t context_bytes;
	/* For tenants whose owner (namespace or uid) is that of context_owner. */
	uint64_t context_owner_bytes;
	/* Set if only one owner, but two of its tenants, have measured a context; else NULL. */
	const struct tenant *context_owner;
	/* memory in use at the device's last answer, for display */
	uint64_t used_bytes;
	uint32_t n_silent; /* number of queries since the last answer */
	bool is_lost;      /* the driver reports that it has lost the device */
	/*
	 * The first Xid that no program caused; 0: none since the start, the device's return, or
	 * device_clear().
	 */
	uint64_t xid;
	/* number of all Xids that the driver has reported, and of those that programs cause */
	uint64_t n_xids, n_program_xids;
	enum nvml_recovery recovery; /* what the driver asks for */
	bool has_asked_recovery;     /* the driver has asked for a recovery since `xid` */
	/* CLOCK_REALTIME since when the device has each fault; 0: it has not */
	uint64_t fault_since_ns[DEVICE_FAULTS];
	char fault_note[128];
	bool is_native; /* another device plugin shares it out; the audit ignores its processes */
	char note[160]; /* a message about limits of sharing */
};

/*
 * "HMM" or "ATS" if GPU kernels can access ordinary memory of their process, NULL if they cannot.
 */
const char *device_host_access(const struct device *device);

#define DEVICE_SILENT_MAX 2u
bool device_has_fault(const struct device *device, enum device_fault fault);
/* A device with any fault gets no new tenants. */
bool device_is_faulty(const struct device *device);

/*
 * The device's gravest fault, as words that follow the device's name; NULL: none. Valid until the
 * device's state changes.
 */
const char *device_fault_text(const struct device *device);

/* A fault as a taint has it, in the form of Kubernetes' taints. */
struct device_taint {
	const char *key; /* "divvy.gpu/xid" */
	char value[24];  /* "48"; "": none */
	/*
	 * Programs on the device cannot continue. A GPUPolicy may then require the eviction of
	 * their pods. Otherwise the device only gets no new tenants.
	 */
	bool is_no_execute;
	uint64_t since_ns; /* CLOCK_REALTIME */
};
/* Returns whether the device has that fault, with its taint. */
bool device_taint(
	const struct device *device, enum device_fault fault, struct device_taint *ret_taint);

/* The device's fault, else the note on limits of sharing, else "". */
const char *device_note(const struct device *device);

struct device_set {
	struct nvml *nvml;
	struct device *devices;
	uint32_t n;
	uint8_t *link; /* n x n of enum nvml_link */
	bool is_simulated;
	char sim_dir[PATH_SIZE_MAX];  /* the simulated machine; "" for real devices */
	char sim_libs[PATH_SIZE_MAX]; /* the simulated driver's folder */
};

struct device_params {
	/* NULL: the machine's devices. Otherwise simulates this machine in runtime_dir/sim. */
	const char *simulate;
	const char *runtime_dir;
	uint32_t oversubscribe_permille;
	bool may_be_none; /* on a machine without devices: share none; otherwise simulate one */
};

/* Opens the management library and lists the devices. Blocks. */
int device_set_open(
	const struct device_params *params, struct device_set **ret_set, struct error *err);
/*
 * Locks all devices. -EBUSY: another daemon holds one; the message and *ret_owner name it.
 * is_forced: see lock_take().
 */
int device_set_lock(struct device_set *set, const char *socket, bool is_forced,
	struct lock_owner *ret_owner, struct error *err);
void device_set_close(struct device_set *set);

/*
 * Notes the Xid on the devices that it names. An Xid of kind XID_DEVICE or XID_UNKNOWN makes a
 * device faulty. The fault ends when a lost device returns, when a query that began after the Xid
 * shows that the driver no longer asks for a recovery that it asked for since the Xid, by
 * device_clear(), or when the daemon restarts. Returns one bit for each device that the Xid has
 * made faulty.
 */
uint64_t device_note_xid(struct device_set *set, const struct nvml_xid *xid, uint64_t real_ns);
/* Returns one bit for each device that the Xid names. */
uint64_t device_of_xid(const struct device_set *set, const struct nvml_xid *xid);

/* The driver's answer to a query about one device. */
struct device_answer {
	bool is_answered, is_lost;
	/* An Xid came after the query's begin: `recovery` may be from before the Xid. */
	bool is_before_xid;
	enum nvml_recovery recovery;
};
void device_note_answer(
	struct device *device, const struct device_answer *answer, uint64_t real_ns);
/*
 * An administrator declares the device healthy: its Xid counts no more. Other faults stay, because
 * the driver still reports them. Returns whether there was an Xid.
 */
bool device_clear(struct device *device);

enum nvml_link device_link(const struct device_set *set, uint32_t a, uint32_t b);

/* Finds a device by its full UUID, "GPU-..."; NULL: none. */
struct device *device_find(const struct device_set *set, const char *uuid);

/* Returns the 16 bytes of the UUID after "GPU-" or "MIG-". Other texts are hashed. */
void device_parse_uuid(const char *text, uint8_t ret_uuid[static 16]);

#endif
