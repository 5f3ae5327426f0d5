/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds specs: one function for each field parses its text, and spec_finish checks the rules
 * between fields. Until spec_finish, an unset field has its UNSET value, and `request` and `limit`
 * may be whole numbers above one device. A finished spec may be changed and finished again. Pure;
 * any thread.
 */
#include "spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/str.h"
#include "spec/quantity.h"

#define UNSET 0u /* request, limit or count that is not set yet: the set values are never 0 */
#define PRIORITY_UNSET UINT32_MAX
#define PRIORITY_DEFAULT 50u

/* Quotes at most 48 bytes of a value, so that the message has room for the allowed range. */
#define SHOW "'%.48s'"

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

/* The index of `value` among the names, or -1. */
static int spec_find_name(const char *const *names, size_t n, const char *value)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], value))
			return (int)i;
	return -1;
}

static int spec_set_request(struct spec *spec, const char *value, struct error *err)
{
	uint32_t request;

	if (parse_share(str_from(value), &request, NULL) < 0 || request == 0)
		return fail(err, EINVAL,
			SHOW ": expected " SHARE_RANGE ", or a whole number of GPUs up to %u",
			value, SPEC_DEVICES_MAX);
	if (request > SPEC_SHARE_ONE && request % SPEC_SHARE_ONE)
		return fail(err, EINVAL, SHOW ": above 1, expected a whole number of GPUs", value);
	if (request > SPEC_DEVICES_MAX * SPEC_SHARE_ONE)
		return fail(err, EINVAL, SHOW ": one tenant gets at most %u GPUs", value,
			SPEC_DEVICES_MAX);
	/* an earlier finish_exclusive() has set count and limit from the old request */
	if (spec->exclusive) {
		spec->count = UNSET;
		spec->limit = UNSET;
		spec->exclusive = false;
	}
	spec->request = request;
	return 0;
}

static int spec_set_limit(struct spec *spec, const char *value, struct error *err)
{
	uint32_t limit;

	if (parse_share(str_from(value), &limit, NULL) < 0 || limit == 0 ||
		(limit > SPEC_SHARE_ONE && limit % SPEC_SHARE_ONE))
		return fail(err, EINVAL,
			SHOW ": expected " SHARE_RANGE ", and not below the request", value);
	spec->limit = limit;
	return 0;
}

static int spec_set_count(struct spec *spec, const char *value, struct error *err)
{
	uint64_t count;

	if (parse_uint(str_from(value), 1, SPEC_DEVICES_MAX, &count, NULL) < 0)
		return fail(
			err, EINVAL, SHOW ": expected 1 to %u devices", value, SPEC_DEVICES_MAX);
	spec->count = (uint32_t)count;
	return 0;
}

static int spec_set_memory(struct spec *spec, const char *value, struct error *err)
{
	struct str text = str_from(value);
	uint32_t permille = 0;
	uint64_t bytes = 0;
	int r;

	r = str_has_suffix(text, STR("%")) ? parse_percent(text, &permille, NULL)
					   : parse_bytes(text, &bytes, NULL);
	if (r < 0 || (bytes == 0 && permille == 0))
		return fail(err, EINVAL,
			SHOW
			": expected bytes or a quantity such as 4Gi, less than 8192Pi, or 0.1%% "
			"to 100%% of the device",
			value);
	spec->memory_bytes = bytes;
	spec->memory_permille = permille;
	return 0;
}

static int spec_set_memory_policy(struct spec *spec, const char *value, struct error *err)
{
	int policy = spec_find_name(memory_policy_names, ARRAY_SIZE(memory_policy_names), value);

	if (policy < 0)
		return fail(err, EINVAL, SHOW ": expected fail, wait or swap", value);
	spec->memory_policy = (enum spec_memory_policy)policy;
	return 0;
}

static int spec_set_class(struct spec *spec, const char *value, struct error *err)
{
	int class = spec_find_name(class_names, ARRAY_SIZE(class_names), value);

	if (class < 0)
		return fail(
			err, EINVAL, SHOW ": expected latency, standard or opportunistic", value);
	/*
	 * An earlier priority of 0 has made the spec opportunistic; of priority and class the later
	 * one counts.
	 */
	if (spec->class == SPEC_OPPORTUNISTIC && class != SPEC_OPPORTUNISTIC && spec->priority == 0)
		spec->priority = PRIORITY_UNSET;
	spec->class = (enum spec_class) class;
	return 0;
}

static int spec_set_priority(struct spec *spec, const char *value, struct error *err)
{
	uint64_t priority;

	if (parse_uint(str_from(value), 0, SPEC_PRIORITY_MAX, &priority, NULL) < 0)
		return fail(err, EINVAL, SHOW ": expected 0 (opportunistic) to %u", value,
			SPEC_PRIORITY_MAX);
	spec->priority = (uint32_t)priority;
	return 0;
}

static int spec_set_mode(struct spec *spec, const char *value, struct error *err)
{
	int mode = spec_find_name(mode_names, ARRAY_SIZE(mode_names), value);

	if (mode < 0)
		return fail(err, EINVAL, SHOW ": expected auto, exclusive, local or remote", value);
	spec->mode = (enum spec_mode)mode;
	return 0;
}

/* Accepts only printable ASCII, because names appear on terminals and in JSON. */
static int spec_set_text(char *text, size_t size, const char *value, struct error *err)
{
	size_t n = strlen(value);

	for (size_t i = 0; i < n; i++)
		if (!isprint((unsigned char)value[i]))
			return fail(err, EINVAL, "character %zu is not printable ASCII", i + 1);
	if (n >= size)
		return fail(err, EINVAL, SHOW ": expected 1 to %zu characters", value, size - 1);
	memset(text, 0, size);
	memcpy(text, value, n);
	return 0;
}

static int spec_set_label(char *label, size_t size, const char *value, struct error *err)
{
	if (!value[0])
		return fail(err, EINVAL, "'': expected 1 to %zu characters", size - 1);
	return spec_set_text(label, size, value, err);
}

/*
 * Cuts the next item off a pattern, such as "A100", "!T4" or "=NAME": the name and its signs. False
 * after the last.
 */
static bool spec_next_item(struct str *rest, struct str *ret_name, bool *ret_not, bool *ret_whole)
{
	if (!str_split(rest, ',', ret_name))
		return false;
	*ret_name = str_trim(*ret_name);
	*ret_not = str_skip_prefix(ret_name, STR("!"));
	*ret_whole = str_skip_prefix(ret_name, STR("="));
	*ret_name = str_trim(*ret_name);
	return true;
}

static int spec_set_pattern(char *pattern, const char *value, struct error *err)
{
	struct str rest = str_from(value), name;
	bool is_not, is_whole;

	while (spec_next_item(&rest, &name, &is_not, &is_whole))
		if (!name.n)
			return fail(err, EINVAL,
				SHOW ": expected 1 to %u characters: names separated by "
				     "commas, !NAME to exclude a name",
				value, SPEC_PATTERN - 1);
	return spec_set_text(pattern, SPEC_PATTERN, value, err);
}

static int spec_set_model(struct spec *spec, const char *value, struct error *err)
{
	return spec_set_pattern(spec->model, value, err);
}

static int spec_set_device(struct spec *spec, const char *value, struct error *err)
{
	return spec_set_pattern(spec->device, value, err);
}

static int spec_set_preferred_anti_affinity(struct spec *spec, const char *value, struct error *err)
{
	return spec_set_label(spec->preferred_anti_affinity, SPEC_LABEL, value, err);
}

static int spec_set_affinity(struct spec *spec, const char *value, struct error *err)
{
	return spec_set_label(spec->affinity, SPEC_LABEL, value, err);
}

static int spec_set_anti_affinity(struct spec *spec, const char *value, struct error *err)
{
	return spec_set_label(spec->anti_affinity, SPEC_LABEL, value, err);
}

static int spec_set_exclusion(struct spec *spec, const char *value, struct error *err)
{
	int r = spec_set_text(spec->exclusion, SPEC_LABEL, value, err);

	spec->has_exclusion |= r == 0;
	return r;
}

static int spec_set_group(struct spec *spec, const char *value, struct error *err)
{
	return spec_set_label(spec->group, SPEC_GROUP, value, err);
}

static int spec_set_group_size(struct spec *spec, const char *value, struct error *err)
{
	uint64_t size;

	if (parse_uint(str_from(value), 1, SPEC_GROUP_SIZE_MAX, &size, NULL) < 0)
		return fail(
			err, EINVAL, SHOW ": expected 1 to %u members", value, SPEC_GROUP_SIZE_MAX);
	spec->group_size = (uint32_t)size;
	return 0;
}

static int spec_set_group_threshold(struct spec *spec, const char *value, struct error *err)
{
	uint32_t permille;

	if (parse_share(str_from(value), &permille, NULL) < 0 || permille == 0 ||
		permille > SPEC_SHARE_ONE)
		return fail(
			err, EINVAL, SHOW ": expected a part of the group, " SHARE_RANGE, value);
	spec->group_threshold = permille;
	return 0;
}

static const struct {
	const char *name;
	uint64_t bits;
} rates[] = {{"kbps", 1000}, {"Mbps", 1000000}, {"Gbps", 1000000000}, {"Tbps", 1000000000000}};

/* "10Gbps" -> 10000. False if it is no bandwidth in whole Mbit/s. */
static bool parse_rate(struct str text, uint32_t *ret_mbit)
{
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		struct str number = text;
		uint64_t bits;

		if (!str_skip_suffix(&number, str_from(rates[i].name)))
			continue;
		if (!number.n || !isdigit((unsigned char)number.p[number.n - 1]) ||
			quantity_parse(number, rates[i].bits, &bits, NULL) < 0)
			return false;
		if (!bits || bits % 1000000 || bits / 1000000 > SPEC_MBIT_MAX)
			return false;
		*ret_mbit = (uint32_t)(bits / 1000000);
		return true;
	}
	return false;
}

static bool spec_parse_latency(struct str text, uint32_t *ret_us)
{
	uint64_t ns;

	if (parse_duration(text, &ns, NULL) < 0 || !ns || ns % 1000 ||
		ns / 1000 > SPEC_LATENCY_MAX_US)
		return false;
	*ret_us = (uint32_t)(ns / 1000);
	return true;
}

static int spec_set_network(struct spec *spec, const char *value, struct error *err)
{
	struct str rest = str_from(value), part;
	uint32_t mbit = 0, us = 0;

	while (str_split(&rest, ',', &part)) {
		part = str_trim(part);
		if ((!mbit && parse_rate(part, &mbit)) || (!us && spec_parse_latency(part, &us)))
			continue;
		return fail(err, EINVAL,
			SHOW ": expected a bandwidth of 1Mbps to 1000Tbps, a latency of 1us to "
			     "1000s, or both with a comma between, such as 10Gbps,50us",
			value);
	}
	spec->network_mbit = mbit;
	spec->network_latency_us = us;
	return 0;
}

#define ROW(field, help) {#field, help, false, spec_set_##field},
#define CLUSTER_ROW(field, help) {#field, help, true, spec_set_##field},
static const struct {
	const char *name, *help;
	bool is_cluster;
	int (*set)(struct spec *spec, const char *value, struct error *err);
} fields[] = {SPEC_FIELDS(ROW) SPEC_CLUSTER_FIELDS(CLUSTER_ROW)};
#undef ROW
#undef CLUSTER_ROW

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

/* The index of the field; the number of fields if there is none of that name. */
static size_t spec_find_field(const char *name)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(fields) && !is_field(fields[i].name, name))
		i++;
	return i;
}

int spec_set_value(
	struct spec *spec, const char *field, const char *value, bool is_cluster, struct error *err)
{
	const size_t i = spec_find_field(field);

	if (i == ARRAY_SIZE(fields))
		return fail(err, ENOENT,
			"unknown field " SHOW
			": expected request, limit, count, memory, memory-policy, class, "
			"priority, mode, model, device or preferred-anti-affinity%s",
			field,
			is_cluster ? ", affinity, anti-affinity, exclusion, group, group-size, "
				     "group-threshold or network"
				   : "");
	if (fields[i].is_cluster && !is_cluster)
		return fail(err, EINVAL,
			SHOW ": only a pod in a cluster has this field; on one machine use model "
			     "or device",
			value);
	return fields[i].set(spec, value, err);
}

/* As spec_set_value(); the message begins with the field. */
static int spec_set_field(
	struct spec *spec, const char *field, const char *value, bool is_cluster, struct error *err)
{
	struct error why;
	char name[SPEC_FIELD];
	int r = spec_set_value(spec, field, value, is_cluster, &why);

	if (r < 0 && r != -ENOENT)
		return fail(
			err, -r, "%s %s", spec_field_name(spec_find_field(field), name), why.msg);
	return r < 0 ? fail(err, -r, "%s", why.msg) : r;
}

int spec_set(struct spec *spec, const char *field, const char *value, struct error *err)
{
	return spec_set_field(spec, field, value, false, err);
}

int spec_set_cluster(struct spec *spec, const char *field, const char *value, struct error *err)
{
	return spec_set_field(spec, field, value, true, err);
}

const char *spec_field_name(size_t i, char ret[static SPEC_FIELD])
{
	size_t n = 0;

	if (i >= ARRAY_SIZE(fields))
		return NULL;
	for (; fields[i].name[n]; n++)
		ret[n] = fields[i].name[n] == '_' ? '-' : fields[i].name[n];
	ret[n] = '\0';
	return ret;
}

const char *spec_field_help(size_t i)
{
	return i < ARRAY_SIZE(fields) ? fields[i].help : NULL;
}

/* A whole number of GPUs requests that many whole devices. */
static int finish_exclusive(struct spec *spec, struct error *err)
{
	uint32_t devices = spec->request / SPEC_SHARE_ONE;

	if (spec->count > 1)
		return fail(err, EINVAL,
			"count %u: request %u already is the number of devices; leave count "
			"out, or request less than 1 of each device",
			spec->count, devices);
	if (spec->limit != UNSET && spec->limit != spec->request)
		return fail(err, EINVAL,
			"limit %s: with request %u the limit is %u; set that limit, or leave it "
			"out",
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
			"limit %s: with request %s the limit is at most 1 of each device",
			format_share(spec->limit).s, format_share(spec->request).s);
	if (spec->limit < spec->request)
		return fail(err, EINVAL, "limit %s: below request %s; expected %s to 1",
			format_share(spec->limit).s, format_share(spec->request).s,
			format_share(spec->request).s);
	if (spec->count == UNSET)
		spec->count = 1;
	return 0;
}

/* Checks the fields of a gang and of the network to a remote device. */
static int finish_cluster(struct spec *spec, struct error *err)
{
	if (!spec->group[0] && spec->group_size)
		return fail(err, EINVAL, "group-size %u: the group has no name; set group",
			spec->group_size);
	if (!spec->group[0] && spec->group_threshold)
		return fail(err, EINVAL, "group-threshold %s: the group has no name; set group",
			format_share(spec->group_threshold).s);
	if (spec->group[0] && !spec->group_threshold)
		spec->group_threshold = SPEC_SHARE_ONE;
	if ((spec->network_mbit || spec->network_latency_us) &&
		(spec->mode == SPEC_MODE_LOCAL || spec->mode == SPEC_MODE_EXCLUSIVE)) {
		char network[SPEC_NETWORK];

		return fail(err, EINVAL,
			"network %s: mode %s uses no network; set mode auto or remote",
			spec_network_format(spec, network), mode_names[spec->mode]);
	}
	return 0;
}

int spec_finish(struct spec *spec, struct error *err)
{
	struct spec done = *spec;
	int r;

	if (done.request == UNSET)
		return fail(err, EINVAL,
			"request is missing; expected " SHARE_RANGE
			", or a whole number of GPUs up to %u",
			SPEC_DEVICES_MAX);
	if (done.exclusive) {
		if (done.limit != SPEC_SHARE_ONE)
			return fail(err, EINVAL,
				"limit %s: with request %u the limit is %u; set that limit",
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
			"priority 0: class latency cannot have the opportunistic priority; "
			"expected 1 to %u",
			SPEC_PRIORITY_MAX);
	if (done.priority == 0)
		done.class = SPEC_OPPORTUNISTIC;
	if (done.mode == SPEC_MODE_EXCLUSIVE && !done.exclusive)
		return fail(err, EINVAL,
			"mode exclusive: request %s is part of a GPU; request a whole number of "
			"GPUs",
			format_share(done.request).s);
	r = finish_cluster(&done, err);
	if (r < 0)
		return r;
	*spec = done;
	return 0;
}

bool spec_is_same(const struct spec *a, const struct spec *b)
{
	return a->request == b->request && a->limit == b->limit && a->count == b->count &&
		a->exclusive == b->exclusive && a->memory_bytes == b->memory_bytes &&
		a->memory_permille == b->memory_permille && a->memory_policy == b->memory_policy &&
		a->class == b->class && a->priority == b->priority && a->mode == b->mode &&
		!strcmp(a->model, b->model) && !strcmp(a->device, b->device) &&
		!strcmp(a->preferred_anti_affinity, b->preferred_anti_affinity) &&
		!strcmp(a->affinity, b->affinity) && !strcmp(a->anti_affinity, b->anti_affinity) &&
		!strcmp(a->exclusion, b->exclusion) && a->has_exclusion == b->has_exclusion &&
		!strcmp(a->group, b->group) && a->group_size == b->group_size &&
		a->group_threshold == b->group_threshold && a->network_mbit == b->network_mbit &&
		a->network_latency_us == b->network_latency_us;
}

/* Compares model names: '-' and '_' count as blanks. */
static int spec_plain_char(char c)
{
	return c == '-' || c == '_' ? ' ' : tolower((unsigned char)c);
}

static bool spec_is_model(struct str item, bool is_whole, const char *model)
{
	const size_t n = strlen(model);

	for (size_t at = 0; at + item.n <= n; at++) {
		size_t i = 0;

		while (i < item.n && spec_plain_char(item.p[i]) == spec_plain_char(model[at + i]))
			i++;
		if (i == item.n && (!is_whole || i == n))
			return true;
		if (is_whole)
			break;
	}
	return false;
}

static bool spec_is_uuid(struct str item, bool is_whole, const char *uuid)
{
	return item.n == strlen(uuid) && !strncasecmp(item.p, uuid, item.n);
}

static bool spec_fits_pattern(
	const char *pattern, bool (*is_named)(struct str, bool, const char *), const char *name)
{
	struct str rest = str_from(pattern), item;
	bool is_not, is_whole, wants_one = false, is_one = false;

	while (pattern[0] && spec_next_item(&rest, &item, &is_not, &is_whole)) {
		bool is_that = is_named(item, is_whole, name);

		if (is_not && is_that)
			return false;
		wants_one |= !is_not;
		is_one |= !is_not && is_that;
	}
	return is_one || !wants_one;
}

bool spec_model_fits(const struct spec *spec, const char *model)
{
	return spec_fits_pattern(spec->model, spec_is_model, model);
}

bool spec_device_fits(const struct spec *spec, const char *uuid)
{
	return spec_fits_pattern(spec->device, spec_is_uuid, uuid);
}

uint32_t spec_devices_named(const struct spec *spec)
{
	struct str rest = str_from(spec->device), name;
	bool is_not, is_whole;
	uint32_t n = 0;

	while (spec->device[0] && spec_next_item(&rest, &name, &is_not, &is_whole))
		n += !is_not;
	return n;
}

uint32_t spec_group_least(const struct spec *spec)
{
	const uint64_t milli = (uint64_t)spec->group_size * spec->group_threshold;

	return MAX((uint32_t)((milli + SPEC_SHARE_ONE / 2) / SPEC_SHARE_ONE), 1u);
}

char *spec_network_format(const struct spec *spec, char ret[static SPEC_NETWORK])
{
	const uint32_t mbit = spec->network_mbit;
	const uint32_t us = spec->network_latency_us;
	int n = 0;

	ret[0] = '\0';
	if (mbit)
		n = mbit % 1000 ? snprintf(ret, SPEC_NETWORK, "%uMbps", mbit)
				: snprintf(ret, SPEC_NETWORK, "%uGbps", mbit / 1000);
	if (us)
		snprintf(ret + n, SPEC_NETWORK - (size_t)n, "%s%uus", n ? "," : "", us);
	return ret;
}

int spec_name_check(const char *name, struct error *err)
{
	size_t n = strspn(
		name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	if (!n || name[n] || n >= SPEC_NAME)
		return fail(err, EINVAL,
			"name '%.80s': expected 1 to %u characters of A-Z a-z 0-9 . _ -", name,
			SPEC_NAME - 1);
	return 0;
}

uint64_t spec_memory_on(const struct spec *spec, uint64_t device_bytes)
{
	uint64_t permille = spec->memory_permille ? spec->memory_permille : spec->request;
	uint64_t bytes;

	if (spec->memory_bytes)
		return spec->memory_bytes;
	/*
	 * device_bytes * permille / 1000 without overflow: first whole thousandths of the device,
	 * then the remainder.
	 */
	bytes = device_bytes / SPEC_SHARE_ONE * permille +
		device_bytes % SPEC_SHARE_ONE * permille / SPEC_SHARE_ONE;
	return spec_memory_whole(bytes);
}

uint64_t spec_memory_whole(uint64_t bytes)
{
	return bytes < SPEC_MEMORY_BLOCK ? bytes : bytes / SPEC_MEMORY_BLOCK * SPEC_MEMORY_BLOCK;
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

char *spec_conflicts_format(
	const char *label, uint32_t n_conflicts, char ret[static SPEC_CONFLICTS])
{
	ret[0] = '\0';
	if (n_conflicts)
		snprintf(ret, SPEC_CONFLICTS,
			"beside %u tenant%s that preferred-anti-affinity '%.63s' would keep apart",
			n_conflicts, n_conflicts == 1 ? "" : "s", label);
	return ret;
}

char *spec_share_format(uint32_t permille, char ret[static 8])
{
	struct text text = format_share(permille);

	memset(ret, 0, 8);
	memcpy(ret, text.s, strnlen(text.s, 7));
	return ret;
}

char *spec_shares_format(const struct spec *spec, char ret[static SPEC_SHARES])
{
	char a[8], b[8], times[16] = "";

	if (spec->exclusive) {
		snprintf(ret, SPEC_SHARES, "%u GPU%s", spec->count, spec->count == 1 ? "" : "s");
		return ret;
	}
	if (spec->count > 1)
		snprintf(times, sizeof(times), "%ux", spec->count);
	spec_share_format(spec->request, a);
	spec_share_format(spec->limit, b);
	if (spec->request == spec->limit)
		snprintf(ret, SPEC_SHARES, "%s%s", times, a);
	else
		snprintf(ret, SPEC_SHARES, "%s%s-%s", times, a, b);
	return ret;
}
