/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each tenant has used, for the page's curves: an hour in steps of 10 s, and a day in steps of
 * 5 minutes, which are means of the former. Of bounded size: 4 KiB a tenant, and no more tenants
 * than said. It is what this controller has heard since it has started, and goes with the tenant.
 * Pure; one thread.
 */
#ifndef CONTROLLER_WEB_HISTORY_H
#define CONTROLLER_WEB_HISTORY_H

#include <stdint.h>

#include "base/str.h"

#define WEB_FINE_S 10u
#define WEB_FINE_N 360u
#define WEB_COARSE_S 300u
#define WEB_COARSE_N 288u

struct web_history;

int web_history_new(uint32_t max_tenants, struct web_history **ret_history);
void web_history_free(struct web_history *history);

/*
 * Measured at now_s, of a clock that only goes forward. Share and memory are sums over the tenant's
 * devices. Several in one step: the last counts. -ENOSPC: there are too many tenants; -ENOMEM.
 */
int web_history_add(struct web_history *history, const char *key, uint32_t share_permille,
	uint64_t memory_bytes, uint64_t now_s);
void web_history_forget(struct web_history *history, const char *key);
uint32_t web_history_count(const struct web_history *history);

/*
 * {"fine":{"step":10,"ago":4,"share":[300,null],"mib":[1024,null]},"coarse":{...}}: the oldest
 * first, null where nothing was heard; the last step began `ago` seconds before now_s. Leading
 * nulls are left out. -ENOENT: there is no such tenant; buf_error(out).
 */
int web_history_format(
	const struct web_history *history, const char *key, uint64_t now_s, struct buf *out);

#endif
