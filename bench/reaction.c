/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaction of the daemon's loop: see reaction.h. A request that costs the daemon almost nothing is
 * due every millisecond. Each latency counts from the due time, so that a stall counts for its
 * whole length. Values beside a load are ratios to the quiet values of the same run.
 *
 * Only a daemon of a cluster serves a page over HTTPS, so that every case uses such a daemon. Such
 * a daemon schedules its devices whether or not the API server answers; in this bench none answers.
 */
#include "bench/reaction.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
#define SECONDS 20 /* covers several reports, which the daemon writes every 5 s */
#define SECONDS_QUICK 11
#define TENANTS_ENDED 4000
#define HOURS 100
#define NAMES_MS "5000"
#define LIST_NS (100 * NSEC_PER_MSEC)
#define HANDSHAKERS 2
#define ANSWER_S 120 /* after this time without an answer, the daemon counts as hung */
#define PACKET_MAX (1u << 20)

enum load {
	LOAD_REPORTS = 1,
	LOAD_NAMES = 2,
	LOAD_TLS = 4,
	LOAD_ALL = LOAD_REPORTS | LOAD_NAMES | LOAD_TLS,
};

static uint16_t page_port;
static char kubeconfig[128], listen_at[64], state_dir[128], usage_dir[128], kubelet_dir[128],
	cdi_dir[128];
/* prepare() fills the empty buffers. */
static const char *const cluster_args[] = {"--cluster", "--node-name=bench", "--cgroup-root=/none",
	"--probe-peers=0", kubeconfig, listen_at, state_dir, usage_dir, kubelet_dir, cdi_dir, NULL};

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

/* Returns the 99th percentile over `seconds`, in microseconds. */
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

/*
 * Starts a process that lists the tenants. The answers name the tenants' users, for which the
 * daemon asks the name service.
 */
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

/* Writes the usage file of 4,000 ended tenants that ran for 100 hours each. */
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

/*
 * Makes a ClientHello of TLS 1.3 and 1.2. For its answer the server must make a key and a
 * signature.
 */
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
		ret[n++] = (uint8_t)(9 + i); /* any 32 bytes are a valid x25519 key */
	ret[3] = (uint8_t)((n - 5) >> 8);
	ret[4] = (uint8_t)(n - 5);
	ret[7] = (uint8_t)((n - 9) >> 8);
	ret[8] = (uint8_t)(n - 9);
	return n;
}

/* close() resets the connection, since otherwise ports would run out. */
static int dial(void)
{
	const struct sockaddr_in page = {.sin_family = AF_INET,
		.sin_port = htons(page_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger at_once = {.l_onoff = 1};
	const struct timeval limit = {.tv_sec = ANSWER_S};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		bench_die("socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&page, sizeof(page)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Did the page answer with a ServerHello, and not with an alert? */
static bool handshake(unsigned int seed)
{
	static const uint8_t record_handshake = 0x16, server_hello = 2;
	uint8_t hello[256], answer[4096];
	_cleanup_close_ int fd = dial();

	return fd >= 0 && send(fd, hello, client_hello(hello, seed), MSG_NOSIGNAL) > 0 &&
		recv(fd, answer, sizeof(answer), 0) > 5 && answer[0] == record_handshake &&
		answer[5] == server_hello;
}

static pid_t start_handshakes(atomic_uint *n_handshakes, unsigned int seed)
{
	pid_t pid = fork_load();

	if (pid)
		return pid;
	for (;; seed++)
		if (handshake(seed))
			atomic_fetch_add(n_handshakes, 1);
}

/* ---- cases ---- */

/*
 * Gives this thread a real-time priority, as the daemon has one. So ordinary programs do not delay
 * this thread, and the measured latency is the daemon's.
 */
static void be_prompt(bool is_on)
{
	struct sched_param param = {.sched_priority = is_on ? 1 : 0};

	sched_setscheduler(0, is_on ? SCHED_RR | SCHED_RESET_ON_FORK : SCHED_OTHER, &param);
}

static uint16_t free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		bench_die("a free port: %s", strerror(errno));
	return ntohs(at.sin_port);
}

/* Writes a kubeconfig whose API server refuses connections: no program listens on port 1. */
static void write_kubeconfig(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		bench_die("create '%s': %s", path, strerror(errno));
	fputs("{apiVersion: v1, kind: Config, current-context: bench,\n"
	      "clusters: [{name: bench, cluster: {server: 'https://127.0.0.1:1'}}],\n"
	      "users: [{name: bench, user: {token: none}}],\n"
	      "contexts: [{name: bench, context: {cluster: bench, user: bench}}]}\n",
		f);
	if (fclose(f) != 0)
		bench_die("write '%s': %s", path, strerror(errno));
}

static void prepare(struct rig *rig)
{
	page_port = free_port();
	snprintf(listen_at, sizeof(listen_at), "--listen=127.0.0.1:%u", page_port);
	snprintf(kubeconfig, sizeof(kubeconfig), "--kubeconfig=%s/kubeconfig", rig->dir);
	snprintf(state_dir, sizeof(state_dir), "--state-dir=%s/node", rig->dir);
	snprintf(usage_dir, sizeof(usage_dir), "--usage-dir=%s", rig->dir);
	snprintf(kubelet_dir, sizeof(kubelet_dir), "--kubelet-dir=%s/kubelet", rig->dir);
	snprintf(cdi_dir, sizeof(cdi_dir), "--cdi-dir=%s/cdi", rig->dir);
	write_kubeconfig(strchr(kubeconfig, '=') + 1);
}

static void prepare_with_reports(struct rig *rig)
{
	prepare(rig);
	write_reports(rig);
}

static void start_rig(struct rig *rig, unsigned int loads)
{
	char command[256];
	pid_t pid[2];

	if (loads & LOAD_NAMES) {
		setenv("DIVVY_TEST_NAMES_MS", NAMES_MS, 1);
		setenv("LD_PRELOAD", bench_built("tests/programs/slow-names.so"), 1);
	}
	rig_init_prepared(rig, RIG_SHARED, "1xH200-141Gi", "", cluster_args,
		loads & LOAD_REPORTS ? prepare_with_reports : prepare);
	unsetenv("LD_PRELOAD");
	snprintf(command, sizeof(command), "%s --kernel-us 1000 --quiet",
		bench_built("tests/programs/spin"));
	for (int k = 0; k < 2; k++)
		pid[k] = rig_start(rig, "--request 0.5", command);
	for (int k = 0; k < 2; k++)
		while (!rig_first_ns(rig, pid[k]))
			clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
}

/* The processes that make TLS handshakes share this counter. */
static atomic_uint *counter_new(void)
{
	void *p = mmap(NULL, sizeof(atomic_uint), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap: %s", strerror(errno));
	return p;
}

struct reaction {
	double p99_us;
	unsigned int handshakes_per_s;
};

/*
 * Measures the daemon beside these loads. Before the measurement begins, both tenants are at work
 * and the daemon has usage to write.
 */
static struct reaction measure_beside(unsigned int loads)
{
	const unsigned int n_handshakers = loads & LOAD_TLS ? HANDSHAKERS : 0;
	const int seconds = bench_quick() ? SECONDS_QUICK : SECONDS;
	atomic_uint *n_handshakes = counter_new();
	char socket_path[128];
	struct rig rig;
	struct reaction ret;
	pid_t lists = 0, handshaker[HANDSHAKERS];

	start_rig(&rig, loads);
	if (n_handshakers && !handshake(0))
		bench_die("the daemon's page answers no TLS");
	snprintf(socket_path, sizeof(socket_path), "%s/divvyd.sock", rig.dir);
	if (loads & LOAD_NAMES)
		lists = start_lists(socket_path);
	for (unsigned int i = 0; i < n_handshakers; i++)
		handshaker[i] = start_handshakes(n_handshakes, i << 24);
	be_prompt(true);
	ret.p99_us = measure(socket_path, seconds);
	be_prompt(false);
	ret.handshakes_per_s = *n_handshakes / (unsigned int)seconds;
	end_load(lists);
	for (unsigned int i = 0; i < n_handshakers; i++)
		end_load(handshaker[i]);
	munmap(n_handshakes, sizeof(*n_handshakes));
	rig_done(&rig);
	return ret;
}

static const struct {
	const char *metric;
	unsigned int loads;
	const char *what;
} cases[] = {
	{"daemon.reaction_ratio_reports", LOAD_REPORTS,
		"4,000 tenants that have ended, 100 hours each"},
	{"daemon.reaction_ratio_names", LOAD_NAMES, "a name service that answers after 5 s"},
	{"daemon.reaction_ratio_tls", LOAD_TLS, "two clients that handshake TLS without end"},
	{"daemon.reaction_ratio", LOAD_ALL, "all three together"},
};

static void report(size_t i, double quiet_us, const struct reaction *reaction)
{
	char detail[160], handshakes[48] = "";

	if (cases[i].loads & LOAD_TLS)
		snprintf(handshakes, sizeof(handshakes), ", %u handshakes a second",
			reaction->handshakes_per_s);
	snprintf(detail, sizeof(detail), "p99 %.0f us, %.0f quiet: %s%s", reaction->p99_us,
		quiet_us, cases[i].what, handshakes);
	bench_metric(cases[i].metric, reaction->p99_us / quiet_us, "", "<= 2",
		(unsigned int)(bench_quick() ? SECONDS_QUICK : SECONDS) * 1000, true, detail);
}

/*
 * The quiet value is the better of the first and the last run: other programs may disturb one run.
 */
void reaction_measure(void)
{
	const unsigned int n = (unsigned int)(bench_quick() ? SECONDS_QUICK : SECONDS) * 1000;
	struct reaction beside[ARRAY_SIZE(cases)];
	double quiet_us = measure_beside(0).p99_us;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		beside[i] = measure_beside(cases[i].loads);
	quiet_us = MIN(quiet_us, measure_beside(0).p99_us);
	bench_metric("daemon.reaction_us_p99", quiet_us, "us", "", n, true,
		"a request every ms, two tenants at work; the better of two runs");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		report(i, quiet_us, &beside[i]);
}
