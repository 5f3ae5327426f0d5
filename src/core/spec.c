/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builder of specs: one function per field that takes its text, then spec_finish for the rules
 * between fields. Until spec_finish a field that nobody set holds its UNSET value, and `request`
 * and `limit` may be whole numbers above one device. A finished spec may be changed and finished
 * again. Pure; any thread.
 */
#include "core/spec.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/str.h"

#define UNSET 0u /* of request, limit, count: 0 is no value of theirs */
#define PRIORITY_UNSET UINT32_MAX
#define PRIORITY_DEFAULT 50u
#define PRIORITY_MAX 100u

/* A value in a sentence is cut here, so that the sentence has room for what would be right. */
#define SHOW "%.48s"

#define SHARE_RANGE "0.001 to 1 in steps of 0.001"

static const char *const class_names[] = {
	[SPEC_LATENCY] = "latency",
	[SPEC_STANDARD] = "standard",
	[SPEC_OPPORTUNISTIC] = "opportunistic",
};

static const char *const memory_policy_names[] = {
	[SPEC_MEMORY_FAIL] = "fail",
	[SPEC_MEMORY_WAIT] = "wait",
	[SPEC_MEMORY_SWAP] = "swap",
};

static const char *const mode_names[] = {
	[SPEC_MODE_AUTO] = "auto",
	[SPEC_MODE_EXCLUSIVE] = "exclusive",
	[SPEC_MODE_LOCAL] = "local",
	[SPEC_MODE_REMOTE] = "remote",
};

/* The place of `value` among the names, or -1. */
static int find_name(const char *const *names, size_t n, const char *value)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], value))
			return (int)i;
	return -1;
}

static int set_request(struct spec *spec, const char *value, struct error *err)
{
	uint32_t request;

	if (parse_share(str_from(value), &request, NULL) < 0 || request == 0)
		return fail(err, EINVAL,
			"gpu request " SHOW ": allowed is " SHARE_RANGE
			", or a whole number of GPUs up to %u",
			value, SPEC_DEVICES_MAX);
	if (request > SPEC_SHARE_ONE && request % SPEC_SHARE_ONE)
		return fail(err, EINVAL,
			"gpu request " SHOW ": a request above 1 must be a whole number of GPUs",
			value);
	if (request > SPEC_DEVICES_MAX * SPEC_SHARE_ONE)
		return fail(err, EINVAL,
			"gpu request " SHOW ": at most %u GPUs are possible for one tenant", value,
			SPEC_DEVICES_MAX);
	if (spec->exclusive) { /* they came with the old request */
		spec->count = UNSET;
		spec->limit = UNSET;
		spec->exclusive = false;
	}
	spec->request = request;
	return 0;
}

static int set_limit(struct spec *spec, const char *value, struct error *err)
{
	uint32_t limit;

	if (parse_share(str_from(value), &limit, NULL) < 0 || limit == 0 ||
		(limit > SPEC_SHARE_ONE && limit % SPEC_SHARE_ONE))
		return fail(err, EINVAL,
			"gpu limit " SHOW ": allowed is " SHARE_RANGE ", and not below the request",
			value);
	spec->limit = limit;
	return 0;
}

static int set_count(struct spec *spec, const char *value, struct error *err)
{
	uint64_t count;

	if (parse_uint(str_from(value), 1, SPEC_DEVICES_MAX, &count, NULL) < 0)
		return fail(err, EINVAL, "count " SHOW ": allowed is 1 to %u devices", value,
			SPEC_DEVICES_MAX);
	spec->count = (uint32_t)count;
	return 0;
}

static int set_memory(struct spec *spec, const char *value, struct error *err)
{
	struct str text = str_from(value);
	uint32_t permille = 0;
	uint64_t bytes = 0;
	int r;

	r = str_has_suffix(text, STR("%")) ? parse_percent(text, &permille, NULL)
					   : parse_bytes(text, &bytes, NULL);
	if (r < 0 || (bytes == 0 && permille == 0))
		return fail(err, EINVAL,
			"memory " SHOW
			": allowed is a number of bytes, a quantity such as 4Gi, or a "
			"percentage of the device from 0.1%% to 100%%",
			value);
	spec->memory_bytes = bytes;
	spec->memory_permille = permille;
	return 0;
}

static int set_memory_policy(struct spec *spec, const char *value, struct error *err)
{
	int policy = find_name(memory_policy_names, ARRAY_SIZE(memory_policy_names), value);

	if (policy < 0)
		return fail(err, EINVAL, "memory-policy " SHOW ": allowed is fail, wait or swap",
			value);
	spec->memory_policy = (enum spec_memory_policy)policy;
	return 0;
}

static int set_class(struct spec *spec, const char *value, struct error *err)
{
	int class = find_name(class_names, ARRAY_SIZE(class_names), value);

	if (class < 0)
		return fail(err, EINVAL,
			"class " SHOW ": allowed is latency, standard or opportunistic", value);
	/* A priority of 0 said "opportunistic" too; what is said last holds. */
	if (spec->class == SPEC_OPPORTUNISTIC && class != SPEC_OPPORTUNISTIC && spec->priority == 0)
		spec->priority = PRIORITY_UNSET;
	spec->class = (enum spec_class) class;
	return 0;
}

static int set_priority(struct spec *spec, const char *value, struct error *err)
{
	uint64_t priority;

	if (parse_uint(str_from(value), 0, PRIORITY_MAX, &priority, NULL) < 0)
		return fail(err, EINVAL, "priority " SHOW ": allowed is 0 (opportunistic) to %u",
			value, PRIORITY_MAX);
	spec->priority = (uint32_t)priority;
	return 0;
}

static int set_mode(struct spec *spec, const char *value, struct error *err)
{
	int mode = find_name(mode_names, ARRAY_SIZE(mode_names), value);

	if (mode < 0)
		return fail(err, EINVAL,
			"mode " SHOW ": allowed is auto, exclusive, local or remote", value);
	spec->mode = (enum spec_mode)mode;
	return 0;
}

/* Names of hardware: shown again on terminals and in JSON, so printable ASCII alone. */
static int set_label(char *label, const char *field, const char *value, struct error *err)
{
	size_t n = strlen(value);

	for (size_t i = 0; i < n; i++)
		if (!isprint((unsigned char)value[i]))
			return fail(err, EINVAL,
				"%s: character %zu is not a printable one of ASCII", field, i + 1);
	if (n == 0 || n >= SPEC_LABEL)
		return fail(err, EINVAL, "%s '" SHOW "': allowed is 1 to %u characters", field,
			value, SPEC_LABEL - 1);
	memset(label, 0, SPEC_LABEL);
	memcpy(label, value, n);
	return 0;
}

static int set_model(struct spec *spec, const char *value, struct error *err)
{
	return set_label(spec->model, "model", value, err);
}

static int set_device(struct spec *spec, const char *value, struct error *err)
{
	return set_label(spec->device, "device", value, err);
}

#define ROW(field, help) {#field, set_##field},
static const struct {
	const char *name;
	int (*set)(struct spec *spec, const char *value, struct error *err);
} fields[] = {SPEC_FIELDS(ROW)};
#undef ROW

static bool is_field(const char *name, const char *given)
{
	for (; *name && *given; name++, given++)
		if (*name != *given && !(*name == '_' && *given == '-'))
			return false;
	return !*name && !*given;
}

void spec_init(struct spec *ret_spec)
{
	*ret_spec = (struct spec){
		.class = SPEC_STANDARD,
		.priority = PRIORITY_UNSET,
	};
}

int spec_set(struct spec *spec, const char *field, const char *value, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (is_field(fields[i].name, field))
			return fields[i].set(spec, value, err);
	return fail(err, ENOENT,
		"unknown field '" SHOW "': there are request, limit, count, memory, memory-policy, "
		"class, priority, mode, model and device",
		field);
}

/* A whole number of GPUs: that many devices, all of each. */
static int finish_exclusive(struct spec *spec, struct error *err)
{
	uint32_t devices = spec->request / SPEC_SHARE_ONE;

	if (spec->count > 1)
		return fail(err, EINVAL,
			"count %u: gpu request %u already says how many devices; leave count out, "
			"or "
			"request less than 1 of each",
			spec->count, devices);
	if (spec->limit != UNSET && spec->limit != spec->request)
		return fail(err, EINVAL,
			"gpu limit %s: with gpu request %u the limit is %u, or leave it out",
			format_share(spec->limit).s, devices, devices);
	spec->exclusive = true;
	spec->count = devices;
	spec->request = SPEC_SHARE_ONE;
	spec->limit = SPEC_SHARE_ONE;
	return 0;
}

static int finish_share(struct spec *spec, struct error *err)
{
	if (spec->limit == UNSET)
		spec->limit = SPEC_SHARE_ONE;
	if (spec->limit > SPEC_SHARE_ONE)
		return fail(err, EINVAL,
			"gpu limit %s: with gpu request %s the limit is at most 1 of each device",
			format_share(spec->limit).s, format_share(spec->request).s);
	if (spec->limit < spec->request)
		return fail(err, EINVAL,
			"gpu limit %s: is below gpu request %s; allowed is %s to 1",
			format_share(spec->limit).s, format_share(spec->request).s,
			format_share(spec->request).s);
	if (spec->count == UNSET)
		spec->count = 1;
	return 0;
}

int spec_finish(struct spec *spec, struct error *err)
{
	struct spec done = *spec;
	int r;

	if (done.request == UNSET)
		return fail(err, EINVAL,
			"gpu request is missing: write " SHARE_RANGE
			", or a whole number of GPUs up to %u",
			SPEC_DEVICES_MAX);
	if (done.exclusive) {
		if (done.limit != SPEC_SHARE_ONE)
			return fail(err, EINVAL,
				"gpu limit %s: with gpu request %u the limit is %u",
				format_share(done.limit).s, done.count, done.count);
	} else {
		r = done.request % SPEC_SHARE_ONE ? finish_share(&done, err)
						  : finish_exclusive(&done, err);
		if (r < 0)
			return r;
	}
	if (done.priority == PRIORITY_UNSET)
		done.priority = done.class == SPEC_OPPORTUNISTIC ? 0 : PRIORITY_DEFAULT;
	if (done.priority == 0 && done.class == SPEC_LATENCY)
		return fail(err, EINVAL,
			"priority 0: means opportunistic, which class latency is not; allowed is 1 "
			"to %u",
			PRIORITY_MAX);
	if (done.priority == 0)
		done.class = SPEC_OPPORTUNISTIC;
	if (done.mode == SPEC_MODE_EXCLUSIVE && !done.exclusive)
		return fail(err, EINVAL,
			"mode exclusive: gpu request %s is part of a GPU; request a whole number "
			"of GPUs",
			format_share(done.request).s);
	*spec = done;
	return 0;
}

int spec_name_check(const char *name, struct error *err)
{
	size_t n = strspn(
		name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	if (!n || name[n] || n >= SPEC_NAME)
		return fail(err, EINVAL, "name '%.80s': expected 1 to %u of A-Z a-z 0-9 . _ -",
			name, SPEC_NAME - 1);
	return 0;
}

uint64_t spec_memory_on(const struct spec *spec, uint64_t device_bytes)
{
	uint64_t permille = spec->memory_permille ? spec->memory_permille : spec->request;

	if (spec->memory_bytes)
		return spec->memory_bytes;
	/* Exact without overflow: whole thousands, then what is left. */
	return device_bytes / SPEC_SHARE_ONE * permille +
		device_bytes % SPEC_SHARE_ONE * permille / SPEC_SHARE_ONE;
}

const char *spec_class_name(enum spec_class class)
{
	return (size_t) class < ARRAY_SIZE(class_names) ? class_names[class] : "unknown";
}

const char *spec_memory_policy_name(enum spec_memory_policy policy)
{
	return (size_t)policy < ARRAY_SIZE(memory_policy_names) ? memory_policy_names[policy]
								: "unknown";
}

const char *spec_mode_name(enum spec_mode mode)
{
	return (size_t)mode < ARRAY_SIZE(mode_names) ? mode_names[mode] : "unknown";
}

char *spec_share_format(uint32_t permille, char ret[static 8])
{
	struct text text = format_share(permille);

	memset(ret, 0, 8);
	memcpy(ret, text.s, strnlen(text.s, 7));
	return ret;
}
