/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and registered processes. A connection is a socket. A process is a registration: its
 * pages, its index in the tenant's counter, and a pidfd. A process may outlive its connection: if
 * the socket breaks, the process stays until its pidfd reports its end.
 *
 * This file's functions and token.c check or clamp everything that comes from a peer: packets,
 * descriptors and the up page. A peer's message can name no other process or tenant.
 */
#ifndef AGENT_AGENT_CLIENT_H
#define AGENT_AGENT_CLIENT_H

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

#define CLIENT_RATE 20000u         /* packets a second of one connection, on average */
#define CLIENT_OUT_MAX (16u << 20) /* bytes of unsent answers to a slow reader */
/* The daemon closes a peer that reads nothing for this long. */
#define CLIENT_OUT_WAIT_NS (30 * NSEC_PER_SEC)

struct process_device {
	struct page_down *down;
	struct page_up *up;
	uint64_t up_inode;
	/* token.c: state of the last look at this page */
	uint64_t submitted;
	uint64_t unfinished_ns; /* time of the last look, if it saw unfinished work; else 0 */
	uint64_t flush_sum;     /* value of `submitted` when the daemon asked for a flush */
	uint64_t flush_at_ns;
	/* token.c considers unmarked work up to this value of `submitted` complete; 0: none. */
	uint64_t presumed;
	bool is_flush_asked;
	LIST_HEAD(, holder) shares; /* agent-share.c: shared memory that the process holds */
};

struct process {
	LIST_ENTRY(process) link;
	LIST_ENTRY(process) of_tenant;
	struct agent *agent;
	struct tenant *tenant;
	struct conn *conn; /* NULL: the socket broke, or the process has not registered again */
	pid_t pid;
	uint64_t start;
	uid_t uid;
	int pidfd;
	struct loop_io pid_io;
	uint32_t index; /* index in the tenant's counter */
	bool is_dead;
	/* The process is known from an earlier daemon's state, and has no pages until its HELLO. */
	bool is_awaited;
	bool has_membarrier;

	/* For agent-memory.c: a dead process is in the grave while devices may list its memory. */
	TAILQ_ENTRY(process) grave;
	bool is_in_grave, is_buried;
	/* One bit for each device of the tenant that may still list the process. */
	uint32_t grave_devices;
	uint64_t grave_until_ns;
	uint64_t died_after; /* number of device queries that had begun at the death */

	char command[MSG_COMMAND + 1];
	struct process_device devices[]; /* tenant->n of them */
};

/* The thread that owns a connection and its descriptors: the loop's, or one of the closer's. */
enum conn_closing {
	CONN_OURS,
	CONN_CLOSERS,  /* the closer's thread; the loop neither reads nor frees it */
	CONN_RECEIVED, /* the loop owns job.fds until it has run the request that came with them */
};

/* A costly packet. The daemon executes this packet when its user has a turn. */
struct conn_request {
	uint32_t size;
	_Alignas(8) char packet[];
};

struct conn {
	LIST_ENTRY(conn) link;
	struct agent *agent;
	struct user *user;
	int fd;            /* -1: closed */
	struct loop_io io; /* in no loop while there is nothing to read or send */
	/* set after too many packets; when it fires, the daemon reads again */
	struct loop_timer pause;
	bool is_dead, is_paused;
	uint64_t no_rights_ns; /* time since which the peer cannot pass descriptors; 0: it can */
	bool is_clean;         /* no_rights_ns is set, and the socket's queue has no descriptors */
	enum conn_closing closing;
	bool is_executing; /* client_packet() runs with job.fds */
	struct closer_job job;
	struct conn_request *request; /* a waiting request; the daemon reads nothing meanwhile */
	TAILQ_ENTRY(conn) waiting;    /* in the user's list `waiting` */
	bool is_program; /* came through the programs' socket, which refuses control requests */
	uint32_t tenant; /* id of the tenant on whose socket the peer connected; 0: none */
	uint16_t abi;    /* wire version of the last packet, used for the answers */
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int pidfd; /* the peer's, from SO_PEERPIDFD; -1: the kernel is too old */
	uint64_t since_ns;
	/*
	 * time at which a peer that sends CLIENT_RATE packets a second would have sent the packets
	 * so far: see is_too_fast()
	 */
	uint64_t rate_ns;
	struct process *process;
	struct buf out;             /* unsent packets: u32 size, bytes, ... */
	size_t out_at;              /* number of bytes already sent */
	uint64_t out_ns;            /* time of the last send, or when `out` was empty */
	struct msg_hello *deferred; /* a HELLO that waits for its tenant's page to be handed back */
};

/* Makes the queue of costly requests. Call before the first connection. */
int client_new(struct agent *agent, struct error *err);
/* Closes all connections. A connection whose descriptors the closer still holds is leaked. */
void client_free(struct agent *agent);

/* Callbacks of listener_add(), for the main socket and for the programs' socket. */
void client_knock(struct listener *listener, int fd);
void client_knock_program(struct listener *listener, int fd);

/*
 * Takes over the connected socket, also on failure. kind: the socket that accepted it; USER_CGROUP
 * for the programs' socket. tenant: id for USER_TENANT. -EUSERS: the user has too many connections;
 * -EMFILE: the remaining descriptors are for root and the daemon itself.
 */
int client_accept(
	struct agent *agent, int fd, enum user_kind kind, uint32_t tenant, struct conn **ret_conn);

/* Executes a packet of the peer. The caller keeps the descriptors. Accepts any bytes. */
void client_packet(
	struct conn *conn, const void *packet, uint32_t size, const int *fds, size_t n_fds);

/*
 * Sends the packet in the peer's wire version, or queues it when the peer is slow. Closes a peer
 * that does not read.
 */
void client_send(struct conn *conn, void *packet, uint32_t size);
/* Sends a message for the program's stderr. Programs of an older wire version do not receive it. */
void client_send_diagnostic(struct conn *conn, uint32_t device, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Send a JSON reply, in parts if it is long, or a refusal. */
void client_reply(struct conn *conn, uint32_t request, int status, const char *text, size_t n);
void client_refuse(struct conn *conn, uint32_t request, int code, const char *reason);

/* From now on the peer cannot pass descriptors, if the kernel can refuse them. */
void client_refuse_rights(struct conn *conn);

void conn_close(struct conn *conn);
/* Frees a dead connection. Returns false while the closer still holds it. */
bool conn_free(struct conn *conn);

#endif
