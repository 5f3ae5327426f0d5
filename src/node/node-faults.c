/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the node as a whole. A device that GPUNode.status had and that the driver does not list
 * any more is missing: a card did not return after a restart, or the driver did not load. A missing
 * device stays in status.missingDevices until it returns, or until its GPUNode is deleted. A
 * missing device that an administrator lists in spec.cordoned is no fault. Simulated devices change
 * with GPUNode.spec.simulate, and MIG instances with their device's configuration, so neither is
 * ever missing.
 *
 * The simulated driver is a set of files that containers mount. Without these files, or without the
 * engine's socket, no program reaches a device.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/control.h"
#include "agent/device.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "node/node-internal.h"
#include "simgpu/simgpu-proto.h"

#define NAMED_MAX 4u /* missing devices that a message names */

/* ---- devices that are missing ---- */

static bool is_device_or_parent(const struct device_set *set, const char *uuid)
{
	for (uint32_t i = 0; i < set->n; i++)
		if (!strcmp(set->devices[i].info.uuid, uuid) ||
			!strcmp(set->devices[i].info.parent, uuid))
			return true;
	return false;
}

static bool is_missing(const struct node *node, const json_t *one)
{
	const char *uuid = kube_json_text_at(one, "uuid", NULL),
		   *parent = kube_json_text_at(one, "parent", NULL);
	const struct device_set *set = node->agent->devices;

	return uuid && !json_is_true(json_object_get(one, "simulated")) &&
		!is_device_or_parent(set, uuid) && !(parent && is_device_or_parent(set, parent));
}

static bool faults_is_noted(const struct node *node, const char *uuid)
{
	for (uint32_t i = 0; i < node->n_missing; i++)
		if (!strcmp(node->missing[i], uuid))
			return true;
	return false;
}

static void note_missing(struct node *node, json_t *all)
{
	const json_t *one;
	size_t i;

	json_array_foreach(all, i, one) {
		const char *uuid = kube_json_text_at(one, "uuid", NULL);

		if (!is_missing(node, one) || faults_is_noted(node, uuid) ||
			node->n_missing == ARRAY_SIZE(node->missing))
			continue;
		if (str_copy(node->missing[node->n_missing], SPEC_LABEL, str_from(uuid)) >= 0)
			node->n_missing++;
	}
}

bool faults_is_missing(const struct node *node, const char *uuid)
{
	return faults_is_noted(node, uuid);
}

uint32_t faults_n_missing(const struct node *node)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < node->n_missing; i++)
		n += !node_is_cordoned(node, node->missing[i]);
	return n;
}

/* Writes, for example, "2 devices that were here before are missing: GPU-a, GPU-b". */
static void describe_missing(const struct node *node, uint32_t n, struct buf *out)
{
	uint32_t named = 0;

	buf_addf(out, "%u device%s that %s here before %s missing:", n, n == 1 ? "" : "s",
		n == 1 ? "was" : "were", n == 1 ? "is" : "are");
	for (uint32_t i = 0; i < node->n_missing && named < NAMED_MAX; i++)
		if (!node_is_cordoned(node, node->missing[i]))
			buf_addf(out, "%s %s", named++ ? "," : "", node->missing[i]);
	if (n > named)
		buf_addf(out, " and %u more", n - named);
	buf_add_text(out, "; see nvidia-smi and the kernel log on the node");
}

void faults_seen(struct node *node, const json_t *status)
{
	note_missing(node, json_object_get(status, "devices"));
	note_missing(node, json_object_get(status, "missingDevices"));
	faults_look(node);
}

void faults_clear(struct node *node, const json_t *gpu_node)
{
	const struct device_set *set = node->agent->devices;
	const json_t *one;
	size_t i;

	json_array_foreach(kube_json_at(gpu_node, "spec", "cleared", NULL), i, one) {
		const char *uuid = kube_json_text_at(one, "uuid", NULL),
			   *time = kube_json_text_at(one, "timeAdded", NULL);
		struct device *d = uuid ? device_find(set, uuid) : NULL;
		struct kube_time since;
		uint64_t cleared_ns, since_ns;

		if (!d || !time || !device_has_fault(d, DEVICE_XID) ||
			kube_time_parse(str_from(time), &cleared_ns) < 0)
			continue;
		/*
		 * Only the taint's own time counts, because a later time would also clear Xids that
		 * come until then. The taint has whole seconds, so the comparison must, too.
		 */
		since = kube_time_format(d->fault_since_ns[DEVICE_XID]);
		if (kube_time_parse(str_from(since.s), &since_ns) < 0 || since_ns != cleared_ns)
			continue;
		log_info("device %s: an administrator has cleared Xid %llu", uuid,
			(unsigned long long)d->xid);
		device_clear(d);
		control_room(node->agent);
	}
}

void faults_forget(struct node *node)
{
	node->n_missing = 0;
	node->agent->n_missing_devices = 0;
	node->missing_note[0] = '\0';
}

json_t *faults_missing_json(const struct node *node)
{
	json_t *all;

	if (!node->n_missing)
		return json_null();
	all = json_array();
	for (uint32_t i = 0; i < node->n_missing; i++)
		json_array_append_new(all, json_pack("{s:s}", "uuid", node->missing[i]));
	return all;
}

/* ---- the simulated driver ---- */

static void look_at_driver(const struct node *node, struct buf *out)
{
	const struct device_set *set = node->agent->devices;
	char path[PATH_MAX + 64];
	struct stat st;

	if (!set->is_simulated)
		return;
	snprintf(path, sizeof(path), "%s/driver/libcuda.so.1", node->library);
	if (access(path, R_OK) < 0) {
		buf_addf(out, "the simulated driver '%.120s' is missing: restart divvyd", path);
		return;
	}
	snprintf(path, sizeof(path), "%s/" SIMGPU_FILE_SOCKET, set->sim_dir);
	if (stat(path, &st) < 0 || !S_ISSOCK(st.st_mode) || (st.st_mode & 0666) != 0666)
		buf_addf(out,
			"programs cannot connect to the simulated driver at '%.120s': restart "
			"divvyd",
			path);
}

/* ---- reports ---- */

static void faults_send_event(
	struct node *node, char note[static NODE_NOTE], const char *reason, const struct buf *text)
{
	if (!strncmp(note, buf_text(text), NODE_NOTE - 1))
		return;
	snprintf(note, NODE_NOTE, "%s", buf_text(text));
	if (note[0]) {
		log_warn("%s", note);
		node_event(node, true, reason, "%s", note);
	}
	node_status_touch(node);
}

void faults_look(struct node *node)
{
	_cleanup_buf_ struct buf missing = BUF_INIT(1024), driver = BUF_INIT(1024);
	const uint32_t n = faults_n_missing(node);

	/* An Event refers to the GPUNode, so the daemon must know this object first. */
	if (!node_gpunode(node))
		return;
	if (n)
		describe_missing(node, n, &missing);
	look_at_driver(node, &driver);
	node->agent->n_missing_devices = n;
	faults_send_event(node, node->missing_note, "DevicesMissing", &missing);
	faults_send_event(node, node->driver_note, "DriverUnreachable", &driver);
}
