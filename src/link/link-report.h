/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports to the daemon how a tenant is reached over a network, for ps and top (`remote` in
 * docs/control-protocol.md). Only report_ask() blocks; the next report replaces one that cannot be
 * sent now. One thread.
 */
#ifndef LINK_LINK_REPORT_H
#define LINK_LINK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

struct report {
	int fd;                  /* -1: not connected */
	uint32_t request, heard; /* number of the last request, and of the last answered request */
};
#define REPORT_NONE ((struct report){.fd = -1})

struct report_numbers {
	char peer[ADDRESS_NUMERIC]; /* address of the program's machine */
	uint32_t processes;
	uint64_t rtt_us;                     /* mean round trip of all connections */
	uint64_t received_per_s, sent_per_s; /* bytes, in the last second */
};

/*
 * Reports to the daemon of $DIVVY_SOCKET for the tenant of $DIVVY_TENANT; does nothing if either is
 * not set. numbers NULL: only asks whether the tenant exists. Returns false if the daemon has
 * answered an earlier report that there is no such tenant. Returns true also while no answer has
 * come.
 */
bool report_send(struct report *report, const struct report_numbers *numbers);
/* Asks whether the tenant exists, and waits for the answer for at most a second. */
bool report_ask(struct report *report);

#endif
