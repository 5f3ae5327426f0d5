/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token over real pages: the test acts as hook and device of several fake programs. Waits have
 * limits that a correct daemon never reaches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/rand.h"
#include "fake-client.h"
#include "rig.h"
#include "../../patience.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_MS patience_ms(60000)

struct pair {
	struct rig rig;
	struct fake_client a, b;
	int id_a, id_b;
};

static void client(struct rig *rig, const char *spec, struct fake_client *c, int *ret_id)
{
	char secret[33];

	*ret_id = rig_tenant(rig, spec, secret);
	fake_start(c);
	if (fake_hello(c, rig->socket, secret, false) < 0)
		fail_msg("refused: %s", c->refused);
}

static void start(struct pair *p, const char *spec_a, const char *spec_b)
{
	rig_start(&p->rig, "1xTest-80Gi", NULL);
	client(&p->rig, spec_a, &p->a, &p->id_a);
	client(&p->rig, spec_b, &p->b, &p->id_b);
}

static void stop(struct pair *p)
{
	fake_end(&p->a);
	fake_end(&p->b);
	rig_stop(&p->rig);
}

static void pages_show_the_tenants_limits(void **state)
{
	struct pair p;
	const struct page_down *down;

	start(&p, "{\"request\": \"0.5\", \"memory\": \"4Gi\"}", "{\"request\": \"0.5\"}");
	down = p.a.devices[0].down;
	assert_int_equal(down->magic, PAGE_MAGIC);
	assert_int_equal(down->abi, PAGE_ABI);
	assert_int_equal(down->size, sizeof(*down));
	assert_int_equal(atomic_load(&down->quota_bytes), 4ull << 30);
	assert_true(atomic_load(&down->context_bytes) > 0);
	assert_int_equal(down->device_bytes, 80ull << 30);
	assert_int_equal(atomic_load(&down->gate), GATE_CLOSED);
	assert_true(down->process > 0);
	assert_int_equal(p.a.welcome.tenant, p.id_a);
	assert_true(p.a.welcome.flags & MSG_WELCOME_SIMULATED);
	assert_int_equal(p.a.welcome.device[0].quota_bytes, 4ull << 30);
	stop(&p);
}

static void a_want_opens_the_gate(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	assert_int_equal(atomic_load(&p.b.devices[0].down->gate), GATE_CLOSED);
	assert_true(atomic_load(&p.a.devices[0].down->grant) >= 1);
	stop(&p);
}

static void an_idle_holder_loses_the_token(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit(&p.a, 0);
	fake_complete(&p.a, 0);
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	assert_int_equal(atomic_load(&p.a.devices[0].down->gate), GATE_CLOSED);
	stop(&p);
}

static void a_busy_holder_is_closed_and_drained(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit(&p.a, 0);
	fake_want(&p.b, 0);
	/* a's quantum ends while its work is still in flight. */
	assert_true(fake_await_gate(&p.a, 0, GATE_CLOSED, LONG_MS));
	fake_complete(&p.a, 0);
	assert_true(fake_await_gate(&p.b, 0, GATE_OPEN, LONG_MS));
	stop(&p);
}

static uint32_t grants_of(const struct fake_client *c)
{
	return atomic_load(&c->devices[0].down->grant);
}

/*
 * A program that is granted the token and gets no processor does not submit. The arbiter then opens
 * the other gate, too, so on a busy machine some turns pass without a grant.
 */
static void two_tenants_take_turns(void **state)
{
	const uint64_t deadline = clock_now_ns() + (uint64_t)LONG_MS * NSEC_PER_MSEC;
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	for (int i = 0; grants_of(&p.a) < 10 || grants_of(&p.b) < 10; i++) {
		struct fake_client *c = i % 2 ? &p.b : &p.a;

		assert_true(clock_now_ns() < deadline);
		assert_true(fake_acquire(c, 0, LONG_MS));
		fake_submit(c, 0);
		fake_complete(c, 0);
	}
	stop(&p);
}

static void a_frozen_holder_loses_the_token(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit(&p.a, 0);
	kill(p.a.pid, SIGSTOP);
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	kill(p.a.pid, SIGCONT);
	stop(&p);
}

static void a_thread_stuck_in_a_launch_loses_the_token(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	atomic_store(&p.a.devices[0].up->line[0].in_launch, 1);
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	stop(&p);
}

static void a_dead_holder_loses_the_token(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit(&p.a, 0);
	fake_want(&p.b, 0);
	fake_end(&p.a);
	assert_true(fake_await_gate(&p.b, 0, GATE_OPEN, LONG_MS));
	stop(&p);
}

static void unmarked_submissions_are_flushed(void **state)
{
	struct pair p;
	uint32_t flush;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	flush = atomic_load(&p.a.devices[0].down->flush);
	fake_submit_unmarked(&p.a, 0);
	fake_want(&p.b, 0);
	assert_true(fake_expect(&p.a, MSG_FLUSH, NULL, 0, LONG_MS));
	assert_int_not_equal(atomic_load(&p.a.devices[0].down->flush), flush);
	fake_mark(&p.a, 0);
	fake_complete(&p.a, 0);
	assert_true(fake_await_gate(&p.b, 0, GATE_OPEN, LONG_MS));
	stop(&p);
}

static void a_frozen_program_with_unmarked_submissions_loses_the_token(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit_unmarked(&p.a, 0);
	kill(p.a.pid, SIGSTOP);
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	/* a's gate is closed in the end, although a is frozen. */
	assert_true(fake_await_gate(&p.a, 0, GATE_CLOSED, LONG_MS));
	stop(&p);
}

static void a_release_hands_over_the_token(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit(&p.a, 0);
	fake_want(&p.b, 0);
	fake_complete(&p.a, 0);
	fake_note(&p.a, MSG_RELEASE, 0);
	assert_true(fake_await_gate(&p.b, 0, GATE_OPEN, LONG_MS));
	stop(&p);
}

/*
 * `from` runs and `to` waits. Returns whether a yield closed the gate well before the turn's 2 s
 * were over.
 */
static bool yields(struct fake_client *from, struct fake_client *to)
{
	uint64_t said;
	bool was_open;

	assert_true(fake_acquire(from, 0, LONG_MS));
	fake_submit(from, 0);
	fake_want(to, 0);
	while (!atomic_load(&from->devices[0].down->turn_ends_ns) &&
		atomic_load(&from->devices[0].down->gate) == GATE_OPEN)
		sched_yield();
	was_open = atomic_load(&from->devices[0].down->gate) == GATE_OPEN;
	said = clock_now_ns();
	fake_note(from, MSG_YIELD, 0);
	assert_true(fake_await_gate(from, 0, GATE_CLOSED, LONG_MS));
	was_open &= clock_now_ns() - said < NSEC_PER_SEC;
	fake_complete(from, 0);
	assert_true(fake_await_gate(to, 0, GATE_OPEN, LONG_MS));
	return was_open;
}

static void a_yield_hands_over_the_token(void **state)
{
	static const char spec[] = "{\"request\": \"0.5\", \"memory_policy\": \"swap\"}";
	struct pair p;
	bool has_yielded = false, is_said = false;
	uint64_t late;

	start(&p, spec, spec);
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	/*
	 * One round may not suffice. has_yielded counts only b's turns: in its first turn a was
	 * alone, so the daemon closes a's gate even without a yield. A stall of this machine can
	 * spoil any round. is_said: the daemon sets b's drained_ns only if it sees b's work
	 * complete soon after a look that saw the work unfinished.
	 */
	for (int round = 0; round < 200 && !(has_yielded && is_said); round++) {
		yields(&p.a, &p.b);
		has_yielded |= yields(&p.b, &p.a);
		late = clock_now_ns() + 50 * NSEC_PER_MSEC;
		while (!(is_said = atomic_load(&p.b.devices[0].down->drained_ns) != 0) &&
			clock_now_ns() < late)
			sched_yield();
	}
	assert_true(has_yielded);
	assert_true(is_said);
	stop(&p);
}

static void a_latency_tenant_preempts_at_once(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\", \"class\": \"opportunistic\"}",
		"{\"request\": \"0.5\", \"class\": \"latency\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	fake_submit(&p.a, 0);
	/* b's gate opens although a's work is still in flight. */
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	assert_int_equal(atomic_load(&p.a.devices[0].down->gate), GATE_CLOSED);
	stop(&p);
}

static void a_removed_tenant_loses_its_grant(void **state)
{
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	assert_true(fake_acquire(&p.a, 0, LONG_MS));
	json_decref(rig_do(&p.rig, "{s:s, s:i}", "cmd", "remove", "tenant", p.id_a));
	assert_true(fake_await_gate(&p.a, 0, GATE_CLOSED, LONG_MS));
	assert_true(fake_is_hung_up(&p.a, LONG_MS));
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	stop(&p);
}

static void false_counters_harm_only_their_own_tenant(void **state)
{
	struct rand rand = rand_seeded(7);
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	for (int round = 0; round < 300; round++) {
		uint8_t *up = (uint8_t *)p.a.devices[0].up;
		uint8_t *tenant = (uint8_t *)p.a.devices[0].tenant;

		for (int i = 0; i < 200; i++) {
			up[rand_below(&rand, sizeof(struct page_up))] = (uint8_t)rand_u64(&rand);
			tenant[rand_below(&rand, sizeof(struct page_tenant))] = (uint8_t)rand_u64(
				&rand);
		}
		fake_note(&p.a, round % 2 ? MSG_WANT : MSG_RELEASE, 0);
		if (round % 50)
			continue;
		assert_true(fake_acquire(&p.b, 0, LONG_MS));
		fake_submit(&p.b, 0);
		fake_complete(&p.b, 0);
	}
	assert_int_equal(atomic_load(&p.b.devices[0].tenant->word), 0);
	json_decref(rig_do(&p.rig, "{s:s}", "cmd", "list"));
	stop(&p);
}

static void an_invalid_packet_ends_only_its_connection(void **state)
{
	struct rand rand = rand_seeded(11);
	uint8_t packet[256];
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	for (int round = 0; round < 200; round++) {
		struct msg_head *head = (struct msg_head *)packet;
		struct fake_client c;
		uint32_t n;

		if (round % 20 == 0)
			fake_start(&c);
		for (size_t i = 0; i < sizeof(packet); i++)
			packet[i] = (uint8_t)rand_u64(&rand);
		n = (uint32_t)(1 + rand_below(&rand, sizeof(packet) - 1));
		if (round % 2) { /* a plausible header */
			head->size = n;
			head->type = (uint16_t)rand_below(&rand, MSG_TYPES + 1);
			head->abi = MSG_ABI;
		}
		fake_hello_send(&c, p.rig.socket, NULL, round % 3 == 0);
		fake_send(&c, packet, n);
		if (round % 20 == 19)
			fake_end(&c);
	}
	assert_true(fake_acquire(&p.b, 0, LONG_MS));
	stop(&p);
}

static void programs_without_a_secret_get_the_default_tenant(void **state)
{
	static const char *const refuse[] = {"--refuse-unmanaged", NULL};
	struct fake_client c;
	struct rig rig;
	json_t *a;

	rig_start(&rig, "2xTest-80Gi", NULL);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, NULL, false), 0);
	assert_int_equal(c.welcome.devices, 2);
	a = rig_do(&rig, "{s:s}", "cmd", "list");
	assert_string_equal(rig_text(a, "tenants.0.source"), "default");
	assert_string_equal(rig_text(a, "tenants.0.spec.class"), "opportunistic");
	assert_int_equal(rig_number(a, "tenants.0.devices.0.memory_quota_bytes"), 80ll << 30);
	json_decref(a);
	assert_true(fake_acquire(&c, 1, LONG_MS));
	fake_end(&c);
	rig_stop(&rig);

	rig_start(&rig, "1xTest-80Gi", refuse);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, NULL, false), -EACCES);
	assert_non_null(strstr(c.refused, "divvy run"));
	fake_end(&c);
	rig_stop(&rig);
}

static void a_wrong_secret_is_refused(void **state)
{
	struct fake_client c;
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	fake_start(&c);
	assert_int_equal(
		fake_hello(&c, rig.socket, "00112233445566778899aabbccddeeff", false), -ENOENT);
	fake_end(&c);
	rig_stop(&rig);
}

static void a_process_belongs_to_one_tenant_for_life(void **state)
{
	char secret[33];
	struct pair p;

	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.4\"}");
	rig_tenant(&p.rig, "{\"request\": \"0.1\"}", secret);
	assert_int_equal(fake_hello(&p.a, p.rig.socket, secret, false), -EPERM);
	stop(&p);
}

/*
 * Makes a folder below this process's cgroup, in the hierarchy where that cgroup is deepest. False
 * if impossible.
 */
static bool cgroup_make(char *ret, size_t size)
{
	char line[512], path[256], name[64], best[256] = "", where[64] = "";
	FILE *f = fopen("/proc/self/cgroup", "re");

	while (f && fgets(line, sizeof(line), f)) {
		name[0] = '\0';
		if (sscanf(line, "0::%255s", path) != 1 &&
			sscanf(line, "%*d:%63[^:]:%255s", name, path) != 2)
			continue;
		if (strlen(path) <= strlen(best) || strchr(name, '='))
			continue;
		memcpy(best, path, sizeof(best));
		memcpy(where, name, sizeof(where));
	}
	if (f)
		fclose(f);
	snprintf(ret, size, "/sys/fs/cgroup/%s%s/divvy-test-%d", where, best, (int)getpid());
	return best[0] && best[1] && mkdir(ret, 0755) == 0;
}

static bool cgroup_enter(const char *folder, pid_t pid)
{
	char path[600];
	FILE *f;
	int r;

	snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	f = fopen(path, "we");
	if (!f)
		return false;
	r = fprintf(f, "%d\n", (int)pid);
	return fclose(f) == 0 && r > 0;
}

static void let_all_in(struct rig *rig)
{
	assert_int_equal(chmod(rig->folder, 0755), 0);
	assert_int_equal(chmod(rig->socket, 0666), 0);
}

static void a_container_is_known_by_its_cgroup(void **state)
{
	const uid_t nobody = 65534;
	struct fake_client c, other;
	char folder[512], secret[33];
	struct rig rig;
	json_t *a;

	if (getuid() != 0 || !cgroup_make(folder, sizeof(folder)))
		skip(); /* needs root and a cgroup to write to */
	rig_start(&rig, "1xTest-80Gi", NULL);
	let_all_in(&rig);
	a = rig_do(&rig, "{s:s, s:{s:s}, s:b}", "cmd", "create", "spec", "request", "0.5",
		"container", 1);
	snprintf(secret, sizeof(secret), "%s", rig_text(a, "secret"));
	json_decref(a);
	/* in the creator's cgroup, other users' processes are refused */
	fake_start(&other);
	fake_become(&other, nobody);
	assert_int_equal(fake_hello(&other, rig.socket, secret, false), -EACCES);
	fake_start(&c);
	assert_true(cgroup_enter(folder, c.pid));
	fake_become(&c, nobody);
	assert_int_equal(fake_hello(&c, rig.socket, secret, false), 0);
	assert_int_equal(fake_hello(&other, rig.socket, secret, false), -EACCES);
	assert_non_null(strstr(other.refused, "divvy-test-"));
	fake_end(&other);
	/* root outside the container's cgroup is refused, too; a restart changes nothing */
	fake_start(&other);
	assert_int_equal(fake_hello(&other, rig.socket, secret, false), -EACCES);
	rig_kill(&rig);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	let_all_in(&rig);
	assert_int_equal(fake_hello(&other, rig.socket, secret, false), -EACCES);
	assert_int_equal(fake_hello(&c, rig.socket, secret, true), 0);
	fake_end(&other);
	fake_end(&c);
	rig_stop(&rig);
	while (rmdir(folder) < 0 && errno == EBUSY)
		usleep(1000);
}

static void gate_off_leaves_all_gates_open(void **state)
{
	struct pair p;

	setenv("DIVVY_GATE", "off", 1);
	start(&p, "{\"request\": \"0.5\"}", "{\"request\": \"0.5\"}");
	unsetenv("DIVVY_GATE");
	assert_true(fake_await_gate(&p.a, 0, GATE_OPEN, LONG_MS));
	assert_true(fake_await_gate(&p.b, 0, GATE_OPEN, LONG_MS));
	stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_show_the_tenants_limits),
		cmocka_unit_test(a_want_opens_the_gate),
		cmocka_unit_test(an_idle_holder_loses_the_token),
		cmocka_unit_test(a_busy_holder_is_closed_and_drained),
		cmocka_unit_test(two_tenants_take_turns),
		cmocka_unit_test(a_frozen_holder_loses_the_token),
		cmocka_unit_test(a_thread_stuck_in_a_launch_loses_the_token),
		cmocka_unit_test(a_dead_holder_loses_the_token),
		cmocka_unit_test(unmarked_submissions_are_flushed),
		cmocka_unit_test(a_frozen_program_with_unmarked_submissions_loses_the_token),
		cmocka_unit_test(a_release_hands_over_the_token),
		cmocka_unit_test(a_yield_hands_over_the_token),
		cmocka_unit_test(a_latency_tenant_preempts_at_once),
		cmocka_unit_test(a_removed_tenant_loses_its_grant),
		cmocka_unit_test(false_counters_harm_only_their_own_tenant),
		cmocka_unit_test(an_invalid_packet_ends_only_its_connection),
		cmocka_unit_test(programs_without_a_secret_get_the_default_tenant),
		cmocka_unit_test(a_wrong_secret_is_refused),
		cmocka_unit_test(a_process_belongs_to_one_tenant_for_life),
		cmocka_unit_test(a_container_is_known_by_its_cgroup),
		cmocka_unit_test(gate_off_leaves_all_gates_open),
	};

	return cmocka_run_group_tests_name("agent-token", tests, NULL, NULL);
}
