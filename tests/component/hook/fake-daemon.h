/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that decides nothing: makes the pages, answers on the socket, and lets a test open and
 * close gates, set quotas and look. One process of one tenant after another, up to FAKE_PROCESSES
 * at a time. A thread serves; the functions are for the test's thread. Every wait has a bound,
 * after which the test fails.
 */
#ifndef TESTS_COMPONENT_HOOK_FAKE_DAEMON_H
#define TESTS_COMPONENT_HOOK_FAKE_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/msg.h"
#include "wire/page.h"

#define FAKE_DEVICES 4u
#define FAKE_PROCESSES 16u

struct fake_daemon;

struct fake_options {
	uint32_t devices; /* 1..FAKE_DEVICES */
	uint8_t uuid[FAKE_DEVICES][16];
	uint64_t quota_bytes;
	uint64_t context_bytes;
	uint32_t flags; /* enum page_flags of every new page */
	uint32_t window_us;
	bool shares;         /* says that it counts shared memory, and does */
	bool closed;         /* gates of new pages */
	const char *refusal; /* every HELLO is refused so; NULL: none is */
};

/* Listens at the path. NULL with a line on stderr. */
struct fake_daemon *fake_daemon_new(const char *socket_path, const struct fake_options *options);
/* Ends as a crash does: the socket closes, the pages stay as they are. */
void fake_daemon_free(struct fake_daemon *daemon);

/* UUID of the stub driver's n-th device. */
void fake_stub_uuid(uint32_t n, uint8_t ret_uuid[static 16]);

/* Of the process that registered as the n-th; waits for it. NULL when none comes. */
struct page_down *fake_daemon_down(struct fake_daemon *daemon, uint32_t process, uint32_t device);
struct page_up *fake_daemon_up(struct fake_daemon *daemon, uint32_t process, uint32_t device);
struct page_tenant *fake_daemon_tenant(struct fake_daemon *daemon, uint32_t device);

/* Opens or closes every gate there is and that will be, with the wake-up or barrier it takes. */
void fake_daemon_gate(struct fake_daemon *daemon, bool open);
void fake_daemon_quota(struct fake_daemon *daemon, uint64_t bytes);
/* Raises down.flush of that page and says so. */
void fake_daemon_flush(struct fake_daemon *daemon, uint32_t process, uint32_t device);

/* How many messages of that type have come; fake_daemon_await waits until there are that many. */
uint32_t fake_daemon_count(struct fake_daemon *daemon, enum msg_type type);
bool fake_daemon_await(struct fake_daemon *daemon, enum msg_type type, uint32_t count);
/* Processes that have registered, AGAIN not counted. */
uint32_t fake_daemon_processes(struct fake_daemon *daemon);

/* Is what the pages say drained? As the real daemon sees it. */
bool fake_daemon_drained(struct fake_daemon *daemon, uint32_t process, uint32_t device);

/* Bytes of shared memory that anybody holds. */
uint64_t fake_daemon_shared(struct fake_daemon *daemon);

/* MEASURE is answered with this many bytes; 0: with ENODATA. Later questions only. */
void fake_daemon_measure(struct fake_daemon *daemon, uint64_t bytes);
/*
 * MEM_RESERVE is answered at once with this status (positive errno), or, -1, not until it is set.
 */
void fake_daemon_reserve(struct fake_daemon *daemon, int status);

#endif
