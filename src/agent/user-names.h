/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and groups of users. The machine's name service may ask a server (LDAP, sssd) and take
 * seconds. Therefore a thread asks, and the loop's thread uses the last answer and never waits.
 * Without a names object (tests) no user has a name.
 */
#ifndef AGENT_USER_NAMES_H
#define AGENT_USER_NAMES_H

#include "agent/agent.h"

#define NAMES_WAIT_NS (2ull * 1000000000ull) /* longest wait of a program's registration */
#define NAMES_MAX 1024u      /* users; a new user replaces the one that was unused for longest */
#define NAMES_ASKING_MAX 64u /* questions at a time */

int names_new(struct agent *agent, struct error *err);
void names_free(struct agent *agent);

/*
 * Returns the user's name. NULL: the name is not known yet, and the name service is asked for it.
 * The text is valid until the loop's next batch.
 */
const char *names_user(struct agent *agent, uid_t uid);
/*
 * Whether the user is in the group, by the name service's last answer; false while there is none.
 */
bool names_is_member(struct agent *agent, uid_t uid, gid_t group);
/*
 * Whether the first answer about the user is still to come, and worth waiting for.
 * register_deferred() runs when it has come.
 */
bool names_is_awaited(struct agent *agent, uid_t uid);

/* The thread, for other callers of the name service; NULL: it could not be started. */
struct worker *names_worker(struct agent *agent);

#endif
