/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the AllocationResult of a claim: the devices, the configuration of classes and claim that
 * concerns them, and the nodes that reach all of them. kube-scheduler makes the same, so that
 * drivers cannot tell the schedulers apart.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/claims-internal.h"

static inline void result_json_free(json_t *json)
{
	json_decref(json);
}
DEFINE_CLEANUP(json_t *, result_json_free)
#define _cleanup_json_ _cleanup_(result_json_free_p)

/* Adds the member and takes over `value`; returns false when out of memory. */
static bool result_set(json_t *object, const char *key, json_t *value)
{
	return value && json_object_set_new(object, key, value) == 0;
}

static const struct request *result_request(
	const struct resource_claim *claim, const struct claim_result *result, uint32_t i)
{
	return &claim->requests[i].choices[result->choices[i]];
}

/* ---- devices ---- */

/* A random version 4 UUID, as the API requires of a share. */
static json_t *result_share_id(struct rand *rand)
{
	const uint64_t high = rand_u64(rand), low = rand_u64(rand);

	return json_sprintf("%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32),
		(unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
		(unsigned)(low >> 48 & 0x3fff) | 0x8000,
		(unsigned long long)(low & 0xffffffffffff));
}

static json_t *result_consumed(const struct chosen *chosen)
{
	json_t *consumed = json_object();
	char text[AMOUNT_SIZE];
	bool is_done = consumed;

	for (uint32_t i = 0; is_done && i < chosen->device->n_capacities; i++)
		is_done = result_set(consumed, chosen->device->capacities[i].name,
			json_string(amount_format(chosen->consumed[i], text)));
	if (is_done)
		return consumed;
	json_decref(consumed);
	return NULL;
}

static json_t *result_device(struct rand *rand, const struct chosen *chosen)
{
	const struct device *device = chosen->device;
	const struct request *request = chosen->request;
	_cleanup_json_ json_t *json = json_pack("{ss, ss, ss, ss}", "request", request->full_name,
		"driver", device->slice->driver, "pool", device->slice->pool, "device",
		device->name);
	bool is_done = json;

	if (is_done && request->is_admin)
		is_done = result_set(json, "adminAccess", json_true());
	if (is_done && request->tolerations_json)
		is_done = json_object_set(json, "tolerations", request->tolerations_json) == 0;
	if (is_done && chosen->consumed)
		is_done = result_set(json, "shareID", result_share_id(rand));
	if (is_done && chosen->consumed && device->n_capacities)
		is_done = result_set(json, "consumedCapacity", result_consumed(chosen));
	if (is_done && device->has_binding_conditions)
		is_done = json_object_set(json, "bindingConditions", device->binding_conditions) ==
			0;
	if (is_done && device->has_binding_conditions && device->binding_failures)
		is_done = json_object_set(
				  json, "bindingFailureConditions", device->binding_failures) == 0;
	return is_done ? TAKE_PTR(json) : NULL;
}

/* ---- configuration ---- */

static bool result_list_has(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *one = json_string_value(json_array_get(list, i));

		if (one && !strcmp(one, text))
			return true;
	}
	return false;
}

/* Whether the list of requests names the request i of the claim, or the choice that was taken. */
static bool result_names(const json_t *requests, const struct resource_claim *claim,
	const struct claim_result *result, uint32_t i)
{
	return result_list_has(requests, claim->requests[i].name) ||
		(claim->requests[i].is_list &&
			result_list_has(requests, result_request(claim, result, i)->full_name));
}

/* Adds a configuration, with the requests that it concerns, unless it concerns all. */
static bool result_add_config(json_t *configs, const json_t *config, const char *source,
	const json_t *requests, const struct resource_claim *claim,
	const struct claim_result *result)
{
	_cleanup_json_ json_t *json = json_copy((json_t *)config);
	bool concerns_all = true;

	for (uint32_t i = 0; i < claim->n_requests; i++)
		concerns_all &= result_names(requests, claim, result, i);
	if (!json || !result_set(json, "source", json_string(source)))
		return false;
	json_object_del(json, "requests");
	if (!concerns_all && json_array_size(requests) &&
		json_object_set(json, "requests", (json_t *)requests) < 0)
		return false;
	return json_array_append(configs, json) == 0;
}

/* The configuration of each class counts once, for all requests of the class. */
static bool result_add_class(json_t *configs, const struct claims *claims,
	const struct resource_claim *claim, const struct claim_result *result, uint32_t first)
{
	const char *name = result_request(claim, result, first)->class_name;
	const struct claims_entry *class = claims_find((struct claims *)claims, CLAIMS_CLASS, name);
	const json_t *list = class ? json_object_get(
					     json_object_get(class->class->json, "spec"), "config")
				   : NULL;
	_cleanup_json_ json_t *requests = json_array();
	bool is_done = requests;

	for (uint32_t i = 0; i < first; i++)
		if (!strcmp(result_request(claim, result, i)->class_name, name))
			return true;
	for (uint32_t i = first; is_done && i < claim->n_requests; i++)
		if (!strcmp(result_request(claim, result, i)->class_name, name))
			is_done = json_array_append_new(requests,
					  json_string(
						  result_request(claim, result, i)->full_name)) ==
				0;
	for (size_t i = 0; is_done && i < json_array_size(list); i++)
		is_done = result_add_config(
			configs, json_array_get(list, i), "FromClass", requests, claim, result);
	return is_done;
}

static bool result_add_configs(json_t *configs, const struct claims *claims,
	const struct resource_claim *claim, const struct claim_result *result)
{
	const json_t *own = json_object_get(
		json_object_get(json_object_get(claim->json, "spec"), "devices"), "config");
	bool is_done = configs;

	for (uint32_t i = 0; is_done && i < claim->n_requests; i++)
		is_done = result_add_class(configs, claims, claim, result, i);
	for (size_t k = 0; is_done && k < json_array_size(own); k++) {
		const json_t *config = json_array_get(own, k);
		const json_t *requests = json_object_get(config, "requests");
		bool is_wanted = !json_array_size(requests);

		for (uint32_t i = 0; i < claim->n_requests; i++)
			is_wanted |= result_names(requests, claim, result, i);
		if (is_wanted)
			is_done = result_add_config(
				configs, config, "FromClaim", requests, claim, result);
	}
	return is_done;
}

/* ---- nodes ---- */

static bool result_has_requirement(const json_t *list, const json_t *requirement)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_equal(json_array_get(list, i), requirement))
			return true;
	return false;
}

/* Adds the requirements of the device's node selector that the term lacks. */
static bool result_add_requirements(json_t *term, const json_t *selector)
{
	static const char *const keys[] = {"matchFields", "matchExpressions"};
	const json_t *from = json_array_get(json_object_get(selector, "nodeSelectorTerms"), 0);

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		const json_t *list = json_object_get(from, keys[k]);
		json_t *own = json_object_get(term, keys[k]);

		for (size_t i = 0; i < json_array_size(list); i++) {
			json_t *one = json_array_get(list, i);

			if (!own &&
				(!result_set(term, keys[k], json_array()) ||
					!(own = json_object_get(term, keys[k]))))
				return false;
			if (!result_has_requirement(own, one) && json_array_append(own, one) < 0)
				return false;
		}
	}
	return true;
}

/* Sets the selector of the nodes that reach the devices; none if all nodes do. */
static bool result_set_nodes(json_t *json, const struct claim_result *result, const char *node)
{
	_cleanup_json_ json_t *term = json_object();
	bool is_done = term;

	for (uint32_t i = 0; is_done && i < result->n; i++) {
		const struct device *device = result->v[i].device;
		const struct node_choice *nodes = device->slice->is_per_device
			? &device->nodes
			: &device->slice->nodes;

		if (nodes->name || device->is_bound_to_node)
			return result_set(json, "nodeSelector",
				json_pack("{s:[{s:[{ss, ss, s:[s]}]}]}", "nodeSelectorTerms",
					"matchFields", "key", "metadata.name", "operator", "In",
					"values", node));
		if (nodes->json)
			is_done = result_add_requirements(term, nodes->json);
	}
	if (!is_done || !json_object_size(term))
		return is_done;
	return result_set(json, "nodeSelector", json_pack("{s:[O]}", "nodeSelectorTerms", term));
}

json_t *allocate_format(struct claims *claims, const struct resource_claim *claim,
	const struct claim_result *result, const char *node, const char *time)
{
	_cleanup_json_ json_t *json = json_object(), *devices = json_object();
	_cleanup_json_ json_t *results = json_array(), *configs = json_array();
	bool is_done = json && devices && results;

	for (uint32_t i = 0; is_done && i < result->n; i++)
		is_done = json_array_append_new(
				  results, result_device(&claims->rand, &result->v[i])) == 0;
	is_done = is_done && result_add_configs(configs, claims, claim, result) &&
		json_object_set(devices, "results", results) == 0;
	if (is_done && json_array_size(configs))
		is_done = json_object_set(devices, "config", configs) == 0;
	is_done = is_done && json_object_set(json, "devices", devices) == 0 &&
		result_set_nodes(json, result, node);
	if (is_done && time)
		is_done = result_set(json, "allocationTimestamp", json_string(time));
	return is_done ? TAKE_PTR(json) : NULL;
}
