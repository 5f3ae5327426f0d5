/* SPDX-License-Identifier: Apache-2.0 */
/* Versions: the order of Semantic Versioning, strict and loose texts. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "claims/semver.h"

static void versions_are_in_order(void **state)
{
	static const char *const ascending[] = {"0.0.1", "1.0.0-1", "1.0.0-2", "1.0.0-11",
		"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.1", "1.0.0", "1.2.0",
		"1.10.0", "18446744073709551615.0.0"};
	struct semver a, b;

	for (size_t i = 0; i < ARRAY_SIZE(ascending); i++)
		for (size_t k = 0; k < ARRAY_SIZE(ascending); k++) {
			assert_int_equal(semver_parse(str_from(ascending[i]), &a), 0);
			assert_int_equal(semver_parse(str_from(ascending[k]), &b), 0);
			assert_int_equal(semver_compare(&a, &b), i < k ? -1 : i > k);
		}
	assert_int_equal(semver_parse(STR("1.2.3+a"), &a), 0);
	assert_int_equal(semver_parse(STR("1.2.3+b"), &b), 0);
	assert_int_equal(semver_compare(&a, &b), 0);
}

static void other_texts_are_refused(void **state)
{
	static const char *const wrong[] = {"", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.x",
		"1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "1.2.3-a_b",
		"18446744073709551616.0.0"};
	struct semver version;
	char longest[SEMVER_TEXT_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		if (semver_parse(str_from(wrong[i]), &version) != -EINVAL)
			fail_msg("'%s' is a version", wrong[i]);
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "1.2.3-", 6);
	assert_int_equal(semver_parse((struct str){longest, SEMVER_TEXT_MAX - 1}, &version), 0);
	assert_int_equal(semver_parse((struct str){longest, SEMVER_TEXT_MAX}, &version), -EINVAL);
}

static void loose_texts_are_completed(void **state)
{
	static const struct {
		const char *text, *same;
	} cases[] = {{"v1", "1.0.0"}, {"1.2", "1.2.0"}, {"01.02.003", "1.2.3"}, {"000", "0.0.0"},
		{"1.2.3-rc.1", "1.2.3-rc.1"}};
	static const char *const wrong[] = {"", "x", "1.2-rc", "1.2.3.4"};
	char room[SEMVER_TEXT_MAX];
	struct semver a, b;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(semver_parse_loosely(str_from(cases[i].text), room, &a), 0);
		assert_int_equal(semver_parse(str_from(cases[i].same), &b), 0);
		assert_int_equal(semver_compare(&a, &b), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(semver_parse_loosely(str_from(wrong[i]), room, &a), -EINVAL);
}

UNIT_MAIN(
	UNIT(versions_are_in_order), UNIT(other_texts_are_refused), UNIT(loose_texts_are_completed))
