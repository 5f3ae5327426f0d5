/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement model: holds nodes, devices and tenants, and finds the node and devices where a
 * tenant fits best. Pure: no I/O, no clock, no thread; the same input gives the same output on
 * every machine. One thread at a time per `struct place`.
 *
 * Units: shares are permille of a device, memory is bytes, CPU is 1/1000 of a core. Nodes, devices
 * and tenants have numbers from this model, which reuses a number after a removal. Of equally good
 * nodes the lowest number wins.
 *
 * A decision costs about the same with 100 as with 100,000 nodes (place-search.h).
 */
#ifndef PLACE_PLACE_H
#define PLACE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

#define PLACE_NONE UINT32_MAX
#define PLACE_NODES_MAX (1u << 20)
#define PLACE_NODE_DEVICES_MAX 64u /* MIG instances included */
#define PLACE_MODELS_MAX 64u
#define PLACE_TAINTS_MAX 64u
#define PLACE_LABELS_MAX (1u << 20) /* distinct labels at a time */

struct place;
struct place_cells;
struct place_policy;

struct place_config {
	const struct place_policy *policy;
	/*
	 * Borrowed, must outlive the model. NULL: distances follow from the nodes' data
	 * (place-cell.h).
	 */
	const struct place_cells *cells;
	/* Overcommit factors for each device, in permille; 0: 1000. */
	uint32_t share_factor, memory_factor;
};

/* -ENOMEM, or -EINVAL for a factor below 1000 or above 60,000. */
int place_new(const struct place_config *config, struct place **ret_place, struct error *err);
void place_free(struct place *place);

/* ---- names: interned once, then compared as numbers ---- */

/* The bit of a device model. -EINVAL: an empty or too long name. -ENOSPC: over PLACE_MODELS_MAX. */
int place_model(struct place *place, const char *name, uint64_t *ret_bit, struct error *err);
const char *place_model_name(const struct place *place, uint32_t model);

/*
 * The number of a tenant label or of a node label ("key=value"), from 1. Equal labels get the same
 * number. ns: "" for no namespace, NULL for a label that several namespaces share. name: NULL for
 * the one nameless label of a namespace. -EINVAL, -ENOSPC, -ENOMEM.
 */
int place_label(struct place *place, const char *ns, const char *name, uint32_t *ret_label,
	struct error *err);
/* Returns "" for an unknown label, or for one without a name. */
const char *place_label_name(const struct place *place, uint32_t label);
int place_taint(struct place *place, const char *name, uint64_t *ret_bit, struct error *err);

/*
 * Free the number or bit for reuse. -EBUSY: a tenant, a node or a queue uses the label, taint or
 * model, or a savepoint is open. -EINVAL: unknown. Labels cost O(1); taints and models O(nodes +
 * tenants). Forgetting a model also removes it from the workload mix.
 */
int place_label_forget(struct place *place, uint32_t label, struct error *err);
int place_taint_forget(struct place *place, uint64_t bit, struct error *err);
int place_model_forget(struct place *place, uint64_t bit, struct error *err);

/* ---- nodes and devices ---- */

/* 279 TiB, so that the product with the greatest overcommit factor, 60000, fits in 64 bits */
#define PLACE_DEVICE_BYTES_MAX (UINT64_MAX / 60000)

struct place_device_info {
	/*
	 * Unique on the node. "": place_node_update() keeps the UUID of the device that has this
	 * index now, if its model is the same; otherwise the UUID is made of node and index.
	 */
	char uuid[SPEC_LABEL];
	uint32_t model;        /* index of the model's bit */
	uint64_t memory_bytes; /* up to PLACE_DEVICE_BYTES_MAX */
	/* devices with equal numbers are near each other; link: NVLink or PCIe switch */
	uint8_t numa, link;
	/* cordoned or unhealthy: present tenants stay, new tenants are not accepted */
	bool is_closed;
};

struct place_node_info {
	const char *name, *rack;           /* rack: "" if unknown */
	uint32_t cpu_milli, n_tenants_max; /* n_tenants_max: 0 is no limit */
	uint64_t memory_bytes;
	uint64_t taints;        /* bits */
	const uint32_t *labels; /* n_labels numbers, in any order */
	uint32_t n_labels;
	bool is_closed;
	uint32_t n_devices; /* up to PLACE_NODE_DEVICES_MAX */
	const struct place_device_info *devices;
};

/* Adds a node; everything is copied. -EEXIST: the name exists. -EINVAL, -ENOSPC, -ENOMEM. */
int place_node_add(struct place *place, const struct place_node_info *info, uint32_t *ret_node,
	struct error *err);
/*
 * Sets new capacities, taints, labels and states of a node. Devices keep their index. -EBUSY: a
 * device with tenants would disappear or change its model or UUID; nothing changes. If the new
 * capacity is below the present use, nothing is free. -EINVAL, -ENOMEM.
 */
int place_node_update(
	struct place *place, uint32_t node, const struct place_node_info *info, struct error *err);
/* -EBUSY: the node has tenants, tenants use its network, or a savepoint is open. -EINVAL. */
int place_node_remove(struct place *place, uint32_t node, struct error *err);
uint32_t place_node_find(const struct place *place, const char *name); /* or PLACE_NONE */

/* ---- requests ---- */

struct place_spec {
	uint32_t share;    /* permille of each device; 0: no device */
	uint32_t count;    /* number of devices; 0: none */
	bool is_exclusive; /* whole devices without other tenants */
	/*
	 * memory of each device; 0: the part device_permille of the device's memory, or the part
	 * `share` if device_permille is 0 too
	 */
	uint64_t device_bytes;
	uint32_t device_permille;
	uint32_t cpu_milli;
	uint64_t memory_bytes; /* memory of the node, not of devices */
	uint64_t models;       /* bits of acceptable device models; 0: any */
	uint32_t device;       /* required device; PLACE_NONE: any */
	uint32_t node;         /* required node; PLACE_NONE: any */
	/* Labels; 0: none. Tenants share a device only if `exclusion` is equal, 0 included. */
	uint32_t affinity, anti_affinity, preferred_anti_affinity, exclusion;
	uint64_t tolerations; /* taints that the tenant tolerates */
	enum spec_class class;
	uint32_t priority; /* 0..100; 0 is opportunistic */
	uint32_t group;    /* gang of the tenant; 0: none */
	uint32_t near;     /* required node label; 0: any */
	uint64_t started;  /* a number that grows with each new tenant */
	/* label of the disruption budget that counts the tenant's eviction; 0: none */
	uint32_t budget;
	uint32_t queue;  /* number of the tenant's queue (place-queue.h); 0: none */
	bool is_movable; /* defragmentation may move the tenant (place-defrag.h) */
	/*
	 * CPU, memory and tenant slots of the node's terminating tenants count as free for this
	 * tenant, because it does not start while place_is_awaiting() is true. No other tenant can
	 * get that capacity, as the tenant is counted when it is added. Always false in a placed
	 * tenant.
	 */
	bool is_terminating_free;
	/*
	 * Numbers of the network devices at both ends (place-mode.h); 0: none. network[0] is on the
	 * tenant's node.
	 */
	uint32_t network[2], network_mbit;
};

/* Requests one device on any node, and nothing else. */
#define PLACE_SPEC_INIT \
	(struct place_spec) \
	{ \
		.count = 1, .device = PLACE_NONE, .node = PLACE_NONE, .class = SPEC_STANDARD, \
		.priority = 50 \
	}

/* Returns 0, or -EINVAL with the field, the value and the possible range in `err`. */
int place_spec_check(const struct place_spec *spec, struct error *err);

/* ---- decisions ---- */

struct place_choice {
	uint32_t node;
	uint32_t n; /* number of devices */
	uint32_t device[SPEC_DEVICES_MAX];
	int32_t score;        /* score by the policy; a greater score is better */
	uint32_t n_conflicts; /* preference conflicts on its devices (place-conflicts.h) */
};

/*
 * Among all places with the fewest preference conflicts, finds the best by the policy. Adds no
 * tenant. -ENOSPC: no place. -EINVAL, -ENOMEM.
 */
int place_find(struct place *place, const struct place_spec *spec, struct place_choice *ret_choice,
	struct error *err);

/*
 * Additional rules for a node. The filter runs just before a node would be chosen: in place_find(),
 * in the placement of gangs and modes, and in the search for victims. Returns the node's devices
 * that the tenant may use, bit i for the i-th. 0: the tenant may not run on this node, even if it
 * requests no device. evicted: tenants that count as removed, ascending. The filter must not change
 * the model. With more tenants in `evicted` the filter must allow at least the same devices.
 * place_add() and place_restore() do not call the filter. NULL: no additional rules.
 */
typedef uint64_t place_filter_fn(void *arg, const struct place_spec *spec, uint32_t node,
	const uint32_t *evicted, uint32_t n_evicted);
void place_set_filter(struct place *place, place_filter_fn *filter, void *arg);

/*
 * Counts an arriving tenant in the workload mix, for policies that look ahead. Call once for each
 * arrival, whether or not the tenant was placed. Specs that place_spec_check() refuses do not
 * count.
 */
void place_note_arrival(struct place *place, const struct place_spec *spec);

/* Sets the workload mix and stops counting arrivals. */
void place_set_workload_mix(struct place *place, const struct place_spec *specs, uint32_t n);

/* Why a spec does not fit a node; the first reason that applies. */
enum place_reason {
	PLACE_FITS,
	PLACE_CLOSED,
	PLACE_OTHER_NODE,
	PLACE_TAINTED,
	PLACE_NOT_NEAR,
	PLACE_FULL_OF_TENANTS,
	PLACE_NO_CPU,
	PLACE_NO_MEMORY,
	PLACE_NO_NETWORK,
	PLACE_NO_DEVICES,
	PLACE_OTHER_MODEL,
	PLACE_OVER_LIMIT,
	PLACE_OTHER_DEVICE,
	PLACE_LABELS,
	PLACE_POLICY,
	PLACE_NO_DEVICE_MEMORY,
	PLACE_NO_SHARE,
	PLACE_TERMINATING, /* the devices lack nothing, but have terminating tenants */
	PLACE_N_REASONS
};

struct place_why {
	uint32_t nodes[PLACE_N_REASONS];
	/*
	 * For nodes with the reason PLACE_NO_SHARE: the largest share that is free on each of
	 * spec->count devices of one node. most_share counts devices that lack nothing but share.
	 * most_share_short also counts devices with too little memory. most_share_all counts all
	 * devices of a requested model, or the requested device.
	 */
	uint32_t most_share, most_share_short, most_share_all;
};

/* Looks at every node. */
void place_explain(
	const struct place *place, const struct place_spec *spec, struct place_why *ret_why);
/*
 * "0 of 3 nodes have room: 2 have other models, 1 has too little of its devices left (0.5 of 1
 * asked, 0.3 free at most)". Returns `ret`.
 */
#define PLACE_WHY 1024
char *place_why_format(
	const struct place_why *why, const struct place_spec *spec, char ret[static PLACE_WHY]);
/*
 * Explains a choice before its tenant is added: "node n3, GPU-a (0.5 of it free, 0.2 when it has
 * come): best of 12 nodes with room by scarcity, with 3 of the 4 devices of its group". Looks at
 * every node. Returns `ret`.
 */
char *place_choice_format(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char ret[static PLACE_WHY]);
enum place_reason place_reason_of(
	const struct place *place, const struct place_spec *spec, uint32_t node);
/* As place_reason_of(), for one existing device; reasons of its node come first. */
enum place_reason place_device_reason(
	const struct place *place, const struct place_spec *spec, uint32_t device);

/* ---- tenants ---- */

/*
 * Adds the tenant at any choice that fits, from place_find() or from elsewhere. -EINVAL: an invalid
 * spec or choice. -ENOSPC: it does not fit. -ENOMEM. On failure nothing changes.
 */
int place_add(struct place *place, const struct place_spec *spec, const struct place_choice *choice,
	uint32_t *ret_tenant, struct error *err);
/*
 * Adds a tenant that runs already, after a restart, in any order. Rules for new tenants do not
 * apply: closed devices, taints, node labels, the tenant limit, affinity, anti-affinity, CPU and
 * memory. If the use exceeds the capacity, nothing is free, as in place_node_update(). -EINVAL as
 * place_add(). -ENOSPC: shares, exclusion labels or network bandwidth contradict each other. On
 * failure nothing changes. Restore terminating tenants before all others, and call
 * place_mark_terminating() for each at once. bytes: the tenant's memory on each device, in the
 * order of the choice; NULL: as the spec says.
 */
int place_restore(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, const uint64_t *bytes, uint32_t *ret_tenant,
	struct error *err);
/* Removes the tenant. -ENOENT; -ENOMEM only with an open savepoint. */
int place_remove(struct place *place, uint32_t tenant);
/*
 * Changes share and memory of the tenant on its present devices. device_bytes 0: a part of the
 * device's memory, as in struct place_spec. -ENOSPC: too little is free, or the queue's limit is
 * reached. -EBUSY: the tenant is terminating, or would grow on a device with terminating tenants.
 * -EINVAL, -ENOMEM. On failure nothing changes.
 */
int place_resize(struct place *place, uint32_t tenant, uint32_t share, uint64_t device_bytes,
	struct error *err);
/* As place_resize(), with the tenant's new memory of each device. */
int place_resize_each(struct place *place, uint32_t tenant, uint32_t share, const uint64_t *bytes,
	struct error *err);

struct place_tenant {
	struct place_spec spec; /* as requested */
	uint32_t node;
	uint32_t n;
	uint32_t device[SPEC_DEVICES_MAX];
	/* memory of each device, set when the tenant is added or resized */
	uint64_t bytes[SPEC_DEVICES_MAX];
	uint32_t peer;       /* other half of a remote tenant (place_mode_tie()), or PLACE_NONE */
	bool is_terminating; /* place_mark_terminating() was called */
};

/* Borrowed until the next change; NULL if no tenant has the number. */
const struct place_tenant *place_tenant(const struct place *place, uint32_t tenant);
/* The other half of a remote tenant (place-mode.h), or PLACE_NONE. */
uint32_t place_peer(const struct place *place, uint32_t tenant);

/*
 * Marks an evicted tenant, which still runs, as terminating until place_remove(). The tenant keeps
 * its number, the node's CPU and memory, and its tenant slot. Its share and memory of devices, its
 * labels, group, queue use and bandwidth are freed now. But a device with terminating tenants
 * accepts no new tenant and no growth: PLACE_TERMINATING. A terminating tenant is never preempted,
 * moved or resized. Returns 0 also if the tenant is terminating already. -ENOENT; -ENOMEM only with
 * an open savepoint.
 */
int place_mark_terminating(struct place *place, uint32_t tenant, struct error *err);
/*
 * Puts back a tenant that was removed since an open savepoint, under its number and as terminating.
 * Tenants that were placed there since then stay. If the use then exceeds the node's capacity,
 * nothing is free. -ENOENT: the tenant was not removed. -ENOSPC: sums overflow. -ENOMEM.
 */
int place_readd_terminating(struct place *place, uint32_t tenant, struct error *err);
/*
 * As place_readd_terminating(), but the tenant is as before its removal and not terminating. For
 * CPU, memory and tenant slots, terminating tenants count as free, as with is_terminating_free.
 * -ENOENT. -ENOSPC: no capacity, or tenants that were added since would not have fitted beside this
 * tenant. -ENOMEM.
 */
int place_readd(struct place *place, uint32_t tenant, struct error *err);
/*
 * Whether a tenant that has not started must wait: while a terminating tenant is on one of its
 * devices, or while a node with terminating tenants has CPU, memory or tenant slots in use beyond
 * its capacity. The wait can end before all its victims are removed, and lasts longer if other
 * tenants on its devices terminate too. O(its devices).
 */
bool place_is_awaiting(const struct place *place, uint32_t tenant);

/*
 * Savepoints. A rollback undoes all changes of tenants since the savepoint, latest first.
 * Savepoints nest like a stack; without an open savepoint nothing is recorded.
 */
uint32_t place_savepoint(struct place *place);
void place_rollback(struct place *place, uint32_t savepoint);
void place_release(struct place *place);

/* ---- views ---- */

struct place_device_view {
	const char *uuid;
	uint32_t node, model, n_tenants;
	/*
	 * terminating tenants, not in n_tenants; the device accepts no new tenant until
	 * n_terminating is 0
	 */
	uint32_t n_terminating;
	uint32_t share_free, share_all;
	uint64_t memory_free, memory_all;
	uint32_t exclusion; /* label of its tenants; valid if n_tenants > 0 */
	uint8_t numa, link;
	bool is_closed;
};

struct place_node_view {
	const char *name, *rack;
	uint32_t first_device, n_devices, n_tenants; /* n_tenants includes terminating tenants */
	uint32_t cpu_free, cpu_all;
	uint64_t memory_free, memory_all;
	bool is_closed;
};

uint32_t place_n_nodes(const struct place *place);   /* slots, some may be empty */
uint32_t place_n_devices(const struct place *place); /* slots */
uint32_t place_n_tenants(const struct place *place); /* placed tenants */
/* false: the slot is empty. */
bool place_node_get(const struct place *place, uint32_t node, struct place_node_view *ret_view);
bool place_device_get(
	const struct place *place, uint32_t device, struct place_device_view *ret_view);
/* Changes with each change of the node or of its tenants. */
uint64_t place_node_version(const struct place *place, uint32_t node);

/*
 * Permille of free devices that the typical tenant cannot use, summed over all nodes. Typical
 * tenants are weighted by their number of arrivals (Weng et al., USENIX ATC 2023, equation 1,
 * amended for shared devices).
 */
uint64_t place_fragmentation(struct place *place);

#endif
