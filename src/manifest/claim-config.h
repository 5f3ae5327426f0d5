/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the parameters of ResourceClaims and DeviceClasses for divvy's DRA driver: objects of kind
 * ShareConfig with the field names of a SharePod. The capacity that an allocation consumed is the
 * request and the memory of the tenant; the parameters set limit, memoryPolicy, class and priority.
 * Parameters that state another request or other memory than the capacity are an error, so a user
 * gains nothing by them.
 *
 * Parameters of the class apply before those of the claim, each in the order of their list, and a
 * later value replaces an earlier one. The claim's annotations divvy.gpu/limit, class and priority
 * come last, for all requests; unlike the parameters, they can change while the claim is allocated.
 * Where the class sets limit, class or priority, the claim may only ask for less. Pure; any thread.
 */
#ifndef MANIFEST_CLAIM_CONFIG_H
#define MANIFEST_CLAIM_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

#define CLAIM_DRIVER "divvy.gpu"
#define CLAIM_API_VERSION "divvy.gpu/v1"
#define CLAIM_KIND "ShareConfig"
#define CLAIM_SHARE_CLASS "share.divvy.gpu" /* the DeviceClass of shares */
#define CLAIM_WHOLE_CLASS "gpu.divvy.gpu"   /* the DeviceClass of whole devices */
#define CLAIM_ANNOTATION "divvy.gpu/" /* prefix of the annotations that change a claim's tenants */
#define CLAIM_LIVE_LABEL "divvy.gpu/live" /* of claims with such annotations, for divvyd's watch */
#define CLAIM_UUID "divvy.gpu/uuid"       /* the attribute by which devices differ */
#define CLAIM_CAPACITY_SHARE "share"      /* in 1/1000 of a device */
#define CLAIM_CAPACITY_MEMORY "memory"    /* in bytes */

/* The capacity of each device that an allocation gave to one request of a claim. */
struct claim_capacity {
	uint32_t share_permille; /* 0: not stated */
	uint64_t memory_bytes;   /* 0: not stated */
};

/*
 * Reads `consumedCapacity` of an allocation's result, or `capacity.requests` of a claim. NULL is an
 * empty object. -EINVAL for another name or an amount that no device has.
 */
int claim_capacity_read(
	const json_t *capacity, struct claim_capacity *ret_capacity, struct error *err);

/* A request of an allocated claim, with the devices that the allocation gives to the request. */
struct claim_grant {
	const char *request; /* as the result names it: "gpu", or "gpu/half" for a subrequest */
	uint32_t count;      /* devices: 1..SPEC_DEVICES_MAX */
	bool is_whole;       /* whole devices, which have no consumable capacity */
	struct claim_capacity capacity; /* of each device; all 0 if is_whole */
};

/* Whether the annotations (NULL: none) have one that may change the claim's tenants. */
bool claim_has_annotations(const json_t *annotations);

/*
 * Makes the finished spec of a request's tenant. `configs` is the list `devices.config` of the
 * allocation, and `annotations` are the claim's; NULL: empty. Entries for other drivers or requests
 * are skipped. The spec's mode stays auto. Returns 0; -EINVAL with a message that names the list's
 * entry or the annotation; -ENOMEM.
 */
int claim_config_read(const json_t *configs, const json_t *annotations,
	const struct claim_grant *grant, struct spec *ret_spec, struct error *err);

/* A request of a claim that concerns divvy, as far as the claim alone tells. */
struct claim_request {
	const char *name, *subrequest; /* subrequest: "" if the request has no list of them */
	const char *device_class;
	uint32_t count; /* of devices; 1 if the request is for all devices */
	struct claim_capacity capacity;
	bool is_ours;      /* the class has a name of divvy's, such as share.divvy.gpu */
	bool has_distinct; /* a constraint keeps the devices of the request apart */
	/*
	 * With the request and memory of `capacity`. Without a share: a request of whole devices if
	 * the class is divvy's, else of 1/1000.
	 */
	struct spec spec;
};
typedef int claim_request_fn(void *data, const struct claim_request *request, struct error *err);

/*
 * Checks `spec.devices` of a ResourceClaim in any version of the API with the claim's annotations
 * (NULL: none), and calls `each` for every request of a class of divvy's, or to which parameters
 * for divvy apply. Returns 0, the first error of `each`, -EINVAL with a message for the claim's
 * author, or -ENOMEM.
 */
int claim_config_check_claim(const json_t *devices, const json_t *annotations,
	claim_request_fn *each, void *data, struct error *err);

/* Checks `spec` of a DeviceClass: its parameters for divvy. Returns 0, -EINVAL or -ENOMEM. */
int claim_config_check_class(const json_t *spec, struct error *err);

#endif
