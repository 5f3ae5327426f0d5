/* SPDX-License-Identifier: Apache-2.0 */
/* How many tenants there can be, and which ids they get. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent-client.h"
#include "agent/control.h"
#include "agent/user.h"
#include "base/cleanup.h"
#include "own-agent.h"

#define SOMEBODY 12345u
#define ANOTHER 12346u

static void ids_are_neither_0_nor_in_use(void **state)
{
	struct tenant *t[5];
	struct rig rig;

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t[0]));
	assert_int_equal(t[0]->id, 1);
	assert_ok(rig_make_tenant(&rig, 0, &t[1]));
	assert_int_equal(t[1]->id, 2);
	/* The tenant is removed, but still in the reports. */
	tenant_kill(t[1]);
	agent_after_batch(rig.agent);
	rig.agent->next_tenant = UINT32_MAX;
	assert_ok(rig_make_tenant(&rig, 0, &t[2]));
	assert_int_equal(t[2]->id, UINT32_MAX);
	assert_int_not_equal(rig.agent->next_tenant, 0);
	assert_ok(rig_make_tenant(&rig, 0, &t[3]));
	assert_int_equal(t[3]->id, 3);
	rig.agent->next_tenant = UINT32_MAX;
	assert_ok(rig_make_tenant(&rig, 0, &t[4]));
	assert_int_equal(t[4]->id, 4);
	rig_stop(&rig);
}

static uint32_t make_all(struct rig *rig, uid_t uid)
{
	struct tenant *t;
	uint32_t n = 0;
	int r;

	while ((r = rig_make_tenant(rig, uid, &t)) == 0)
		n++;
	assert_int_equal(r, -EUSERS);
	/* Other users can still make tenants. */
	assert_ok(rig_make_tenant(rig, ANOTHER, &t));
	assert_ok(rig_make_tenant(rig, 0, &t));
	return n;
}

static void one_user_leaves_room_for_others(void **state)
{
	struct rig rig;

	rig_start(&rig);
	assert_int_equal(make_all(&rig, SOMEBODY),
		MIN(TENANTS_PER_USER, users_files_max(rig.agent->users) / 2));
	rig_stop(&rig);
}

static void one_user_leaves_descriptors_for_others(void **state)
{
	struct rlimit files;
	struct rig rig;
	rlim_t before;

	assert_ok(getrlimit(RLIMIT_NOFILE, &files));
	before = files.rlim_cur;
	files.rlim_cur = 512;
	assert_ok(setrlimit(RLIMIT_NOFILE, &files));
	rig_start(&rig);
	/*
	 * The limit counts two descriptors for each tenant: the page of its device, and its owner's
	 * pidfd.
	 */
	assert_int_equal(make_all(&rig, SOMEBODY), users_files_max(rig.agent->users) / 2);
	assert_in_range(users_files_max(rig.agent->users), 8, 512 / 4);
	rig_stop(&rig);
	files.rlim_cur = before;
	assert_ok(setrlimit(RLIMIT_NOFILE, &files));
}

static void one_user_leaves_room_for_waiting_requests_of_others(void **state)
{
	static const char text[] =
		"{\"cmd\":\"create\",\"spec\":{\"request\":\"2\"},\"wait_ms\":-1}";
	_Alignas(8) char packet[sizeof(struct msg_control) + sizeof(text)] = "";
	struct msg_control *m = (struct msg_control *)packet;
	const uint32_t size = (uint32_t)(sizeof(*m) + strlen(text));
	struct conn *c;
	struct rig rig;
	struct tenant *t;
	uint32_t waiting = 0;
	int pair[2];

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t));
	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_ok(client_accept(rig.agent, pair[0], USER_UID, 0, &c));
	c->uid = SOMEBODY;
	c->user->is_trusted = false;
	msg_head_init(&m->head, MSG_CONTROL, size, 1);
	memcpy(m->text, text, strlen(text));
	for (;; waiting++) {
		assert_true(waiting <= 1000);
		client_packet(c, packet, size, NULL, 0);
		if (recv(pair[1], packet, sizeof(packet), MSG_DONTWAIT) >= 0)
			break;
		m->head.type = MSG_CONTROL;
	}
	assert_int_equal(m->head.status, EUSERS);
	assert_int_equal(waiting, CONTROL_WAITING_PER_USER);
	close(pair[1]);
	rig_stop(&rig);
}

static bool has_no_conns(const struct rig *rig)
{
	return LIST_EMPTY(&rig->agent->conns);
}

/*
 * The client reads nothing more and has several waiting requests: the first answer closes its
 * connection.
 */
static void an_unread_answer_closes_only_its_connection(void **state)
{
	static const char *const texts[] = {
		"{\"cmd\":\"create\",\"spec\":{\"request\":\"2\"},\"wait_ms\":20}",
		"{\"cmd\":\"create\",\"spec\":{\"request\":\"2\"},\"wait_ms\":-1}"};
	_Alignas(8) char packet[sizeof(struct msg_control) + 128] = "";
	struct msg_control *m = (struct msg_control *)packet;
	struct rig rig;
	struct tenant *t;
	int pair[2];

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t));
	for (size_t first = 0; first < ARRAY_SIZE(texts); first++) {
		struct conn *c;

		assert_ok(socketpair(
			AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
		assert_ok(client_accept(rig.agent, pair[0], USER_UID, 0, &c));
		for (size_t i = 0; i < 4; i++) {
			const char *text = texts[(first + i) % ARRAY_SIZE(texts)];
			const uint32_t size = (uint32_t)(sizeof(*m) + strlen(text));

			msg_head_init(&m->head, MSG_CONTROL, size, 1);
			memcpy(m->text, text, strlen(text));
			client_packet(c, packet, size, NULL, 0);
		}
		assert_ok(shutdown(pair[1], SHUT_RD));
		while (!has_no_conns(&rig)) {
			assert_true(loop_run_once(rig.agent->loop, CLOCK_NEVER) >= 0);
			agent_after_batch(rig.agent);
		}
		close(pair[1]);
	}
	rig_stop(&rig);
}

UNIT_MAIN(UNIT(ids_are_neither_0_nor_in_use), UNIT(one_user_leaves_room_for_others),
	UNIT(one_user_leaves_descriptors_for_others),
	UNIT(one_user_leaves_room_for_waiting_requests_of_others),
	UNIT(an_unread_answer_closes_only_its_connection))
