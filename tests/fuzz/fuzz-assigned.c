/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses assigned keys: each input line is a key, a tab and a value. Accepted keys give containers
 * within the bounds of assigned.h, and are the same after they are written and read again.
 */
#include <stdlib.h>

#include "base/str.h"
#include "spec/assigned.h"

#define WRITTEN_MAX 16u /* keys */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct assigned_container *c)
{
	struct spec spec;

	if (assigned_spec(c, &spec, NULL) < 0 || spec.count != c->n || spec.request != c->request ||
		!c->n || c->n > SPEC_DEVICES_MAX || !c->request || c->request > SPEC_SHARE_ONE ||
		c->limit < c->request || c->limit > SPEC_SHARE_ONE || c->mode == SPEC_MODE_AUTO)
		abort();
	for (uint32_t i = 0; i < c->n; i++)
		if (!c->device[i][0] || c->memory_bytes[i] > INT64_MAX)
			abort();
}

/* The keys that assigned_format() has written, as annotations for assigned_parse(). */
struct written {
	char *text[WRITTEN_MAX];
	struct manifest_entry entry[WRITTEN_MAX];
	uint32_t n;
};

static int put(void *data, const char *key, const char *value)
{
	struct written *w = data;
	char *copy = str_dup(str_from(value));

	if (!copy || w->n == WRITTEN_MAX)
		abort();
	w->text[w->n] = copy;
	w->entry[w->n++] = (struct manifest_entry){str_from(key), str_from(copy)};
	return 0;
}

static void check_again(const struct assigned *assigned)
{
	struct written w = {.n = 0};
	struct assigned again;

	if (assigned_format(assigned, put, &w) < 0 ||
		assigned_parse((struct manifest_list){w.entry, w.n}, &again, NULL) < 0 ||
		!assigned_is_same(assigned, &again) ||
		(assigned->n && assigned->epoch != again.epoch))
		abort();
	assigned_done(&again);
	while (w.n)
		free(w.text[--w.n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = {(const char *)data, size}, line, key;
	struct manifest_entry entry[32];
	struct manifest_list list = {entry, 0};
	struct error err;
	struct assigned assigned;

	while (list.n < 32 && str_split(&rest, '\n', &line)) {
		if (!str_split(&line, '\t', &key))
			continue;
		entry[list.n++] = (struct manifest_entry){key, line.p ? line : STR("")};
	}
	if (assigned_parse(list, &assigned, &err) == 0) {
		for (uint32_t i = 0; i < assigned.n; i++)
			check(&assigned.v[i]);
		check_again(&assigned);
	}
	assigned_done(&assigned);
	return 0;
}
