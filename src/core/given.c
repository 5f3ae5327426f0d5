/* SPDX-License-Identifier: Apache-2.0 */
#include "core/given.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "core/quantity.h"

#define PREFIX "divvy.gpu/"
#define SHOW "'%.*s'"
#define SHOWN(s) (int)((s).n > 80 ? 80 : (s).n), (s).p

/* 1: what the key says of the container; 0: the key is not there, or says nothing of it. */
static int find(struct pod_list annotations, const char *key, struct str container,
	struct str *ret_value, struct error *err)
{
	const struct str *text = pod_find(annotations, str_from(key));
	struct str rest, piece;
	int found = 0;

	if (!text)
		return 0;
	if (text->n > GIVEN_TEXT_MAX)
		return fail(
			err, EINVAL, "%s: %zu bytes, more than %u", key, text->n, GIVEN_TEXT_MAX);
	rest = *text;
	while (str_split(&rest, ' ', &piece)) {
		const size_t at = str_find(piece, '=');

		if (!piece.n)
			continue;
		if (at == 0 || at >= piece.n)
			return fail(err, EINVAL, "%s: " SHOW " is not CONTAINER=VALUE", key,
				SHOWN(piece));
		if (!str_eq((struct str){piece.p, at}, container))
			continue;
		if (found++)
			return fail(err, EINVAL, "%s: container " SHOW " stands there twice", key,
				SHOWN(container));
		*ret_value = (struct str){piece.p + at + 1, piece.n - at - 1};
	}
	return found;
}

static int need(struct pod_list annotations, const char *key, struct str container,
	struct str *ret_value, struct error *err)
{
	int r = find(annotations, key, container, ret_value, err);

	if (r)
		return r;
	return fail(err, EINVAL, "%s: is missing for container " SHOW ", which has devices", key,
		SHOWN(container));
}

static bool is_uuid(struct str text)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";

	if (!text.n || text.n >= GIVEN_UUID)
		return false;
	for (size_t i = 0; i < text.n; i++)
		if (!text.p[i] || !strchr(allowed, text.p[i]))
			return false;
	return true;
}

static int read_devices(struct str text, struct given *g, uint32_t *ret_n, struct error *err)
{
	struct str piece;
	uint32_t n = 0;

	while (str_split(&text, ',', &piece)) {
		if (n == SPEC_DEVICES_MAX)
			return fail(err, EINVAL, PREFIX "devices: more than %u devices",
				SPEC_DEVICES_MAX);
		if (!is_uuid(piece))
			return fail(err, EINVAL, PREFIX "devices: " SHOW " is no device's UUID",
				SHOWN(piece));
		str_copy(g->device[n], GIVEN_UUID, piece);
		for (uint32_t i = 0; i < n; i++)
			if (!strcmp(g->device[i], g->device[n]))
				return fail(err, EINVAL, PREFIX "devices: %s stands there twice",
					g->device[n]);
		n++;
	}
	*ret_n = n;
	return n ? 0 : fail(err, EINVAL, PREFIX "devices: no device");
}

static int read_memory(struct str text, struct given *g, uint32_t n, struct error *err)
{
	struct str piece;
	uint32_t i;

	for (i = 0; str_split(&text, ',', &piece); i++) {
		int r = i < n ? quantity_parse(piece, 1, &g->memory_bytes[i], err)
			      : fail(err, EINVAL, "more values than %u devices", n);

		if (r < 0)
			return fail_within(err, -EINVAL, PREFIX "granted-memory");
	}
	if (i < n)
		return fail(err, EINVAL, PREFIX "granted-memory: %u value%s for %u devices", i,
			i == 1 ? "" : "s", n);
	return 0;
}

static int set(struct spec *spec, const char *field, struct str value, struct error *err)
{
	char text[64];

	if (str_copy(text, sizeof(text), value) < 0)
		return fail(err, EINVAL, PREFIX "granted-%s: " SHOW " is too long", field,
			SHOWN(value));
	return spec_set(spec, field, text, err) < 0
		? fail_within(err, -EINVAL, PREFIX "granted-%s", field)
		: 0;
}

/* Whole devices are their number, or 1 of each; their limit says nothing more. */
static int read_share(
	struct spec *spec, struct str request, struct str limit, uint32_t n, struct error *err)
{
	uint32_t permille = 0;
	char count[16];
	int r = parse_share(request, &permille, err);

	if (r < 0)
		return fail_within(err, -EINVAL, PREFIX "granted-request");
	snprintf(count, sizeof(count), "%u", n);
	if (permille && permille % SPEC_SHARE_ONE == 0) {
		if (permille != SPEC_SHARE_ONE && permille != n * SPEC_SHARE_ONE)
			return fail(err, EINVAL, PREFIX "granted-request " SHOW ": with %u devices",
				SHOWN(request), n);
		return set(spec, "request", str_from(count), err);
	}
	r = set(spec, "request", request, err);
	r = r < 0 ? r : set(spec, "limit", limit, err);
	return r < 0 ? r : set(spec, "count", str_from(count), err);
}

/* What has a default may be missing: it was not asked either. */
static int read_others(
	struct pod_list annotations, struct str container, struct spec *spec, struct error *err)
{
	static const char *const field[] = {"memory-policy", "class", "priority", "mode"};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(field); i++) {
		char key[64];
		struct str value;

		snprintf(key, sizeof(key), PREFIX "granted-%s", field[i]);
		r = find(annotations, key, container, &value, err);
		if (r > 0)
			r = set(spec, field[i], value, err);
	}
	return r;
}

static int read_epoch(struct pod_list annotations, uint64_t *ret_epoch, struct error *err)
{
	const struct str *text = pod_find(annotations, STR(PREFIX "epoch"));

	if (!text)
		return fail(err, EINVAL, PREFIX "epoch: is missing");
	return parse_uint(*text, 0, INT64_MAX, ret_epoch, err) < 0
		? fail_within(err, -EINVAL, PREFIX "epoch")
		: 0;
}

int given_read(struct pod_list annotations, struct str container, struct given *ret_given,
	struct error *err)
{
	struct str devices, request, limit, memory;
	struct given g = {0};
	uint32_t n = 0;
	int r = find(annotations, PREFIX "devices", container, &devices, err);

	if (r <= 0)
		return r < 0
			? r
			: fail(err, ENOENT, PREFIX "devices: nothing was given to container " SHOW,
				  SHOWN(container));
	spec_init(&g.spec);
	r = read_devices(devices, &g, &n, err);
	r = r < 0 ? r : need(annotations, PREFIX "granted-request", container, &request, err);
	r = r < 0 ? r : need(annotations, PREFIX "granted-limit", container, &limit, err);
	r = r < 0 ? r : need(annotations, PREFIX "granted-memory", container, &memory, err);
	r = r < 0 ? r : read_share(&g.spec, request, limit, n, err);
	r = r < 0 ? r : read_memory(memory, &g, n, err);
	r = r < 0 ? r : read_others(annotations, container, &g.spec, err);
	r = r < 0 ? r : read_epoch(annotations, &g.epoch, err);
	if (r < 0)
		return r;
	g.spec.memory_bytes = g.memory_bytes[0];
	r = spec_finish(&g.spec, err);
	if (r < 0)
		return fail_within(err, -EINVAL, PREFIX "granted-*");
	*ret_given = g;
	return 0;
}

#define GROUP_KEY PREFIX "granted-group"

/* A name may have a = in it, a number has none. */
int given_read_group(struct pod_list annotations, struct given_group *ret_group, struct error *err)
{
	const struct str *text = pod_find(annotations, STR(GROUP_KEY));
	struct given_group group;
	uint64_t least;
	size_t at;

	if (!text)
		return fail(err, ENOENT, GROUP_KEY ": is not there");
	for (at = text->n; at > 0 && text->p[at - 1] != '=';)
		at--;
	if (at < 2)
		return fail(err, EINVAL, GROUP_KEY ": " SHOW " is not GROUP=NUMBER", SHOWN(*text));
	if (str_copy(group.name, sizeof(group.name), (struct str){text->p, at - 1}) < 0)
		return fail(err, EINVAL, GROUP_KEY ": " SHOW "...: a name of more than %u bytes",
			SHOWN(*text), SPEC_GROUP - 1);
	if (parse_uint((struct str){text->p + at, text->n - at}, 1, SPEC_GROUP_SIZE_MAX, &least,
		    err) < 0)
		return fail_within(err, -EINVAL, GROUP_KEY);
	group.least = (uint32_t)least;
	*ret_group = group;
	return 0;
}
