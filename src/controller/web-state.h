/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page shows, as items of JSON text by kind and key, and what of it has changed since
 * when: each change of an item has the next number. Who was told all up to a number is told the
 * items with greater ones, each once, as it is now. What has gone is remembered for a while, so
 * that who was away for a moment hears of it; who was away longer gets all. Pure; one thread.
 */
#ifndef CONTROLLER_WEB_STATE_H
#define CONTROLLER_WEB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum web_kind {
	WEB_NODES,   /* by name: its devices and tenants */
	WEB_USE,     /* by name: what its tenants use, in the order in which the node has them */
	WEB_WAITING, /* "NAMESPACE/NAME": pods that wait */
	WEB_TOTALS,  /* of what there is too much of to be shown */
	WEB_N_KINDS
};

#define WEB_GONE_MAX 4096u /* that are remembered */

struct web_state;

/* max: items of each kind. -ENOMEM. */
int web_state_new(const uint32_t max[static WEB_N_KINDS], struct web_state **ret_state);
void web_state_free(struct web_state *state);

/*
 * The item's text is this now (copied); NULL: it has gone. The same text again is no change.
 * -ENOSPC: there are too many of that kind, it is not shown; -ENOMEM, also for a key that is no
 * UTF-8.
 */
int web_state_set(struct web_state *state, enum web_kind kind, const char *key, const char *json);

/* Of the last change; 0: there was none. */
uint64_t web_state_number(const struct web_state *state);
uint32_t web_state_count(const struct web_state *state, enum web_kind kind);
bool web_state_has(const struct web_state *state, enum web_kind kind, const char *key);

/*
 * What has changed after that number, as one line of JSON:
 * {"all":false,"nodes":{"gpu-1":{...},"gpu-2":null},"waiting":{...}}: null has gone, a kind without
 * changes is left out. With "all":true nothing but what is there counts: since was 0, or too long
 * ago. buf_error(out).
 */
int web_state_format(const struct web_state *state, uint64_t since, struct buf *out);

#endif
