/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a program with the hook library. A child process registers with the daemon, because the
 * daemon knows a program by the pid of its process. The child passes its pages to the test, which
 * acts as hook and device on them. A test kills or stops the program by killing or stopping the
 * child.
 */
#ifndef TESTS_COMPONENT_AGENT_FAKE_CLIENT_H
#define TESTS_COMPONENT_AGENT_FAKE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/msg.h"
#include "wire/page.h"

struct fake_device {
	struct page_down *down;
	struct page_up *up;
	struct page_tenant *tenant;
};

struct fake_client {
	pid_t pid; /* 0: none */
	int link;  /* socket to the child */
	struct msg_welcome welcome;
	struct fake_device devices[MSG_DEVICES];
	char refused[MSG_TEXT]; /* the last refusal */
};

/* Starts the child, which waits for orders. */
void fake_start(struct fake_client *c);
/* Changes the child's user; the test must be root. */
void fake_become(struct fake_client *c, uid_t uid);
/* Kills the child and unmaps its pages. */
void fake_end(struct fake_client *c);

/*
 * Connects and registers. `secret`: 32 hex digits or NULL. `again`: returns the pages to the
 * daemon, as after its restart. Returns 0, or the negative errno of a refusal.
 */
int fake_hello(struct fake_client *c, const char *socket, const char *secret, bool again);
/* fake_hello() in two steps: sends HELLO, then waits for the answer. */
void fake_hello_send(struct fake_client *c, const char *socket, const char *secret, bool again);
int fake_hello_wait(struct fake_client *c);

/* Sends this packet unchanged. */
void fake_send(struct fake_client *c, const void *packet, uint32_t size);
void fake_note(struct fake_client *c, enum msg_type type, uint32_t at);
/* Waits for the daemon's next packet of this type and drops others. False if none comes in time. */
bool fake_expect(
	struct fake_client *c, enum msg_type type, void *ret_packet, uint32_t size, int timeout_ms);
/* True once the daemon has closed the connection. */
bool fake_is_hung_up(struct fake_client *c, int timeout_ms);

/* ---- the hook's side of the pages, device `at`, thread line 0 ---- */

/* Acts as a thread that blocks at the gate: raises `want`, and sends WANT if it is the first. */
void fake_want(struct fake_client *c, uint32_t at);
/* Waits until the gate has that state. */
bool fake_await_gate(struct fake_client *c, uint32_t at, enum page_gate gate, int timeout_ms);
/* Wants the token, waits for the open gate, and lowers `want`. */
bool fake_acquire(struct fake_client *c, uint32_t at, int timeout_ms);
/* Submits work with a marker; it is then in flight. */
void fake_submit(struct fake_client *c, uint32_t at);
/* Submits work without a marker. */
void fake_submit_unmarked(struct fake_client *c, uint32_t at);
/* Marks all unmarked submissions. */
void fake_mark(struct fake_client *c, uint32_t at);
/* Completes all marked work on the device. */
void fake_complete(struct fake_client *c, uint32_t at);
/*
 * Counts `bytes` of memory on device 0, whatever the quota. False if the counter cannot take them.
 */
bool fake_reserve(struct fake_client *c, uint64_t bytes);

#endif
