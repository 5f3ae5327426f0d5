/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapter of tests/unit/link/fake-verbs.c between processes: a library that is found as
 * libibverbs.so.1. A queue pair is a socket named by its number in $FAKE_VERBS; of what arrives
 * the bytes are counted in the file `bytes` there, for all processes together.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../unit/link/fake-verbs.h"
#include "base/fd.h"

#define MESSAGE_MAX (1u << 20)

struct head {
	uint32_t to, from, bytes;
};

static _Atomic uint64_t *counter;

static int make_socket(uint32_t number, struct sockaddr_un *ret_at)
{
	*ret_at = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret_at->sun_path, sizeof(ret_at->sun_path), "%s/%u", getenv("FAKE_VERBS"), number);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void *receive_main(void *argument)
{
	const int fd = (int)(intptr_t)argument;
	uint8_t *p = malloc(MESSAGE_MAX);
	struct head head;

	while (p && fd_read_exact(fd, &head, sizeof(head)) == 0 && head.bytes <= MESSAGE_MAX &&
		fd_read_exact(fd, p, head.bytes) == 0) {
		const uint8_t said = (uint8_t)fake_arrive(head.to, head.from, p, head.bytes);

		atomic_fetch_add(counter, head.bytes);
		if (fd_write_all(fd, &said, 1) < 0)
			break;
	}
	free(p);
	close(fd);
	return NULL;
}

static void *accept_main(void *argument)
{
	pthread_t thread;
	int fd;

	while ((fd = accept4((int)(intptr_t)argument, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		if (pthread_create(&thread, NULL, receive_main, (void *)(intptr_t)fd))
			abort();
	return NULL;
}

static void made(uint32_t number)
{
	struct sockaddr_un at;
	const int fd = make_socket(number, &at);
	pthread_t thread;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 4) < 0 ||
		pthread_create(&thread, NULL, accept_main, (void *)(intptr_t)fd))
		abort();
}

/* One pair of a process has somebody to send to. */
static int far_send(uint32_t to, uint32_t from, const void *p, uint32_t n)
{
	static int fd = -1;
	const struct head head = {to, from, n};
	struct sockaddr_un at;
	uint8_t said;

	if (fd < 0) {
		fd = make_socket(to, &at);
		if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
			return FAKE_NOBODY;
	}
	if (fd_write_all(fd, &head, sizeof(head)) < 0 || fd_write_all(fd, p, n) < 0 ||
		fd_read_exact(fd, &said, 1) < 0)
		return FAKE_NOBODY;
	return said;
}

static struct fake_far between = {.made = made, .send = far_send};

/* In the process that uses it, which may be a child of one that does not. */
static void far_open(void)
{
	static bool is_open;
	char path[256];
	int fd;

	if (is_open)
		return;
	is_open = true;
	snprintf(path, sizeof(path), "%s/bytes", getenv("FAKE_VERBS"));
	fd = open(path, O_RDWR | O_CLOEXEC);
	counter = mmap(NULL, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || counter == MAP_FAILED)
		abort();
	close(fd);
	between.first = ((uint32_t)getpid() << 2 & 0xfffffc) + 1;
	fake_begin(&(struct fake_verbs){0});
}

__attribute__((constructor)) static void begin(void)
{
	between.open = far_open;
	fake_far = &between;
}
