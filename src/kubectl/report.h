/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of devices and tenants from API objects: `-o json` prints them as they are, tables format
 * them. Pure. The caller owns each list; NULL: no memory. Unknown fields are left out of an object.
 */
#ifndef KUBECTL_REPORT_H
#define KUBECTL_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/assigned.h"

struct report_facts {
	const json_t *gpunodes; /* lists of objects */
	const json_t *leases;   /* of nodes, with measurements; NULL: none */
	uint64_t real_ns;       /* now; 0: ignore the age of Leases */
};

/*
 * Devices by node and index: {node, index, uuid, model, health, reason, owner, cordoned,
 * cordon_reason, simulated, memory_bytes, granted_permille, granted_bytes, got_permille,
 * used_bytes, tenants: [{namespace, pod, container, class, granted, request_permille,
 * limit_permille, memory_bytes, got_permille, used_bytes, idle_since, note}], silent_seconds,
 * not_ready}. got_permille is the use of this device in the last 10 s. silent_seconds: how long the
 * node's daemon has been silent; the other fields are its last report, without measurements.
 * not_ready: why the node accepts no pods.
 */
json_t *report_devices(const struct report_facts *facts);

/* Nodes without known devices: [{node, why}], by name. */
json_t *report_bare_nodes(const struct report_facts *facts);

/*
 * Containers of pods that request or have devices, in the order of the pods: {namespace, pod, uid,
 * container, node, devices, class, requested, granted, got_permille, memory_bytes, used_bytes,
 * idle_since, state, note}. `asked` is the old name of `requested`, for one release. state:
 * Pending, Placed (the node's daemon has not confirmed it yet), Running, Ended (its pod goes on),
 * Leaving (its pod is being deleted), No share (the webhook has not seen it), Refused (note says
 * why). dialects: {namespace: its list of dialects} or NULL.
 */
json_t *report_tenants(
	const struct report_facts *facts, const json_t *pods, const json_t *dialects);

/*
 * Devices without tenants, and tenants without use for idle_ns, with the reason. Devices of another
 * device plugin are left out.
 */
json_t *report_idle(const struct report_facts *facts, uint64_t idle_ns, uint64_t real_ns);

/*
 * GPU-seconds by namespace since that day ("2026-11-22"; "": all that is kept): [{namespace,
 * requested_gpu_seconds, granted_gpu_seconds, used_gpu_seconds}], by name. `asked_gpu_seconds` is
 * the old name of `requested_gpu_seconds`, for one release.
 */
json_t *report_usage(const json_t *gpunodes, const char *since_day);

/* The pod's assigned keys; n is 0 without them. -errno: they are not valid. */
int report_assigned(const json_t *pod, struct assigned *ret_assigned);

/* Whether divvy's webhook has seen the pod's request for a share. NULL: false. */
bool report_is_tenant(const json_t *pod);

/*
 * Finds "NODE/UUID", "NODE/0" or a UUID alone (if one node has it). Borrowed from the list.
 * -ENOENT, -ENOTUNIQ.
 */
struct report_found {
	const char *node, *uuid;
};
int report_find_device(const json_t *gpunodes, const char *text, struct report_found *ret_found,
	struct error *err);

#endif
