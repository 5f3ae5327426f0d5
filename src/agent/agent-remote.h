/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network path to a tenant's program on another machine, as the tenant's own link reports it.
 * The daemon shows the report and uses it for nothing else. One thread.
 */
#ifndef AGENT_AGENT_REMOTE_H
#define AGENT_AGENT_REMOTE_H

#include <jansson.h>
#include <stdint.h>

#include "base/address.h"
#include "base/error.h"

/* A link reports every second. The daemon ignores a report that is older than this. */
#define REMOTE_FRESH_NS (5ull * 1000000000ull)

struct remote_reach {
	uint64_t said_ns; /* time of the last report; 0: never */
	char peer[ADDRESS_NUMERIC];
	uint32_t processes;
	uint64_t rtt_us, received_per_s, sent_per_s;
};

/* Reads a request's members. -EINVAL: the message names the member, and `reach` is unchanged. */
int remote_reach_read(
	struct remote_reach *reach, const json_t *json, uint64_t now_ns, struct error *err);

/* The caller owns the result. NULL: there is no fresh report. */
json_t *remote_reach_json(const struct remote_reach *reach, uint64_t now_ns);

#endif
