/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file connects the spec options with the fields of the spec by the list SPEC_FIELDS. An
 * option has the name of its field, with hyphens in place of underscores. The JSON and the check
 * both pass plain_amount(), so the daemon receives the amounts that the check has accepted.
 * spec_options_check_change() skips the rules between fields if the command sets no request,
 * because it does not know the tenant's other fields.
 */
#include "cli/spec-options.h"

#include <errno.h>
#include <stdio.h>

#define AMOUNT_MAX 64u
/* No device's context takes less memory, so a smaller amount has probably lost its unit. */
#define MEMORY_LEAST (UINT64_C(16) << 20)

/* Names of the spec's fields, as the options spell them. */
static const char *const field[] = {
#define X(name, help) #name,
	SPEC_FIELDS(X)
#undef X
};

static const char *spec_options_find_value(
	const struct cli_args *args, const char *name, char spelled[static 32])
{
	const struct option_row *o = args->command->options;

	snprintf(spelled, 32, "%s", name);
	for (char *p = spelled; *p; p++)
		if (*p == '_')
			*p = '-';
	for (size_t i = 0; o[i].name; i++)
		if (!strcmp(o[i].name, spelled))
			return args->value[i];
	return NULL;
}

/*
 * Accepts amounts as users of other tools type them: ".5", and memory with docker's suffixes. These
 * suffixes are powers of 1024 in lower case: m, mb, mi, mib, and the same four with g, t and p. The
 * daemon and pods accept neither form.
 */
static const char *plain_amount(const char *name, const char *value, char ret[static AMOUNT_MAX])
{
	const bool is_memory = !strcmp(name, "memory");
	const size_t n = strlen(value), digits = strspn(value, "0123456789.");
	const char *unit = value + digits, *zero = value[0] == '.' && digits > 1 ? "0" : "";

	if (!is_memory && strcmp(name, "request") != 0 && strcmp(name, "limit") != 0)
		return value;
	if (!digits || n + 3 > AMOUNT_MAX)
		return value;
	if (is_memory && unit[0] && strchr("mgtp", unit[0]) &&
		(!unit[1] || !strcmp(unit + 1, "b") || !strcmp(unit + 1, "i") ||
			!strcmp(unit + 1, "ib"))) {
		snprintf(ret, AMOUNT_MAX, "%s%.*s%ci", zero, (int)digits, value,
			unit[0] - 'a' + 'A');
		return ret;
	}
	if (!zero[0])
		return value;
	snprintf(ret, AMOUNT_MAX, "%s%s", zero, value);
	return ret;
}

json_t *spec_options_json(const struct cli_args *args)
{
	json_t *spec = json_object();
	char spelled[32], amount[AMOUNT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		const char *value = spec_options_find_value(args, field[i], spelled);

		if (value)
			json_object_set_new(
				spec, spelled, json_string(plain_amount(spelled, value, amount)));
	}
	return spec;
}

/* A message of spec.h begins with the field's name. "--" before the name makes it the option. */
static int fail_field(int r, const struct error *why, struct error *err)
{
	return fail(err, -r, "--%.250s", why->msg);
}

static int spec_options_read_fields(
	const struct cli_args *args, struct spec *spec, struct error *err)
{
	const char *name = cli_get(args, "name");
	char spelled[32], amount[AMOUNT_MAX];
	struct error why;
	int r;

	spec_init(spec);
	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		const char *value = spec_options_find_value(args, field[i], spelled);

		r = value ? spec_set(spec, spelled, plain_amount(spelled, value, amount), &why) : 0;
		if (r < 0)
			return fail_field(r, &why, err);
	}
	if (spec->memory_bytes && spec->memory_bytes < MEMORY_LEAST) {
		const char *memory = cli_get(args, "memory");

		if (memory[strspn(memory, "0123456789.")])
			return fail(err, EINVAL,
				"--memory '%.40s': a CUDA context alone takes hundreds of MiB; "
				"write more, such as 4Gi",
				memory);
		return fail(err, EINVAL,
			"--memory '%.40s': a number without a unit is bytes, and a CUDA context "
			"alone takes hundreds of MiB; write %.40sMi or %.40sGi",
			memory, memory, memory);
	}
	r = name ? spec_name_check(name, &why) : 0;
	return r < 0 ? fail_field(r, &why, err) : 0;
}

static int finish(struct spec *spec, struct error *err)
{
	struct error why;
	int r = spec_finish(spec, &why);

	return r < 0 ? fail_field(r, &why, err) : 0;
}

int spec_options_check(const struct cli_args *args, struct error *err)
{
	struct spec spec;
	int r = spec_options_read_fields(args, &spec, err);

	return r < 0 ? r : finish(&spec, err);
}

int spec_options_check_change(const struct cli_args *args, struct error *err)
{
	struct spec spec;
	int r = spec_options_read_fields(args, &spec, err);

	return r < 0 || !spec.request ? r : finish(&spec, err);
}
