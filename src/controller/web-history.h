/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the use of each tenant over time, for the dashboard's curves. The fine curve has an hour in
 * steps of 10 s; the coarse curve has a day in steps of 5 minutes, as means. Memory is bounded: 4
 * KiB for each tenant, and a maximum number of tenants. The history begins when this controller
 * starts, and is dropped with the tenant. Pure; one thread.
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
 * Adds a measurement at now_s of a monotonic clock. Share and memory are sums over the tenant's
 * devices. Of several values in a fine step the last one counts. -ENOSPC: too many tenants;
 * -ENOMEM.
 */
int web_history_add(struct web_history *history, const char *key, uint32_t share_permille,
	uint64_t memory_bytes, uint64_t now_s);
void web_history_forget(struct web_history *history, const char *key);
uint32_t web_history_count(const struct web_history *history);

/*
 * Formats {"fine":{"step":10,"ago":4,"share":[300,null],"mib":[1024,null]},"coarse":{...}}, the
 * oldest value first; null: no measurement. The last step began `ago` seconds before now_s. Leading
 * nulls are left out. -ENOENT: no such tenant; else buf_error(out).
 */
int web_history_format(
	const struct web_history *history, const char *key, uint64_t now_s, struct buf *out);

#endif
