/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tenant's program on another machine is reached, as the tenant's own link says: shown, and
 * believed for nothing else. One thread.
 */
#ifndef AGENT_REMOTE_H
#define AGENT_REMOTE_H

#include <jansson.h>
#include <stdint.h>

#include "base/address.h"
#include "base/error.h"

/* A link says it every second; what is older than this is no longer so. */
#define REMOTE_FRESH_NS (5ull * 1000000000ull)

struct remote_reach {
	uint64_t said_ns; /* 0: never */
	char peer[ADDRESS_NUMERIC];
	uint32_t processes;
	uint64_t rtt_us, received_per_s, sent_per_s;
};

/* Out of a request's members. -EINVAL with a sentence; nothing is changed then. */
int remote_reach_read(
	struct remote_reach *reach, const json_t *json, uint64_t now_ns, struct error *err);

/* The caller's; NULL when nothing has been said lately. */
json_t *remote_reach_json(const struct remote_reach *reach, uint64_t now_ns);

#endif
