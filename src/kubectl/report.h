/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cluster's objects say of devices and tenants, as lists for people and programs: the form
 * in which `-o json` prints them and tables show them. Pure. Lists are the caller's; NULL: out of
 * memory. What is not known is left out of an object.
 */
#ifndef KUBECTL_REPORT_H
#define KUBECTL_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/given.h"

struct report_facts {
	const json_t *gpunodes; /* lists of objects */
	const json_t *leases;   /* of nodes, with what was measured; NULL: none */
	uint64_t real_ns;       /* now; 0: how old a Lease is, is not asked */
};

/*
 * Devices in the order of nodes and indexes: {node, index, uuid, model, health, reason, owner,
 * cordoned, cordon_reason, memory_bytes, granted_permille, granted_bytes, got_permille, used_bytes,
 * tenants: [{namespace, pod, container, class, asked, request_permille, limit_permille,
 * memory_bytes, got_permille, used_bytes, idle_since, note}], silent_seconds, not_ready}.
 * got_permille is of this device, in the last 10 s; silent_seconds: so long the node's daemon has
 * not been heard, and the rest is what it said last, but for what was measured; not_ready: why it
 * takes no pods.
 */
json_t *report_devices(const struct report_facts *facts);

/* Nodes of which no device is known: [{node, why}], by name. */
json_t *report_bare_nodes(const struct report_facts *facts);

/*
 * Containers of pods that ask for devices or have some, pods in their own order: {namespace, pod,
 * uid, container, node, devices, class, asked, granted, got_permille, memory_bytes, used_bytes,
 * idle_since, state, note}. state: Pending, Placed (the node's daemon has not confirmed yet),
 * Running, Ended (its pod goes on), Leaving, Refused (note says why). dialects: {namespace: list of
 * that annotation} or NULL.
 */
json_t *report_tenants(
	const struct report_facts *facts, const json_t *pods, const json_t *dialects);

/*
 * Devices that nobody has, or whose tenants have used nothing since then, and why they count; none
 * that another device plugin gives out.
 */
json_t *report_idle(const struct report_facts *facts, uint64_t idle_ns, uint64_t real_ns);

/*
 * GPU-seconds by namespace from that day on ("2026-11-22"; "": all that is kept): [{namespace,
 * asked_gpu_seconds, granted_gpu_seconds, used_gpu_seconds}], by name.
 */
json_t *report_usage(const json_t *gpunodes, const char *since_day);

/* Its given keys; n is 0 where there are none that anybody of us has written. */
int report_given(const json_t *pod, struct given *ret_given);

/* divvy's webhook has seen that it asks for a share. NULL is none. */
bool report_is_tenant(const json_t *pod);

/* "NODE/UUID", "NODE/0" or a UUID alone (as long as one device has it). Borrowed from the list. */
struct report_found {
	const char *node, *uuid;
};
int report_find_device(const json_t *gpunodes, const char *text, struct report_found *ret_found,
	struct error *err);

#endif
