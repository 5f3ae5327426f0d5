/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the daemon how a tenant is reached over a network, for ps and top: `remote` in
 * docs/control-protocol.md. Never blocks but in report_ask(): what cannot be said now is said with
 * the next one. One thread.
 */
#ifndef LINK_REPORT_H
#define LINK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

struct report {
	int fd;                  /* -1: not connected */
	uint32_t request, heard; /* the last one sent, and that was answered */
};
#define REPORT_NONE ((struct report){.fd = -1})

struct report_numbers {
	char peer[ADDRESS_NUMERIC]; /* the address that the program comes from */
	uint32_t processes;
	uint64_t rtt_us;                     /* mean of their connections */
	uint64_t received_per_s, sent_per_s; /* bytes, of the last second */
};

/*
 * To the daemon of $DIVVY_SOCKET, of the tenant of $DIVVY_TENANT; nothing where one is not set.
 * NULL: there is nothing to tell yet, and it is only asked whether the tenant is there. False: the
 * daemon has answered to an earlier one that there is none; who does not answer has not said so.
 */
bool report_send(struct report *report, const struct report_numbers *numbers);
/* The same, without numbers, and the answer is waited for, a second at most. */
bool report_ask(struct report *report);

#endif
