/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads the user of a request from the headers that the API server in front has set. It
 * trusts no header before the name in the peer's certificate has passed the list of allowed names.
 * Five keys of the ConfigMap hold lists as JSON text, and a missing key leaves its list NULL. The
 * first header of the list that is not empty gives the user's name; every group header adds a
 * group. The end of a header with the extra prefix is a key in percent encoding, which read_key()
 * decodes.
 */
#include "access/front.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/parse.h"

#define EXTRA_KEY_MAX 256u

enum { NAMES, USERS, UIDS, GROUPS, EXTRAS, N_LISTS };

/* Keys of lists of texts, written as JSON; a missing key means an empty list. */
static const char *const keys[N_LISTS] = {
	[NAMES] = "requestheader-allowed-names",
	[USERS] = "requestheader-username-headers",
	[UIDS] = "requestheader-uid-headers",
	[GROUPS] = "requestheader-group-headers",
	[EXTRAS] = "requestheader-extra-headers-prefix",
};

struct front {
	char *authorities;
	json_t *lists[N_LISTS];
};

static int front_read_list(const json_t *data, const char *key, json_t **ret, struct error *err)
{
	const char *text = kube_json_text_at(data, key, NULL);

	if (!text || !text[0])
		return 0;
	if (kube_json_parse(str_from(text), ret, err) < 0)
		return fail_within(err, -EINVAL, "%s", key);
	return json_is_array(*ret) ? 0 : fail(err, EINVAL, "%s: expected a list", key);
}

int front_new(const json_t *config_map, struct front **ret_front, struct error *err)
{
	const json_t *data = json_object_get(config_map, "data");
	const char *pem = kube_json_text_at(data, "requestheader-client-ca-file", NULL);
	struct front *front;
	int r = 0;

	if (!pem || !pem[0])
		return fail(err, ENOENT,
			"extension-apiserver-authentication: no requestheader-client-ca-file; "
			"enable the API server's aggregation layer");
	front = calloc(1, sizeof(*front));
	if (!front || !(front->authorities = str_dup(str_from(pem))))
		r = fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < N_LISTS; i++)
		r = front_read_list(data, keys[i], &front->lists[i], err);
	if (r < 0) {
		front_free(front);
		return r;
	}
	*ret_front = front;
	return 0;
}

void front_free(struct front *front)
{
	if (!front)
		return;
	for (size_t i = 0; i < N_LISTS; i++)
		json_decref(front->lists[i]);
	free(front->authorities);
	free(front);
}

const char *front_authorities(const struct front *front)
{
	return front->authorities;
}

/* ---- the user of a request ---- */

/* The first header of the list that is present and not empty. */
static const char *first_of(const json_t *list, const struct http_request *request)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		const char *value = name ? http_header(request, name) : NULL;

		if (value && value[0])
			return value;
	}
	return NULL;
}

/* Lower-cases the key and decodes "%2f"; false if the key is empty or too long. */
static bool read_key(const char *from, char ret[EXTRA_KEY_MAX])
{
	size_t n = 0;

	for (; *from && n + 1 < EXTRA_KEY_MAX; from++) {
		uint8_t byte;

		if (from[0] == '%' && from[1] && from[2] &&
			parse_hex((struct str){from + 1, 2}, &byte, 1, NULL) >= 0 && byte) {
			ret[n++] = (char)byte;
			from += 2;
		} else {
			ret[n++] = (char)tolower((unsigned char)*from);
		}
	}
	ret[n] = '\0';
	return !*from && n;
}

struct reading {
	const struct front *front;
	json_t *groups, *extra;
};

static void front_read_header(void *data, const char *name, const char *value)
{
	const struct reading *r = data;
	const json_t *groups = r->front->lists[GROUPS], *extras = r->front->lists[EXTRAS];

	for (size_t i = 0; i < json_array_size(groups); i++) {
		const char *its = json_string_value(json_array_get(groups, i));

		if (its && !strcasecmp(its, name))
			json_array_append_new(r->groups, json_string(value));
	}
	for (size_t i = 0; i < json_array_size(extras); i++) {
		const char *prefix = json_string_value(json_array_get(extras, i));
		const size_t n = prefix ? strlen(prefix) : 0;
		char key[EXTRA_KEY_MAX];
		json_t *values;

		if (!n || strncasecmp(prefix, name, n) || !read_key(name + n, key))
			continue;
		values = json_object_get(r->extra, key);
		if (!values) {
			values = json_array();
			json_object_set_new(r->extra, key, values);
		}
		json_array_append_new(values, json_string(value));
	}
}

json_t *front_user(const struct front *front, struct http_request *request)
{
	const char *peer = http_peer(request), *user;
	struct reading r = {front, NULL, NULL};

	/* Without a list of names, any certificate of the authority counts, as in API servers. */
	if (!peer ||
		(json_array_size(front->lists[NAMES]) &&
			!kube_json_list_has(front->lists[NAMES], peer)))
		return NULL;
	user = first_of(front->lists[USERS], request);
	if (!user)
		return NULL;
	r.groups = json_array();
	r.extra = json_object();
	http_each_header(request, front_read_header, &r);
	return json_pack("{s:s, s:s*, s:o, s:o}", "user", user, "uid",
		first_of(front->lists[UIDS], request), "groups", r.groups, "extra", r.extra);
}
