/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and files: measured processes, memory of dead processes, waits for memory, tenants.conf, a
 * followed resource-config.txt, metrics, exit when idle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent-share.h"
#include "base/clock.h"
#include "base/fd.h"
#include "fake-client.h"
#include "rig.h"
#include "../../patience.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS patience_ms(60000)

static void write_text(const char *path, const char *text)
{
	assert_int_equal(file_replace(path, str_from(text), 0644, NULL), 0);
}

struct wanted {
	struct rig *rig;
	const char *tenant, *member;
	long long value; /* -1: no such tenant */
};

static bool is_so(void *data)
{
	const struct wanted *w = data;
	json_t *a = rig_ask(w->rig, "{s:s, s:s}", "cmd", "list", "tenant", w->tenant);
	bool is_ok = json_is_true(rig_get(a, "ok"));

	is_ok = w->value < 0 ? !is_ok : is_ok && rig_number(a, w->member) == w->value;
	json_decref(a);
	return is_ok;
}

static void memory_note(struct fake_client *c, enum msg_type type, uint64_t bytes, uint32_t request)
{
	struct msg_memory note = {.bytes = bytes};

	msg_head_init(&note.head, type, sizeof(note), request);
	fake_send(c, &note, sizeof(note));
}

static void the_daemon_measures_a_process_on_the_device(void **state)
{
	struct msg_memory measured;
	struct fake_client c;
	char secret[33], text[64];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, secret, false), 0);
	fake_note(&c, MSG_MEASURE, 0);
	assert_true(fake_expect(&c, MSG_MEASURED, &measured, sizeof(measured), LONG_MS));
	assert_int_equal(measured.head.status, ENODATA);
	snprintf(text, sizeof(text), "%d 0 %d\n", (int)c.pid, 300 << 20);
	write_text(rig.processes, text);
	fake_note(&c, MSG_MEASURE, 0);
	assert_true(fake_expect(&c, MSG_MEASURED, &measured, sizeof(measured), LONG_MS));
	assert_int_equal(measured.head.status, 0);
	assert_int_equal(measured.head.request, 9);
	assert_int_equal(measured.bytes, 300 << 20);
	/* The process held only its context, so the daemon learns a context's size. */
	assert_int_equal(atomic_load(&c.devices[0].down->context_bytes), 300 << 20);
	fake_end(&c);
	rig_stop(&rig);
}

static uint64_t measure(struct rig *rig, struct fake_client *c, uint64_t bytes)
{
	struct msg_memory measured;
	char text[64];

	snprintf(text, sizeof(text), "%d 0 %" PRIu64 "\n", (int)c->pid, bytes);
	write_text(rig->processes, text);
	fake_note(c, MSG_MEASURE, 0);
	assert_true(fake_expect(c, MSG_MEASURED, &measured, sizeof(measured), LONG_MS));
	assert_int_equal(measured.bytes, bytes);
	return atomic_load(&c->devices[0].down->context_bytes);
}

/* A process's other memory must not become the expected context size of other tenants. */
static void context_sizes_are_learnt_per_tenant(void **state)
{
	const uint64_t mib = 1 << 20;
	struct fake_client c[4];
	char secret[4][33];
	struct rig rig;
	uint64_t guess;

	rig_start(&rig, "1xTest-80Gi", NULL);
	for (int i = 0; i < 4; i++) {
		rig_tenant(&rig, "{\"request\": \"0.2\", \"memory\": \"4Gi\"}", secret[i]);
		fake_start(&c[i]);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(fake_hello(&c[i], rig.socket, secret[i], false), 0);
	guess = atomic_load(&c[2].devices[0].down->context_bytes);
	assert_in_range(guess, mib, 1024 * mib);
	/*
	 * The daemon ignores a measured 20 GiB: no context is that large. It accepts 1 GiB for that
	 * tenant alone, and later a smaller size.
	 */
	assert_int_equal(measure(&rig, &c[0], 20480 * mib), guess);
	assert_int_equal(measure(&rig, &c[0], 1024 * mib), 1024 * mib);
	assert_int_equal(atomic_load(&c[2].devices[0].down->context_bytes), guess);
	assert_int_equal(measure(&rig, &c[0], 700 * mib), 700 * mib);
	/*
	 * a further tenant, present or later, expects the least size that two tenants have measured
	 */
	assert_int_equal(measure(&rig, &c[1], 600 * mib), 600 * mib);
	assert_int_equal(atomic_load(&c[0].devices[0].down->context_bytes), 700 * mib);
	assert_int_equal(atomic_load(&c[2].devices[0].down->context_bytes), 600 * mib);
	assert_int_equal(fake_hello(&c[3], rig.socket, secret[3], false), 0);
	assert_int_equal(atomic_load(&c[3].devices[0].down->context_bytes), 600 * mib);
	assert_int_equal(measure(&rig, &c[1], 300 * mib), 300 * mib);
	assert_int_equal(atomic_load(&c[3].devices[0].down->context_bytes), 300 * mib);
	for (int i = 0; i < 4; i++)
		fake_end(&c[i]);
	rig_stop(&rig);
}

static void memory_of_a_dead_process_is_freed(void **state)
{
	struct wanted wanted = {.tenant = "1", .member = "tenants.0.devices.0.memory_used_bytes"};
	struct fake_client a, b;
	char secret[33], text[64];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	wanted.rig = &rig;
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&a);
	fake_start(&b);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_int_equal(fake_hello(&b, rig.socket, secret, false), 0);
	assert_int_not_equal(a.devices[0].down->process, b.devices[0].down->process);
	assert_true(fake_reserve(&a, 6 << 20));
	assert_true(fake_reserve(&b, 4 << 20));
	wanted.value = 10 << 20;
	assert_true(is_so(&wanted));
	/* A dead process's memory counts while the device still lists the process. */
	snprintf(text, sizeof(text), "%d 0 %d\n", (int)a.pid, 6 << 20);
	write_text(rig.processes, text);
	fake_end(&a);
	clock_sleep_until_ns(clock_now_ns() + 100 * NSEC_PER_MSEC);
	assert_true(is_so(&wanted));
	write_text(rig.processes, "");
	wanted.value = 4 << 20;
	assert_true(rig_until(is_so, &wanted, LONG_MS));
	fake_end(&b);
	wanted.value = 0;
	assert_true(rig_until(is_so, &wanted, LONG_MS));
	rig_stop(&rig);
}

static int share(
	struct fake_client *c, enum msg_type type, uint64_t id, uint64_t bytes, uint32_t flags)
{
	struct msg_share note = {.id = id, .bytes = bytes, .flags = flags};
	struct msg_memory reply;

	msg_head_init(&note.head, type, sizeof(note), 77);
	fake_send(c, &note, sizeof(note));
	assert_true(fake_expect(c, MSG_MEM_REPLY, &reply, sizeof(reply), LONG_MS));
	assert_int_equal(reply.head.request, 77);
	return reply.head.status;
}

/* Shared memory is charged from its first holder to its last, in whatever order they exit. */
static void shared_memory_is_charged_once(void **state)
{
	struct wanted wanted = {.tenant = "1", .member = "tenants.0.devices.0.memory_used_bytes"};
	const uint64_t gib = 1 << 30;
	struct fake_client a, b;
	char secret[33], text[64];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	wanted.rig = &rig;
	rig_tenant(&rig, "{\"request\": \"0.5\", \"memory\": \"4Gi\"}", secret);
	fake_start(&a);
	fake_start(&b);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_int_equal(fake_hello(&b, rig.socket, secret, false), 0);
	assert_true(a.welcome.flags & MSG_WELCOME_SHARES);
	assert_int_equal(share(&a, MSG_MEM_SHARE, 1, 3 * gib, 0), 0);
	assert_int_equal(share(&a, MSG_MEM_SHARE, 1, 3 * gib, 0), 0);
	assert_int_equal(share(&b, MSG_MEM_SHARE, 1, 3 * gib, 0), 0);
	wanted.value = (long long)(3 * gib);
	assert_true(is_so(&wanted));
	assert_int_equal(share(&b, MSG_MEM_SHARE, 2, 2 * gib, 0), ENOMEM);
	assert_true(is_so(&wanted));
	/*
	 * memory that exists already is charged even beyond the quota, but not beyond the device's
	 * memory
	 */
	assert_int_equal(share(&b, MSG_MEM_SHARE, 2, 2 * gib, MSG_SHARE_HELD), 0);
	assert_int_equal(share(&b, MSG_MEM_SHARE, 3, 81 * gib, MSG_SHARE_HELD), EINVAL);
	assert_int_equal(share(&b, MSG_MEM_UNSHARE, 3, 0, 0), 0);
	wanted.value = (long long)(5 * gib);
	assert_true(is_so(&wanted));
	assert_int_equal(share(&a, MSG_MEM_UNSHARE, 2, 0, 0), 0); /* a does not hold it */
	assert_int_equal(share(&a, MSG_MEM_UNSHARE, 1, 0, 0), 0);
	assert_true(is_so(&wanted));
	/* the last holder dies: the memory stays charged while the device lists that process */
	snprintf(text, sizeof(text), "%d 0 %d\n", (int)b.pid, 1 << 20);
	write_text(rig.processes, text);
	fake_end(&b);
	clock_sleep_until_ns(clock_now_ns() + 100 * NSEC_PER_MSEC);
	assert_true(is_so(&wanted));
	write_text(rig.processes, "");
	wanted.value = 0;
	assert_true(rig_until(is_so, &wanted, LONG_MS));
	fake_end(&a);
	rig_stop(&rig);
}

static void the_number_of_shares_is_limited(void **state)
{
	struct wanted wanted = {.tenant = "1", .member = "tenants.0.devices.0.memory_used_bytes"};
	struct fake_client c;
	char secret[33];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	wanted.rig = &rig;
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, secret, false), 0);
	for (uint64_t id = 1; id <= SHARES_MAX; id++)
		assert_int_equal(share(&c, MSG_MEM_SHARE, id, 4096, 0), 0);
	assert_int_equal(share(&c, MSG_MEM_SHARE, SHARES_MAX + 1, 4096, 0), ENOSPC);
	wanted.value = SHARES_MAX * 4096;
	assert_true(is_so(&wanted));
	assert_int_equal(share(&c, MSG_MEM_UNSHARE, 1, 0, 0), 0);
	assert_int_equal(share(&c, MSG_MEM_SHARE, SHARES_MAX + 1, 4096, 0), 0);
	fake_end(&c);
	wanted.value = 0;
	assert_true(rig_until(is_so, &wanted, LONG_MS));
	rig_stop(&rig);
}

static void a_running_programs_quota_can_change(void **state)
{
	struct fake_client c;
	char secret[33];
	struct rig rig;
	int id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	id = rig_tenant(&rig, "{\"request\": \"0.5\", \"memory\": \"1Gi\"}", secret);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, secret, false), 0);
	json_decref(rig_do(
		&rig, "{s:s, s:i, s:{s:s}}", "cmd", "set", "tenant", id, "spec", "memory", "2Gi"));
	assert_int_equal(atomic_load(&c.devices[0].down->quota_bytes), 2ull << 30);
	fake_end(&c);
	rig_stop(&rig);
}

static void a_reservation_waits_for_free_memory(void **state)
{
	static const char spec[] =
		"{\"request\": \"0.3\", \"memory\": \"50Gi\", \"memory-policy\": \"wait\"}";
	struct msg_memory reply;
	struct fake_client a, b;
	char secret[33];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	fake_start(&a);
	fake_start(&b);
	rig_tenant(&rig, spec, secret);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	rig_tenant(&rig, spec, secret);
	assert_int_equal(fake_hello(&b, rig.socket, secret, false), 0);
	assert_true(atomic_load(&a.devices[0].down->flags) & PAGE_MEM_RPC);
	memory_note(&a, MSG_MEM_RESERVE, 50ull << 30, 21);
	assert_true(fake_expect(&a, MSG_MEM_REPLY, &reply, sizeof(reply), LONG_MS));
	assert_int_equal(reply.head.status, 0);
	assert_int_equal(reply.head.request, 21);
	memory_note(&b, MSG_MEM_RESERVE, 60ull << 30, 22); /* above b's own quota */
	assert_true(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), LONG_MS));
	assert_int_equal(reply.head.status, ENOMEM);
	memory_note(&b, MSG_MEM_RESERVE, 40ull << 30, 23);
	assert_false(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), 100));
	memory_note(&a, MSG_MEM_RELEASE, 50ull << 30, 24);
	assert_true(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), LONG_MS));
	assert_int_equal(reply.head.status, 0);
	assert_int_equal(reply.head.request, 23);
	/* A process's death frees memory for a waiting process, too. */
	memory_note(&a, MSG_MEM_RESERVE, 50ull << 30, 25);
	assert_false(fake_expect(&a, MSG_MEM_REPLY, &reply, sizeof(reply), 100));
	fake_end(&b);
	assert_true(fake_expect(&a, MSG_MEM_REPLY, &reply, sizeof(reply), LONG_MS));
	assert_int_equal(reply.head.status, 0);
	fake_end(&a);
	rig_stop(&rig);
}

/* A removed tenant's memory stays on the device while its program runs: no other tenant gets it. */
static void removed_tenants_keep_their_shared_memory(void **state)
{
	static const char spec[] =
		"{\"request\": \"0.3\", \"memory\": \"50Gi\", \"memory-policy\": \"wait\"}";
	struct fake_client a[2], b;
	struct msg_memory reply;
	char secret[33];
	struct rig rig;
	int id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	fake_start(&a[0]);
	fake_start(&a[1]);
	fake_start(&b);
	id = rig_tenant(&rig, spec, secret);
	assert_int_equal(fake_hello(&a[0], rig.socket, secret, false), 0);
	assert_int_equal(fake_hello(&a[1], rig.socket, secret, false), 0);
	rig_tenant(&rig, spec, secret);
	assert_int_equal(fake_hello(&b, rig.socket, secret, false), 0);
	assert_int_equal(share(&a[0], MSG_MEM_SHARE, 1, 50ull << 30, 0), 0);
	assert_int_equal(share(&a[1], MSG_MEM_SHARE, 1, 50ull << 30, 0), 0);
	memory_note(&b, MSG_MEM_RESERVE, 40ull << 30, 21);
	assert_false(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), 100));
	/* one holder releases the memory and takes it again, before the waiting tenant gets it */
	assert_int_equal(share(&a[0], MSG_MEM_UNSHARE, 1, 0, 0), 0);
	assert_false(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), 100));
	assert_int_equal(share(&a[0], MSG_MEM_SHARE, 1, 50ull << 30, MSG_SHARE_HELD), 0);
	json_decref(rig_do(&rig, "{s:s, s:i}", "cmd", "remove", "tenant", id));
	assert_false(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), 100));
	fake_end(&a[0]);
	fake_end(&a[1]);
	assert_true(fake_expect(&b, MSG_MEM_REPLY, &reply, sizeof(reply), LONG_MS));
	assert_int_equal(reply.head.status, 0);
	assert_int_equal(reply.head.request, 21);
	fake_end(&b);
	rig_stop(&rig);
}

static void rules_assign_processes_to_tenants(void **state)
{
	const char *args[] = {"--tenants", NULL, NULL};
	char conf[96] = "/tmp/divvy-test-conf-XXXXXX", text[256];
	int fd = mkstemp(conf);
	struct fake_client c;
	struct rig rig;
	json_t *a;

	close(fd);
	args[1] = conf;
	snprintf(text, sizeof(text),
		"# rules\nuid %u request=0.2 limit=0.4 memory=2Gi\ndefault refuse\n",
		(unsigned int)getuid());
	write_text(conf, text);
	rig_start(&rig, "1xTest-80Gi", args);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, NULL, false), 0);
	a = rig_do(&rig, "{s:s}", "cmd", "list");
	assert_string_equal(rig_text(a, "tenants.0.source"), "conf");
	assert_int_equal(rig_number(a, "tenants.0.spec.limit_permille"), 400);
	json_decref(a);
	fake_end(&c);
	rig_stop(&rig);
	write_text(conf, "default refuse\n");
	rig_start(&rig, "1xTest-80Gi", args);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, NULL, false), -EACCES);
	fake_end(&c);
	rig_stop(&rig);
	unlink(conf);
}

static void a_followed_file_creates_tenants(void **state)
{
	char path[128];
	struct wanted wanted = {.tenant = "one", .member = "tenants.0.spec.limit_permille"};
	struct rig rig;
	json_t *a;

	rig_start(&rig, "1xTest-80Gi", NULL);
	wanted.rig = &rig;
	snprintf(path, sizeof(path), "%s/test-resource-config.txt", rig.folder);
	write_text(path, "2\none 0.3 0.6 1073741824\ntwo 0.5 1.0 1073741824\n");
	a = rig_do(&rig, "{s:s, s:s}", "cmd", "apply", "path", path);
	assert_int_equal(json_array_size(rig_get(a, "tenants")), 2);
	assert_string_equal(rig_text(a, "tenants.0.action"), "created");
	assert_int_equal(strlen(rig_text(a, "tenants.0.secret")), 32);
	json_decref(a);
	wanted.value = 600;
	assert_true(is_so(&wanted));
	write_text(path, "1\none 0.3 0.8 1073741824\n");
	wanted.value = 800;
	assert_true(rig_until(is_so, &wanted, LONG_MS));
	wanted.tenant = "two";
	wanted.value = -1;
	assert_true(rig_until(is_so, &wanted, LONG_MS));
	/* An incomplete file changes nothing. */
	write_text(path, "2\none 0.3 0.9 1073741824\n");
	wanted = (struct wanted){
		.rig = &rig, .tenant = "one", .member = wanted.member, .value = 800};
	clock_sleep_until_ns(clock_now_ns() + 50 * NSEC_PER_MSEC);
	assert_true(is_so(&wanted));
	json_decref(rig_do(&rig, "{s:s, s:s, s:b}", "cmd", "apply", "path", path, "stop", 1));
	wanted.value = -1;
	assert_true(is_so(&wanted));
	rig_stop(&rig);
}

static void get(const char *socket_path, const char *url, struct buf *out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[128];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", url);
	assert_int_equal(fd_write_all(fd, request, strlen(request)), 0);
	assert_int_equal(fd_read_all(fd, out), 0);
}

static void metrics_are_served(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 20), health = BUF_INIT(4096);
	const char *args[] = {"--metrics", NULL, NULL};
	char address[96] = "unix:/tmp/divvy-test-metrics-XXXXXX";
	struct fake_client c;
	char secret[33];
	struct rig rig;

	assert_non_null(mkdtemp(address + 5));
	snprintf(address + strlen(address), 16, "/metrics");
	args[1] = address;
	rig_start(&rig, "1xTest-80Gi", args);
	rig_tenant(&rig, "{\"request\": \"0.5\", \"memory\": \"1Gi\"}", secret);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, secret, false), 0);
	assert_true(fake_acquire(&c, 0, LONG_MS));
	fake_submit(&c, 0);
	assert_true(fake_reserve(&c, 8 << 20));
	atomic_store(&c.devices[0].up->denied, 7);
	clock_sleep_until_ns(clock_now_ns() + 100 * NSEC_PER_MSEC);
	get(address + 5, "/metrics", &text);
	get(address + 5, "/healthz", &health);
	assert_non_null(strstr(buf_text(&health), "200 OK"));
	assert_non_null(strstr(buf_text(&text), "200 OK"));
	assert_non_null(strstr(buf_text(&text), "divvy_tenant_memory_bytes{tenant=\"1\""));
	assert_non_null(strstr(buf_text(&text), "} 8388608\n"));
	assert_non_null(strstr(buf_text(&text), "} 0.5\n"));
	assert_non_null(strstr(buf_text(&text), "divvy_tenant_memory_denied_total{tenant=\"1\""));
	assert_non_null(strstr(buf_text(&text), "} 7\n"));
	assert_non_null(strstr(buf_text(&text), "divvy_tenant_gpu_seconds_total{tenant=\"1\""));
	assert_non_null(strstr(buf_text(&text), "divvy_processes 1\n"));
	assert_null(strstr(buf_text(&text), "DCGM_")); /* only with --dcgm-metrics=on */
	fake_end(&c);
	rig_stop(&rig);
	/* The daemon has removed its socket. */
	assert_int_equal(access(address + 5, F_OK), -1);
	*strrchr(address, '/') = '\0';
	rmdir(address + 5);
}

/* Returns the number of lines that begin with `start`. */
static int count_lines(struct buf *text, const char *start)
{
	int n = 0;

	for (const char *p = buf_text(text); (p = strchr(p, '\n'));)
		n += !strncmp(++p, start, strlen(start));
	return n;
}

/* Two tenants on the first device are two series; the second device, without tenants, is one. */
static void dcgm_names_show_tenants_and_idle_devices(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
	const char *args[] = {"--dcgm-metrics=on", "--metrics", NULL, NULL};
	char address[96] = "unix:/tmp/divvy-test-metrics-XXXXXX", secret[2][33], line[256];
	const char *labels;
	struct fake_client c;
	struct rig rig;

	assert_non_null(mkdtemp(address + 5));
	snprintf(address + strlen(address), 16, "/metrics");
	args[2] = address;
	rig_start(&rig, "2xTest-80Gi", args);
	rig_tenant(&rig, "{\"request\": \"0.5\", \"memory\": \"1Gi\"}", secret[0]);
	rig_tenant(&rig, "{\"request\": \"0.2\", \"memory\": \"3Gi\"}", secret[1]);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, secret[0], false), 0);
	assert_true(fake_reserve(&c, 8 << 20));
	get(address + 5, "/metrics", &text);
	labels = strstr(buf_text(&text), "\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-");
	assert_non_null(labels);
	assert_non_null(strstr(labels, ",modelName=\"Test\",Hostname=\""));
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "tenant=\"%d\"} %d\n", i + 1, i ? 0 : 8);
		assert_non_null(strstr(labels, line));
		snprintf(line, sizeof(line), "tenant=\"%d\"} %d\n", i + 1, i ? 3072 : 1016);
		assert_non_null(strstr(labels, line));
	}
	assert_int_equal(count_lines(&text, "DCGM_FI_DEV_FB_USED{gpu=\"0\""), 2);
	assert_int_equal(count_lines(&text, "DCGM_FI_DEV_FB_USED{gpu=\"1\""), 1);
	assert_int_equal(count_lines(&text, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\""), 2);
	assert_int_equal(count_lines(&text, "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\""), 0);
	fake_end(&c);
	rig_stop(&rig);
	*strrchr(address, '/') = '\0';
	rmdir(address + 5);
}

/* Stops the daemon's main thread only, like a debugger. */
static bool stop_main_thread(pid_t pid)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
		return false;
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
	return true;
}

struct health {
	const char *path, *expected;
};

static bool is_health(void *data)
{
	const struct health *h = data;
	_cleanup_buf_ struct buf text = BUF_INIT(4096);

	get(h->path, "/healthz", &text);
	return strstr(buf_text(&text), h->expected) != NULL;
}

/*
 * HTTP has its own thread. It answers while the loop is stopped, and after a while its answer
 * reports the stopped loop.
 */
static void health_is_answered_while_the_loop_is_stopped(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
	const char *args[] = {"--metrics", NULL, NULL};
	char address[96] = "unix:/tmp/divvy-test-metrics-XXXXXX";
	struct health ok = {address + 5, "200 OK"}, bad = {address + 5, "503 "};
	struct rig rig;

	assert_non_null(mkdtemp(address + 5));
	snprintf(address + strlen(address), 16, "/metrics");
	args[1] = address;
	rig_start(&rig, "1xTest-80Gi", args);
	if (stop_main_thread(rig.daemon)) {
		assert_true(is_health(&ok));
		assert_true(rig_until(is_health, &bad, 100 * 1000));
		assert_int_equal(ptrace(PTRACE_DETACH, rig.daemon, NULL, NULL), 0);
		assert_true(rig_until(is_health, &ok, 100 * 1000));
	}
	get(address + 5, "/metrics", &text);
	assert_non_null(strstr(buf_text(&text), "divvy_tenants 0\n"));
	rig_stop(&rig);
	*strrchr(address, '/') = '\0';
	rmdir(address + 5);
}

static void an_idle_daemon_exits(void **state)
{
	static const char *const args[] = {"--exit-idle=100ms", NULL};
	struct rig rig;
	pid_t pid;

	rig_start(&rig, "1xTest-80Gi", args);
	assert_int_equal(rig_wait(rig.daemon), 0);
	assert_int_equal(access(rig.socket, F_OK), -1);
	/* A daemon without --exit-idle stays. */
	assert_int_equal(rig_another(&rig, "1xTest-80Gi", NULL, &pid), -1);
	rig.daemon = pid;
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_daemon_measures_a_process_on_the_device),
		cmocka_unit_test(context_sizes_are_learnt_per_tenant),
		cmocka_unit_test(memory_of_a_dead_process_is_freed),
		cmocka_unit_test(shared_memory_is_charged_once),
		cmocka_unit_test(the_number_of_shares_is_limited),
		cmocka_unit_test(a_running_programs_quota_can_change),
		cmocka_unit_test(a_reservation_waits_for_free_memory),
		cmocka_unit_test(removed_tenants_keep_their_shared_memory),
		cmocka_unit_test(rules_assign_processes_to_tenants),
		cmocka_unit_test(a_followed_file_creates_tenants),
		cmocka_unit_test(metrics_are_served),
		cmocka_unit_test(dcgm_names_show_tenants_and_idle_devices),
		cmocka_unit_test(health_is_answered_while_the_loop_is_stopped),
		cmocka_unit_test(an_idle_daemon_exits),
	};

	return cmocka_run_group_tests_name("agent-memory", tests, NULL, NULL);
}
