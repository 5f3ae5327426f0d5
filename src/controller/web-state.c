/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dashboard's state. All items are in one list, in the order of their last change, so the
 * newest are at its end.
 */
#include "controller/web-state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "kube/kube-json.h"

#define WORD_MAX 255u /* bytes of a word to find */

static const char *const kind_names[WEB_N_KINDS] = {"nodes", "use", "summary", "waiting", "totals"};

struct item {
	UT_hash_handle hh;
	TAILQ_ENTRY(item) link;
	enum web_kind kind;
	uint64_t number;
	char *json;   /* NULL: the item was removed */
	char *quoted; /* key as a JSON string */
	char key[];
};

TAILQ_HEAD(item_list, item);

struct web_state {
	struct item *items[WEB_N_KINDS]; /* hash by key, including removed items */
	struct item_list changed;
	uint64_t number;
	uint64_t forgotten; /* removed items with numbers up to this one may be forgotten */
	uint32_t n[WEB_N_KINDS], max[WEB_N_KINDS], n_gone;
};

int web_state_new(const uint32_t max[static WEB_N_KINDS], struct web_state **ret_state)
{
	struct web_state *state = calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	memcpy(state->max, max, sizeof(state->max));
	TAILQ_INIT(&state->changed);
	*ret_state = state;
	return 0;
}

static void web_state_item_free(struct web_state *state, struct item *item)
{
	HASH_DEL(state->items[item->kind], item);
	TAILQ_REMOVE(&state->changed, item, link);
	free(item->json);
	free(item->quoted);
	free(item);
}

void web_state_free(struct web_state *state)
{
	struct item *item;

	if (!state)
		return;
	while ((item = TAILQ_FIRST(&state->changed)))
		web_state_item_free(state, item);
	free(state);
}

static struct item *web_state_find_item(
	const struct web_state *state, enum web_kind kind, const char *key)
{
	struct item *item;

	HASH_FIND_STR(state->items[kind], key, item);
	return item;
}

static struct item *item_new(struct web_state *state, enum web_kind kind, const char *key)
{
	const size_t n = strlen(key);
	_cleanup_json_ json_t *text = json_string(key);
	char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
	struct item *item = quoted ? calloc(1, sizeof(*item) + n + 1) : NULL;

	if (!item) {
		free(quoted);
		return NULL;
	}
	item->kind = kind;
	item->quoted = quoted;
	memcpy(item->key, key, n + 1);
	HASH_ADD_KEYPTR(hh, state->items[kind], item->key, n, item);
	TAILQ_INSERT_TAIL(&state->changed, item, link);
	state->n_gone++; /* the item counts as removed until it gets a text */
	return item;
}

/* Forgets the oldest removed item. */
static void forget_one(struct web_state *state)
{
	struct item *item;

	TAILQ_FOREACH(item, &state->changed, link)
		if (!item->json) {
			state->forgotten = MAX(state->forgotten, item->number);
			web_state_item_free(state, item);
			state->n_gone--;
			return;
		}
}

int web_state_set(struct web_state *state, enum web_kind kind, const char *key, const char *json)
{
	struct item *item = web_state_find_item(state, kind, key);
	const bool was = item && item->json;
	char *text = NULL;

	if (!was && !json)
		return 0;
	if (was && json && !strcmp(item->json, json))
		return 0;
	if (!was && state->n[kind] == state->max[kind])
		return -ENOSPC;
	if (json && !(text = str_dup(str_from(json))))
		return -ENOMEM;
	if (!item && !(item = item_new(state, kind, key))) {
		free(text);
		return -ENOMEM;
	}
	free(item->json);
	item->json = text;
	item->number = ++state->number;
	TAILQ_REMOVE(&state->changed, item, link);
	TAILQ_INSERT_TAIL(&state->changed, item, link);
	if (was && !text) {
		state->n[kind]--;
		if (++state->n_gone > WEB_REMOVED_MAX)
			forget_one(state);
	} else if (!was) {
		state->n[kind]++;
		state->n_gone--;
	}
	return 0;
}

uint64_t web_state_number(const struct web_state *state)
{
	return state->number;
}

uint32_t web_state_count(const struct web_state *state, enum web_kind kind)
{
	return state->n[kind];
}

bool web_state_has(const struct web_state *state, enum web_kind kind, const char *key)
{
	const struct item *item = web_state_find_item(state, kind, key);

	return item && item->json;
}

const char *web_state_get(const struct web_state *state, enum web_kind kind, const char *key)
{
	const struct item *item = web_state_find_item(state, kind, key);

	return item ? item->json : NULL;
}

static bool web_state_has_words(const struct item *item, struct str words)
{
	char word[WORD_MAX + 1];
	struct str next;

	while (str_word(&words, &next)) {
		if (str_copy(word, sizeof(word), next) < 0 ||
			(!strcasestr(item->json, word) && !strcasestr(item->key, word)))
			return false;
	}
	return true;
}

static uint32_t web_state_count_words(struct str words)
{
	struct str next;
	uint32_t n = 0;

	while (str_word(&words, &next))
		n++;
	return n;
}

int web_state_find(
	const struct web_state *state, enum web_kind kind, struct str words, struct buf *out)
{
	const char *separator = "[";

	if (web_state_count_words(words) > WEB_WORDS_MAX)
		return -E2BIG;
	for (const struct item *item = state->items[kind]; item; item = item->hh.next) {
		if (!item->json || !web_state_has_words(item, words))
			continue;
		buf_add_text(out, separator);
		buf_add_text(out, item->quoted);
		separator = ",";
	}
	if (*separator == '[')
		buf_add_text(out, separator);
	return buf_add_byte(out, ']');
}

/*
 * Returns the first item that changed after `since`. The search begins at the end, because few
 * items are new.
 */
static const struct item *first_after(const struct web_state *state, uint64_t since)
{
	const struct item *item = NULL, *first = NULL; /* item = NULL for cppcheck */

	TAILQ_FOREACH_REVERSE(item, &state->changed, item_list, link)
	{
		if (item->number <= since)
			break;
		first = item;
	}
	return first;
}

static void format_kind(const struct item *first, enum web_kind kind, bool is_all, struct buf *out)
{
	bool is_open = false;

	for (const struct item *item = first; item; item = TAILQ_NEXT(item, link)) {
		if (item->kind != kind || (is_all && !item->json))
			continue;
		if (is_open)
			buf_add_byte(out, ',');
		else
			buf_addf(out, ",\"%s\":{", kind_names[kind]);
		is_open = true;
		buf_add_text(out, item->quoted);
		buf_add_byte(out, ':');
		buf_add_text(out, item->json ? item->json : "null");
	}
	if (is_open)
		buf_add_byte(out, '}');
}

int web_state_format(const struct web_state *state, uint64_t since, uint32_t kinds, struct buf *out)
{
	const bool is_all = !since || since < state->forgotten || since > state->number;
	const struct item *first = is_all ? TAILQ_FIRST(&state->changed)
					  : first_after(state, since);

	buf_addf(out, "{\"all\":%s", is_all ? "true" : "false");
	for (enum web_kind kind = 0; kind < WEB_N_KINDS; kind++)
		if (kinds & 1u << kind)
			format_kind(first, kind, is_all, out);
	return buf_add_byte(out, '}');
}
