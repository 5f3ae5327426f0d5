/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "identity/name.h"

#define UID "5f0c8c1e-7d0e-4a55-9a53-0c4f2e1b6d10"
#define TEN "0123456789"
#define SIXTY TEN TEN TEN TEN TEN TEN

static void a_node_has_one_form(void **state)
{
	struct identity_name name;
	char uri[IDENTITY_URI];

	assert_ok(identity_name_parse(STR("divvy://node/gpu-7.example"), &name, NULL));
	assert_int_equal(name.kind, IDENTITY_OF_NODE);
	assert_string_equal(name.node, "gpu-7.example");
	assert_ok(identity_name_format(&name, uri));
	assert_string_equal(uri, "divvy://node/gpu-7.example");
}

static void a_tenant_has_one_form(void **state)
{
	struct identity_name name, other;
	char uri[IDENTITY_URI];

	assert_ok(identity_name_parse(STR("divvy://tenant/" UID "/main"), &name, NULL));
	assert_int_equal(name.kind, IDENTITY_OF_TENANT);
	assert_string_equal(name.uid, UID);
	assert_string_equal(name.container, "main");
	assert_ok(identity_name_format(&name, uri));
	assert_string_equal(uri, "divvy://tenant/" UID "/main");
	assert_ok(identity_name_parse(STR("divvy://tenant/" UID "/side"), &other, NULL));
	assert_false(identity_name_is_same(&name, &other));
	assert_true(identity_name_is_same(&name, &name));
}

static void other_texts_are_refused(void **state)
{
	static const char *const bad[] = {"", "divvy://", "divvy://node", "divvy://node/",
		"divvy://node/a/b", "divvy://node/A", "divvy://node/.a", "divvy://node/a.",
		"divvy://node/-a", "divvy://node/a%2eb", "divvy://node/a b", "divvy://node/a?b",
		"divvy://node/a#b", "divvy://node/a\n", " divvy://node/a", "Divvy://node/a",
		"https://node/a", "divvy://tenant", "divvy://tenant/" UID,
		"divvy://tenant/" UID "/", "divvy://tenant//main", "divvy://tenant/" UID "/main/",
		"divvy://tenant/" UID "/main/x", "divvy://tenant/" UID "/ma.in",
		"divvy://tenant/" UID "/../main", "divvy://tenant/../" UID,
		"divvy://tenant/" SIXTY "abcd/main", "divvy://tenant/" UID "/" SIXTY "abcd",
		"divvy://node/" SIXTY SIXTY SIXTY SIXTY "abcdefghijklmn"};
	struct identity_name name;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(identity_name_parse(str_from(bad[i]), &name, &err), -EINVAL);
		assert_contains(err.msg, "neither divvy://node/NAME");
	}
	assert_int_equal(
		identity_name_parse((struct str){"divvy://node/a\0b", 16}, &name, NULL), -EINVAL);
	/* Names at the limit: one character shorter than the refused names. */
	assert_ok(
		identity_name_parse(STR("divvy://tenant/" SIXTY "abc/" SIXTY "abc"), &name, NULL));
	assert_ok(identity_name_parse(
		STR("divvy://node/" SIXTY SIXTY SIXTY SIXTY "abcdefghijklm"), &name, NULL));
}

static void unreadable_names_are_not_written(void **state)
{
	char uri[IDENTITY_URI] = "as it was";

	assert_int_equal(identity_name_format(&(struct identity_name){.kind = 0}, uri), -EINVAL);
	assert_int_equal(
		identity_name_format(
			&(struct identity_name){.kind = IDENTITY_OF_NODE, .node = "a/b"}, uri),
		-EINVAL);
	/* A "/" inside a part would move the border between UID and container in the URI. */
	assert_int_equal(identity_name_format(&(struct identity_name){.kind = IDENTITY_OF_TENANT,
						      .uid = "u/main",
						      .container = "x"},
				 uri),
		-EINVAL);
	assert_string_equal(uri, "as it was");
}

UNIT_MAIN(UNIT(a_node_has_one_form), UNIT(a_tenant_has_one_form), UNIT(other_texts_are_refused),
	UNIT(unreadable_names_are_not_written))
