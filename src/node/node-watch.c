/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports conditions that people should know of: a tenant whose allocations are refused, a device
 * that is lost or does not answer, an unmanaged process on a device. Each is reported once when it
 * appears, and not more often than people can read.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "agent/audit.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "driver/xid.h"
#include "agent/xid-watch.h"
#include "base/format.h"
#include "base/log.h"
#include "node/node-internal.h"

#define OVER_AGAIN_NS (60 * NSEC_PER_SEC)
#define XID_AGAIN_NS (60 * NSEC_PER_SEC)
#define UNMANAGED_REPORTS_MAX 8u /* unmanaged processes that one look reports */
/*
 * Errors of a lost device end programs before divvyd knows that the device is lost. So the pod of a
 * tenant that ended within this time also gets the Event.
 */
#define HURT_NS (60 * NSEC_PER_SEC)

/* ---- memory ---- */

static void watch_report_over(struct node *node, const struct slot *slot, const struct tenant *t)
{
	const struct tenant_device *td = &t->devices[0];

	/* The refused allocation was on the tenant-device with the least memory left. */
	for (uint32_t i = 1; i < t->n; i++)
		if (t->devices[i].quota_bytes -
				MIN(memory_used(&t->devices[i]), t->devices[i].quota_bytes) <
			td->quota_bytes - MIN(memory_used(td), td->quota_bytes))
			td = &t->devices[i];
	log_info("slot %s: %s/%s %s: an allocation was refused", slot->id, t->pod->space,
		t->pod->name, t->pod->container);
	node_pod_event(node, t->pod, true, "OverMemory",
		"container %s: allocation refused: quota %s on %s, %s used; raise divvy.gpu/memory",
		t->pod->container, format_bytes(td->quota_bytes).s, td->device->info.uuid,
		format_bytes(memory_used(td)).s);
}

static void look_at_memory(struct node *node, struct slot *slot)
{
	const struct tenant *t = node_tenant(node, slot);
	uint64_t denied = 0, now = clock_now_ns();

	for (uint32_t i = 0; t && i < t->n; i++)
		denied += memory_denied(&t->devices[i]);
	if (!t || denied == slot->denied)
		return;
	slot->denied = denied;
	if (slot->over_ns && clock_since_ns(now, slot->over_ns) < OVER_AGAIN_NS)
		return;
	slot->over_ns = now;
	watch_report_over(node, slot, t);
}

void watch_slot_ends(struct node *node, struct slot *slot)
{
	const struct tenant *t = node_tenant(node, slot);

	look_at_memory(node, slot);
	if (!t)
		return;
	slot->last = *t->pod;
	slot->last_devices = 0;
	slot->last_ns = clock_now_ns();
	for (uint32_t i = 0; i < t->n; i++)
		slot->last_devices |= 1ull << t->devices[i].device->index;
}

void watch_tick(struct node *node)
{
	for (uint32_t i = 0; i < node->n_slots; i++)
		if (node->slots[i].tenant)
			look_at_memory(node, &node->slots[i]);
	audit_tick(node->agent, clock_now_ns());
}

/* ---- devices ---- */

static bool was_hurt(const struct slot *slot, const struct device *d)
{
	return slot->last_ns && slot->last_devices & 1ull << d->index &&
		clock_since_ns(clock_now_ns(), slot->last_ns) < HURT_NS;
}

static void watch_report_health(struct node *node, const struct device *d)
{
	const bool is_faulty = device_is_faulty(d);
	const char *reason = d->is_lost ? "DeviceLost"
		: is_faulty             ? "DeviceUnhealthy"
					: "DeviceHealthy",
		   *what = is_faulty ? device_fault_text(d) : "is healthy again";

	log_warn("device %s %s", d->info.uuid, what);
	node_event(node, is_faulty, reason, "device %s %s", d->info.uuid, what);
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct slot *slot = &node->slots[i];
		const struct tenant *t = node_tenant(node, slot);

		if (node_is_tenant_on(t, d))
			node_pod_event(node, t->pod, is_faulty, reason, "device %s %s",
				d->info.uuid, what);
		if (is_faulty && was_hurt(slot, d))
			node_pod_event(node, &slot->last, true, reason,
				"container %s exited after it used device %s, which %s",
				slot->last.container, d->info.uuid, what);
	}
}

static void look_at_devices(struct node *node)
{
	const struct device_set *set = node->agent->devices;
	bool has_changed = false;

	for (uint32_t i = 0; i < set->n; i++) {
		const struct device *d = &set->devices[i];
		uint8_t faults = 0;

		for (enum device_fault fault = 0; fault < DEVICE_FAULTS; fault++)
			faults |= (uint8_t)(device_has_fault(d, fault) << fault);
		if (faults == node->faults[i])
			continue;
		/* Only another gravest fault, the lowest bit, is news for people. */
		if ((faults & -faults) != (node->faults[i] & -node->faults[i]))
			watch_report_health(node, d);
		node->faults[i] = faults;
		has_changed = true;
	}
	if (has_changed)
		node_offer(node);
	if (set->n)
		memory_refresh(node->agent);
}

/* A program may cause many Xids each second. The metrics count them all. */
static void watch_report_unknown_xid(struct node *node, const struct xid_report *r)
{
	const uint64_t now = clock_now_ns();
	uint64_t *last_ns = &node->xid_event_ns[r->device];

	if (*last_ns && clock_since_ns(now, *last_ns) < XID_AGAIN_NS)
		return;
	*last_ns = now;
	node_event(node, true, "XidError",
		"a program that belongs to no known pod caused Xid %" PRIu64
		" (%s) on device %s; the kernel log names its process",
		r->xid, xid_text(r->xid), node->agent->devices->devices[r->device].info.uuid);
}

/* Sends an Event to the pod whose process caused an Xid, or to the GPUNode if it is not known. */
static void watch_report_xids(struct node *node)
{
	struct xid_report r;

	while (xid_watch_take(node->agent, &r)) {
		if (r.pod.uid[0])
			node_pod_event(node, &r.pod, true, "XidError",
				"container %s %scaused Xid %" PRIu64
				" (%s) on device %s; the error ends its work on the device, and "
				"other tenants continue",
				r.pod.container, r.is_probable ? "probably " : "", r.xid,
				xid_text(r.xid), node->agent->devices->devices[r.device].info.uuid);
		else
			watch_report_unknown_xid(node, &r);
	}
}

/* ---- unmanaged processes ---- */

static void watch_report_unmanaged(struct node *node)
{
	struct audit_unmanaged s;

	for (uint32_t n = 0; n < UNMANAGED_REPORTS_MAX && audit_take_unmanaged(node->agent, &s);
		n++)
		node_event(node, true, "UnmanagedProcess",
			"process %d (%s) uses device %s but belongs to no tenant", (int)s.pid,
			s.name, node->agent->devices->devices[s.device].info.uuid);
}

void watch_look(struct node *node)
{
	look_at_devices(node);
	watch_report_xids(node);
	watch_report_unmanaged(node);
	/* An Event refers to the GPUNode, which may not have been known at the start. */
	if (node->is_insecure && !node->is_insecure_reported && node_gpunode(node)) {
		node->is_insecure_reported = true;
		node_event(node, true, "RuntimeInsecure", "%s", NODE_INSECURE);
	}
}

void watch_start(struct node *node)
{
	/* Outside a pod the daemon may use all devices anyway, so the check would show nothing. */
	node->is_insecure = node->options.pod &&
		slot_is_runtime_insecure(getenv("NVIDIA_VISIBLE_DEVICES"), "/dev");
}
