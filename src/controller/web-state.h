/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dashboard's content: items of JSON text by kind and key. Each change of an item gets the next
 * number. A viewer that knows the state up to a number gets all items with greater numbers, each
 * once in its present state. Removed items are remembered for a while, so that a viewer that was
 * away briefly learns of them; a viewer that was away longer gets everything. Pure; one thread.
 */
#ifndef CONTROLLER_WEB_STATE_H
#define CONTROLLER_WEB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum web_kind {
	WEB_NODES,   /* by name: devices and tenants */
	WEB_USE,     /* by name: use of the node's tenants, in the node's order */
	WEB_WAITING, /* "NAMESPACE/NAME": waiting pods */
	WEB_TOTALS,  /* totals of kinds that are too numerous to show */
	WEB_N_KINDS
};

#define WEB_REMOVED_MAX 4096u /* removed items that are remembered */

struct web_state;

/* max: items of each kind. -ENOMEM. */
int web_state_new(const uint32_t max[static WEB_N_KINDS], struct web_state **ret_state);
void web_state_free(struct web_state *state);

/*
 * Sets the item's text (copied); NULL removes the item. The same text again is no change. -ENOSPC:
 * too many items of that kind, so this item is not shown. -ENOMEM, also for a key that is not
 * UTF-8.
 */
int web_state_set(struct web_state *state, enum web_kind kind, const char *key, const char *json);

/* Number of the last change; 0: there was none. */
uint64_t web_state_number(const struct web_state *state);
uint32_t web_state_count(const struct web_state *state, enum web_kind kind);
bool web_state_has(const struct web_state *state, enum web_kind kind, const char *key);

/*
 * Changes after that number, as one line of JSON:
 * {"all":false,"nodes":{"gpu-1":{...},"gpu-2":null},"waiting":{...}}. null: removed; a kind without
 * changes is left out. With "all":true the line replaces everything: `since` was 0 or too old.
 * Returns buf_error(out).
 */
int web_state_format(const struct web_state *state, uint64_t since, struct buf *out);

#endif
