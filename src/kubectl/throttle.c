/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains in sentences what keeps a running tenant from getting more. For each measured device,
 * the first cause that applies explains the share: the limit, a full device, no use, or none. Busy
 * tenants of class latency, nearly used memory and an unhealthy device each add a sentence. The
 * measured shares are means over 10 s, so NEAR_PERMILLE allows for their error.
 */
#include "kubectl/throttle.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/format.h"
#include "cmdline/json-member.h"
#include "kube/kube-json.h"
#include "spec/spec.h"

#define NEAR_PERMILLE 30u /* error of a measured 10 s mean */
#define FULL_PERMILLE 950u
#define LATENCY_BUSY_PERMILLE 50u

static void say(json_t *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(json_t *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	json_array_append_new(why, json_vsprintf(fmt, ap));
	va_end(ap);
}

static const json_t *device_by(const json_t *devices, const char *uuid)
{
	for (size_t i = 0; i < json_array_size(devices); i++)
		if (!strcmp(jtext(json_array_get(devices, i), "uuid"), uuid))
			return json_array_get(devices, i);
	return NULL;
}

static bool is_self(const json_t *on_device, const json_t *tenant)
{
	return !strcmp(jtext(on_device, "namespace"), jtext(tenant, "namespace")) &&
		!strcmp(jtext(on_device, "pod"), jtext(tenant, "pod")) &&
		!strcmp(jtext(on_device, "container"), jtext(tenant, "container"));
}

/* Explains the tenant's share of one device by the use of the other tenants. */
static void explain_device(json_t *why, const json_t *device, const json_t *tenant)
{
	const json_t *all = json_object_get(device, "tenants"), *self = NULL;
	uint64_t others = 0, latency = 0, n = 0, limit, got;
	const bool is_latency = !strcmp(jtext(tenant, "class"), "latency");
	const bool is_opportunistic = !strcmp(jtext(tenant, "class"), "opportunistic");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);

		if (is_self(one, tenant)) {
			self = one;
			continue;
		}
		n++;
		others += juint(one, "used_permille");
		if (!strcmp(jtext(one, "class"), "latency"))
			latency += juint(one, "used_permille");
	}
	if (!self || !json_object_get(self, "used_permille"))
		return;
	got = juint(self, "used_permille");
	limit = juint(self, "limit_permille");
	if (limit < SPEC_SHARE_ONE && got + NEAR_PERMILLE >= limit)
		say(why, "%s: the tenant uses all of its limit, %s", jtext(device, "uuid"),
			format_share((uint32_t)limit).s);
	else if (others + got >= FULL_PERMILLE && n)
		say(why, "%s is full: this tenant used %s, other tenants (%llu) used %s; %s%s",
			jtext(device, "uuid"), format_share((uint32_t)got).s, (unsigned long long)n,
			format_share((uint32_t)others).s,
			is_opportunistic
				? "an opportunistic tenant gets only unused time"
				: format_share((uint32_t)juint(self, "request_permille")).s,
			is_opportunistic ? "" : " is its request");
	else if (!got)
		say(why, "%s: the tenant has used no time in the last 10 s", jtext(device, "uuid"));
	else
		say(why, "%s: nothing limits the tenant: it used %s, and %s was unused",
			jtext(device, "uuid"), format_share((uint32_t)got).s,
			format_share((uint32_t)(SPEC_SHARE_ONE -
					     MIN(others + got, (uint64_t)SPEC_SHARE_ONE)))
				.s);
	if (!is_latency && latency >= LATENCY_BUSY_PERMILLE)
		say(why, "%s: tenants of class latency have precedence and used %s",
			jtext(device, "uuid"), format_share((uint32_t)latency).s);
	if (json_object_get(self, "used_bytes") && juint(self, "memory_bytes") &&
		juint(self, "used_bytes") >= juint(self, "memory_bytes") / 100 * 95)
		say(why, "%s: device memory is nearly exhausted: %s of %s used",
			jtext(device, "uuid"), format_bytes(juint(self, "used_bytes")).s,
			format_bytes(juint(self, "memory_bytes")).s);
}

static json_t *explain(const json_t *devices, const json_t *tenant)
{
	const json_t *its = json_object_get(tenant, "devices");
	json_t *why = json_array();

	if (jtext(tenant, "note")[0])
		say(why, "not in force: %s", jtext(tenant, "note"));
	if (!strcmp(jtext(tenant, "state"), "Placed"))
		say(why,
			"divvyd has not confirmed the grant because the container has not started");
	if (!strcmp(jtext(tenant, "state"), "Ended"))
		say(why, "the container has exited");
	for (size_t i = 0; i < json_array_size(its); i++) {
		const char *uuid = json_string_value(json_array_get(its, i));
		const json_t *device = device_by(devices, uuid ? uuid : "");

		if (!device)
			say(why, "%s: no node has this device now", uuid ? uuid : "?");
		else if (strcmp(jtext(device, "health"), "Healthy"))
			say(why, "%s is %s: %s", uuid, jtext(device, "health"),
				jtext(device, "reason"));
		if (device)
			explain_device(why, device, tenant);
	}
	if (jtext(tenant, "idle_since")[0])
		say(why, "the tenant has used no device time since %s",
			jtext(tenant, "idle_since"));
	if (json_array_size(its) && !json_object_get(tenant, "used_permille") &&
		!strcmp(jtext(tenant, "state"), "Running"))
		say(why,
			"usage unknown: divvyd has not reported it, or you may not list leases in "
			"namespace divvy-node-lease");
	return why;
}

json_t *throttle_explain(const json_t *devices, const json_t *tenants)
{
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(tenants); i++) {
		json_t *row = json_deep_copy(json_array_get(tenants, i));

		json_object_set_new(row, "why", explain(devices, row));
		json_array_append_new(made, row);
	}
	return made;
}
