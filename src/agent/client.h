/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and registered processes. A connection is a socket; a process is a registration: its
 * pages, its index in the tenant's counter and a pidfd. A process outlives its connection (the
 * socket breaks, the program runs on) until its pidfd says that it has ended.
 *
 * Whatever comes from the other side (packets, descriptors, the up page) is checked or clamped
 * here and in token.c; nothing in it names another process or tenant.
 */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "agent/tenant.h"
#include "agent/user.h"
#include "base/str.h"
#include "threads/closer.h"
#include "wire/msg.h"
#include "wire/page.h"

#define CLIENT_RATE 20000u                     /* packets a second of one connection, on average */
#define CLIENT_OUT_MAX (16u << 20)             /* bytes of answers that wait for a slow reader */
#define CLIENT_OUT_WAIT_NS (30 * NSEC_PER_SEC) /* one that reads nothing of them is closed */

struct process_device {
	struct page_down *down;
	struct page_up *up;
	uint64_t up_inode;
	/* token.c: what was seen last */
	uint64_t submitted;
	uint64_t unfinished_ns; /* when that was, if something was unfinished; else 0 */
	uint64_t flush_sum;     /* value of submitted that a flush was asked for */
	uint64_t flush_at_ns;
	uint64_t presumed; /* value of submitted whose tail is taken for ended; 0: none */
	bool is_flush_asked;
	LIST_HEAD(, holder) shares; /* share.c: what it holds */
};

struct process {
	LIST_ENTRY(process) link;
	LIST_ENTRY(process) of_tenant;
	struct agent *agent;
	struct tenant *tenant;
	struct conn *conn; /* NULL: the socket broke, or not yet registered again */
	pid_t pid;
	uint64_t start;
	uid_t uid;
	int pidfd;
	struct loop_io pid_io;
	uint32_t index; /* in the tenant's counter */
	bool is_dead;
	bool is_awaited; /* known from the state of an earlier daemon: has no pages yet */
	bool has_membarrier;

	/* memory.c, once dead: what the device has not let go yet */
	TAILQ_ENTRY(process) grave;
	bool is_in_grave, is_buried;
	uint32_t grave_devices; /* bit per device of the tenant */
	uint64_t grave_until_ns;
	uint64_t died_after; /* questions to the devices begun by then */

	char command[MSG_COMMAND + 1];
	struct process_device devices[]; /* as tenant->n */
};

/* Which thread owns a connection and its descriptors: the loop's, or one of the closer's. */
enum conn_closing {
	CONN_OURS,
	CONN_CLOSERS,  /* a thread of the closer: it is neither read nor freed */
	CONN_RECEIVED, /* job.fds are ours, until the request that they came with is executed */
};

/* A packet that is costly: executed when it is its user's turn. */
struct conn_request {
	uint32_t size;
	_Alignas(8) char packet[];
};

struct conn {
	LIST_ENTRY(conn) link;
	struct agent *agent;
	struct user *user;
	int fd;                  /* -1: closed */
	struct loop_io io;       /* in no loop while nothing is to be read or sent */
	struct loop_timer pause; /* reads again after too many packets */
	bool is_dead, is_paused;
	uint64_t no_rights_ns; /* peers can pass no descriptors since then; 0: they can */
	bool is_clean;         /* and there is none in the queue */
	enum conn_closing closing;
	bool is_executing; /* client_packet() runs with job.fds */
	struct closer_job job;
	struct conn_request *request; /* waits; nothing is read meanwhile */
	TAILQ_ENTRY(conn) waiting;    /* of its user */
	bool is_program; /* came by the programs' socket: requests of control are refused */
	uint32_t tenant; /* came by that one's own door, and is nobody else's; 0: by no door */
	uint16_t abi;    /* the version of the wire that it spoke last: it is answered in that */
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int pidfd; /* from the socket, where the kernel has it */
	uint64_t since_ns;
	uint64_t rate_ns; /* packets so far, as time: see on_readable */
	struct process *process;
	struct buf out;             /* packets not sent yet: u32 size, bytes, ... */
	size_t out_at;              /* so much of it is sent */
	uint64_t out_ns;            /* when something of it was last sent, or it was empty */
	struct msg_hello *deferred; /* a HELLO that waits for its tenant's page to come back */
};

/* The requests of all users wait here; before the first connection. */
int client_new(struct agent *agent, struct error *err);
/* Closes all connections; one that cannot be closed is left behind. */
void client_free(struct agent *agent);

/* For listener_add: at the main socket, at the programs' socket. */
void client_knock(struct listener *listener, int fd);
void client_knock_program(struct listener *listener, int fd);

/*
 * Takes over a connected socket, also where it fails. kind: by which socket it came, USER_CGROUP at
 * the programs'. tenant: whose own socket, for USER_TENANT. -EUSERS when its user has too many
 * connections, -EMFILE when what is left of descriptors is the reserve.
 */
int client_accept(
	struct agent *agent, int fd, enum user_kind kind, uint32_t tenant, struct conn **ret_conn);

/* A packet from the peer, with its descriptors (not consumed). Total: any bytes. */
void client_packet(
	struct conn *conn, const void *packet, uint32_t size, const int *fds, size_t n_fds);

/*
 * Sends, or queues when the peer is slow, in the peer's version. A peer that does not read is
 * dropped.
 */
void client_send(struct conn *conn, void *packet, uint32_t size);
/* A sentence for who reads the program's errors; programs of an older version do not hear it. */
void client_say(struct conn *conn, uint32_t device, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* JSON in parts. */
void client_reply(struct conn *conn, uint32_t request, int status, const char *text, size_t n);
void client_refuse(struct conn *conn, uint32_t request, int code, const char *reason);

/* From now on its peer cannot pass descriptors, where the kernel can refuse them. */
void client_refuse_rights(struct conn *conn);

void conn_close(struct conn *conn);
/* Once dead. False: the closer still has it. */
bool conn_free(struct conn *conn);

#endif
