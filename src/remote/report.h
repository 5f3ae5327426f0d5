/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the daemon how a tenant is reached over a network, for ps and top: `remote` in
 * docs/control-protocol.md. Never blocks: what cannot be said now is said with the next one. One
 * thread.
 */
#pragma once

#include <stdint.h>

#include "base/address.h"

struct report {
	int fd; /* -1: not connected */
	uint32_t request;
};
#define REPORT_NONE ((struct report){.fd = -1})

struct report_numbers {
	char peer[ADDRESS_NUMERIC]; /* the address that the program comes from */
	uint32_t processes;
	uint64_t rtt_us;                     /* mean of their connections */
	uint64_t received_per_s, sent_per_s; /* bytes, of the last second */
};

/* To the daemon of $DIVVY_SOCKET, of the tenant of $DIVVY_TENANT; nothing where one is not set. */
void report_send(struct report *report, const struct report_numbers *numbers);
