/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link-shim HOST:PORT [delay=US] [skew=US] [sway=US] [rate=MBPS] [lame=MBPS]
 *
 * A slow or broken network between two ends of this machine. The program prints a port of 127.0.0.1
 * and forwards connections there to HOST:PORT. The program delivers bytes `delay` after it read
 * them, `skew` later on every second connection, and a varying time of up to `sway` later still, so
 * that connections overtake each other. `rate` bounds the megabits a second of each direction of
 * each connection (0: no bound), and `lame` those of every third connection. Commands on stdin, one
 * a line, change these values while the program runs: delay=, skew=, sway=, rate=, lame=. Other
 * commands are `cut` (ends all connections, and each new one), `stall` (stops delivery), `count`
 * (prints the bytes read from clients, and from HOST:PORT) and `quit`. One thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/address.h"

#define CONNECTIONS_MAX 256
#define PIECE (64u << 10)
/* Most bytes in flight in one direction of a connection: more than 10 Gb/s carry in 20 ms. */
#define UNDER_WAY (32u << 20)

struct piece {
	struct piece *next;
	uint64_t due_ns;
	size_t n, done; /* n 0: the end */
	char bytes[];
};

struct way {
	int from, to;
	struct piece *first, **last;
	size_t under_way;
	uint64_t last_ns; /* when the previous piece is due: keeps the order */
	uint64_t free_ns; /* when the previous piece has been sent, at the rate */
	uint64_t *n_read; /* shared with other connections */
	bool has_ended;   /* reading has ended */
	bool is_full;     /* the receiver takes no more for now */
	bool is_over;
};

struct connection {
	struct way way[2];
	bool is_second, is_third;
};

static struct {
	uint64_t delay_ns, skew_ns, sway_ns, rate_mbps, lame_mbps;
	bool is_cut, is_stalled;
} shim;

static uint64_t n_read[2];

static struct connection *connections[CONNECTIONS_MAX];
static struct sockaddr_storage target;
static socklen_t target_n;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "link-shim: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Obeys "delay=20", "cut" and so on; false for an unknown command. */
static bool command(const char *text)
{
	unsigned long long n;

	if (sscanf(text, "delay=%llu", &n) == 1)
		shim.delay_ns = n * 1000;
	else if (sscanf(text, "skew=%llu", &n) == 1)
		shim.skew_ns = n * 1000;
	else if (sscanf(text, "sway=%llu", &n) == 1)
		shim.sway_ns = n * 1000;
	else if (sscanf(text, "lame=%llu", &n) == 1)
		shim.lame_mbps = n;
	else if (sscanf(text, "rate=%llu", &n) == 1)
		shim.rate_mbps = n;
	else if (!strcmp(text, "cut"))
		shim.is_cut = true;
	else if (!strcmp(text, "stall"))
		shim.is_stalled = true;
	else if (!strcmp(text, "count"))
		printf("%" PRIu64 " %" PRIu64 "\n", n_read[0], n_read[1]), fflush(stdout);
	else if (!strcmp(text, "quit"))
		exit(0);
	else
		return false;
	return true;
}

/* ---- one direction ---- */

/*
 * Delay of the bytes read now. The random part of the delay changes only after four times sway_ns,
 * so that other connections overtake many bytes at once.
 */
static uint64_t late_ns(const struct connection *c, uint64_t sent_ns)
{
	const uint64_t swing_ns = shim.sway_ns ? sent_ns / (4 * shim.sway_ns) : 0;
	const uint64_t any = (swing_ns + (uintptr_t)c) * 0x9e3779b97f4a7c15u >> 32;

	return shim.delay_ns + (c->is_second ? shim.skew_ns : 0) +
		(shim.sway_ns ? any % shim.sway_ns : 0);
}

static void take_in(const struct connection *c, struct way *w)
{
	const uint64_t rate = c->is_third && shim.lame_mbps ? shim.lame_mbps : shim.rate_mbps;
	struct piece *p = malloc(sizeof(*p) + PIECE);
	uint64_t sent_ns = now_ns();
	ssize_t n;

	if (!p)
		die("memory");
	n = recv(w->from, p->bytes, PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		free(p);
		return;
	}
	*p = (struct piece){.n = n > 0 ? (size_t)n : 0};
	*w->n_read += p->n;
	w->has_ended = n <= 0;
	if (rate) {
		if (sent_ns < w->free_ns)
			sent_ns = w->free_ns;
		sent_ns += p->n * 8000 / rate;
		w->free_ns = sent_ns;
	}
	p->due_ns = sent_ns + late_ns(c, sent_ns);
	if (p->due_ns < w->last_ns)
		p->due_ns = w->last_ns;
	w->last_ns = p->due_ns;
	*w->last = p;
	w->last = &p->next;
	w->under_way += p->n;
}

/* Sends the pieces that are due. Returns when the next piece is due, or UINT64_MAX. */
static uint64_t pass_on(struct way *w)
{
	for (struct piece *p; (p = w->first);) {
		ssize_t n;

		if (shim.is_stalled)
			return UINT64_MAX;
		if (p->due_ns > now_ns())
			return p->due_ns;
		if (p->n) {
			n = send(w->to, p->bytes + p->done, p->n - p->done,
				MSG_DONTWAIT | MSG_NOSIGNAL);
			w->is_full = n < 0 && errno == EAGAIN;
			if (w->is_full)
				return UINT64_MAX;
			if (n < 0)
				w->is_over = true;
			p->done += n < 0 ? p->n - p->done : (size_t)n;
			if (p->done < p->n)
				continue;
		} else {
			shutdown(w->to, SHUT_WR);
			w->is_over = true;
		}
		w->under_way -= p->n;
		w->first = p->next;
		if (!w->first)
			w->last = &w->first;
		free(p);
	}
	return UINT64_MAX;
}

/* ---- connections ---- */

static void set_socket(int fd)
{
	const int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void end(struct connection **at)
{
	for (int i = 0; i < 2; i++)
		for (struct piece *p; (p = (*at)->way[i].first);) {
			(*at)->way[i].first = p->next;
			free(p);
		}
	close((*at)->way[0].from);
	close((*at)->way[0].to);
	free(*at);
	*at = NULL;
}

static void accept_one(int listener)
{
	static unsigned n;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), far;
	struct connection *c;
	size_t i = 0;

	while (i < CONNECTIONS_MAX && connections[i])
		i++;
	if (fd < 0 || i == CONNECTIONS_MAX || shim.is_cut) {
		close(fd);
		return;
	}
	far = socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	c = calloc(1, sizeof(*c));
	if (far < 0 || !c)
		die("a connection");
	if (connect(far, (struct sockaddr *)&target, target_n) < 0) {
		close(far);
		close(fd);
		free(c);
		return;
	}
	set_socket(fd);
	set_socket(far);
	for (int k = 0; k < 2; k++)
		c->way[k] = (struct way){.from = k ? far : fd,
			.to = k ? fd : far,
			.last = &c->way[k].first,
			.n_read = &n_read[k]};
	c->is_second = n % 2;
	c->is_third = n++ % 3 == 2;
	connections[i] = c;
}

static void read_commands(bool *is_open)
{
	static char line[256];
	static size_t n;
	ssize_t got = read(STDIN_FILENO, line + n, sizeof(line) - 1 - n);

	*is_open = got > 0;
	n += got > 0 ? (size_t)got : 0;
	line[n] = '\0';
	for (char *stop; (stop = strchr(line, '\n'));) {
		*stop = '\0';
		if (!command(line))
			fprintf(stderr, "link-shim: '%s'?\n", line);
		n -= (size_t)(stop + 1 - line);
		memmove(line, stop + 1, n + 1);
	}
}

/* Waits for a socket, a command, or the next piece that is due. */
static void wait_for_any(int listener, bool *is_open, uint64_t due_ns)
{
	static struct pollfd fds[2 + 2 * CONNECTIONS_MAX];
	static struct connection *whose[2 + 2 * CONNECTIONS_MAX];
	struct timespec timeout = {3600, 0};
	size_t n = 2;

	fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = *is_open ? STDIN_FILENO : -1, .events = POLLIN};
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		for (int k = 0; connections[i] && k < 2; k++) {
			const struct way *in = &connections[i]->way[k],
					 *out = &connections[i]->way[!k];
			short events = 0;

			if (!in->has_ended && in->under_way < UNDER_WAY)
				events |= POLLIN;
			if (out->is_full)
				events |= POLLOUT;
			whose[n] = connections[i];
			fds[n++] = (struct pollfd){.fd = events ? in->from : -1, .events = events};
		}
	if (due_ns != UINT64_MAX) {
		const uint64_t now = now_ns(), left = due_ns > now ? due_ns - now : 0;

		timeout = (struct timespec){
			(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
	}
	if (ppoll(fds, n, &timeout, NULL) <= 0)
		return;
	for (size_t i = 2; i < n; i++)
		if (fds[i].revents & ~POLLOUT && fds[i].events & POLLIN)
			take_in(whose[i], &whose[i]->way[i % 2]);
	if (fds[1].revents)
		read_commands(is_open);
	if (fds[0].revents)
		accept_one(listener);
}

static int listen_here(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(own);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&own, n) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&own, &n) < 0)
		die("listen");
	printf("%u\n", ntohs(own.sin_port));
	fflush(stdout);
	return fd;
}

static bool find_target(const char *text)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct address at;
	struct addrinfo *all;

	if (address_parse(str_from(text), 0, &at, NULL) < 0 ||
		getaddrinfo(at.host, at.port, &hints, &all) != 0)
		return false;
	memcpy(&target, all->ai_addr, all->ai_addrlen);
	target_n = all->ai_addrlen;
	freeaddrinfo(all);
	return true;
}

int main(int argc, char **argv)
{
	bool is_open = true, is_right = argc >= 2 && find_target(argv[1]);
	int listener;

	for (int i = 2; i < argc; i++)
		is_right = is_right && command(argv[i]);
	if (!is_right) {
		fprintf(stderr,
			"usage: link-shim HOST:PORT [delay=US] [skew=US] [sway=US] [rate=MBPS] "
			"[lame=MBPS]\n");
		return 2;
	}
	/* By default a wake-up is 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1);
	listener = listen_here();
	for (;;) {
		uint64_t due_ns = UINT64_MAX;

		for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
			struct connection *c = connections[i];

			for (int k = 0; c && k < 2; k++) {
				const uint64_t due = pass_on(&c->way[k]);

				due_ns = due < due_ns ? due : due_ns;
			}
			if (c && (shim.is_cut || (c->way[0].is_over && c->way[1].is_over)))
				end(&connections[i]);
		}
		wait_for_any(listener, &is_open, due_ns);
	}
}
