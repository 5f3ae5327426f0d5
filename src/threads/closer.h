/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that receive and close descriptors which peers have passed. close(2) of such a
 * descriptor may sleep for as long as its owner likes: a TCP socket that lingers, a file of a FUSE
 * file system. So the loop's thread never receives, closes or reads one, and never closes a socket
 * whose queue may hold some.
 *
 * Jobs of one queue run one after the other; each user of the daemon has a queue of its own, so
 * that a user holds at most one thread. At most CLOSER_THREADS_MAX threads exist. A job is the
 * caller's memory and belongs to the closer until `done` is called, in the loop's thread.
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
	/* What closer_receive has received: bytes, or -errno, and the memfds that came with it. */
	int result;
	_Alignas(8) char packet[sizeof(struct msg_hello)];
	struct fd_list fds;
};

struct closer_queue {
	TAILQ_ENTRY(closer_queue) link;
	TAILQ_HEAD(, closer_job) jobs;
	bool is_busy;  /* a thread has a job of it, or the caller what a job has received */
	bool is_ready; /* in the closer's list */
};

int closer_new(struct loop *loop, struct closer **ret_closer);
/*
 * Runs what is left and ends the threads; a thread that is blocked is left behind, with its job.
 * NULL is fine.
 */
void closer_leave(struct closer *closer);

void closer_queue_init(struct closer_queue *queue);

/*
 * Receives one packet with descriptors from `sock`, which must have one. Only sealed memfds are
 * kept, and only with a packet of at most sizeof(struct msg_hello); with anything else the result
 * is -EBADF or -EMSGSIZE, and all descriptors are closed. After a success with descriptors the
 * queue stands still until closer_give_back().
 */
void closer_receive(struct closer *closer, struct closer_queue *queue, struct closer_job *job,
	int sock, void (*done)(struct closer_job *job));
/* Closes job->fds; then `done` is called once more. */
void closer_give_back(
	struct closer *closer, struct closer_job *job, void (*done)(struct closer_job *job));

/* Closes `sock` and all that is in its queue. */
void closer_close(struct closer *closer, struct closer_queue *queue, struct closer_job *job,
	int sock, void (*done)(struct closer_job *job));

/*
 * Closes a listening socket, and with it the connections that nobody has accepted, with all that is
 * in their queues. Takes it over. NULL: a daemon that has not begun closes it at once.
 */
void closer_close_listener(struct closer *closer, int sock);

/*
 * Shuts a connected SEQPACKET socket down. True: no descriptor is in its queue, nor can one get
 * there, so that any thread may close it.
 */
bool closer_shut(int sock);

#endif
