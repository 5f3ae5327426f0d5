/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liar: a client that does everything wrong, as fast as it can. The program sends random packets,
 * valid packets with inverted bits and descriptors of all sorts, and writes random values into all
 * of its pages.
 * usage: liar socket PATH SECRET SEED SECONDS    sends packets over one connection after another
 *        liar pages PATH SECRET SEED SECONDS     registers, then writes random values to its pages
 *        liar greedy PATH SECRET SEED SECONDS    registers, then always wants and never drains
 * Exits with 0 unless it could not begin. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/msg.h"

#define FDS_MAX (3 * MSG_DEVICES)

struct liar {
	const char *path;
	uint8_t secret[16];
	uint64_t state;
	uint64_t until_ns;
};

static uint64_t next(struct liar *l)
{
	uint64_t z = l->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool is_time_left(const struct liar *l)
{
	return clock_now_ns() < l->until_ns;
}

static void pause_us(unsigned int us)
{
	clock_sleep_until_ns(clock_now_ns() + us * NSEC_PER_USEC);
}

/*
 * Connects to the daemon. Returns -1 if the daemon does not accept in time, as it may serve a liar
 * slowly.
 */
static int reach(const struct liar *l)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", l->path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int send_packet(int fd, const void *p, size_t n, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)p, n};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
		memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
	}
	return sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static size_t hello(const struct liar *l, uint32_t flags, uint32_t devices, void *ret)
{
	struct msg_hello m = {.flags = flags, .page_abi = PAGE_ABI, .devices = devices};

	msg_head_init(&m.head, MSG_HELLO, sizeof(m), 1);
	memcpy(m.secret, l->secret, sizeof(m.secret));
	snprintf(m.command, sizeof(m.command), "liar");
	memcpy(ret, &m, sizeof(m));
	return sizeof(m);
}

/* ---- packets ---- */

/* A valid packet of any type. */
static size_t invent(struct liar *l, uint8_t *p)
{
	static const char *const json[] = {
		"{\"cmd\": \"ping\"}",
		"{\"cmd\": \"list\"}",
		"{\"cmd\": \"create\", \"spec\": {\"request\": \"0.0001\"}}",
		"{\"cmd\": \"create\", \"spec\": {\"request\": \"7\", \"memory\": \"900Gi\"}}",
		"{\"cmd\": \"usage\", \"last_ms\": 900000, \"step_ms\": 1}",
		"{\"cmd\": \"set\", \"tenant\": 4000000000, \"spec\": {\"limit\": \"0.5\"}}",
		"{\"cmd\": \"remove\", \"tenant\": \"nobody\"}",
		"{\"cmd\": \"why\", \"tenant\": -1}",
		"{\"cmd\": \"apply\", \"path\": \"/dev/zero\"}",
		"{\"cmd\": \"apply\", \"path\": \"/\"}",
		"{\"cmd\": [[[[[[[[[[[[[[[[[[[[[[[[",
		"",
	};
	enum msg_type type = (enum msg_type)(1 + next(l) % (MSG_TYPES - 1));
	struct msg_memory memory = {.device = (uint32_t)(next(l) % 3),
		.bytes = next(l) % 2 ? next(l) : next(l) % (1u << 30)};
	struct msg_control control = {0};
	const char *text = json[next(l) % (sizeof(json) / sizeof(json[0]))];
	size_t n;

	switch (type) {
	case MSG_HELLO: return hello(l, (uint32_t)(next(l) % 4), (uint32_t)(next(l) % 4), p);
	case MSG_CONTROL:
	case MSG_CONTROL_REPLY:
		n = sizeof(control) + strlen(text);
		msg_head_init(&control.head, type, (uint32_t)n, (uint32_t)next(l));
		memcpy(p, &control, sizeof(control));
		memcpy(p + sizeof(control), text, strlen(text));
		return n;
	case MSG_MEM_RESERVE:
	case MSG_MEM_RELEASE:
	case MSG_MEM_REPLY:
	case MSG_MEASURED: n = sizeof(memory); break;
	case MSG_WELCOME:
		memset(p, 0, n = sizeof(struct msg_welcome));
		msg_head_init((struct msg_head *)(void *)p, type, (uint32_t)n, 1);
		return n;
	case MSG_REFUSED:
		memset(p, 0, n = sizeof(struct msg_refused));
		msg_head_init((struct msg_head *)(void *)p, type, (uint32_t)n, 1);
		return n;
	case MSG_BYE: n = sizeof(struct msg_head); break;
	default: n = sizeof(struct msg_device_note);
	}
	msg_head_init(&memory.head, type, (uint32_t)n, (uint32_t)next(l));
	memcpy(p, &memory, n);
	return n;
}

static size_t mutate(struct liar *l, uint8_t *p, size_t n)
{
	switch (next(l) % 8) {
	case 0:
		for (size_t i = 0, k = 1 + next(l) % 8; i < k; i++)
			p[next(l) % n] ^= (uint8_t)(1u << next(l) % 8);
		return n;
	case 1: return 1 + next(l) % n;
	case 2: return n + next(l) % 64;
	case 3:
		n = 1 + next(l) % 512;
		for (size_t i = 0; i < n; i++)
			p[i] = (uint8_t)next(l);
		return n;
	case 4: /* the size fits, the type does not */ p[4] = (uint8_t)next(l); return n;
	default: return n;
	}
}

/*
 * Fills fds with descriptors like a client's pages: files, unsealed or small memory, the connection
 * itself.
 */
static size_t gather(struct liar *l, int connection, int *fds)
{
	size_t n = next(l) % 4 ? 0 : 1 + next(l) % 6;

	for (size_t i = 0; i < n; i++) {
		switch (next(l) % 4) {
		case 0: fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC); break;
		case 1:
			fds[i] = memfd_create("divvy-up", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			if (fds[i] >= 0 &&
				ftruncate(fds[i],
					(off_t)(next(l) % 2 ? sizeof(struct page_up) : 1)) == 0 &&
				next(l) % 2)
				fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
			break;
		case 2: fds[i] = dup(connection); break;
		default: fds[i] = open("/", O_PATH | O_CLOEXEC);
		}
	}
	return n;
}

static int lie_on_sockets(struct liar *l)
{
	static _Alignas(8) uint8_t packet[4096];
	static uint8_t answer[MSG_MAX];
	uint64_t connections = 0, packets = 0;

	while (is_time_left(l)) {
		int fd = reach(l), fds[FDS_MAX];

		if (fd < 0) {
			pause_us(1000);
			continue;
		}
		connections++;
		for (uint64_t i = 0, k = next(l) % 64; i < k && is_time_left(l); i++) {
			size_t n = mutate(l, packet, invent(l, packet));
			size_t n_fds = gather(l, fd, fds);
			int r = send_packet(fd, packet, n, fds, n_fds);

			while (n_fds)
				close(fds[--n_fds]);
			if (r == -EPIPE || r == -ECONNRESET)
				break;
			packets += !r;
			/* reads the answers of every second connection */
			if (connections % 2)
				recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
		}
		close(fd);
	}
	printf("%llu connections, %llu packets\n", (unsigned long long)connections,
		(unsigned long long)packets);
	return connections ? 0 : 1;
}

/* ---- pages ---- */

struct pages {
	int socket;
	struct page_up *up;
	struct page_tenant *tenant;
	int fd[FDS_MAX];
	uint32_t device;
};

static void *map(int fd, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int enter(const struct liar *l, struct pages *ret)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct msg_welcome welcome;
	struct iovec iov = {&welcome, sizeof(welcome)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	struct msg_hello m;
	ssize_t n;

	ret->socket = reach(l);
	if (ret->socket < 0)
		return -1;
	send_packet(ret->socket, &m, hello(l, 0, 0, &m), NULL, 0);
	n = recvmsg(ret->socket, &mh, MSG_CMSG_CLOEXEC);
	if (n != sizeof(welcome) || welcome.head.type != MSG_WELCOME || !CMSG_FIRSTHDR(&mh))
		return -1;
	memcpy(ret->fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), 3 * sizeof(int));
	ret->device = welcome.device[0].device;
	if (map(ret->fd[0], sizeof(struct page_down))) {
		fprintf(stderr, "liar: the daemon's own page can be mapped writable\n");
		return -2;
	}
	if (ftruncate(ret->fd[1], 0) == 0 || ftruncate(ret->fd[2], 0) == 0) {
		fprintf(stderr, "liar: a page can be cut short under the daemon\n");
		return -2;
	}
	ret->up = map(ret->fd[1], sizeof(struct page_up));
	ret->tenant = map(ret->fd[2], sizeof(struct page_tenant));
	return ret->up && ret->tenant ? 0 : -1;
}

static void note(const struct liar *l, const struct pages *p, enum msg_type type)
{
	struct msg_device_note m = {.device = p->device};

	msg_head_init(&m.head, type, sizeof(m), 7);
	send_packet(p->socket, &m, sizeof(m), NULL, 0);
}

static int lie_in_pages(struct liar *l)
{
	struct pages p;
	uint32_t *up, *tenant;
	int r = enter(l, &p);

	if (r < 0)
		return -r;
	up = (uint32_t *)p.up;
	tenant = (uint32_t *)p.tenant;
	while (is_time_left(l)) {
		for (int i = 0; i < 256; i++) {
			uint32_t value = next(l) % 3 ? (uint32_t)next(l)
						     : (uint32_t)(next(l) % 3) - 1;

			/*
			 * writes the head lines, which have the token's state, more often than
			 * other lines
			 */
			if (next(l) % 2)
				up[next(l) % 64] = value;
			else
				up[next(l) % (sizeof(struct page_up) / 4)] = value;
			tenant[next(l) % (next(l) % 2 ? 32 : sizeof(struct page_tenant) / 4)] =
				(uint32_t)next(l);
		}
		if (next(l) % 4 == 0)
			note(l, &p,
				(enum msg_type[]){MSG_WANT, MSG_RELEASE, MSG_YIELD}[next(l) % 3]);
		pause_us(50);
	}
	return 0;
}

/* Claims an endless submission and endless work, and still wants the token. */
static int lie_greedily(struct liar *l)
{
	struct pages p;
	int r = enter(l, &p);

	if (r < 0)
		return -r;
	atomic_store(&p.up->lines, PAGE_LINES);
	atomic_store(&p.up->slots, PAGE_SLOTS);
	atomic_store(&p.up->longest_ns, UINT64_MAX);
	atomic_store(&p.up->segment_ns, UINT64_MAX);
	while (is_time_left(l)) {
		atomic_store(&p.up->want, 1);
		atomic_store(&p.up->line[0].in_launch, 1);
		atomic_fetch_add(&p.up->line[1].submitted, 1);
		atomic_fetch_add(&p.up->issued[3], 1);
		atomic_store(&p.up->queued_ns, UINT64_MAX);
		atomic_store(&p.up->queued_at_ns, clock_now_ns() + NSEC_PER_SEC);
		note(l, &p, MSG_WANT);
		pause_us(100);
	}
	return 0;
}

static bool read_hex(const char *text, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned int byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		ret[i] = (uint8_t)byte;
	}
	return strlen(text) == 2 * n;
}

int main(int argc, char **argv)
{
	struct liar l = {0};

	if (argc != 6 || !read_hex(argv[3], l.secret, sizeof(l.secret))) {
		fprintf(stderr, "usage: liar socket|pages|greedy PATH SECRET SEED SECONDS\n");
		return 2;
	}
	l.path = argv[2];
	l.state = strtoull(argv[4], NULL, 10);
	l.until_ns = clock_now_ns() + strtoull(argv[5], NULL, 10) * NSEC_PER_SEC;
	if (!strcmp(argv[1], "socket"))
		return lie_on_sockets(&l);
	return !strcmp(argv[1], "greedy") ? lie_greedily(&l) : lie_in_pages(&l);
}
