/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ResourceClaim whose allocation has devices of a node's divvyd, as tenants: the results of one
 * request are one tenant. Only the claim's allocation decides what a tenant gets. Pure; any thread.
 */
#ifndef DRA_DRA_CLAIM_H
#define DRA_DRA_CLAIM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "manifest/claim-config.h"
#include "spec/spec.h"

#define DRA_SHARES_MAX 32u /* results of an allocation, as in the API */
#define DRA_UUID 96u
#define DRA_UID 64u
#define DRA_OBJECT 254u  /* name of an object or a pool, with the final 0 */
#define DRA_REQUEST 128u /* "request" or "request/subrequest", with the final 0 */
#define DRA_NO_SLOT UINT32_MAX

/*
 * The name of a device in the pool: "gpu-UUID" is the whole device, "share-UUID" is shared. Returns
 * false for a UUID of which no DNS label can be made.
 */
#define DRA_DEVICE 64u
enum dra_kind { DRA_WHOLE, DRA_SHARED };
bool dra_device_name(enum dra_kind kind, const char *uuid, char ret[static DRA_DEVICE]);

/* A device that the node has now. */
struct dra_known {
	const char *uuid;
	uint64_t usable_bytes;
};
struct dra_inventory {
	const char *pool;
	const struct dra_known *devices;
	size_t n;
};

/* One result of the allocation, with what the kubelet's answer repeats. */
struct dra_share {
	char request[DRA_REQUEST], pool[DRA_OBJECT], device[DRA_DEVICE];
	char share_id[DRA_UID]; /* "": the whole device */
	uint32_t tenant;        /* index of its tenant */
};

/* A tenant's device. */
struct dra_place {
	char uuid[DRA_UUID];
	uint64_t quota_bytes;
};

struct dra_tenant {
	char request[DRA_REQUEST];      /* without the subrequest */
	char full_request[DRA_REQUEST]; /* with the subrequest, if one was chosen */
	struct spec spec;
	uint32_t slot;                             /* DRA_NO_SLOT: none yet */
	struct dra_place places[SPEC_DEVICES_MAX]; /* spec.count of them */
};

struct dra_claim {
	char space[SPEC_LABEL], name[DRA_OBJECT], uid[DRA_UID];
	/* The first pod that the claim is reserved for; "": none. */
	char pod[DRA_OBJECT], pod_uid[DRA_UID];
	struct dra_share shares[DRA_SHARES_MAX];
	uint32_t n_shares, n_tenants;
	struct dra_tenant tenants[];
};

void dra_claim_free(struct dra_claim *claim); /* accepts NULL */
DEFINE_CLEANUP(struct dra_claim *, dra_claim_free)
#define _cleanup_dra_claim_ _cleanup_(dra_claim_free_p)

/* A claim with room for n tenants. NULL: out of memory. */
struct dra_claim *dra_claim_new(uint32_t n_tenants);

/*
 * Reads the claim. uid: the claim that is meant. The caller owns the result, and sets the slots.
 * -ESTALE: the object has another UID; -ENODATA: it is not allocated, or reserves no pod; -ENODEV:
 * the node has no such device; -EINVAL: values that divvy does not serve; -ENOMEM. The message is a
 * sentence for the pod's events.
 */
int dra_claim_read(const json_t *object, const char *uid, const struct dra_inventory *inventory,
	struct dra_claim **ret_claim, struct error *err);

/* Whether both are allocations of the same parts of the same devices, in the same order. */
bool dra_claim_has_same_devices(const struct dra_claim *a, const struct dra_claim *b);

/*
 * Whether the pod names that claim: directly, by a template, or for its extended resources. The pod
 * has to be of the claim's namespace.
 */
bool dra_pod_has_claim(const json_t *pod, const char *claim);

#endif
