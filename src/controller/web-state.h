/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dashboard's content: items of JSON text by kind and key. Each change of an item gets the next
 * number. A viewer that knows the state up to a number gets all items with greater numbers, each
 * once in its present state. The last WEB_REMOVED_MAX removed items are kept, so that a viewer that
 * was disconnected briefly gets their removals. A viewer that was disconnected longer gets all
 * items. Pure; one thread.
 */
#ifndef CONTROLLER_WEB_STATE_H
#define CONTROLLER_WEB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum web_kind {
	WEB_NODES, /* key: node name; its devices and tenants */
	/*
	 * key: node name; use of each tenant, in the order of the tenants in the item of WEB_NODES
	 */
	WEB_USE,
	WEB_SUMMARY, /* key: node name; what viewers get of the node in a large cluster */
	WEB_WAITING, /* key: "NAMESPACE/NAME" of a waiting pod */
	WEB_TOTALS,  /* numbers of items of which only some are shown */
	WEB_N_KINDS
};

#define WEB_REMOVED_MAX 4096u /* most removed items that are kept */

struct web_state;

/* max: most items of each kind. -ENOMEM. */
int web_state_new(const uint32_t max[static WEB_N_KINDS], struct web_state **ret_state);
void web_state_free(struct web_state *state);

/*
 * Sets the item's text, which is copied; NULL removes the item. An equal text is no change.
 * -ENOSPC: too many items of that kind, so this item is not shown. -ENOMEM, also for a key that is
 * not UTF-8.
 */
int web_state_set(struct web_state *state, enum web_kind kind, const char *key, const char *json);

/* Returns the number of the last change; 0: no change yet. */
uint64_t web_state_number(const struct web_state *state);
uint32_t web_state_count(const struct web_state *state, enum web_kind kind);
bool web_state_has(const struct web_state *state, enum web_kind kind, const char *key);

/* Returns the item's text, borrowed until it is set again; NULL: no such item. */
const char *web_state_get(const struct web_state *state, enum web_kind kind, const char *key);

/*
 * Most words of a search. Each word is searched for in all items, so the number of words limits how
 * long a request keeps the controller busy.
 */
#define WEB_WORDS_MAX 8u

/*
 * Formats the keys of the items of that kind that have all `words`, in any case of letters, in key
 * or text: ["gpu-1","gpu-2"]. Returns buf_error(out). -E2BIG: more than WEB_WORDS_MAX words, and
 * nothing is written.
 */
int web_state_find(
	const struct web_state *state, enum web_kind kind, struct str words, struct buf *out);

/*
 * Formats the changes after number `since`, of the kinds in the bit mask `kinds`. The result is one
 * line of JSON:
 * {"all":false,"nodes":{"gpu-1":{...},"gpu-2":null},"waiting":{...}}. null: the item was removed. A
 * kind without changes is left out. If `since` is 0 or too old, the line has "all":true and all
 * items. Returns buf_error(out).
 */
int web_state_format(
	const struct web_state *state, uint64_t since, uint32_t kinds, struct buf *out);

#endif
