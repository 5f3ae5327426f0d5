/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and groups of users. The machine's name service may ask a server (LDAP, sssd) and take
 * seconds: a thread asks, the loop's thread has the last answer and never waits. Without a names
 * object (tests) nobody has a name.
 */
#ifndef AGENT_NAMES_H
#define AGENT_NAMES_H

#include "agent/agent.h"

#define NAMES_WAIT_NS (2ull * 1000000000ull) /* a program's registration waits that long */
#define NAMES_MAX 1024u                      /* users; the one unused for longest is forgotten */
#define NAMES_ASKING_MAX 64u                 /* questions at a time */

int names_new(struct agent *agent, struct error *err);
void names_free(struct agent *agent);

/* NULL: not known, or not yet; it is asked then. Valid until the loop's next batch. */
const char *names_user(struct agent *agent, uid_t uid);
/* By the last answer; false while there is none. */
bool names_is_member(struct agent *agent, uid_t uid, gid_t group);
/* There is no answer yet, and it is worth waiting for one: register_deferred() follows it. */
bool names_is_awaited(struct agent *agent, uid_t uid);

/* The thread, for others who ask the name service; NULL: there is none to be had. */
struct worker *names_worker(struct agent *agent);

#endif
