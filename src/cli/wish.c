/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/wish.h"

#include <errno.h>
#include <stdio.h>

/* The spec's own fields, as options are spelled. */
static const char *const field[] = {
#define X(name, help) #name,
	SPEC_FIELDS(X)
#undef X
};

static const char *given(const struct cli_args *args, const char *name, char spelled[static 32])
{
	const struct cli_option *o = args->command->options;

	snprintf(spelled, 32, "%s", name);
	for (char *p = spelled; *p; p++)
		if (*p == '_')
			*p = '-';
	for (size_t i = 0; o[i].name; i++)
		if (!strcmp(o[i].name, spelled))
			return args->value[i];
	return NULL;
}

json_t *wish_json(const struct cli_args *args)
{
	json_t *spec = json_object();
	char spelled[32];

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		const char *value = given(args, field[i], spelled);

		if (value)
			json_object_set_new(spec, spelled, json_string(value));
	}
	return spec;
}

static int read_fields(const struct cli_args *args, struct spec *spec, struct error *err)
{
	const char *name = cli_get(args, "name");
	char spelled[32];

	spec_init(spec);
	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		const char *value = given(args, field[i], spelled);
		int r = value ? spec_set(spec, spelled, value, err) : 0;

		if (r < 0)
			return r;
	}
	return name ? spec_name_check(name, err) : 0;
}

int wish_check(const struct cli_args *args, struct error *err)
{
	struct spec spec;
	int r = read_fields(args, &spec, err);

	return r < 0 ? r : spec_finish(&spec, err);
}

int wish_check_change(const struct cli_args *args, struct error *err)
{
	struct spec spec;
	int r = read_fields(args, &spec, err);

	return r < 0 || !spec.request ? r : spec_finish(&spec, err);
}
