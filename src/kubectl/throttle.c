/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains in sentences what keeps a running tenant from getting a larger share of its devices. For
 * each measured device one sentence gives the first cause that applies: the tenant is at its limit,
 * the device is full, the tenant used nothing, or nothing limits the tenant. Busy tenants of class
 * latency, nearly used memory and an unhealthy device each add a sentence. The measured shares are
 * means over 10 s, so NEAR_PERMILLE allows for their error.
 */
#include "kubectl/throttle.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/format.h"
#include "cmdline/json-member.h"
#include "kube/kube-json.h"
#include "spec/spec.h"

#define NEAR_PERMILLE 30u /* a share this close to the limit counts as at the limit */
#define FULL_PERMILLE 950u
#define LATENCY_BUSY_PERMILLE 50u

static void throttle_add_reason(json_t *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void throttle_add_reason(json_t *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	json_array_append_new(why, json_vsprintf(fmt, ap));
	va_end(ap);
}

static bool is_self(const json_t *on_device, const json_t *tenant)
{
	return !strcmp(json_text_or_empty(on_device, "namespace"),
		       json_text_or_empty(tenant, "namespace")) &&
		!strcmp(json_text_or_empty(on_device, "pod"), json_text_or_empty(tenant, "pod")) &&
		!strcmp(json_text_or_empty(on_device, "container"),
			json_text_or_empty(tenant, "container"));
}

/* Adds to `why` what keeps the tenant from a larger share of this device. */
static void explain_device(json_t *why, const json_t *device, const json_t *tenant)
{
	const json_t *all = json_object_get(device, "tenants"), *self = NULL;
	uint64_t others = 0, latency = 0, n = 0, limit, got;
	const bool is_latency = !strcmp(json_text_or_empty(tenant, "class"), "latency");
	const bool is_opportunistic = !strcmp(json_text_or_empty(tenant, "class"), "opportunistic");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);

		if (is_self(one, tenant)) {
			self = one;
			continue;
		}
		n++;
		others += json_uint_or_zero(one, "used_permille");
		if (!strcmp(json_text_or_empty(one, "class"), "latency"))
			latency += json_uint_or_zero(one, "used_permille");
	}
	if (!self || !json_object_get(self, "used_permille"))
		return;
	got = json_uint_or_zero(self, "used_permille");
	limit = json_uint_or_zero(self, "limit_permille");
	if (limit < SPEC_SHARE_ONE && got + NEAR_PERMILLE >= limit)
		throttle_add_reason(why, "%s: the tenant uses all of its limit, %s",
			json_text_or_empty(device, "uuid"), format_share((uint32_t)limit).s);
	else if (others + got >= FULL_PERMILLE && n)
		throttle_add_reason(why,
			"%s is full: this tenant used %s, other tenants (%llu) used %s; %s%s",
			json_text_or_empty(device, "uuid"), format_share((uint32_t)got).s,
			(unsigned long long)n, format_share((uint32_t)others).s,
			is_opportunistic ? "an opportunistic tenant gets only unused time"
					 : format_share((uint32_t)json_uint_or_zero(
								self, "request_permille"))
						   .s,
			is_opportunistic ? "" : " is its request");
	else if (!got)
		throttle_add_reason(why, "%s: the tenant has used no time in the last 10 s",
			json_text_or_empty(device, "uuid"));
	else
		throttle_add_reason(why,
			"%s: nothing limits the tenant: it used %s, and %s was unused",
			json_text_or_empty(device, "uuid"), format_share((uint32_t)got).s,
			format_share((uint32_t)(SPEC_SHARE_ONE -
					     MIN(others + got, (uint64_t)SPEC_SHARE_ONE)))
				.s);
	if (!is_latency && latency >= LATENCY_BUSY_PERMILLE)
		throttle_add_reason(why, "%s: tenants of class latency have precedence and used %s",
			json_text_or_empty(device, "uuid"), format_share((uint32_t)latency).s);
	if (json_object_get(self, "used_bytes") && json_uint_or_zero(self, "memory_bytes") &&
		json_uint_or_zero(self, "used_bytes") >=
			json_uint_or_zero(self, "memory_bytes") / 100 * 95)
		throttle_add_reason(why, "%s: device memory is nearly exhausted: %s of %s used",
			json_text_or_empty(device, "uuid"),
			format_bytes(json_uint_or_zero(self, "used_bytes")).s,
			format_bytes(json_uint_or_zero(self, "memory_bytes")).s);
}

static json_t *throttle_explain_tenant(const json_t *devices, const json_t *tenant)
{
	const json_t *its = json_object_get(tenant, "devices");
	json_t *why = json_array();

	if (json_text_or_empty(tenant, "note")[0])
		throttle_add_reason(why, "not in force: %s", json_text_or_empty(tenant, "note"));
	if (!strcmp(json_text_or_empty(tenant, "state"), "Placed"))
		throttle_add_reason(why,
			"divvyd has not confirmed the grant because the container has not started");
	if (!strcmp(json_text_or_empty(tenant, "state"), "Ended"))
		throttle_add_reason(why, "the container has exited");
	for (size_t i = 0; i < json_array_size(its); i++) {
		const char *uuid = json_string_value(json_array_get(its, i));
		const json_t *device = kube_json_find(devices, "uuid", uuid ? uuid : "");

		if (!device)
			throttle_add_reason(
				why, "%s: no node has this device now", uuid ? uuid : "?");
		else if (strcmp(json_text_or_empty(device, "health"), "Healthy"))
			throttle_add_reason(why, "%s is %s: %s", uuid,
				json_text_or_empty(device, "health"),
				json_text_or_empty(device, "reason"));
		if (device)
			explain_device(why, device, tenant);
	}
	if (json_text_or_empty(tenant, "idle_since")[0])
		throttle_add_reason(why, "the tenant has used no device time since %s",
			json_text_or_empty(tenant, "idle_since"));
	if (json_array_size(its) && !json_object_get(tenant, "used_permille") &&
		!strcmp(json_text_or_empty(tenant, "state"), "Running"))
		throttle_add_reason(why,
			"usage unknown: divvyd has not reported it, or you may not list leases in "
			"namespace divvy-node-lease");
	return why;
}

json_t *throttle_explain(const json_t *devices, const json_t *tenants)
{
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(tenants); i++) {
		json_t *row = json_deep_copy(json_array_get(tenants, i));

		json_object_set_new(row, "why", throttle_explain_tenant(devices, row));
		json_array_append_new(made, row);
	}
	return made;
}
