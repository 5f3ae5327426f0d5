/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses Gemini's two forms line by line; an error names its line. '#' begins a comment in both
 * forms. If the first line begins with '[', the file has the second form. Pure; any thread.
 */
#include "spec/gemini.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"

#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p

struct draft {
	struct gemini gemini;
	size_t line;
	struct error *err;
	/* keys that the last client had, in the second form */
	bool has_request, has_limit, has_memory;
};

void gemini_done(struct gemini *gemini)
{
	free(gemini->client);
	*gemini = (struct gemini){NULL, 0};
}

static int gemini_fail_value(
	struct draft *draft, const char *what, struct str value, const char *right)
{
	return fail(draft->err, EINVAL, "line %zu: %s '" SHOW "': %s", draft->line, what,
		SHOWN(value), right);
}

static int add_client(struct draft *draft, struct str name)
{
	struct gemini *gemini = &draft->gemini;
	struct gemini_client *client;

	for (size_t i = 0; i < name.n; i++)
		if (!isgraph((unsigned char)name.p[i]))
			return gemini_fail_value(draft, "name", STR("?"),
				"expected printable characters without blanks");
	if (name.n == 0 || name.n >= GEMINI_NAME)
		return gemini_fail_value(draft, "name", name, "expected 1 to 63 characters");
	for (size_t i = 0; i < gemini->n; i++)
		if (str_is(name, gemini->client[i].name))
			return gemini_fail_value(draft, "name", name, "the name occurs twice");
	if (gemini->n == GEMINI_CLIENTS)
		return gemini_fail_value(
			draft, "name", name, "the file has more than 1024 clients");
	/* n is 0 or a power of two, so the array is full: double it */
	if ((gemini->n & (gemini->n - 1)) == 0) {
		void *grown = realloc(
			gemini->client, (gemini->n ? 2 * gemini->n : 1) * sizeof(*gemini->client));

		if (!grown)
			return fail(draft->err, ENOMEM, "line %zu: out of memory", draft->line);
		gemini->client = grown;
	}
	client = &gemini->client[gemini->n++];
	*client = (struct gemini_client){0};
	spec_init(&client->spec);
	client->spec.count = 1;
	draft->has_request = draft->has_limit = draft->has_memory = false;
	return str_copy(client->name, sizeof(client->name), name);
}

static int gemini_set_share(
	struct draft *draft, const char *what, struct str text, uint32_t *ret_share)
{
	uint32_t share;

	if (parse_share(text, &share, NULL) < 0 || share > SPEC_SHARE_ONE)
		return gemini_fail_value(draft, what, text, "expected 0 to 1 in steps of 0.001");
	*ret_share = share;
	return 0;
}

static int gemini_set_request(struct draft *draft, struct str text)
{
	struct spec *spec = &draft->gemini.client[draft->gemini.n - 1].spec;
	int r = gemini_set_share(draft, "request", text, &spec->request);

	if (r == 0 && spec->request == 0) {
		spec->class = SPEC_OPPORTUNISTIC;
		spec->request = 1;
	}
	draft->has_request = true;
	return r;
}

static int gemini_set_limit(struct draft *draft, struct str text)
{
	struct spec *spec = &draft->gemini.client[draft->gemini.n - 1].spec;
	int r = gemini_set_share(draft, "limit", text, &spec->limit);

	if (r == 0 && spec->limit == 0)
		return gemini_fail_value(draft, "limit", text, "expected 0.001 to 1");
	draft->has_limit = true;
	return r;
}

static int gemini_set_memory(struct draft *draft, struct str text)
{
	struct spec *spec = &draft->gemini.client[draft->gemini.n - 1].spec;

	if (parse_bytes(text, &spec->memory_bytes, NULL) < 0 || spec->memory_bytes == 0)
		return gemini_fail_value(
			draft, "memory", text, "expected bytes, or a quantity such as 4GiB");
	draft->has_memory = true;
	return 0;
}

/* Completes the last client: defaults, and the rules between its fields. */
static int finish_client(struct draft *draft)
{
	struct gemini_client *client;
	struct spec *spec;

	if (draft->gemini.n == 0)
		return 0;
	client = &draft->gemini.client[draft->gemini.n - 1];
	spec = &client->spec;
	if (!draft->has_request) { /* MinUtil's default is 0 */
		spec->class = SPEC_OPPORTUNISTIC;
		spec->request = 1;
	}
	if (!draft->has_limit)
		spec->limit = SPEC_SHARE_ONE;
	if (spec->limit < spec->request)
		return gemini_fail_value(draft, "client", str_from(client->name),
			"the limit is below the request; expected request, limit, memory in "
			"this order");
	if (!draft->has_memory)
		return gemini_fail_value(
			draft, "client", str_from(client->name), "the memory is missing");
	spec->priority = spec->class == SPEC_OPPORTUNISTIC ? 0 : 50;
	return 0;
}

/* Parses a line "name request limit memory". */
static int parse_row(struct draft *draft, struct str line)
{
	struct str word[4], more;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(word); i++)
		if (!str_word(&line, &word[i]))
			return fail(draft->err, EINVAL,
				"line %zu: the line has %zu words; expected name, request, "
				"limit and bytes of memory",
				draft->line, i);
	if (str_word(&line, &more))
		return gemini_fail_value(draft, "word", more, "unexpected word after the memory");
	r = add_client(draft, word[0]);
	if (r == 0)
		r = gemini_set_request(draft, word[1]);
	if (r == 0)
		r = gemini_set_limit(draft, word[2]);
	if (r == 0)
		r = gemini_set_memory(draft, word[3]);
	return r < 0 ? r : finish_client(draft);
}

/* Parses a line "[name]" or "Key=value". */
static int parse_setting(struct draft *draft, struct str line)
{
	struct str key = {line.p, str_find(line, '=')}, value;
	int r;

	if (str_skip_prefix(&line, STR("["))) {
		r = finish_client(draft);
		if (r < 0)
			return r;
		if (!str_skip_suffix(&line, STR("]")))
			return gemini_fail_value(draft, "section", line, "no ']' ends the section");
		return add_client(draft, str_trim(line));
	}
	if (key.n == line.n)
		return gemini_fail_value(draft, "setting", line, "expected Key=value");
	value = str_trim((struct str){line.p + key.n + 1, line.n - key.n - 1});
	key = str_trim(key);
	if (str_is(key, "MinUtil"))
		return gemini_set_request(draft, value);
	if (str_is(key, "MaxUtil"))
		return gemini_set_limit(draft, value);
	if (str_is(key, "MemoryLimit"))
		return gemini_set_memory(draft, value);
	return gemini_fail_value(draft, "setting", key, "expected MinUtil, MaxUtil or MemoryLimit");
}

/* Cuts the next line that is not empty off the text. false: the text has ended. */
static bool gemini_next_line(struct draft *draft, struct str *text, struct str *ret_line)
{
	struct str line;

	while (str_split(text, '\n', &line)) {
		draft->line++;
		line.n = str_find(line, '#');
		line = str_trim(line);
		if (line.n) {
			*ret_line = line;
			return true;
		}
	}
	return false;
}

static int parse_rows(struct draft *draft, struct str first, struct str text)
{
	struct str line;
	uint64_t n;
	int r;

	if (parse_uint(first, 0, GEMINI_CLIENTS, &n, NULL) < 0)
		return gemini_fail_value(
			draft, "first line", first, "expected the number of clients, 0 to 1024");
	while (gemini_next_line(draft, &text, &line)) {
		if (draft->gemini.n == n)
			return gemini_fail_value(
				draft, "client", line, "the first line says fewer clients");
		r = parse_row(draft, line);
		if (r < 0)
			return r;
	}
	if (draft->gemini.n < n)
		return fail(draft->err, EINVAL,
			"line %zu: the file ends after %zu clients; the first line says %llu",
			draft->line, draft->gemini.n, (unsigned long long)n);
	return 0;
}

static int parse_sections(struct draft *draft, struct str line, struct str text)
{
	do {
		int r = parse_setting(draft, line);

		if (r < 0)
			return r;
	} while (gemini_next_line(draft, &text, &line));
	return finish_client(draft);
}

int gemini_parse(struct str text, struct gemini *ret_gemini, struct error *err)
{
	struct draft draft = {.err = err};
	struct str line;
	int r = 0;

	if (gemini_next_line(&draft, &text, &line))
		r = line.p[0] == '[' ? parse_sections(&draft, line, text)
				     : parse_rows(&draft, line, text);
	if (r < 0) {
		gemini_done(&draft.gemini);
		return r;
	}
	*ret_gemini = draft.gemini;
	return 0;
}
