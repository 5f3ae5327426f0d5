/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the assigned keys through one table, made from assigned.def. Each row has a
 * reader and a writer for one container's value. The first key lists devices and creates the
 * containers; later keys may only name containers that exist by then. A bit set marks the
 * containers that a key has named, so 64 containers are the maximum. assigned_complete() fills in
 * defaults and checks each container as a whole spec. The order of the table is the order of the
 * written keys.
 */
#include "spec/assigned.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/str.h"
#include "spec/quantity.h"

#define SHOW "'%.*s'"
#define SHOWN(s) (int)MIN((s).n, (size_t)80), (s).p

_Static_assert(ASSIGNED_CONTAINERS_MAX <= 64, "one bit each");

/* ---- one value of one container ---- */

/* Whether the text is not empty and has only characters of `allowed`. */
static bool is_made_of(struct str text, const char *allowed)
{
	for (size_t i = 0; i < text.n; i++)
		if (!text.p[i] || !strchr(allowed, text.p[i]))
			return false;
	return text.n;
}

static bool assigned_is_uuid(struct str text)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";

	return text.n < SPEC_LABEL && is_made_of(text, allowed);
}

static int assigned_read_devices(struct assigned_container *c, struct str value, struct error *err)
{
	struct str piece;

	while (str_split(&value, ',', &piece)) {
		if (c->n == SPEC_DEVICES_MAX)
			return fail(
				err, EINVAL, "more than %u devices are assigned", SPEC_DEVICES_MAX);
		if (!assigned_is_uuid(piece))
			return fail(err, EINVAL, SHOW " is not the UUID of a device", SHOWN(piece));
		str_copy(c->device[c->n], SPEC_LABEL, piece);
		for (uint32_t i = 0; i < c->n; i++)
			if (!strcmp(c->device[i], c->device[c->n]))
				return fail(err, EINVAL, "device '%s' occurs twice", c->device[i]);
		c->n++;
	}
	return c->n ? 0 : fail(err, EINVAL, "no device is assigned");
}

/* Reads a share of each device. A container with n whole devices has the value 1 or n. */
static int assigned_read_share(const struct assigned_container *c, struct str value,
	uint32_t *ret_permille, struct error *err)
{
	int r = parse_share(value, ret_permille, err);

	if (r < 0)
		return r;
	if (*ret_permille == c->n * SPEC_SHARE_ONE)
		*ret_permille = SPEC_SHARE_ONE;
	if (*ret_permille < 1 || *ret_permille > SPEC_SHARE_ONE)
		return fail(err, EINVAL, SHOW " with %u device%s: expected 0.001 to 1",
			SHOWN(value), c->n, c->n == 1 ? "" : "s");
	return 0;
}

static int assigned_read_request(struct assigned_container *c, struct str value, struct error *err)
{
	return assigned_read_share(c, value, &c->request, err);
}

static int assigned_read_limit(struct assigned_container *c, struct str value, struct error *err)
{
	return assigned_read_share(c, value, &c->limit, err);
}

static int assigned_read_memory(struct assigned_container *c, struct str value, struct error *err)
{
	struct str piece;
	uint32_t n = 0;

	for (; str_split(&value, ',', &piece); n++) {
		int r = n < c->n ? quantity_parse(piece, 1, &c->memory_bytes[n], err)
				 : fail(err, EINVAL, "there are more values than %u devices", c->n);

		if (r < 0)
			return r;
	}
	return n == c->n
		? 0
		: fail(err, EINVAL, "%u value%s for %u devices", n, n == 1 ? "" : "s", c->n);
}

/* The index of the name, or -EINVAL. */
static int assigned_read_word(struct str value, const char *(*name)(int), int n, struct error *err)
{
	for (int i = 0; i < n; i++)
		if (str_is(value, name(i)))
			return i;
	return fail(err, EINVAL, SHOW " is unknown", SHOWN(value));
}

static const char *assigned_class_name(int i)
{
	return spec_class_name((enum spec_class)i);
}

static const char *memory_policy_name(int i)
{
	return spec_memory_policy_name((enum spec_memory_policy)i);
}

static const char *assigned_mode_name(int i)
{
	return spec_mode_name((enum spec_mode)i);
}

static int assigned_read_memory_policy(
	struct assigned_container *c, struct str value, struct error *err)
{
	int word = assigned_read_word(value, memory_policy_name, SPEC_MEMORY_SWAP + 1, err);

	if (word < 0)
		return word;
	c->memory_policy = (enum spec_memory_policy)word;
	return 0;
}

static int assigned_read_class(struct assigned_container *c, struct str value, struct error *err)
{
	int word = assigned_read_word(value, assigned_class_name, SPEC_OPPORTUNISTIC + 1, err);

	if (word < 0)
		return word;
	c->class = (enum spec_class)word;
	return 0;
}

static int assigned_read_mode(struct assigned_container *c, struct str value, struct error *err)
{
	int word = assigned_read_word(value, assigned_mode_name, SPEC_MODE_REMOTE + 1, err);

	if (word < 0)
		return word;
	c->mode = (enum spec_mode)word;
	return 0;
}

static int assigned_read_priority(struct assigned_container *c, struct str value, struct error *err)
{
	uint64_t n;
	int r = parse_uint(value, 0, 100, &n, err);

	if (r == 0)
		c->priority = (uint32_t)n;
	return r;
}

static int assigned_read_remote_node(
	struct assigned_container *c, struct str value, struct error *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

	if (!is_made_of(value, allowed) || str_copy(c->remote_node, ASSIGNED_NODE, value) < 0)
		return fail(err, EINVAL, SHOW " is not the name of a node", SHOWN(value));
	return 0;
}

bool assigned_is_network(struct str name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:@";

	return name.n < ASSIGNED_NETWORK && is_made_of(name, allowed);
}

static int assigned_read_network(struct assigned_container *c, struct str value, struct error *err)
{
	char rate[SPEC_NETWORK];
	struct str name;
	struct spec spec;

	for (int i = 0; i < 2; i++) {
		if (!str_split(&value, ',', &name))
			return fail(err, EINVAL, "expected the network devices of both nodes");
		if (!assigned_is_network(name))
			return fail(err, EINVAL, SHOW " is not a network device", SHOWN(name));
		str_copy(c->network[i], ASSIGNED_NETWORK, name);
	}
	if (!value.p)
		return 0;
	spec_init(&spec);
	if (str_copy(rate, sizeof(rate), value) < 0 ||
		spec_set_cluster(&spec, "network", rate, NULL) < 0 || !spec.network_mbit ||
		spec.network_latency_us)
		return fail(err, EINVAL, SHOW " is not a bandwidth", SHOWN(value));
	c->network_mbit = spec.network_mbit;
	return 0;
}

static void assigned_write_devices(const struct assigned_container *c, struct buf *out)
{
	for (uint32_t i = 0; i < c->n; i++)
		buf_addf(out, "%s%s", i ? "," : "", c->device[i]);
}

static void assigned_write_request(const struct assigned_container *c, struct buf *out)
{
	buf_add_text(out, format_share(c->request).s);
}

static void assigned_write_limit(const struct assigned_container *c, struct buf *out)
{
	buf_add_text(out, format_share(c->limit).s);
}

static void assigned_write_memory(const struct assigned_container *c, struct buf *out)
{
	for (uint32_t i = 0; i < c->n; i++)
		buf_addf(out, "%s%s", i ? "," : "", format_bytes_exact(c->memory_bytes[i]).s);
}

static void assigned_write_memory_policy(const struct assigned_container *c, struct buf *out)
{
	buf_add_text(out, spec_memory_policy_name(c->memory_policy));
}

static void assigned_write_class(const struct assigned_container *c, struct buf *out)
{
	buf_add_text(out, spec_class_name(c->class));
}

static void assigned_write_priority(const struct assigned_container *c, struct buf *out)
{
	buf_addf(out, "%u", c->priority);
}

static void assigned_write_mode(const struct assigned_container *c, struct buf *out)
{
	buf_add_text(out, spec_mode_name(c->mode));
}

static void assigned_write_remote_node(const struct assigned_container *c, struct buf *out)
{
	buf_add_text(out, c->remote_node);
}

static void assigned_write_network(const struct assigned_container *c, struct buf *out)
{
	const struct spec spec = {.network_mbit = c->network_mbit};
	char rate[SPEC_NETWORK];

	if (c->network[0][0])
		buf_addf(out, "%s,%s%s%s", c->network[0], c->network[1], c->network_mbit ? "," : "",
			spec_network_format(&spec, rate));
}

/* ---- the keys ---- */

static const struct key {
	const char *name;
	bool is_needed; /* each container with devices needs this key */
	int (*read)(struct assigned_container *c, struct str value, struct error *err);
	/* Appends the container's part of the key's value; nothing: the value has no such part. */
	void (*write)(const struct assigned_container *c, struct buf *out);
} keys[] = {
#define ASSIGNED_KEY(name, of, is_needed, about) \
	{ASSIGNED_PREFIX name, is_needed, assigned_read_##of, assigned_write_##of},
#include "spec/assigned.def"
#undef ASSIGNED_KEY
};

bool assigned_is_field(struct str field)
{
	return str_is(field, "devices") || str_is(field, "epoch") || str_is(field, "remote-node") ||
		str_has_prefix(field, STR("granted-"));
}

/* ---- reading ---- */

static uint32_t assigned_index_of(const struct assigned *g, struct str name)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (str_is(name, g->v[i].name))
			return i;
	return g->n;
}

static int assigned_add_container(struct assigned *g, struct str name, struct error *err)
{
	struct assigned_container *c = &g->v[g->n];
	struct spec defaults;

	if (g->n == ASSIGNED_CONTAINERS_MAX)
		return fail(err, EINVAL, "more than %u containers have devices",
			ASSIGNED_CONTAINERS_MAX);
	if (str_copy(c->name, sizeof(c->name), name) < 0)
		return fail(err, EINVAL, SHOW " is not the name of a container", SHOWN(name));
	spec_init(&defaults);
	c->memory_policy = defaults.memory_policy;
	c->class = defaults.class;
	c->priority = defaults.priority;
	g->n++;
	return 0;
}

/* Fails if a container's bit in `seen` is not set: the key then has no value for that container. */
static int check_needed(const struct assigned *g, uint64_t seen, struct error *err)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (!(seen & UINT64_C(1) << i))
			return fail(err, EINVAL, "container '%s' has devices and no value here",
				g->v[i].name);
	return 0;
}

/* Parses "train=... side=..."; each container may occur once. */
static int assigned_parse_key(
	struct assigned *g, const struct key *key, struct str text, struct error *err)
{
	uint64_t seen = 0;
	struct str word;
	int r = 0;

	while (str_word(&text, &word)) {
		const size_t at = str_find(word, '=');
		const struct str name = {word.p, at}, value = {word.p + at + 1, word.n - at - 1};
		const uint32_t i = assigned_index_of(g, name);

		if (at == 0 || at == word.n)
			return fail(err, EINVAL, SHOW ": expected CONTAINER=VALUE", SHOWN(word));
		if (i < g->n && seen & UINT64_C(1) << i)
			return fail(err, EINVAL, "container " SHOW " occurs twice", SHOWN(name));
		if (i == g->n)
			r = key == keys ? assigned_add_container(g, name, err)
					: fail(err, EINVAL, "container " SHOW " has no devices",
						  SHOWN(name));
		r = r < 0 ? r : key->read(&g->v[i], value, err);
		if (r < 0)
			return r;
		seen |= UINT64_C(1) << i;
	}
	return key->is_needed ? check_needed(g, seen, err) : 0;
}

static int parse_epoch(struct manifest_list annotations, uint64_t *ret_epoch, struct error *err)
{
	const struct str *text = manifest_find(annotations, STR(ASSIGNED_EPOCH_KEY));
	int r = text ? parse_uint(*text, 0, INT64_MAX, ret_epoch, err)
		     : fail(err, EINVAL, "the annotation is missing");

	return r < 0 ? fail_within(err, -EINVAL, ASSIGNED_EPOCH_KEY) : 0;
}

/* A name may contain '=', a number does not: the last '=' separates them. */
static int parse_group(struct str text, struct assigned_group *ret, struct error *err)
{
	struct assigned_group group;
	size_t at = text.n;
	uint64_t least;
	int r;

	while (at > 0 && text.p[at - 1] != '=')
		at--;
	if (at < 2)
		return fail(err, EINVAL, SHOW ": expected GROUP=NUMBER", SHOWN(text));
	if (memchr(text.p, '\0', at - 1) ||
		str_copy(group.name, sizeof(group.name), (struct str){text.p, at - 1}) < 0)
		return fail(err, EINVAL, SHOW "...: the group's name has more than %u bytes",
			SHOWN(text), SPEC_GROUP - 1);
	r = parse_uint((struct str){text.p + at, text.n - at}, 1, SPEC_GROUP_SIZE_MAX, &least, err);
	if (r < 0)
		return r;
	group.least = (uint32_t)least;
	*ret = group;
	return 0;
}

int assigned_parse_group(
	struct manifest_list annotations, struct assigned_group *ret_group, struct error *err)
{
	const struct str *text = manifest_find(annotations, STR(ASSIGNED_GROUP_KEY));

	*ret_group = (struct assigned_group){0};
	if (text && parse_group(*text, ret_group, err) < 0)
		return fail_within(err, -EINVAL, ASSIGNED_GROUP_KEY);
	return 0;
}

/* Fills in defaults; the values together have to be a valid spec. */
static int assigned_complete(struct assigned_container *c, struct error *err)
{
	struct spec spec;
	int r = assigned_spec(c, &spec, err);

	if (r < 0)
		return fail_within(err, r, ASSIGNED_PREFIX "granted-*: container '%s'", c->name);
	c->limit = spec.limit;
	c->priority = spec.priority;
	if (c->mode == SPEC_MODE_AUTO)
		c->mode = spec.exclusive ? SPEC_MODE_EXCLUSIVE : SPEC_MODE_LOCAL;
	return 0;
}

static uint32_t count_words(struct str text)
{
	struct str word;
	uint32_t n = 0;

	while (n < ASSIGNED_CONTAINERS_MAX && str_word(&text, &word))
		n++;
	return n;
}

int assigned_parse(struct manifest_list annotations, struct assigned *ret, struct error *err)
{
	const struct str *devices = manifest_find(annotations, STR(ASSIGNED_DEVICES_KEY));
	int r = 0;

	*ret = (struct assigned){0};
	if (!devices)
		return 0;
	ret->v = calloc(count_words(*devices) + 1ul, sizeof(*ret->v));
	if (!ret->v)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct str *text = manifest_find(annotations, str_from(keys[i].name));

		if (text && text->n > ASSIGNED_TEXT_MAX)
			r = fail(err, EINVAL, "the value has %zu bytes; at most %u are allowed",
				text->n, ASSIGNED_TEXT_MAX);
		else if (text && memchr(text->p, '\0', text->n))
			r = fail(err, EINVAL, "the value has a zero byte");
		else
			r = assigned_parse_key(ret, &keys[i], text ? *text : STR(""), err);
		if (r < 0)
			return fail_within(err, -EINVAL, "%s", keys[i].name);
	}
	r = assigned_parse_group(annotations, &ret->group, err);
	r = r < 0 ? r : parse_epoch(annotations, &ret->epoch, err);
	for (uint32_t i = 0; r == 0 && i < ret->n; i++)
		r = assigned_complete(&ret->v[i], err);
	return r;
}

void assigned_done(struct assigned *assigned)
{
	free(assigned->v);
	*assigned = (struct assigned){0};
}

/* ---- writing ---- */

static int put_key(const struct assigned *assigned, const struct key *key, struct buf *out,
	assigned_put_fn put, void *data)
{
	buf_clear(out);
	for (uint32_t i = 0; i < assigned->n; i++) {
		const size_t before = out->n;
		size_t named;

		buf_addf(out, "%s%s=", before ? " " : "", assigned->v[i].name);
		named = out->n;
		key->write(&assigned->v[i], out);
		if (out->n == named)
			buf_truncate(out, before);
	}
	if (buf_error(out))
		return buf_error(out);
	return out->n ? put(data, key->name, buf_text(out)) : 0;
}

static int put_group(
	const struct assigned_group *group, struct buf *out, assigned_put_fn put, void *data)
{
	if (!group->name[0])
		return 0;
	buf_clear(out);
	buf_addf(out, "%s=%u", group->name, group->least);
	return buf_error(out) ? buf_error(out) : put(data, ASSIGNED_GROUP_KEY, buf_text(out));
}

int assigned_format(const struct assigned *assigned, assigned_put_fn put, void *data)
{
	_cleanup_buf_ struct buf out = BUF_INIT(ASSIGNED_TEXT_MAX);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(keys); i++)
		r = put_key(assigned, &keys[i], &out, put, data);
	r = r < 0 ? r : put_group(&assigned->group, &out, put, data);
	if (r < 0 || !assigned->n)
		return r;
	buf_clear(&out);
	buf_addf(&out, "%" PRIu64, assigned->epoch);
	return buf_error(&out) ? buf_error(&out) : put(data, ASSIGNED_EPOCH_KEY, buf_text(&out));
}

/* ---- the assigned values ---- */

const struct assigned_container *assigned_find(
	const struct assigned *assigned, const char *container)
{
	const uint32_t i = assigned_index_of(assigned, str_from(container));

	return i < assigned->n ? &assigned->v[i] : NULL;
}

int assigned_spec(const struct assigned_container *c, struct spec *ret, struct error *err)
{
	struct spec spec;
	int r;

	spec_init(&spec);
	spec.memory_bytes = c->memory_bytes[0];
	spec.memory_policy = c->memory_policy;
	spec.class = c->class;
	spec.priority = c->priority;
	spec.mode = c->mode;
	if (c->request == SPEC_SHARE_ONE) {
		/* For whole devices spec_finish() sets the limit. */
		spec.request = c->n * SPEC_SHARE_ONE;
	} else {
		spec.request = c->request;
		spec.limit = c->limit;
		spec.count = c->n;
	}
	r = spec_finish(&spec, err);
	if (r == 0)
		*ret = spec;
	return r;
}

bool assigned_is_same(const struct assigned *a, const struct assigned *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->v, b->v, a->n * sizeof(*a->v)));
}

int assigned_copy(const struct assigned *assigned, struct assigned *ret)
{
	struct assigned copy = *assigned;

	copy.v = calloc(MAX(assigned->n, 1u), sizeof(*copy.v));
	if (!copy.v)
		return -ENOMEM;
	if (assigned->n)
		memcpy(copy.v, assigned->v, assigned->n * sizeof(*copy.v));
	*ret = copy;
	return 0;
}
