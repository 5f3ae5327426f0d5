/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaction of the daemon's loop: see reaction.h. A request for as good as nothing is due every
 * millisecond; each counts from the time at which it was due, so that a stall counts for its whole
 * length. Values beside a load are ratios to the quiet ones of the same run.
 *
 * The TLS handshakes need a page of HTTPS, which a daemon has in a cluster alone: DIVVY_BENCH_PAGE
 * (HOST:PORT) and DIVVY_BENCH_SOCKET name those of a daemon that runs already.
 */
#include "bench/reaction.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "bench/bench.h"
#include "wire/msg.h"

#define PERIOD_NS NSEC_PER_MSEC
#define SECONDS 20 /* of which every five bring a round of reports */
#define SECONDS_QUICK 11
#define TENANTS_ENDED 4000
#define HOURS 100
#define NAMES_MS "5000"
#define LIST_NS (100 * NSEC_PER_MSEC)
#define HANDSHAKERS 2
#define ANSWER_S 120 /* a daemon that does not answer at all */
#define PACKET_MAX (1u << 20)

enum load { LOAD_REPORTS = 1, LOAD_NAMES = 2 };

/* ---- requests ---- */

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval limit = {.tv_sec = ANSWER_S};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)) < 0 ||
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		bench_die("connect to %s: %s", path, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

static void ask(int fd, const char *json, struct msg_control *packet)
{
	const uint32_t size = (uint32_t)(sizeof(*packet) + strlen(json));

	memset(packet, 0, sizeof(*packet));
	msg_head_init(&packet->head, MSG_CONTROL, size, 1);
	memcpy(packet->text, json, strlen(json));
	if (send(fd, packet, size, MSG_NOSIGNAL) < 0)
		bench_die("the daemon hung up: %s", strerror(errno));
	do {
		if (recv(fd, packet, PACKET_MAX, 0) < (ssize_t)sizeof(*packet))
			bench_die("the daemon did not answer: %s", strerror(errno));
	} while (packet->more);
}

/* The p99 in microseconds over that time. */
static double measure(const char *socket_path, int seconds)
{
	const size_t n = (size_t)seconds * (NSEC_PER_SEC / PERIOD_NS);
	_cleanup_free_ struct msg_control *packet = malloc(PACKET_MAX);
	_cleanup_free_ double *us = calloc(n, sizeof(*us));
	_cleanup_close_ int fd = connect_to(socket_path);
	uint64_t due = clock_now_ns();

	if (!us || !packet)
		bench_die("no memory");
	for (size_t i = 0; i < n; i++) {
		due += PERIOD_NS;
		clock_sleep_until_ns(due);
		ask(fd, "{\"cmd\":\"ping\"}", packet);
		us[i] = (double)(clock_now_ns() - due) / 1e3;
	}
	bench_sort(us, n);
	return bench_quantile(us, n, 0.99);
}

/* ---- loads ---- */

static pid_t fork_load(void)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (!pid) {
		struct sched_param ordinary = {0};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setscheduler(0, SCHED_OTHER, &ordinary);
	}
	return pid;
}

static void end_load(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Lists name the tenants' users: a question to the name service. */
static pid_t start_lists(const char *socket_path)
{
	pid_t pid = fork_load();
	struct msg_control *packet;
	int fd;

	if (pid)
		return pid;
	packet = malloc(PACKET_MAX);
	fd = connect_to(socket_path);
	for (;;) {
		ask(fd, "{\"cmd\":\"list\"}", packet);
		clock_sleep_until_ns(clock_now_ns() + LIST_NS);
	}
}

/* The usage file of 4,000 ended tenants that ran for 100 hours each. */
static void write_reports(struct rig *rig)
{
	const uint64_t now_s = clock_real_ns() / NSEC_PER_SEC, hour = 3600;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/usage", rig->dir);
	f = fopen(path, "we");
	if (!f)
		bench_die("create '%s': %s", path, strerror(errno));
	for (unsigned int id = 1; id <= TENANTS_ENDED; id++) {
		const uint64_t first_s = now_s - now_s % hour - (HOURS + id % 100) * hour;

		fprintf(f, "R %u 0 500 1000 %llu %llu 360000.000000 123456789012345 7.000000 t%u\n",
			id, (unsigned long long)first_s,
			(unsigned long long)(first_s + HOURS * hour), id);
		for (unsigned int k = 0; k < HOURS; k++)
			fprintf(f, "B %llu 3600 3600.000000 1234567890123 0.070000\n",
				(unsigned long long)(first_s + k * hour));
	}
	if (fclose(f) != 0)
		bench_die("write '%s': %s", path, strerror(errno));
}

/* A ClientHello of TLS 1.3 and 1.2; what the server answers costs it a key and a signature. */
static size_t client_hello(uint8_t ret[static 256], unsigned int seed)
{
	static const uint8_t head[] = {0x16, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3};
	static const uint8_t ciphers[] = {
		0, 0, 12, 0x13, 1, 0x13, 2, 0xc0, 0x2b, 0xc0, 0x2c, 0xc0, 0x2f, 0xc0, 0x30, 1, 0};
	static const uint8_t extensions[] = {
		0, 10, 0, 6, 0, 4, 0, 29, 0, 23,                         /* groups */
		0, 11, 0, 2, 1, 0,                                       /* points */
		0, 13, 0, 14, 0, 12, 4, 3, 5, 3, 8, 4, 8, 5, 8, 6, 4, 1, /* signatures */
		0, 43, 0, 5, 4, 3, 4, 3, 3,                              /* versions */
		0, 45, 0, 2, 1, 1,                                       /* key exchange */
		0, 51, 0, 38, 0, 36, 0, 29, 0, 32,                       /* x25519 key */
	};
	const size_t n_extensions = sizeof(extensions) + 32;
	size_t n = 0;

	memcpy(ret, head, sizeof(head));
	n = sizeof(head);
	for (size_t i = 0; i < 32; i++)
		ret[n++] = (uint8_t)(seed >> i % 4 * 8) ^ (uint8_t)i;
	memcpy(ret + n, ciphers, sizeof(ciphers));
	n += sizeof(ciphers);
	ret[n++] = (uint8_t)(n_extensions >> 8);
	ret[n++] = (uint8_t)n_extensions;
	memcpy(ret + n, extensions, sizeof(extensions));
	n += sizeof(extensions);
	for (size_t i = 0; i < 32; i++)
		ret[n++] = (uint8_t)(9 + i); /* a point like any other */
	ret[3] = (uint8_t)((n - 5) >> 8);
	ret[4] = (uint8_t)(n - 5);
	ret[7] = (uint8_t)((n - 9) >> 8);
	ret[8] = (uint8_t)(n - 9);
	return n;
}

static int dial(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &all) != 0)
		return -1;
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	return fd;
}

static pid_t start_handshakes(const char *page)
{
	char host[256];
	const char *port;
	uint8_t hello[256], answer[4096];
	pid_t pid = fork_load();

	if (pid)
		return pid;
	port = strrchr(page, ':');
	if (!port || str_copy(host, sizeof(host), (struct str){page, (size_t)(port - page)}) < 0)
		bench_die("DIVVY_BENCH_PAGE=%s: expected HOST:PORT", page);
	for (unsigned int seed = 1;; seed++) {
		int fd = dial(host, port + 1);

		if (fd < 0)
			continue;
		if (send(fd, hello, client_hello(hello, seed), MSG_NOSIGNAL) < 0 ||
			recv(fd, answer, sizeof(answer), 0) < 0)
			seed++;
		close(fd);
	}
}

/* ---- cases ---- */

/* Before ordinary programs, as the daemon is: what is measured is its reaction and not ours. */
static void be_prompt(bool is_on)
{
	struct sched_param param = {.sched_priority = is_on ? 1 : 0};

	sched_setscheduler(0, is_on ? SCHED_RR | SCHED_RESET_ON_FORK : SCHED_OTHER, &param);
}

/* Both tenants are at work when it begins, and the daemon has something to write down. */
static double measure_beside(unsigned int loads)
{
	const int seconds = bench_quick() ? SECONDS_QUICK : SECONDS;
	char command[256], socket_path[128];
	struct rig rig;
	pid_t lists = 0, pid[2];
	double p99;

	if (loads & LOAD_NAMES) {
		setenv("DIVVY_TEST_NAMES_MS", NAMES_MS, 1);
		setenv("LD_PRELOAD", bench_built("tests/programs/slow-names.so"), 1);
	}
	rig_init_prepared(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL,
		loads & LOAD_REPORTS ? write_reports : NULL);
	unsetenv("LD_PRELOAD");
	snprintf(command, sizeof(command), "%s --kernel-us 1000 --quiet",
		bench_built("tests/programs/spin"));
	for (int k = 0; k < 2; k++)
		pid[k] = rig_start(&rig, "--request 0.5", command);
	for (int k = 0; k < 2; k++)
		while (!rig_first_ns(&rig, pid[k]))
			clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
	snprintf(socket_path, sizeof(socket_path), "%s/divvyd.sock", rig.dir);
	if (loads & LOAD_NAMES)
		lists = start_lists(socket_path);
	be_prompt(true);
	p99 = measure(socket_path, seconds);
	be_prompt(false);
	end_load(lists);
	rig_done(&rig);
	return p99;
}

static void report(const char *metric, double quiet_us, double us, const char *of_what)
{
	char detail[160];

	snprintf(detail, sizeof(detail), "p99 %.0f us, %.0f quiet: %s", us, quiet_us, of_what);
	bench_metric(metric, us / quiet_us, "", "<= 2",
		(unsigned int)(bench_quick() ? SECONDS_QUICK : SECONDS) * 1000, true, detail);
}

static void measure_handshakes(void)
{
	const char *page = getenv("DIVVY_BENCH_PAGE"), *path = getenv("DIVVY_BENCH_SOCKET");
	const int seconds = bench_quick() ? SECONDS_QUICK : SECONDS;
	pid_t pid[HANDSHAKERS];
	double quiet_us, us;

	if (!page || !path) {
		bench_note("TLS handshakes are not measured: DIVVY_BENCH_PAGE and "
			   "DIVVY_BENCH_SOCKET name no daemon of a cluster");
		return;
	}
	be_prompt(true);
	quiet_us = measure(path, seconds);
	for (int i = 0; i < HANDSHAKERS; i++)
		pid[i] = start_handshakes(page);
	us = measure(path, seconds);
	for (int i = 0; i < HANDSHAKERS; i++)
		end_load(pid[i]);
	be_prompt(false);
	report("daemon.reaction_ratio_tls", quiet_us, us, "two clients handshake without end");
}

void reaction_measure(void)
{
	const unsigned int n = (unsigned int)(bench_quick() ? SECONDS_QUICK : SECONDS) * 1000;
	const double quiet_us = measure_beside(0);

	bench_metric("daemon.reaction_us_p99", quiet_us, "us", "", n, true,
		"a request every ms, two tenants at work");
	report("daemon.reaction_ratio_reports", quiet_us, measure_beside(LOAD_REPORTS),
		"4,000 tenants that have ended, 100 hours each");
	report("daemon.reaction_ratio_names", quiet_us, measure_beside(LOAD_NAMES),
		"a name service that answers after 5 s");
	report("daemon.reaction_ratio", quiet_us, measure_beside(LOAD_REPORTS | LOAD_NAMES),
		"both together");
	measure_handshakes();
}
