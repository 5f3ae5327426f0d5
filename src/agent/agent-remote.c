/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the report of a tenant's link about the program on another machine. The reader
 * fills a new struct and copies it over the old one only when every member is valid. The maximum of
 * each number fits the JSON integer that the writer makes of it.
 */
#include "agent/agent-remote.h"

#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "base/str.h"

static int remote_read_number(
	const json_t *json, const char *key, json_int_t most, uint64_t *ret, struct error *err)
{
	const json_t *value = json_object_get(json, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		json_integer_value(value) > most)
		return fail(err, EINVAL, "%s: expected a whole number from 0 to %lld", key,
			(long long)most);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

int remote_reach_read(
	struct remote_reach *reach, const json_t *json, uint64_t now_ns, struct error *err)
{
	const char *peer = json_string_value(json_object_get(json, "peer"));
	struct remote_reach new = {.said_ns = now_ns};
	uint64_t processes = 0;
	int r = 0;

	/* Only an address is accepted, because commands print the text on terminals. */
	if (!peer || address_family(str_from(peer)) == AF_UNSPEC ||
		str_copy(new.peer, sizeof(new.peer), str_from(peer)) < 0)
		return fail(err, EINVAL, "peer: expected an address, such as 192.0.2.7");
	r = remote_read_number(json, "processes", UINT16_MAX, &processes, err);
	r = r < 0 ? r : remote_read_number(json, "rtt_us", UINT32_MAX, &new.rtt_us, err);
	r = r < 0 ? r
		  : remote_read_number(json, "received_per_s", INT64_MAX, &new.received_per_s, err);
	r = r < 0 ? r : remote_read_number(json, "sent_per_s", INT64_MAX, &new.sent_per_s, err);
	if (r < 0)
		return r;
	new.processes = (uint32_t)processes;
	*reach = new;
	return 0;
}

json_t *remote_reach_json(const struct remote_reach *reach, uint64_t now_ns)
{
	if (!reach->said_ns || now_ns - reach->said_ns > REMOTE_FRESH_NS)
		return NULL;
	return json_pack("{s:s, s:i, s:I, s:I, s:I}", "peer", reach->peer, "processes",
		(int)reach->processes, "rtt_us", (json_int_t)reach->rtt_us, "received_per_s",
		(json_int_t)reach->received_per_s, "sent_per_s", (json_int_t)reach->sent_per_s);
}
