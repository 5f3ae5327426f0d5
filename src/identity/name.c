/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file parses and formats the URIs that name nodes and tenants. identity_name_format() parses
 * its own result and compares both names, so no URI leaves this file that the parser would refuse.
 * An error message shows at most 100 bytes of the peer's URI, without control characters.
 */
#include "identity/name.h"

#include <errno.h>
#include <stdio.h>

#define SCHEME "divvy://"
#define NODE_PREFIX SCHEME "node/"
#define TENANT_PREFIX SCHEME "tenant/"

static bool identity_name_is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/*
 * Whether the text has only lower-case letters and digits, and between them '-' and, with has_dots,
 * '.'.
 */
static bool is_label(struct str text, bool has_dots)
{
	for (size_t i = 0; i < text.n; i++)
		if (!identity_name_is_plain(text.p[i]) && text.p[i] != '-' &&
			!(has_dots && text.p[i] == '.'))
			return false;
	return text.n && identity_name_is_plain(text.p[0]) &&
		identity_name_is_plain(text.p[text.n - 1]);
}

static int identity_name_take_part(char *ret, size_t size, struct str text, bool has_dots)
{
	return is_label(text, has_dots) ? str_copy(ret, size, text) : -EINVAL;
}

int identity_name_parse(struct str uri, struct identity_name *ret_name, struct error *err)
{
	struct identity_name name = {.kind = IDENTITY_OF_NODE};
	struct str rest = uri, uid = STR_NONE;
	int r;

	if (str_skip_prefix(&rest, STR(NODE_PREFIX))) {
		r = identity_name_take_part(name.node, sizeof(name.node), rest, true);
	} else if (str_skip_prefix(&rest, STR(TENANT_PREFIX))) {
		name.kind = IDENTITY_OF_TENANT;
		str_split(&rest, '/', &uid);
		r = identity_name_take_part(name.uid, sizeof(name.uid), uid, false);
		r = r < 0 ? r
			  : identity_name_take_part(
				    name.container, sizeof(name.container), rest, false);
	} else {
		r = -EINVAL;
	}
	if (r < 0) {
		char shown[100];
		const size_t n = uri.n < sizeof(shown) ? uri.n : sizeof(shown);

		memcpy(shown, uri.p ? uri.p : "", n);
		str_blank_controls(shown, n);
		return fail(err, EINVAL,
			"'%.*s' is neither " NODE_PREFIX "NAME nor " TENANT_PREFIX
			"POD-UID/CONTAINER",
			(int)n, shown);
	}
	*ret_name = name;
	return 0;
}

int identity_name_format(const struct identity_name *name, char ret_uri[IDENTITY_URI])
{
	char uri[IDENTITY_URI];
	struct identity_name back;
	int n = -1;

	if (name->kind == IDENTITY_OF_NODE)
		n = snprintf(uri, sizeof(uri), NODE_PREFIX "%s", name->node);
	else if (name->kind == IDENTITY_OF_TENANT)
		n = snprintf(uri, sizeof(uri), TENANT_PREFIX "%s/%s", name->uid, name->container);
	if (n < 0 || (size_t)n >= sizeof(uri) ||
		identity_name_parse(str_from(uri), &back, NULL) < 0 ||
		!identity_name_is_same(name, &back))
		return -EINVAL;
	memcpy(ret_uri, uri, (size_t)n + 1);
	return 0;
}

bool identity_name_is_same(const struct identity_name *a, const struct identity_name *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case IDENTITY_OF_NODE: return !strcmp(a->node, b->node);
	case IDENTITY_OF_TENANT:
		return !strcmp(a->uid, b->uid) && !strcmp(a->container, b->container);
	default: return true;
	}
}
