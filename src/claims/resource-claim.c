/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads claims and classes: see claim.h. A field of a request or constraint that this reader does
 * not know could narrow the choice of devices, so it refuses the claim by its name.
 */
#include "claims/resource-claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/slice.h"
#include "fields/read.h"

static const char *claim_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* ---- selectors ---- */

static void selectors_forget(struct selectors *selectors)
{
	for (uint32_t i = 0; i < selectors->n; i++)
		cel_free(TAKE_PTR(selectors->v[i]));
}

int selectors_parse(
	const struct selectors *selectors, uint32_t i, struct cel **ret, struct error *err)
{
	int r = selectors->v[i] ? 0 : cel_parse(selectors->text[i], &selectors->v[i], err);

	if (r == 0)
		*ret = selectors->v[i];
	return r;
}

static int selectors_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct selectors *selectors = into;
	const size_t n = json_array_size(value);
	int r = 0;

	selectors->v = arena_take_array(arena, n + 1, sizeof(struct cel *));
	selectors->text = arena_take_array(arena, n + 1, sizeof(*selectors->text));
	if (!selectors->v || !selectors->text)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++) {
		const json_t *cel = json_object_get(json_array_get(value, i), "cel");
		const json_t *expression = json_object_get(cel, "expression");

		if (!json_is_string(expression))
			return fail(err, ENOTSUP, "selector %zu is no CEL expression", i);
		selectors->text[i] = (struct str){
			json_string_value(expression), json_string_length(expression)};
		r = cel_parse(selectors->text[i], &selectors->v[i], err);
		if (r < 0)
			return fail_within(err, r, "selector %zu", i);
		selectors->n++;
	}
	return 0;
}

/* ---- requests ---- */

static int requesteds_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct requesteds *requesteds = into;
	const char *name;
	json_t *one;

	if (!json_is_object(value))
		return fail(err, EINVAL, "is no map");
	requesteds->v = arena_take_array(
		arena, json_object_size(value) + 1, sizeof(*requesteds->v));
	if (!requesteds->v)
		return fail(err, ENOMEM, "out of memory");
	json_object_foreach(value, name, one) {
		struct requested *requested = &requesteds->v[requesteds->n++];

		requested->name = name;
		if (amount_read_json(one, &requested->amount) < 0)
			return fail(err, EINVAL, "%.64s: is no quantity", name);
	}
	return 0;
}

static const struct read_field capacity_fields[] = {
	{"requests", requesteds_read, 0},
};

READ_OBJECT(read_capacity, struct requesteds, capacity_fields)

static int read_mode(struct arena *arena, json_t *value, void *into, struct error *err)
{
	static const char *const words[] = {"ExactCount", "All"};
	int word = 0, r = read_word(value, words, ARRAY_SIZE(words), &word, err);

	*(bool *)into = word == 1;
	return r;
}

static int read_request_tolerations(
	struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct request *request = into;

	request->tolerations_json = json_array_size(value) ? value : NULL;
	if (device_tolerations_read(arena, value, &request->tolerations) < 0)
		return fail(err, ENOMEM, "out of memory");
	return 0;
}

static const struct read_field request_fields[] = {
	READ_NOTHING("name"), /* the caller has read it */
	READ_FIELD(struct request, class_name, "deviceClassName", read_text),
	READ_FIELD(struct request, selectors, "selectors", selectors_read),
	READ_FIELD(struct request, is_all, "allocationMode", read_mode),
	READ_FIELD(struct request, count, "count", read_number),
	READ_FIELD(struct request, is_admin, "adminAccess", read_bool),
	READ_WHOLE("tolerations", read_request_tolerations),
	READ_FIELD(struct request, capacities, "capacity", read_capacity),
};

static int claim_read_choice(struct resource_claim *claim, const struct claim_request *parent,
	json_t *json, struct request *request, struct error *err)
{
	const char *name = parent->is_list ? claim_text(json, "name") : parent->name;
	const size_t size = strlen(parent->name) + strlen(name) + 2;
	char *full = arena_take(&claim->arena, size);
	int r;

	if (!full)
		return fail(err, ENOMEM, "out of memory");
	if (parent->is_list)
		snprintf(full, size, "%s/%s", parent->name, name);
	else
		snprintf(full, size, "%s", name);
	*request = (struct request){.name = name, .full_name = full, .class_name = "", .count = 1};
	r = read_fields(
		&claim->arena, json, request_fields, ARRAY_SIZE(request_fields), request, err);
	if (r == 0 && !*request->class_name)
		r = fail(err, ENOTSUP, "has no deviceClassName");
	for (uint32_t i = 0; i < request->selectors.n; i++)
		claim->selectors_size += request->selectors.text[i].n;
	selectors_forget(&request->selectors);
	if (r == 0 && claim->selectors_size > CLAIM_SELECTORS_MAX)
		r = fail(err, E2BIG, "the claim's selectors have more than %u bytes",
			CLAIM_SELECTORS_MAX);
	return r < 0 ? fail_within(err, r, "request %.64s", full) : 0;
}

static int claim_read_request(struct resource_claim *claim, json_t *json,
	struct claim_request *request, struct error *err)
{
	json_t *exactly = json_object_get(json, "exactly");
	json_t *list = json_object_get(json, "firstAvailable");
	int r = 0;

	request->name = claim_text(json, "name");
	request->is_list = json_array_size(list);
	if (!request->is_list && !json_is_object(exactly))
		return fail(err, ENOTSUP, "request %.64s: is of no kind that divvy knows",
			request->name);
	request->n = request->is_list ? (uint32_t)json_array_size(list) : 1;
	request->choices = arena_take_array(&claim->arena, request->n, sizeof(*request->choices));
	if (!request->choices)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; r == 0 && i < request->n; i++)
		r = claim_read_choice(claim, request,
			request->is_list ? json_array_get(list, i) : exactly, &request->choices[i],
			err);
	return r;
}

static int claim_read_requests(struct resource_claim *claim, json_t *json, struct error *err)
{
	const size_t n = json_array_size(json);
	int r = 0;

	claim->requests = arena_take_array(&claim->arena, n + 1, sizeof(*claim->requests));
	if (!claim->requests)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = claim_read_request(
			claim, json_array_get(json, i), &claim->requests[claim->n_requests++], err);
	return r;
}

/* ---- constraints ---- */

static int read_distinct(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct constraint *constraint = into;

	constraint->is_distinct = true;
	return read_text(arena, value, &constraint->attribute, err);
}

static const struct read_field constraint_fields[] = {
	READ_FIELD(struct constraint, requests, "requests", read_texts),
	READ_FIELD(struct constraint, attribute, "matchAttribute", read_text),
	READ_WHOLE("distinctAttribute", read_distinct),
};

static int claim_read_constraint(struct resource_claim *claim, json_t *json,
	struct constraint *constraint, struct error *err)
{
	int r = read_fields(&claim->arena, json, constraint_fields, ARRAY_SIZE(constraint_fields),
		constraint, err);

	if (r == 0 && !constraint->attribute)
		r = fail(err, ENOTSUP, "names no attribute");
	return r < 0 ? fail_within(err, r, "constraints") : 0;
}

static int claim_read_constraints(struct resource_claim *claim, json_t *json, struct error *err)
{
	const size_t n = json_array_size(json);
	int r = 0;

	claim->constraints = arena_take_array(&claim->arena, n + 1, sizeof(*claim->constraints));
	if (!claim->constraints)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = claim_read_constraint(claim, json_array_get(json, i),
			&claim->constraints[claim->n_constraints++], err);
	return r;
}

/* ---- allocations ---- */

static int allocation_read_device(
	struct arena *arena, json_t *json, struct claim_device *device, struct error *err)
{
	json_t *consumed = json_object_get(json, "consumedCapacity");

	*device = (struct claim_device){.driver = claim_text(json, "driver"),
		.pool = claim_text(json, "pool"),
		.device = claim_text(json, "device"),
		.is_admin = json_is_true(json_object_get(json, "adminAccess")),
		.is_share = json_is_string(json_object_get(json, "shareID"))};
	if (!json_is_object(consumed))
		return 0;
	return requesteds_read(arena, consumed, &device->consumed, err);
}

int allocation_read(struct arena *arena, json_t *json, struct allocation *ret, struct error *err)
{
	const json_t *results = json_object_get(json_object_get(json, "devices"), "results");
	json_t *selector = json_object_get(json, "nodeSelector");
	const size_t n = json_array_size(results);
	struct allocation allocation = {.json = json};
	int r = 0;

	allocation.devices = arena_take_array(arena, n + 1, sizeof(*allocation.devices));
	if (!allocation.devices)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = allocation_read_device(arena, json_array_get(results, i),
			&allocation.devices[allocation.n++], err);
	if (r == 0 && json_is_object(selector))
		r = node_terms_read(arena, selector, &allocation.nodes, err);
	*ret = allocation;
	return r < 0 ? fail_within(err, r, "allocation") : 0;
}

/* ---- claims ---- */

/* The uid of the owner that is the controller. */
static const char *claim_owner(const json_t *metadata)
{
	const json_t *owners = json_object_get(metadata, "ownerReferences");

	for (size_t i = 0; i < json_array_size(owners); i++)
		if (json_is_true(json_object_get(json_array_get(owners, i), "controller")))
			return claim_text(json_array_get(owners, i), "uid");
	return "";
}

bool resource_claim_is_used_by_others(const struct resource_claim *claim, const char *uid)
{
	const json_t *list = json_object_get(json_object_get(claim->json, "status"), "reservedFor");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(claim_text(json_array_get(list, i), "uid"), uid) != 0)
			return true;
	return false;
}

/* ---- binding conditions ---- */

/* The status that a driver has written about the device of an allocation's result; NULL: none. */
static const json_t *claim_device_status(const json_t *status, const json_t *result)
{
	static const char *const names[] = {"driver", "pool", "device", "shareID"};
	const json_t *list = json_object_get(status, "devices");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);
		bool is_same = true;

		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			is_same &= !strcmp(claim_text(one, names[k]), claim_text(result, names[k]));
		if (is_same)
			return one;
	}
	return NULL;
}

static bool claim_has_condition(const json_t *device, const char *type)
{
	const json_t *list = json_object_get(device, "conditions");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (!strcmp(claim_text(json_array_get(list, i), "type"), type))
			return !strcmp(claim_text(json_array_get(list, i), "status"), "True");
	return false;
}

/* The first of these conditions that the device has, or lacks; NULL: none. */
static const char *claim_first_condition(const json_t *types, const json_t *device, bool has)
{
	for (size_t i = 0; i < json_array_size(types); i++) {
		const char *type = json_string_value(json_array_get(types, i));

		if (type && claim_has_condition(device, type) == has)
			return type;
	}
	return NULL;
}

enum claim_binding resource_claim_binding(const struct resource_claim *claim, const char *before,
	const char **ret_device, const char **ret_condition)
{
	const json_t *status = json_object_get(claim->json, "status");
	const json_t *allocation = json_object_get(status, "allocation");
	const json_t *results = json_object_get(json_object_get(allocation, "devices"), "results");
	const char *time = claim_text(allocation, "allocationTimestamp");
	enum claim_binding binding = CLAIM_READY;

	for (size_t i = 0; i < json_array_size(results); i++) {
		const json_t *result = json_array_get(results, i);
		const json_t *wanted = json_object_get(result, "bindingConditions");
		const json_t *device = claim_device_status(status, result);
		const char *failed = claim_first_condition(
				   json_object_get(result, "bindingFailureConditions"), device,
				   true),
			   *lacks = claim_first_condition(wanted, device, false);

		if (!json_array_size(wanted) || (!failed && !lacks) ||
			(binding == CLAIM_NOT_READY && !failed))
			continue;
		*ret_device = claim_text(result, "device");
		*ret_condition = failed ? failed : lacks;
		if (failed || (before && *time && strcmp(time, before) < 0))
			return CLAIM_FAILED;
		binding = CLAIM_NOT_READY;
	}
	return binding;
}

int resource_claim_new(json_t *json, struct resource_claim **ret, struct error *err)
{
	_cleanup_(resource_claim_free_p) struct resource_claim *claim = calloc(1, sizeof(*claim));
	const json_t *metadata = json_object_get(json, "metadata");
	const json_t *spec = json_object_get(json_object_get(json, "spec"), "devices");
	json_t *allocation = json_object_get(json_object_get(json, "status"), "allocation");
	int r, second = 0;

	if (!claim)
		return fail(err, ENOMEM, "out of memory");
	claim->json = json_incref(json);
	claim->ns = claim_text(metadata, "namespace");
	claim->name = claim_text(metadata, "name");
	claim->uid = claim_text(metadata, "uid");
	claim->owner_uid = claim_owner(metadata);
	claim->version = claim_text(metadata, "resourceVersion");
	claim->is_deleting = *claim_text(metadata, "deletionTimestamp");
	if (!*claim->name)
		return fail(err, EINVAL, "a ResourceClaim without a name");
	r = claim_read_requests(claim, json_object_get(spec, "requests"), &claim->refusal);
	if (r == 0)
		r = claim_read_constraints(
			claim, json_object_get(spec, "constraints"), &claim->refusal);
	/* The devices of a claim count, even if its requests are not understood. */
	if (json_is_object(allocation))
		second = allocation_read(&claim->arena, allocation, &claim->allocation,
			r < 0 ? NULL : &claim->refusal);
	if (r == -ENOMEM || second == -ENOMEM)
		return fail(err, ENOMEM, "out of memory");
	*ret = TAKE_PTR(claim);
	return 0;
}

void resource_claim_forget(struct resource_claim *claim)
{
	for (uint32_t i = 0; i < claim->n_requests; i++)
		for (uint32_t k = 0; claim->requests[i].choices && k < claim->requests[i].n; k++)
			selectors_forget(&claim->requests[i].choices[k].selectors);
}

void resource_claim_free(struct resource_claim *claim)
{
	if (!claim)
		return;
	resource_claim_forget(claim);
	arena_done(&claim->arena);
	json_decref(claim->json);
	free(claim);
}

int device_class_new(json_t *json, struct device_class **ret, struct error *err)
{
	_cleanup_(device_class_free_p) struct device_class *class = calloc(1, sizeof(*class));
	json_t *selectors = json_object_get(json_object_get(json, "spec"), "selectors");
	int r = 0;

	if (!class)
		return fail(err, ENOMEM, "out of memory");
	class->json = json_incref(json);
	class->name = claim_text(json_object_get(json, "metadata"), "name");
	if (!*class->name)
		return fail(err, EINVAL, "a DeviceClass without a name");
	if (selectors)
		r = selectors_read(&class->arena, selectors, &class->selectors, &class->refusal);
	if (r == -ENOMEM)
		return fail(err, ENOMEM, "out of memory");
	*ret = TAKE_PTR(class);
	return 0;
}

void device_class_free(struct device_class *class)
{
	if (!class)
		return;
	selectors_forget(&class->selectors);
	arena_done(&class->arena);
	json_decref(class->json);
	free(class);
}
