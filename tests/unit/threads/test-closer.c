/* SPDX-License-Identifier: Apache-2.0 */
/* The closer alone: callers submit jobs while it ends. */
#include "unit.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "threads/closer.h"

static struct closer *closer;
static struct closer_queue queue;
static bool has_received, has_given_back, has_closed;

static void on_closed(struct closer_job *job)
{
	has_closed = true;
}

static void on_given_back(struct closer_job *job)
{
	has_given_back = true;
	closer_close(closer, &queue, job, TAKE_FD(job->sock), on_closed);
}

static void on_received(struct closer_job *job)
{
	has_received = job->fds.n == 1;
	closer_give_back(closer, job, on_given_back);
}

/*
 * Submits a job, whose callbacks submit two more jobs, and ends the closer. Returns false if the
 * threads were too slow.
 */
static bool is_all_done(struct closer_job *job)
{
	const char packet[8] = {0};
	struct loop *loop;
	int pair[2], fd;

	has_received = has_given_back = has_closed = false;
	assert_ok(loop_new(&loop));
	assert_ok(closer_new(loop, &closer));
	closer_queue_init(&queue);
	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fd_send(pair[0], packet, sizeof(packet), &fd, 1, 0), sizeof(packet));
	close(fd);
	closer_receive(closer, &queue, job, pair[1], on_received);
	closer_leave(closer);
	close(pair[0]);
	loop_free(loop);
	return has_received && has_given_back && has_closed;
}

static void jobs_submitted_during_the_end_are_run(void **state)
{
	static struct closer_job jobs[60];
	size_t i = 0;

	/* A closer waits at most a second, which may be too short on a loaded machine. */
	while (i < ARRAY_SIZE(jobs) && !is_all_done(&jobs[i]))
		i++;
	assert_true(i < ARRAY_SIZE(jobs));
}

UNIT_MAIN(UNIT(jobs_submitted_during_the_end_are_run))
