/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file prints the result of a command as a table, JSON or YAML. output_buf(), output_table()
 * and output_json() flush stdout, so a failed write becomes the command's error. The YAML writer
 * recurses over the value. The writer prints a text without quotes if output_is_plain_text()
 * accepts the text. The writer prints all other scalars as JSON, since a JSON scalar is valid YAML.
 */
#include "cmdline/output.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmdline/json-member.h"

int output_end(struct error *err)
{
	if (fflush(stdout) == EOF || ferror(stdout))
		return fail_errno(err, errno ? errno : EIO, "write to stdout");
	return 0;
}

int output_buf(const struct buf *text, struct error *err)
{
	if (buf_error(text) < 0)
		return fail(err, -buf_error(text), "output");
	fwrite(buf_text(text), 1, text->n, stdout);
	return output_end(err);
}

int output_table(const struct table *table, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	const int r = table_format(table, true, &out);

	return r < 0 ? fail(err, -r, "table") : output_buf(&out, err);
}

int output_json(const json_t *value, struct error *err)
{
	_cleanup_free_ char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);

	if (!text)
		return fail(err, ENOMEM, "out of memory for the output");
	puts(text);
	return output_end(err);
}

/* Whether the text needs no quotes in YAML: it cannot be read as a number, a boolean or syntax. */
static bool output_is_plain_text(const char *s)
{
	static const char *const word[] = {
		"true", "false", "null", "yes", "no", "on", "off", "y", "n"};

	if (!isalpha((unsigned char)s[0]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(word); i++)
		if (!strcasecmp(s, word[i]))
			return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("_-./", *s))
			return false;
	return true;
}

static void yaml_text(const char *s, struct buf *out)
{
	_cleanup_free_ char *quoted = NULL;
	json_t *value;

	if (output_is_plain_text(s)) {
		buf_add_text(out, s);
		return;
	}
	value = json_string(s);
	quoted = json_dumps(value, JSON_ENCODE_ANY);
	json_decref(value);
	buf_add_text(out, quoted ? quoted : "null");
}

static void yaml_scalar(const json_t *value, struct buf *out)
{
	_cleanup_free_ char *text = NULL;

	if (json_is_string(value)) {
		yaml_text(json_string_value(value), out);
		return;
	}
	/* A JSON scalar is valid YAML. */
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	buf_add_text(out, text ? text : "null");
}

static bool is_block(const json_t *value)
{
	return (json_is_object(value) && json_object_size(value)) ||
		(json_is_array(value) && json_array_size(value));
}

/* Writes `value` at `indent`; for the first line the cursor is there already. */
static void yaml_block(const json_t *value, int indent, struct buf *out)
{
	json_t *object = (json_t *)(uintptr_t)value, *member;
	const char *name, *sep = "";
	size_t i;

	if (json_is_object(value)) {
		json_object_foreach(object, name, member) {
			const bool block = is_block(member);
			/* A list may start at its key's own indent. */
			const int inner = json_is_array(member) ? indent : indent + 2;

			buf_addf(out, "%s", sep);
			if (*sep)
				buf_addf(out, "%*s", indent, "");
			yaml_text(name, out);
			buf_add_byte(out, ':');
			if (block)
				buf_addf(out, "\n%*s", inner, "");
			else
				buf_add_byte(out, ' ');
			yaml_block(member, inner, out);
			sep = "\n";
		}
		if (!*sep)
			buf_add_text(out, "{}");
		return;
	}
	if (json_is_array(value)) {
		json_array_foreach(object, i, member) {
			buf_addf(out, "%s", sep);
			if (*sep)
				buf_addf(out, "%*s", indent, "");
			buf_add_text(out, "- ");
			yaml_block(member, indent + 2, out);
			sep = "\n";
		}
		if (!*sep)
			buf_add_text(out, "[]");
		return;
	}
	yaml_scalar(value, out);
}

void output_yaml(const json_t *value, struct buf *out)
{
	yaml_block(value, 0, out);
	buf_add_byte(out, '\n');
}

int output_as_table(const struct cli_args *args, const json_t *value, struct error *err)
{
	const char *format = cli_get(args, "output");
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	int r;

	if (!format || !strcmp(format, "table"))
		return 1;
	if (!strcmp(format, "json"))
		return output_json(value, err);
	output_yaml(value, &out);
	r = output_buf(&out, err);
	return r;
}

void output_simulated(const json_t *answer)
{
	if (json_bool_or_false(answer, "simulated"))
		puts("(simulated: these devices are not real)");
}
