/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page shows, as items of JSON text by kind and key, and what of it has changed since
 * when: each change of an item has the next number. Who was told all up to a number is told the
 * items with greater ones, each once, as it is now. What has gone is remembered for a while, so
 * that who was away for a moment hears of it; who was away longer gets all. Pure; one thread.
 */
#ifndef CONTROLLER_PAGE_STATE_H
#define CONTROLLER_PAGE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum page_kind {
	PAGE_NODES,   /* by name: its devices and tenants */
	PAGE_USE,     /* by name: what its tenants use, in the order in which the node has them */
	PAGE_WAITING, /* "NAMESPACE/NAME": pods that wait */
	PAGE_TOTALS,  /* of what there is too much of to be shown */
	PAGE_N_KINDS
};

#define PAGE_GONE_MAX 4096u /* that are remembered */

struct page_state;

/* max: items of each kind. -ENOMEM. */
int page_state_new(const uint32_t max[static PAGE_N_KINDS], struct page_state **ret_state);
void page_state_free(struct page_state *state);

/*
 * The item's text is this now (copied); NULL: it has gone. The same text again is no change.
 * -ENOSPC: there are too many of that kind, it is not shown; -ENOMEM, also for a key that is no
 * UTF-8.
 */
int page_state_set(
	struct page_state *state, enum page_kind kind, const char *key, const char *json);

/* Of the last change; 0: there was none. */
uint64_t page_state_number(const struct page_state *state);
uint32_t page_state_count(const struct page_state *state, enum page_kind kind);
bool page_state_has(const struct page_state *state, enum page_kind kind, const char *key);

/*
 * What has changed after that number, as one line of JSON:
 * {"all":false,"nodes":{"gpu-1":{...},"gpu-2":null},"waiting":{...}}: null has gone, a kind without
 * changes is left out. With "all":true nothing but what is there counts: since was 0, or too long
 * ago. buf_error(out).
 */
int page_state_format(const struct page_state *state, uint64_t since, struct buf *out);

#endif
