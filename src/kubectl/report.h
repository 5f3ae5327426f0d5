/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes lists of devices and tenants from API objects. `-o json` prints the lists unchanged, and
 * the commands format them as tables. Pure. The caller owns each list; NULL: no memory. An object
 * lacks the fields whose values are unknown.
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
	const json_t *gpunodes; /* list of GPUNode objects */
	const json_t *leases;   /* list of the nodes' Leases, with measurements; NULL: none */
	uint64_t real_ns;       /* present time; 0: ignore the age of Leases */
};

/*
 * Returns the devices, sorted by node and index: {node, index, uuid, model, health, reason, owner,
 * cordoned, cordon_reason, simulated, memory_bytes, granted_permille, granted_bytes, used_permille,
 * used_bytes, tenants: [{namespace, pod, container, class, granted, request_permille,
 * limit_permille, memory_bytes, used_permille, used_bytes, idle_since, note}], silent_seconds,
 * not_ready}. used_permille is the use of this device in the last 10 s; `got_permille` is its old
 * name, for one release. silent_seconds: how long the node's divvyd has been silent; the other
 * fields are then from its last report, without measurements. not_ready: why the node accepts no
 * pods.
 */
json_t *report_devices(const struct report_facts *facts);

/* Returns the nodes without known devices: [{node, why}], sorted by name. */
json_t *report_bare_nodes(const struct report_facts *facts);

/*
 * Returns the containers of pods that request devices, in the order of the pods: {namespace, pod,
 * uid, container, node, devices, class, requested, granted, used_permille, memory_bytes,
 * used_bytes, idle_since, state, note, claim}. A tenant of a ResourceClaim has `claim`, and the
 * name of its request as `container`; a claim of several pods is listed with the first of them. For
 * one release `asked` is the old name of `requested`, and `got_permille` that of `used_permille`.
 * state: Pending, Placed (divvyd has not confirmed the grant yet), Running, Ended (the pod still
 * runs), Terminating (the pod is being deleted), No share (the webhook has not seen the pod),
 * Refused (`note` has the reason). dialects: {namespace: its list of dialects} or NULL.
 */
json_t *report_tenants(
	const struct report_facts *facts, const json_t *pods, const json_t *dialects);

/*
 * Returns the devices without tenants, and the tenants without use for at least idle_ns, with the
 * reason. Devices without tenants that another device plugin owns are left out.
 */
json_t *report_idle(const struct report_facts *facts, uint64_t idle_ns, uint64_t real_ns);

/*
 * Returns the GPU-seconds of each namespace since that day ("2026-11-22"; "": since the first day
 * that is kept): [{namespace, requested_gpu_seconds, granted_gpu_seconds, used_gpu_seconds}],
 * sorted by name. `asked_gpu_seconds` is the old name of `requested_gpu_seconds`, for one release.
 */
json_t *report_usage(const json_t *gpunodes, const char *since_day);

/* Reads the pod's assigned keys; n is 0 without assigned keys. -errno: they are not valid. */
int report_assigned(const json_t *pod, struct assigned *ret_assigned);

/*
 * Whether the pod has the label that divvy's webhook gives to pods with a share. pod NULL: false.
 */
bool report_is_tenant(const json_t *pod);

/*
 * Finds a device by "NODE/UUID", by node and index as in "NODE/0", or by a UUID that only one node
 * has. The result is borrowed from the list. -ENOENT: no such device; -ENOTUNIQ: several devices.
 */
struct report_found {
	const char *node, *uuid;
};
int report_find_device(const json_t *gpunodes, const char *text, struct report_found *ret_found,
	struct error *err);

#endif
