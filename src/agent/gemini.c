/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemini's file: see gemini.h. Its shares may have more digits than 1/1000 ("0.333333"): what is
 * finer is refused, as everywhere. A file with fewer lines than it announces is still being written.
 */
#include "agent/gemini.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"

static int set_word(struct spec *spec, const char *field, struct str word, struct error *err)
{
	char value[64];

	if (str_copy(value, sizeof(value), word) < 0)
		return fail(err, EINVAL, "%s: too long", field);
	return spec_set(spec, field, value, err);
}

static int copy_id(struct str word, char *ret, size_t size, struct error *err)
{
	if (str_copy(ret, size, word) < 0)
		return fail(err, EINVAL, "'%" STR_FMT "': a name has at most %zu characters", STR_ARG(word),
			    size - 1);
	for (char *p = ret; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
			*p = '.';
	return 0;
}

static int parse_client(struct str line, struct gemini_client *ret, struct error *err)
{
	struct str rest = line, id, request, limit, memory, extra;
	struct gemini_client client;
	int r;

	if (!str_word(&rest, &id) || !str_word(&rest, &request) || !str_word(&rest, &limit) ||
	    !str_word(&rest, &memory) || str_word(&rest, &extra))
		return fail(err, EINVAL, "expected `ID REQUEST LIMIT MEMORY`");
	r = copy_id(id, client.id, sizeof(client.id), err);
	spec_init(&client.spec);
	if (r >= 0)
		r = set_word(&client.spec, "request", request, err);
	if (r >= 0)
		r = set_word(&client.spec, "limit", limit, err);
	if (r >= 0 && !str_is(memory, "0"))
		r = set_word(&client.spec, "memory", memory, err);
	if (r >= 0)
		r = spec_finish(&client.spec, err);
	if (r >= 0)
		*ret = client;
	return r;
}

int gemini_parse(struct str text, struct gemini_client *ret_clients, size_t max, size_t *ret_n,
		 struct error *err)
{
	struct str rest = text, line = STR_NONE;
	uint64_t announced;
	unsigned int number = 0;
	size_t n = 0;

	do {
		number++;
		if (!str_split(&rest, '\n', &line))
			return fail(err, EINVAL, "expected the number of clients in the first line");
		line = str_trim(line);
	} while (!line.n);
	if (parse_uint(line, 0, max, &announced, err) < 0)
		return fail_within(err, -EINVAL, "line %u: number of clients", number);
	while (n < announced && str_split(&rest, '\n', &line)) {
		int r;

		number++;
		line = str_trim(line);
		if (!line.n)
			continue;
		r = parse_client(line, &ret_clients[n], err);
		if (r < 0)
			return fail_within(err, r, "line %u", number);
		for (size_t i = 0; i < n; i++)
			if (!strcmp(ret_clients[i].id, ret_clients[n].id))
				return fail(err, EINVAL, "line %u: %s is there twice", number,
					    ret_clients[n].id);
		n++;
	}
	if (n < announced)
		return fail(err, EINVAL, "the first line says %llu clients, there are %zu",
			    (unsigned long long)announced, n);
	while (str_split(&rest, '\n', &line))
		if (str_trim(line).n)
			return fail(err, EINVAL, "there are more lines than the %zu clients of the first line", n);
	*ret_n = n;
	return 0;
}
