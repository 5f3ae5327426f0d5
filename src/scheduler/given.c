/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/given.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/str.h"

#define PREFIX "divvy.gpu/"

/* ---- one value of one container ---- */

static int read_devices(struct given_container *c, struct str value, struct error *err)
{
	struct str piece;

	while (str_split(&value, ',', &piece)) {
		if (c->n == SPEC_DEVICES_MAX)
			return fail(err, EINVAL, "more than %u devices", SPEC_DEVICES_MAX);
		if (!piece.n || str_copy(c->device[c->n], SPEC_LABEL, piece) < 0)
			return fail(err, EINVAL, "'%" STR_FMT "' is no device", STR_ARG(piece));
		c->n++;
	}
	return 0;
}

static int read_share(uint32_t *ret, struct str value, struct error *err)
{
	uint32_t share;
	int r = parse_share(value, &share, err);

	if (r == 0 && (share < 1 || share > SPEC_SHARE_ONE))
		r = fail(err, EINVAL, "'%" STR_FMT "': expected 0.001 to 1", STR_ARG(value));
	if (r == 0)
		*ret = share;
	return r;
}

static int read_request(struct given_container *c, struct str value, struct error *err)
{
	return read_share(&c->request, value, err);
}

static int read_limit(struct given_container *c, struct str value, struct error *err)
{
	return read_share(&c->limit, value, err);
}

static int read_memory(struct given_container *c, struct str value, struct error *err)
{
	struct str piece;
	uint32_t n = 0;

	while (str_split(&value, ',', &piece)) {
		int r;

		if (n == SPEC_DEVICES_MAX)
			return fail(err, EINVAL, "more than %u devices", SPEC_DEVICES_MAX);
		r = parse_bytes(piece, &c->memory_bytes[n], err);
		if (r < 0)
			return r;
		if (c->memory_bytes[n++] > UINT64_MAX / 2)
			return fail(err, EINVAL, "more than any device has");
	}
	return 0;
}

static int read_word(int *ret, struct str value, const char *(*name)(int), int n, struct error *err)
{
	for (int i = 0; i < n; i++)
		if (str_is(value, name(i))) {
			*ret = i;
			return 0;
		}
	return fail(err, EINVAL, "'%" STR_FMT "' is not known", STR_ARG(value));
}

static const char *class_name(int i)
{
	return spec_class_name((enum spec_class)i);
}

static const char *memory_policy_name(int i)
{
	return spec_memory_policy_name((enum spec_memory_policy)i);
}

static const char *mode_name(int i)
{
	return spec_mode_name((enum spec_mode)i);
}

static int read_memory_policy(struct given_container *c, struct str value, struct error *err)
{
	int word, r = read_word(&word, value, memory_policy_name, SPEC_MEMORY_SWAP + 1, err);

	if (r == 0)
		c->memory_policy = (enum spec_memory_policy)word;
	return r;
}

static int read_class(struct given_container *c, struct str value, struct error *err)
{
	int word, r = read_word(&word, value, class_name, SPEC_OPPORTUNISTIC + 1, err);

	if (r == 0)
		c->class = (enum spec_class)word;
	return r;
}

static int read_mode(struct given_container *c, struct str value, struct error *err)
{
	int word, r = read_word(&word, value, mode_name, SPEC_MODE_REMOTE + 1, err);

	if (r == 0)
		c->mode = (enum spec_mode)word;
	return r;
}

static int read_priority(struct given_container *c, struct str value, struct error *err)
{
	uint64_t n;
	int r = parse_uint(value, 0, 100, &n, err);

	if (r == 0)
		c->priority = (uint32_t)n;
	return r;
}

static int read_remote_node(struct given_container *c, struct str value, struct error *err)
{
	if (!value.n || str_copy(c->remote_node, GIVEN_NODE, value) < 0)
		return fail(err, EINVAL, "'%" STR_FMT "' is no node", STR_ARG(value));
	return 0;
}

static void write_devices(const struct given_container *c, struct buf *out)
{
	for (uint32_t i = 0; i < c->n; i++)
		buf_addf(out, "%s%s", i ? "," : "", c->device[i]);
}

static void write_request(const struct given_container *c, struct buf *out)
{
	buf_add_text(out, format_share(c->request).s);
}

static void write_limit(const struct given_container *c, struct buf *out)
{
	buf_add_text(out, format_share(c->limit).s);
}

static void write_memory(const struct given_container *c, struct buf *out)
{
	for (uint32_t i = 0; i < c->n; i++)
		buf_addf(out, "%s%s", i ? "," : "", format_bytes_exact(c->memory_bytes[i]).s);
}

static void write_memory_policy(const struct given_container *c, struct buf *out)
{
	buf_add_text(out, spec_memory_policy_name(c->memory_policy));
}

static void write_class(const struct given_container *c, struct buf *out)
{
	buf_add_text(out, spec_class_name(c->class));
}

static void write_priority(const struct given_container *c, struct buf *out)
{
	buf_addf(out, "%u", c->priority);
}

static void write_mode(const struct given_container *c, struct buf *out)
{
	buf_add_text(out, spec_mode_name(c->mode));
}

static void write_remote_node(const struct given_container *c, struct buf *out)
{
	buf_add_text(out, c->remote_node);
}

/* ---- the keys ---- */

static const struct key {
	const char *name;
	bool is_of_remote; /* only of those that have a remote node */
	int (*read)(struct given_container *c, struct str value, struct error *err);
	void (*write)(const struct given_container *c, struct buf *out);
} keys[] = {
	{PREFIX "devices", false, read_devices,
		write_devices}, /* the first: names the containers */
	{PREFIX "granted-request", false, read_request, write_request},
	{PREFIX "granted-limit", false, read_limit, write_limit},
	{PREFIX "granted-memory", false, read_memory, write_memory},
	{PREFIX "granted-memory-policy", false, read_memory_policy, write_memory_policy},
	{PREFIX "granted-class", false, read_class, write_class},
	{PREFIX "granted-priority", false, read_priority, write_priority},
	{PREFIX "granted-mode", false, read_mode, write_mode},
	{PREFIX "remote-node", true, read_remote_node, write_remote_node},
};

static struct given_container *find(const struct given *given, struct str name)
{
	for (uint32_t i = 0; i < given->n; i++)
		if (str_is(name, given->v[i].name))
			return &given->v[i];
	return NULL;
}

/* "train=... side=...": each once. is_first: they are new. */
static int parse_key(struct given *g, const struct key *key, struct str text, struct error *err)
{
	const bool is_first = key == keys;
	uint32_t n = 0;
	struct str word;

	while (str_word(&text, &word)) {
		const size_t at = str_find(word, '=');
		const struct str name = {word.p, at};
		struct given_container *c = find(g, name);
		int r;

		if (at == word.n || (is_first ? c != NULL || n == GIVEN_CONTAINERS_MAX : !c))
			return fail(err, EINVAL, "'%" STR_FMT "' is out of place", STR_ARG(word));
		if (is_first) {
			c = &g->v[g->n];
			if (!name.n || str_copy(c->name, GIVEN_NAME, name) < 0)
				return fail(err, EINVAL, "'%" STR_FMT "' is no container",
					STR_ARG(name));
			g->n++;
		}
		r = key->read(c, (struct str){word.p + at + 1, word.n - at - 1}, err);
		if (r < 0)
			return r;
		n++;
	}
	return key->is_of_remote || n == g->n ? 0
					      : fail(err, EINVAL, "not each container has a value");
}

static int check(const struct given_container *c, struct error *err)
{
	for (uint32_t i = 0; i < c->n; i++)
		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(c->device[i], c->device[k]))
				return fail(err, EINVAL, "container %s has device %s twice",
					c->name, c->device[i]);
	return 0;
}

int given_parse(const json_t *annotations, struct given *ret, struct error *err)
{
	const char *epoch = json_string_value(json_object_get(annotations, PREFIX "epoch"));
	int r = 0;

	*ret = (struct given){0};
	if (!json_object_get(annotations, keys[0].name))
		return 0;
	ret->v = calloc(GIVEN_CONTAINERS_MAX, sizeof(*ret->v));
	if (!ret->v)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
		const char *text = json_string_value(json_object_get(annotations, keys[i].name));

		if (!text && keys[i].is_of_remote)
			continue;
		r = text ? parse_key(ret, &keys[i], str_from(text), err)
			 : fail(err, EINVAL, "is missing");
		if (r < 0)
			fail_within(err, r, "%s", keys[i].name);
	}
	for (uint32_t i = 0; r == 0 && i < ret->n; i++)
		r = check(&ret->v[i], err);
	if (r == 0 && epoch) {
		r = parse_uint(str_from(epoch), 0, INT64_MAX, &ret->epoch, err);
		fail_within(err, r, PREFIX "epoch");
	}
	return r;
}

void given_done(struct given *given)
{
	free(given->v);
	*given = (struct given){0};
}

int given_format(const struct given *given, json_t *annotations)
{
	_cleanup_buf_ struct buf out = BUF_INIT(GIVEN_TEXT_MAX);
	int r = 0;

	for (size_t k = 0; r == 0 && k < ARRAY_SIZE(keys); k++) {
		buf_clear(&out);
		for (uint32_t i = 0; i < given->n; i++) {
			const struct given_container *c = &given->v[i];

			if (keys[k].is_of_remote && !c->remote_node[0])
				continue;
			buf_addf(&out, "%s%s=", out.n ? " " : "", c->name);
			keys[k].write(c, &out);
		}
		if (buf_error(&out))
			r = buf_error(&out);
		else if (out.n)
			r = json_object_set_new(
				    annotations, keys[k].name, json_string(buf_text(&out)))
				? -ENOMEM
				: 0;
	}
	buf_clear(&out);
	buf_addf(&out, "%" PRIu64, given->epoch);
	if (r == 0 && given->n &&
		json_object_set_new(annotations, PREFIX "epoch", json_string(buf_text(&out))))
		r = -ENOMEM;
	return r;
}

const struct given_container *given_find(const struct given *given, const char *container)
{
	return find(given, str_from(container));
}

bool given_is_same(const struct given *a, const struct given *b)
{
	if (a->n != b->n)
		return false;
	/* Zeroed when made, and written by field. */
	return !a->n || !memcmp(a->v, b->v, a->n * sizeof(*a->v));
}

int given_copy(const struct given *given, struct given *ret)
{
	struct given copy = *given;

	copy.v = calloc(MAX(given->n, 1u), sizeof(*copy.v));
	if (!copy.v)
		return -ENOMEM;
	if (given->n)
		memcpy(copy.v, given->v, given->n * sizeof(*copy.v));
	*ret = copy;
	return 0;
}
