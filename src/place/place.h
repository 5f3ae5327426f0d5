/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement: which node and which devices a tenant goes to. Nodes, devices and tenants as a
 * scheduler or a simulation sees them; pure: no I/O, no clock, no thread, the same input gives the
 * same output on every machine. One thread at a time per `struct place`.
 *
 * Units: shares are permille of a device, memory is bytes, CPU is 1/1000 of a core. Nodes, devices
 * and tenants are small integers that this engine gives out and uses again once they are removed;
 * the order of nodes is the order in which ties are decided, lowest first.
 *
 * A decision costs about the same on a hundred nodes as on a hundred thousand (place-search.h).
 */
#ifndef PLACE_PLACE_H
#define PLACE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

#define PLACE_NONE UINT32_MAX
#define PLACE_NODES_MAX (1u << 20)
#define PLACE_NODE_DEVICES_MAX 64u /* with MIG instances */
#define PLACE_MODELS_MAX 64u
#define PLACE_TAINTS_MAX 64u
#define PLACE_LABELS_MAX (1u << 20) /* distinct ones that are known at a time */

struct place;
struct place_cells; /* place-cell.h */
struct place_policy;

struct place_config {
	const struct place_policy *policy;
	/* Borrowed, and outlives the place; NULL: what is near is found from what nodes say. */
	const struct place_cells *cells;
	/* What may be given away of a device, permille of what it has; 0: 1000. */
	uint32_t share_factor, memory_factor;
};

/* -ENOMEM, or -EINVAL for a factor below 1000 or above 60,000. */
int place_new(const struct place_config *config, struct place **ret_place, struct error *err);
void place_free(struct place *place);

/* ---- names: interned once, then compared as numbers ---- */

/* The bit of a device model. -ENOSPC: more than PLACE_MODELS_MAX. */
int place_model(struct place *place, const char *name, uint64_t *ret_bit, struct error *err);
const char *place_model_name(const struct place *place, uint32_t model);

/*
 * A label, a node label ("key=value") or a taint. ns: "" where there is no namespace, NULL where
 * several share the label. name: NULL for the one label of a namespace that has no name. The same
 * label always has the same number, from 1.
 */
int place_label(struct place *place, const char *ns, const char *name, uint32_t *ret_label,
	struct error *err);
/* "" where there is no such label, or it has no name. */
const char *place_label_name(const struct place *place, uint32_t label);
int place_taint(struct place *place, const char *name, uint64_t *ret_bit, struct error *err);

/*
 * Nobody will name it any more: its number, or bit, is given to the next. -EBUSY while a tenant, a
 * node or a queue has it or a mark is open, -EINVAL for what is not known. A label is O(1), others
 * O(nodes + tenants). What was typical of a model's tenants is forgotten with it.
 */
int place_label_forget(struct place *place, uint32_t label, struct error *err);
int place_taint_forget(struct place *place, uint64_t bit, struct error *err);
int place_model_forget(struct place *place, uint64_t bit, struct error *err);

/* ---- nodes and devices ---- */

#define PLACE_DEVICE_BYTES_MAX (UINT64_MAX / 60000) /* 279 TiB: times the greatest factor it fits */

struct place_device_info {
	/*
	 * No two of a node have the same. "": that of the device that is there, if it has this
	 * model; else one is made from the node's name and the index.
	 */
	char uuid[SPEC_LABEL];
	uint32_t model;        /* index of its bit */
	uint64_t memory_bytes; /* up to PLACE_DEVICE_BYTES_MAX */
	uint8_t numa, link; /* devices with the same are near each other; link: NVLink or switch */
	bool is_closed;     /* cordoned or unhealthy: who is there stays, nobody comes */
};

struct place_node_info {
	const char *name, *rack;           /* rack: "" */
	uint32_t cpu_milli, n_tenants_max; /* n_tenants_max: 0 is without limit */
	uint64_t memory_bytes;
	uint64_t taints;        /* bits */
	const uint32_t *labels; /* n_labels of them, any order */
	uint32_t n_labels;
	bool is_closed;
	uint32_t n_devices; /* up to PLACE_NODE_DEVICES_MAX */
	const struct place_device_info *devices;
};

/* Everything is copied. -EEXIST for a name that there is, -EINVAL, -ENOSPC, -ENOMEM. */
int place_node_add(struct place *place, const struct place_node_info *info, uint32_t *ret_node,
	struct error *err);
/*
 * New capacities, taints, labels and states for a node that stays. Devices keep their place in the
 * list; one that tenants are on cannot go or change its model: -EBUSY, nothing is changed. Less
 * than what is given away is taken: it counts as nothing free.
 */
int place_node_update(
	struct place *place, uint32_t node, const struct place_node_info *info, struct error *err);
/* -EBUSY while tenants are on it. */
int place_node_remove(struct place *place, uint32_t node, struct error *err);
uint32_t place_node_find(const struct place *place, const char *name); /* or PLACE_NONE */

/* ---- what is to be placed ---- */

struct place_spec {
	uint32_t share;        /* permille of each device; 0: none is asked for */
	uint32_t count;        /* devices; 0: none */
	bool is_exclusive;     /* whole devices, shared with nobody */
	uint64_t device_bytes; /* on each device; 0: device_permille of it, or share of it */
	uint32_t device_permille;
	uint32_t cpu_milli;
	uint64_t memory_bytes; /* of the node */
	uint64_t models;       /* bits; 0: any */
	uint32_t device;       /* this one; PLACE_NONE: any */
	uint32_t node;         /* this one; PLACE_NONE: any */
	/* Labels, 0: none. For devices, an exclusion that is not given is a label too. */
	uint32_t affinity, anti_affinity, preferred_anti_affinity, exclusion;
	uint64_t tolerations; /* taints it may live with */
	enum spec_class class;
	uint32_t priority; /* 0..100; 0 is opportunistic */
	uint32_t group;    /* tenants that belong together; 0: none */
	uint32_t near;     /* a node label that the node must have; 0: any */
	uint64_t started;  /* any number that grows: who came later has more */
	uint32_t budget;   /* the label whose disruption budget counts it; 0: none */
	uint32_t queue;    /* place-queue.h; 0: none */
	bool is_movable;   /* may be moved to other devices of its kind (place-defrag.h) */
	/*
	 * It waits until place_is_awaiting says no more: CPU, memory and room for tenants that
	 * those who are leaving its node have of it count as free. Nobody is promised that twice,
	 * as who was promised it before is counted. Of a tenant that is there it is false.
	 */
	bool can_wait;
	/*
	 * What it takes of the network devices at both ends (place-mode.h), by number; 0: none. The
	 * first is of the node that it goes to.
	 */
	uint32_t network[2], network_mbit;
};

/* One device of any node, nothing else. */
#define PLACE_SPEC_INIT \
	(struct place_spec) \
	{ \
		.count = 1, .device = PLACE_NONE, .node = PLACE_NONE, .class = SPEC_STANDARD, \
		.priority = 50 \
	}

/* 0, or -EINVAL with the field, the value and what is possible. */
int place_spec_check(const struct place_spec *spec, struct error *err);

/* ---- decisions ---- */

struct place_choice {
	uint32_t node;
	uint32_t n; /* devices */
	uint32_t device[SPEC_DEVICES_MAX];
	int32_t score;  /* of the policy: more is better */
	uint32_t n_met; /* on its devices, that it would rather not meet (place-apart.h) */
};

/*
 * The best place by the policy, of those that meet preferred_anti_affinity best; or -ENOSPC;
 * nothing is given away. -EINVAL, -ENOMEM: `err` says.
 */
int place_find(struct place *place, const struct place_spec *spec, struct place_choice *ret_choice,
	struct error *err);

/*
 * Rules beyond those that this engine knows, asked of a node only when it is about to be chosen: by
 * place_find, and so for gangs and modes, and by the search for victims. Tells which of the node's
 * devices it may have, bit i its i-th; 0: it may not go there, also where it asks for no device.
 * gone: tenants, rising, that would have left by then. Nothing of the place is changed meanwhile.
 * With more gone it never says less. place_add and place_restore do not ask. NULL: no such rules.
 */
typedef uint64_t place_filter_fn(void *arg, const struct place_spec *spec, uint32_t node,
	const uint32_t *gone, uint32_t n_gone);
void place_set_filter(struct place *place, place_filter_fn *filter, void *arg);

/*
 * Counts into what is typical, for policies that look ahead. Once per arrival, placed or not; what
 * place_spec_check refuses is no arrival.
 */
void place_note_arrival(struct place *place, const struct place_spec *spec);

/* These are typical from now on, likewise, and arrivals are not counted any more. */
void place_set_typical(struct place *place, const struct place_spec *specs, uint32_t n);

/* Why a node is no place for it; the first reason that applies. */
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
	PLACE_CLEARING, /* all else is right, but somebody is leaving it */
	PLACE_N_REASONS
};

struct place_why {
	uint32_t nodes[PLACE_N_REASONS];
	/*
	 * Of nodes where share is what is lacking: free at most on each of as many devices of one
	 * node as are asked, which is less than what is asked. Of devices that have all else; of
	 * those and such as have too little memory; of all that are of a model, or the ones, that
	 * are asked for.
	 */
	uint32_t most_share, most_share_short, most_share_all;
};

/* Looks at every node. */
void place_explain(
	const struct place *place, const struct place_spec *spec, struct place_why *ret_why);
/*
 * "0 of 3 nodes have room: 2 have other models, 1 has too little of its devices left (0.5 of 1
 * asked, 0.3 free at most)". Returns ret.
 */
#define PLACE_WHY 1024
char *place_why_format(
	const struct place_why *why, const struct place_spec *spec, char ret[static PLACE_WHY]);
/*
 * Why there, before it is taken: "node n3, GPU-a (0.5 of it free, 0.2 when it has come): best of 12
 * nodes with room by scarcity, with 3 of the 4 devices of its group". Looks at every node. Returns
 * ret.
 */
char *place_choice_format(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char ret[static PLACE_WHY]);
enum place_reason place_reason_of(
	const struct place *place, const struct place_spec *spec, uint32_t node);
/* The same for one device: those of its node first. There is such a device. */
enum place_reason place_device_reason(
	const struct place *place, const struct place_spec *spec, uint32_t device);
/* "GPU-a on n3: too little of it is left (0.3 free, 0.5 asked)". Returns ret. */
char *place_device_why(const struct place *place, const struct place_spec *spec, uint32_t device,
	char ret[static PLACE_WHY]);

/* ---- tenants ---- */

/*
 * Takes what the choice names: any choice that fits, ours or found elsewhere. -EINVAL for what
 * cannot be, -ENOSPC where it does not fit: unchanged.
 */
int place_add(struct place *place, const struct place_spec *spec, const struct place_choice *choice,
	uint32_t *ret_tenant, struct error *err);
/*
 * Who runs there already: state that is read back after a restart, in any order. The rules for
 * newcomers are not asked: not what is closed, taints, node labels, the highest number of tenants,
 * affinity and anti-affinity, nor whether node and devices still have the CPU and the memory (what
 * is beyond counts as nothing free, as by place_node_update). -EINVAL as place_add, -ENOSPC where
 * shares, exclusion labels or the network's bandwidth cannot be so: unchanged. Who is leaving comes
 * before all others, and is told so again by place_leave at once. bytes: what it has of each
 * device's memory, as the choice names them; NULL: what its spec asks for.
 */
int place_restore(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, const uint64_t *bytes, uint32_t *ret_tenant,
	struct error *err);
/* -ENOENT, or -ENOMEM, which is only possible with a mark. */
int place_remove(struct place *place, uint32_t tenant);
/*
 * Where it is; 0 bytes: a part of the device, as in its spec. -ENOSPC, also for more than its queue
 * may have, leaves it as it was; so does -EBUSY: it is leaving, or asks for more of a device that
 * another one is leaving.
 */
int place_resize(struct place *place, uint32_t tenant, uint32_t share, uint64_t device_bytes,
	struct error *err);
/* The same with what it then has of each of its devices' memory. */
int place_resize_each(struct place *place, uint32_t tenant, uint32_t share, const uint64_t *bytes,
	struct error *err);

struct place_tenant {
	struct place_spec spec; /* as it was asked for */
	uint32_t node;
	uint32_t n;
	uint32_t device[SPEC_DEVICES_MAX];
	uint64_t bytes[SPEC_DEVICES_MAX]; /* of each, as fixed when it came or was resized */
	uint32_t peer;   /* the other half of one over the network, as it was tied; or PLACE_NONE */
	bool is_leaving; /* place_leave */
};

/* Borrowed until the next change; NULL where there is none. */
const struct place_tenant *place_tenant(const struct place *place, uint32_t tenant);
/* Its other half while both are there (place-mode.h), or PLACE_NONE. */
uint32_t place_peer(const struct place *place, uint32_t tenant);

/*
 * It has been told to go and runs for a while yet, until place_remove says that it has gone. Its
 * number, its node's CPU and memory, and its place among the node's tenants stay its own. Its part
 * of its devices and of their memory, its labels on them, its group, what its queue is counted and
 * its bandwidth are given back now, but nobody comes to a device that somebody is leaving, nor gets
 * more of it: PLACE_CLEARING. It is no candidate for anything any more: it is not preempted, moved
 * or resized. 0 also where it is leaving already; -ENOENT, or -ENOMEM, which is only possible with
 * a mark.
 */
int place_leave(struct place *place, uint32_t tenant, struct error *err);
/*
 * Who was removed since a mark that is still open is there again, under its number, and leaving:
 * beside those who have got its room since, also where the node has less than is taken then, which
 * counts as nothing free. -ENOENT: it was not removed; -ENOSPC: more than any machine has; -ENOMEM.
 */
int place_linger(struct place *place, uint32_t tenant, struct error *err);
/*
 * Likewise, but as it was: it need not leave. Those who have come since can wait for others who are
 * leaving, as can_wait has it. -ENOENT; -ENOSPC: it has no room there, or those who have come since
 * could not have come beside it; -ENOMEM.
 */
int place_spare(struct place *place, uint32_t tenant, struct error *err);
/*
 * Of a tenant that has not begun to run: it has to wait for somebody who is leaving one of its
 * devices, or its node, while that has less CPU, memory or room for tenants than is taken. That may
 * end before all its victims have gone, where others have given back enough, and last longer where
 * others are leaving as well. O(its devices).
 */
bool place_is_awaiting(const struct place *place, uint32_t tenant);

/*
 * All changes of tenants since the mark are taken back, latest first. Marks are taken and released
 * like a stack; with none open nothing is remembered.
 */
uint32_t place_mark(struct place *place);
void place_rollback(struct place *place, uint32_t mark);
void place_release(struct place *place);

/* ---- what there is ---- */

struct place_device_view {
	const char *uuid;
	uint32_t node, model, n_tenants;
	uint32_t n_leaving; /* beside those: nobody comes until they are gone */
	uint32_t share_free, share_all;
	uint64_t memory_free, memory_all;
	uint32_t exclusion; /* label; valid with tenants */
	uint8_t numa, link;
	bool is_closed;
};

struct place_node_view {
	const char *name, *rack;
	uint32_t first_device, n_devices, n_tenants; /* n_tenants: also who is leaving */
	uint32_t cpu_free, cpu_all;
	uint64_t memory_free, memory_all;
	bool is_closed;
};

uint32_t place_n_nodes(const struct place *place);   /* slots: some may be empty */
uint32_t place_n_devices(const struct place *place); /* slots */
uint32_t place_n_tenants(const struct place *place); /* placed now */
/* false: there is none in that slot. */
bool place_node_get(const struct place *place, uint32_t node, struct place_node_view *ret_view);
bool place_device_get(
	const struct place *place, uint32_t device, struct place_device_view *ret_view);
/* Of a slot: another one after each change of the node or of who is on it. */
uint64_t place_node_version(const struct place *place, uint32_t node);

/*
 * Permille of devices that are free and that the typical tenant cannot use, over all nodes; the sum
 * over tenants typical by the arrivals so far, weighted by how many came (Weng et al., USENIX ATC
 * 2023, equation 1 with the amendment for devices that are shared).
 */
uint64_t place_fragmentation(struct place *place);

#endif
