/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks whether the DRA driver of another system hands out this node's GPUs. Such a driver
 * publishes ResourceSlices whose devices have the UUID of a GPU as an attribute, whatever the
 * driver's name is. divvyd asks for the slices of its node every two minutes, rather than watching
 * them: a driver is seldom installed, and servers before Kubernetes 1.34 have no slices at all.
 */
#include <string.h>

#include "agent/device.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "manifest/claim-config.h"
#include "node/node-internal.h"

#define RIVAL_LOOK_NS (120 * NSEC_PER_SEC)
#define RIVAL_AGAIN_NS (15 * NSEC_PER_SEC) /* while there is one, since its end lets pods start */

/* Whether a text of the attribute's value is the UUID of a device here, or of its parent. */
static bool is_own_device(const struct device_set *set, const json_t *attribute)
{
	const char *text = kube_json_text_at(attribute, "string", NULL);

	for (uint32_t i = 0; text && i < set->n; i++)
		if (!strcmp(text, set->devices[i].info.uuid) ||
			(set->devices[i].info.parent[0] &&
				!strcmp(text, set->devices[i].info.parent)))
			return true;
	return false;
}

static bool has_own_device(const struct device_set *set, const json_t *slice)
{
	const char *name;
	json_t *devices = kube_json_at(slice, "spec", "devices", NULL), *device, *attribute;
	size_t i;

	json_array_foreach(devices, i, device)
		json_object_foreach(json_object_get(device, "attributes"), name, attribute)
			if (is_own_device(set, attribute))
				return true;
	return false;
}

const char *rival_in(const struct device_set *set, const json_t *slices)
{
	json_t *items = json_object_get(slices, "items"), *slice;
	size_t i;

	json_array_foreach(items, i, slice) {
		const char *driver = kube_json_text_at(slice, "spec", "driver", NULL);

		if (driver && strcmp(driver, CLAIM_DRIVER) != 0 && has_own_device(set, slice))
			return driver;
	}
	return NULL;
}

static void on_slices(void *data, const struct kube_answer *answer)
{
	struct node *node = data;
	_cleanup_json_ json_t *slices = NULL;
	const char *driver = NULL;

	node->rival_call = NULL;
	/* A server that does not answer, or not allow the question, says nothing about drivers. */
	if (answer->result == -ENOENT ||
		(answer->result >= 0 && kube_json_parse(answer->body, &slices, NULL) >= 0))
		driver = rival_in(node->agent->devices, slices);
	else
		return;
	if (!strcmp(node->rival, driver ? driver : ""))
		return;
	snprintf(node->rival, sizeof(node->rival), "%s", driver ? driver : "");
	node->next_rival_ns = MIN(node->next_rival_ns, clock_now_ns() + RIVAL_AGAIN_NS);
	node_look_for_others(node);
}

void rival_look(struct node *node, uint64_t now)
{
	char query[400];
	const struct kube_request request = {
		.path = "/apis/resource.k8s.io/v1/resourceslices",
		.query = query,
		.retry = RETRY_NEVER,
		.done = on_slices,
		.data = node,
	};
	struct error err;

	if (now < node->next_rival_ns || node->rival_call)
		return;
	node->next_rival_ns = now + (node->rival[0] ? RIVAL_AGAIN_NS : RIVAL_LOOK_NS);
	/* The name of a Node has no character that a query would have to escape. */
	snprintf(query, sizeof(query), "fieldSelector=spec.nodeName%%3D%s", node->options.name);
	if (kube_call_start(node->client, &request, &node->rival_call, &err) < 0)
		log_warn("ResourceSlices: %s", err.msg);
}
