/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon without an arbiter: it makes the pages and answers on the socket. The test opens and
 * closes gates, sets quotas and reads pages and counts. The daemon serves up to FAKE_PROCESSES
 * processes of one tenant, in a thread of its own. The test's thread calls these functions. Every
 * wait has a bound, after which the test fails.
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
	bool shares;         /* the daemon offers to count shared memory, and does */
	bool closed;         /* gates of new pages start closed */
	const char *refusal; /* answer to every HELLO; NULL: accept */
};

/* Listens at the path. Returns NULL after a line on stderr. */
struct fake_daemon *fake_daemon_new(const char *socket_path, const struct fake_options *options);
/* Ends like a crash: the socket closes, the pages keep their contents. */
void fake_daemon_free(struct fake_daemon *daemon);

/* UUID of the stub driver's n-th device. */
void fake_stub_uuid(uint32_t n, uint8_t ret_uuid[static 16]);

/*
 * Pages of the n-th registered process. The functions wait for the process; NULL: the process does
 * not register in time.
 */
struct page_down *fake_daemon_down(struct fake_daemon *daemon, uint32_t process, uint32_t device);
struct page_up *fake_daemon_up(struct fake_daemon *daemon, uint32_t process, uint32_t device);
struct page_tenant *fake_daemon_tenant(struct fake_daemon *daemon, uint32_t device);

/*
 * Opens or closes the gates of all processes, also of later ones, with the wake-up or barrier that
 * this needs.
 */
void fake_daemon_gate(struct fake_daemon *daemon, bool open);
void fake_daemon_quota(struct fake_daemon *daemon, uint64_t bytes);
/* Raises down.flush of that page, and sends the message that wakes the program's helper thread. */
void fake_daemon_flush(struct fake_daemon *daemon, uint32_t process, uint32_t device);

/* Number of messages received of this type; fake_daemon_await waits until it reaches count. */
uint32_t fake_daemon_count(struct fake_daemon *daemon, enum msg_type type);
bool fake_daemon_await(struct fake_daemon *daemon, enum msg_type type, uint32_t count);
/* Number of registered processes, without those that registered with AGAIN. */
uint32_t fake_daemon_processes(struct fake_daemon *daemon);

/* True if the pages show a drained gate, by the rule of the real daemon. */
bool fake_daemon_drained(struct fake_daemon *daemon, uint32_t process, uint32_t device);

/* Bytes of shared memory with at least one holder. */
uint64_t fake_daemon_shared(struct fake_daemon *daemon);

/* Sets the answer to later MEASURE messages, in bytes; 0 answers ENODATA. */
void fake_daemon_measure(struct fake_daemon *daemon, uint64_t bytes);
/*
 * Sets the status (positive errno) of every answer to MEM_RESERVE; -1 delays answers until the next
 * call.
 */
void fake_daemon_reserve(struct fake_daemon *daemon, int status);

#endif
