/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of capacity: every form of a quantity, rounding and limits, and the shortest text. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "claims/amount.h"

/* Texts and the shortest texts of their values. */
static const struct {
	const char *text, *canonical;
} forms[] = {
	{"0", "0"},
	{"007", "7"},
	{"+1", "1"},
	{"-3", "-3"},
	{".5", "500m"},
	{"1.5", "1500m"},
	{"1000m", "1"},
	{"1000", "1k"},
	{"2e3", "2k"},
	{"1E", "1E"},
	{"1500k", "1500k"},
	{"100n", "100n"},
	{"0.1n", "1n"},
	{"-0.1n", "-1n"},
	{"10Gi", "10Gi"},
	{"1024Mi", "1Gi"},
	{"1.5Gi", "1536Mi"},
	{"0.5Ki", "512"},
	{"1Ki", "1Ki"},
	{"1023", "1023"},
	{"9223372036854775807", "9223372036854775807"},
	{"9223372036854775808", "9223372036854775807"},
	{"100E", "9223372036854775807"},
	{"16Ei", "9223372036854775807"},
	{"1e1000", "9223372036854775807"},
	{"0e1000", "0"},
	{"1e-1000", "1n"},
	{"99999999999999999999999999999999999999999999999999", "9223372036854775807"},
	{"0.00000000000000000000000000000000000000000000000001", "1n"},
	{"k", "0"},
	{".", "0"},
};

static void every_form(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct amount amount;
		char text[AMOUNT_SIZE];

		if (amount_parse(str_from(forms[i].text), &amount) < 0)
			fail_msg("%s is refused", forms[i].text);
		amount_format(amount, text);
		if (strcmp(text, forms[i].canonical) != 0)
			fail_msg("%s: %s instead of %s", forms[i].text, text, forms[i].canonical);
	}
}

static void other_texts_are_refused(void **state)
{
	static const char *const wrong[] = {
		"", "x", "1Q", "1 Gi", "--1", "1e", "1.2.3", "1Gi ", "1e1.5", "1i"};
	char longest[AMOUNT_TEXT_MAX + 2];
	struct amount amount;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		if (amount_parse(str_from(wrong[i]), &amount) != -EINVAL)
			fail_msg("'%s' is a quantity", wrong[i]);
	memset(longest, '0', sizeof(longest));
	assert_int_equal(amount_parse((struct str){longest, AMOUNT_TEXT_MAX}, &amount), 0);
	assert_int_equal(
		amount_parse((struct str){longest, AMOUNT_TEXT_MAX + 1}, &amount), -EINVAL);
}

static void whole_numbers_are_read(void **state)
{
	struct amount amount;
	int64_t value;

	assert_int_equal(amount_parse(STR("1500m"), &amount), 0);
	assert_false(amount_read_int(amount, &value));
	assert_true(amount_read_milli(amount, &value));
	assert_int_equal(value, 1500);
	assert_int_equal(amount_units(amount), 2);
	assert_int_equal(amount_parse(STR("-1500m"), &amount), 0);
	assert_int_equal(amount_units(amount), -2);
	assert_int_equal(amount_parse(STR("9E"), &amount), 0);
	assert_true(amount_read_int(amount, &value));
	assert_false(amount_read_milli(amount, &value));
}

UNIT_MAIN(UNIT(every_form), UNIT(other_texts_are_refused), UNIT(whole_numbers_are_read))
