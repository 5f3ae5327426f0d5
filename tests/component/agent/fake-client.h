/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with the hook library, without either: a child process that registers with the daemon
 * (a process is known by its pid) and hands its pages to the test, which plays hook and device on
 * them. Killing or stopping the child is killing or stopping the program.
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
	int link;  /* to the child */
	struct msg_welcome welcome;
	struct fake_device devices[MSG_DEVICES];
	char refused[MSG_TEXT]; /* the last refusal */
};

/* Starts the child; it does nothing yet. */
void fake_start(struct fake_client *c);
/* The child becomes that user (the test is root). */
void fake_become(struct fake_client *c, uid_t uid);
/* Kills it and forgets the pages. */
void fake_end(struct fake_client *c);

/*
 * Connects and registers. secret: 32 hex digits or NULL. 0, or the negative errno of a refusal.
 * again: hands the pages back, as after a restart of the daemon.
 */
int fake_hello(struct fake_client *c, const char *socket, const char *secret, bool again);
/* The same, without waiting for the answer. */
void fake_hello_send(struct fake_client *c, const char *socket, const char *secret, bool again);
int fake_hello_wait(struct fake_client *c);

/* Sends a packet as it is. */
void fake_send(struct fake_client *c, const void *packet, uint32_t size);
void fake_note(struct fake_client *c, enum msg_type type, uint32_t at);
/*
 * The next packet of the daemon's of that type; others are dropped. False: none within that time.
 *
 */
bool fake_expect(
	struct fake_client *c, enum msg_type type, void *ret_packet, uint32_t size, int timeout_ms);
/* True once the daemon has closed the connection. */
bool fake_is_hung_up(struct fake_client *c, int timeout_ms);

/* ---- the hook's side of the pages, device `at`, thread line 0 ---- */

/* A thread blocks at the gate: want, and WANT if it is the first. */
void fake_want(struct fake_client *c, uint32_t at);
/* Waits until the gate has that state. */
bool fake_await_gate(struct fake_client *c, uint32_t at, enum page_gate gate, int timeout_ms);
/* want + await open + want gone. */
bool fake_acquire(struct fake_client *c, uint32_t at, int timeout_ms);
/* A submission with its marker; the device has not done it yet. */
void fake_submit(struct fake_client *c, uint32_t at);
/* A submission without a marker. */
void fake_submit_unmarked(struct fake_client *c, uint32_t at);
/* Marks what is unmarked. */
void fake_mark(struct fake_client *c, uint32_t at);
/* The device has done all that is marked. */
void fake_complete(struct fake_client *c, uint32_t at);
/* As much memory of device 0 as that, whatever the quota; false: not counted. */
bool fake_reserve(struct fake_client *c, uint64_t bytes);

#endif
