/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of claims. `fields` has the fields that parameters may set, and `elsewhere` says where
 * a claim states what the other fields of a spec state. Values go through spec_set_value(), so
 * their errors are the sentences that annotations have. Pure; any thread.
 */
#include "manifest/claim-config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/str.h"
#include "kube/kube-json.h"
#include "manifest/requested-json.h"
#include "spec/quantity.h"

#define PRIORITY_UNSET UINT32_MAX /* as spec_init() leaves it */
#define CLASS_SUFFIX ".divvy.gpu"

enum field { REQUEST, LIMIT, MEMORY, MEMORY_POLICY, CLASS, PRIORITY, FIELDS };

static const char *const fields[FIELDS] = {
	[REQUEST] = "request",
	[LIMIT] = "limit",
	[MEMORY] = "memory",
	[MEMORY_POLICY] = "memory-policy",
	[CLASS] = "class",
	[PRIORITY] = "priority",
};

#define ALLOWED "limit, memoryPolicy, class, priority, request or memory"
#define BY_CONSTRAINT "use matchAttribute or distinctAttribute in the claim's constraints"
#define BY_PODS "a group is a property of pods, and needs shares by annotations"

static const struct {
	const char *field, *instead;
} elsewhere[] = {
	{"count", "set count of the claim's request"},
	{"mode", "a claim always has devices of the pod's own node"},
	{"model", "use a selector on device.attributes[\"divvy.gpu\"].model"},
	{"device", "use a selector on device.attributes[\"divvy.gpu\"].uuid"},
	{"affinity", "let containers share one claim, or " BY_CONSTRAINT},
	{"anti-affinity", BY_CONSTRAINT},
	{"preferred-anti-affinity", BY_CONSTRAINT},
	{"exclusion", "request whole devices of the class gpu.divvy.gpu"},
	{"group", BY_PODS},
	{"group-size", BY_PODS},
	{"group-threshold", BY_PODS},
	{"network", "a claim always has devices of the pod's own node"},
};

/* ---- capacity ---- */

static int capacity_set(
	const char *name, const char *text, struct claim_capacity *capacity, struct error *err)
{
	const bool is_share = !strcmp(name, CLAIM_CAPACITY_SHARE);
	uint64_t value;

	if (!is_share && strcmp(name, CLAIM_CAPACITY_MEMORY))
		return fail(err, EINVAL,
			"capacity '%.63s': unknown; expected " CLAIM_CAPACITY_SHARE
			" or " CLAIM_CAPACITY_MEMORY,
			name);
	if (quantity_parse(str_from(text), 1, &value, NULL) < 0 || value == 0 ||
		(is_share && value > SPEC_SHARE_ONE))
		return is_share
			? fail(err, EINVAL,
				  "capacity share '%.48s': expected 1 to 1000, in thousandths of a "
				  "device; for several devices set count",
				  text)
			: fail(err, EINVAL,
				  "capacity memory '%.48s': expected bytes or a quantity such as "
				  "4Gi",
				  text);
	if (is_share)
		capacity->share_permille = (uint32_t)value;
	else
		capacity->memory_bytes = value;
	return 0;
}

int claim_capacity_read(
	const json_t *capacity, struct claim_capacity *ret_capacity, struct error *err)
{
	struct claim_capacity read = {0};
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)capacity, name, value) {
		_cleanup_json_ json_t *text = requested_json_text(value);
		int r = capacity_set(name, text ? json_string_value(text) : "", &read, err);

		if (r < 0)
			return r;
	}
	*ret_capacity = read;
	return 0;
}

/* ---- parameters ---- */

static int claim_refuse_unknown(const char *field, struct error *err)
{
	char name[SPEC_FIELD], best[SPEC_FIELD] = "";
	size_t nearest = 3;

	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++) {
		requested_json_field(elsewhere[i].field, name);
		if (!strcmp(field, name))
			return fail(err, EINVAL, "%s: not a parameter of a claim; %s", field,
				elsewhere[i].instead);
	}
	for (size_t i = 0; i < FIELDS; i++) {
		size_t d;

		requested_json_field(fields[i], name);
		d = str_distance(str_from(field), str_from(name));
		if (d < nearest) {
			nearest = d;
			memcpy(best, name, sizeof(best));
		}
	}
	if (best[0])
		return fail(err, EINVAL, "'%.63s': unknown field; did you mean %s?", field, best);
	return fail(err, EINVAL, "'%.63s': unknown field; expected " ALLOWED, field);
}

static int claim_set_field(
	struct spec *spec, const char *field, const json_t *value, bool *is_set, struct error *err)
{
	char name[SPEC_FIELD] = "";
	_cleanup_json_ json_t *text = NULL;
	struct error why;
	size_t i = 0;
	int r;

	for (; i < FIELDS; i++) {
		requested_json_field(fields[i], name);
		if (!strcmp(field, name))
			break;
	}
	if (i == FIELDS)
		return claim_refuse_unknown(field, err);
	if (json_is_null(value))
		return 0;
	text = requested_json_text(value);
	if (!text)
		return fail(err, EINVAL, "%s: has to be text or a number", field);
	r = spec_set_value(spec, fields[i], json_string_value(text), false, &why);
	if (r < 0)
		return fail(err, -r, "%s %s", field, why.msg);
	if (spec->memory_permille)
		return fail(err, EINVAL,
			"memory '%.16s': the capacity of a claim is in bytes; write bytes or a "
			"quantity such as 4Gi, or leave memory out",
			json_string_value(text));
	is_set[i] = true;
	return 0;
}

/* Sets the fields of one object of parameters, and marks them in is_set. */
static int apply(
	const json_t *parameters, struct spec *spec, bool is_set[static FIELDS], struct error *err)
{
	const char *version = kube_json_text_at(parameters, "apiVersion", NULL),
		   *kind = kube_json_text_at(parameters, "kind", NULL), *field;
	json_t *value;

	if (!version || strcmp(version, CLAIM_API_VERSION))
		return fail(err, EINVAL, "apiVersion '%.63s': expected " CLAIM_API_VERSION,
			version ? version : "");
	if (!kind || strcmp(kind, CLAIM_KIND))
		return fail(err, EINVAL, "kind '%.63s': expected " CLAIM_KIND, kind ? kind : "");
	json_object_foreach((json_t *)parameters, field, value) {
		int r = 0;

		if (strcmp(field, "apiVersion") && strcmp(field, "kind"))
			r = claim_set_field(spec, field, value, is_set, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- lists of parameters ---- */

/* The request as results name it: "gpu", or "gpu/half" for a subrequest. */
struct request_name {
	const char *main, *sub;
	size_t n_main;
};

/* Whether the list names that request, or is empty. The name of a request has its subrequests. */
static bool claim_has_request(const json_t *requests, const struct request_name *request)
{
	for (size_t i = 0; i < json_array_size(requests); i++) {
		struct str name = str_from(json_string_value(json_array_get(requests, i)));
		const struct str main = {request->main, request->n_main};

		if (str_eq(name, main) ||
			(request->sub[0] && str_skip_prefix(&name, main) &&
				str_skip_prefix(&name, STR("/")) && str_is(name, request->sub)))
			return true;
	}
	return json_array_size(requests) == 0;
}

static bool claim_is_for_us(const json_t *config)
{
	const char *driver = kube_json_text_at(config, "opaque", "driver", NULL);

	return driver && !strcmp(driver, CLAIM_DRIVER);
}

static bool is_from_class(const json_t *config)
{
	return !strcmp(kube_json_text(config, "source"), "FromClass");
}

/*
 * Applies the entries of one source for that request; NULL: for any request. Returns how many there
 * were.
 */
static int apply_list(const json_t *configs, bool is_class, const struct request_name *request,
	struct spec *spec, bool is_set[static FIELDS], struct error *err)
{
	int n = 0;

	for (size_t i = 0; i < json_array_size(configs); i++) {
		const json_t *config = json_array_get(configs, i);
		int r;

		if (!claim_is_for_us(config) || is_from_class(config) != is_class ||
			(request &&
				!claim_has_request(json_object_get(config, "requests"), request)))
			continue;
		r = apply(kube_json_at(config, "opaque", "parameters", NULL), spec, is_set, err);
		if (r < 0)
			return fail_within(err, r, "config[%zu].opaque.parameters", i);
		n++;
	}
	return n;
}

/* ---- annotations ---- */

static const enum field live_fields[] = {LIMIT, CLASS, PRIORITY};

bool claim_has_annotations(const json_t *annotations)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)annotations, key, value)
		if (str_has_prefix(str_from(key), STR(CLAIM_ANNOTATION)))
			return true;
	return false;
}

static int apply_annotation(const char *field, const json_t *value, struct spec *spec,
	bool is_set[static FIELDS], struct error *err)
{
	struct error why;

	for (size_t i = 0; i < ARRAY_SIZE(live_fields); i++) {
		const enum field f = live_fields[i];
		int r;

		if (strcmp(field, fields[f]) != 0)
			continue;
		r = spec_set_value(spec, fields[f], json_string_value(value), false, &why);
		is_set[f] = true;
		return r < 0 ? fail(err, -r, "annotation " CLAIM_ANNOTATION "%s %s", field, why.msg)
			     : 0;
	}
	for (size_t i = 0; i < FIELDS; i++)
		if (!strcmp(field, fields[i]))
			return fail(err, EINVAL,
				"annotation " CLAIM_ANNOTATION
				"%s: stays as long as the claim is allocated; create another "
				"claim, or change limit, class or priority",
				field);
	return fail(err, EINVAL,
		"annotation '" CLAIM_ANNOTATION
		"%.63s': unknown on a claim; expected limit, class or priority",
		field);
}

static int apply_annotations(
	const json_t *annotations, struct spec *spec, bool is_set[static FIELDS], struct error *err)
{
	const char *key;
	json_t *value;
	int r = 0;

	json_object_foreach((json_t *)annotations, key, value) {
		struct str field = str_from(key);

		if (r >= 0 && json_is_string(value) &&
			str_skip_prefix(&field, STR(CLAIM_ANNOTATION)))
			r = apply_annotation(field.p, value, spec, is_set, err);
	}
	return r;
}

/* ---- rules between class, claim and capacity ---- */

/* A claim may only ask for less than what its class sets. */
static int check_bounds(const struct spec *class, const bool has_class[static FIELDS],
	const struct spec *spec, struct error *err)
{
	if (has_class[LIMIT] && spec->limit > class->limit)
		return fail(err, EINVAL,
			"limit %s: the claim's device class allows at most %s; set a smaller "
			"limit, or choose another class",
			format_share(spec->limit).s, format_share(class->limit).s);
	if (has_class[PRIORITY] && spec->priority > class->priority)
		return fail(err, EINVAL,
			"priority %u: the claim's device class allows 0 to %u; set a lower "
			"priority, or choose another class",
			spec->priority, class->priority);
	/* the classes are in the order of what they may take from others */
	if (has_class[CLASS] && spec->class < class->class)
		return fail(err, EINVAL,
			"class %s: the claim's device class allows %s%s; set that class, or choose "
			"another device class",
			spec_class_name(spec->class),
			class->class == SPEC_STANDARD ? "standard or " : "",
			spec_class_name(SPEC_OPPORTUNISTIC));
	return 0;
}

/* Rounds up to the step of the capacity, as the scheduler does. */
static uint64_t claim_memory_whole(uint64_t bytes)
{
	const uint64_t rest = bytes % SPEC_MEMORY_BLOCK;

	return rest ? bytes - rest + SPEC_MEMORY_BLOCK : bytes;
}

/* Puts the capacity into the spec, which must not contradict the capacity. */
static int set_capacity(struct spec *spec, const struct claim_grant *grant, struct error *err)
{
	const struct claim_capacity *capacity = &grant->capacity;
	const bool is_whole = grant->is_whole || capacity->share_permille == SPEC_SHARE_ONE;
	const uint32_t request = is_whole ? grant->count * SPEC_SHARE_ONE
					  : capacity->share_permille;

	if (spec->request && spec->request != request)
		return fail(err, EINVAL,
			"request %s: the claim's capacity share is %s; leave request out, and "
			"state the capacity share: %u",
			format_share(spec->request).s, format_share(request).s,
			MIN(spec->request, SPEC_SHARE_ONE));
	if (spec->memory_bytes && capacity->memory_bytes &&
		claim_memory_whole(spec->memory_bytes) !=
			claim_memory_whole(capacity->memory_bytes))
		return fail(err, EINVAL,
			"memory %s: the claim's capacity memory is %s; leave memory out, and state "
			"the capacity memory: %s",
			format_bytes_exact(spec->memory_bytes).s,
			format_bytes_exact(capacity->memory_bytes).s,
			format_bytes_exact(spec->memory_bytes).s);
	spec->request = request;
	spec->count = is_whole ? 0 : grant->count; /* whole devices: the request is their number */
	if (capacity->memory_bytes)
		spec->memory_bytes = capacity->memory_bytes;
	return spec_finish(spec, err);
}

static struct request_name request_name_of(const char *request)
{
	const size_t n = str_find(str_from(request), '/');

	return (struct request_name){request, request[n] ? request + n + 1 : "", n};
}

int claim_config_read(const json_t *configs, const json_t *annotations,
	const struct claim_grant *grant, struct spec *ret_spec, struct error *err)
{
	const struct request_name request = request_name_of(grant->request);
	bool has_class[FIELDS] = {false}, has_claim[FIELDS] = {false};
	struct spec spec, class;
	int r;

	if (!grant->count || grant->count > SPEC_DEVICES_MAX)
		return fail(err, EINVAL, "request '%.63s': %u devices; one tenant gets 1 to %u",
			grant->request, grant->count, SPEC_DEVICES_MAX);
	if (!grant->is_whole && (!grant->capacity.share_permille || !grant->capacity.memory_bytes))
		return fail(err, EINVAL,
			"request '%.63s': the allocation has no capacity " CLAIM_CAPACITY_SHARE
			" and " CLAIM_CAPACITY_MEMORY,
			grant->request);
	spec_init(&spec);
	r = apply_list(configs, true, &request, &spec, has_class, err);
	if (r < 0)
		return r;
	class = spec;
	r = apply_list(configs, false, &request, &spec, has_claim, err);
	r = r < 0 ? r : apply_annotations(annotations, &spec, has_claim, err);
	if (r < 0)
		return r;
	r = check_bounds(&class, has_class, &spec, err);
	if (r < 0)
		return r;
	r = set_capacity(&spec, grant, err);
	if (r < 0)
		return r;
	*ret_spec = spec;
	return 0;
}

/* ---- claims and classes before their allocation ---- */

/* A claim whose requests are checked. */
struct check {
	const json_t *configs, *constraints, *annotations;
	claim_request_fn *each;
	void *data;
};

static bool has_distinct(const json_t *constraints, const struct request_name *request)
{
	for (size_t i = 0; i < json_array_size(constraints); i++) {
		const json_t *one = json_array_get(constraints, i);

		if (!strcmp(kube_json_text(one, "distinctAttribute"), CLAIM_UUID) &&
			claim_has_request(json_object_get(one, "requests"), request))
			return true;
	}
	return false;
}

/* Reads what a request for divvy's driver alone may state. */
static int check_ours(const json_t *exact, struct claim_request *q, struct error *err)
{
	const json_t *count = json_object_get(exact, "count");

	if (json_is_true(json_object_get(exact, "adminAccess")))
		return fail(err, EINVAL,
			"adminAccess: divvy's driver gives no access to devices beside tenants; "
			"read divvyd's metrics, or use 'divvy top' on the node");
	if (json_is_integer(count) && json_integer_value(count) > SPEC_DEVICES_MAX)
		return fail(err, EINVAL,
			"count %lld: a request is one tenant, which gets at most %u devices; use "
			"several requests",
			(long long)json_integer_value(count), SPEC_DEVICES_MAX);
	if (json_is_integer(count) && json_integer_value(count) > 0)
		q->count = (uint32_t)json_integer_value(count);
	return claim_capacity_read(
		kube_json_at(exact, "capacity", "requests", NULL), &q->capacity, err);
}

/* Checks a request or subrequest; `exact` has its class and capacity. */
static int check_exact(
	const struct check *check, const json_t *exact, struct claim_request *q, struct error *err)
{
	const struct request_name name = {q->name, q->subrequest, strlen(q->name)};
	bool is_set[FIELDS] = {false};
	struct claim_grant grant = {.request = q->name};
	int n, r;

	q->count = 1;
	q->device_class = kube_json_text(exact, "deviceClassName");
	q->is_ours = str_has_suffix(str_from(q->device_class), STR(CLASS_SUFFIX));
	spec_init(&q->spec);
	n = apply_list(check->configs, false, &name, &q->spec, is_set, err);
	if (n < 0)
		return n;
	if (!n && !q->is_ours)
		return 0;
	r = apply_annotations(check->annotations, &q->spec, is_set, err);
	if (r < 0)
		return r;
	q->has_distinct = has_distinct(check->constraints, &name);
	/* other drivers' classes have capacities of other names and units */
	r = q->is_ours ? check_ours(exact, q, err) : 0;
	if (r < 0)
		return r;
	grant.count = q->count;
	grant.capacity = q->capacity;
	grant.is_whole = q->is_ours && !q->capacity.share_permille;
	if (!q->is_ours) {
		grant.capacity.share_permille = 1;
		q->spec.request = 0;
		q->spec.limit = MIN(q->spec.limit, SPEC_SHARE_ONE);
	}
	r = set_capacity(&q->spec, &grant, err);
	return r < 0 ? r : check->each(check->data, q, err);
}

static int check_request(const struct check *check, const json_t *request, struct error *err)
{
	const json_t *list = json_object_get(request, "firstAvailable"),
		     *exactly = json_object_get(request, "exactly");
	struct claim_request q = {.name = kube_json_text(request, "name"), .subrequest = ""};
	int r = 0;

	/* v1beta1 has the fields of `exactly` in the request itself */
	if (!json_array_size(list)) {
		r = check_exact(check, exactly ? exactly : request, &q, err);
		return r < 0 ? fail_within(err, r, "request '%.63s'", q.name) : 0;
	}
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);

		q = (struct claim_request){
			.name = q.name, .subrequest = kube_json_text(item, "name")};
		r = check_exact(check, item, &q, err);
		if (r < 0)
			return fail_within(err, r, "request '%.63s/%.63s'", q.name, q.subrequest);
	}
	return 0;
}

int claim_config_check_claim(const json_t *devices, const json_t *annotations,
	claim_request_fn *each, void *data, struct error *err)
{
	const json_t *requests = json_object_get(devices, "requests");
	const struct check check = {json_object_get(devices, "config"),
		json_object_get(devices, "constraints"), annotations, each, data};
	bool is_set[FIELDS] = {false};
	struct spec any;
	int r;

	/* first all parameters alone: their messages name the entry instead of a request */
	spec_init(&any);
	r = apply_list(check.configs, false, NULL, &any, is_set, err);
	for (size_t i = 0; r >= 0 && i < json_array_size(requests); i++)
		r = check_request(&check, json_array_get(requests, i), err);
	return r < 0 ? r : 0;
}

int claim_config_check_class(const json_t *spec, struct error *err)
{
	bool is_set[FIELDS] = {false};
	struct spec any;
	int r;

	spec_init(&any);
	r = apply_list(json_object_get(spec, "config"), false, NULL, &any, is_set, err);
	return r < 0 ? r : 0;
}
