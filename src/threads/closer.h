/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that receive and close descriptors that peers have sent. close(2) of such a descriptor
 * may block for as long as the peer likes: a TCP socket that lingers, a file of a FUSE file system.
 * So the loop's thread never receives, closes or reads such a descriptor, and never closes a socket
 * whose queue may contain some.
 *
 * Jobs of one queue run one after the other. Each user of the daemon has a queue of its own, and so
 * blocks at most one thread. At most CLOSER_THREADS_MAX threads exist. A job is the caller's
 * memory, and belongs to the closer until the loop's thread calls `done`.
 */
#ifndef THREADS_CLOSER_H
#define THREADS_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/fd.h"
#include "base/loop.h"
#include "wire/msg.h"

#define CLOSER_THREADS_MAX 256u

struct closer;

struct closer_job {
	TAILQ_ENTRY(closer_job) link;
	struct closer_queue *queue;
	void (*run)(struct closer_job *job);
	void (*done)(struct closer_job *job);
	void *data;
	int sock;
	/* Result of closer_receive: number of bytes or -errno, and the memfds of the packet. */
	int result;
	_Alignas(8) char packet[sizeof(struct msg_hello)];
	struct fd_list fds;
};

struct closer_queue {
	TAILQ_ENTRY(closer_queue) link;
	TAILQ_HEAD(, closer_job) jobs;
	bool is_busy;  /* a thread runs its job, or the caller holds received descriptors */
	bool is_ready; /* listed in closer.ready */
};

int closer_new(struct loop *loop, struct closer **ret_closer);
/*
 * Runs the remaining jobs and ends the threads. Waits one second at most, then abandons blocked
 * threads with their jobs. Accepts NULL.
 */
void closer_leave(struct closer *closer);

void closer_queue_init(struct closer_queue *queue);

/*
 * Receives one packet with descriptors, which must be waiting in `sock`. Keeps only memfds, and
 * only with a packet of at most sizeof(struct msg_hello). Otherwise the result is -EBADF or
 * -EMSGSIZE, and all descriptors are closed. After success with descriptors the queue pauses until
 * closer_give_back().
 */
void closer_receive(struct closer *closer, struct closer_queue *queue, struct closer_job *job,
	int sock, void (*done)(struct closer_job *job));
/* Closes job->fds, then calls the new `done`. */
void closer_give_back(
	struct closer *closer, struct closer_job *job, void (*done)(struct closer_job *job));

/* Closes `sock` and all descriptors in its queue. */
void closer_close(struct closer *closer, struct closer_queue *queue, struct closer_job *job,
	int sock, void (*done)(struct closer_job *job));

/*
 * Takes over and closes a listening socket, with the connections that are not accepted yet and the
 * descriptors in their queues. closer NULL, in a daemon that has not started: closes it at once.
 */
void closer_close_listener(struct closer *closer, int sock);

/*
 * Shuts a connected SEQPACKET socket down. Returns true if its queue holds no descriptor and can
 * get none, so that any thread may close the socket.
 */
bool closer_shut(int sock);

#endif
