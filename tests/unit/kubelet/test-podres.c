/* SPDX-License-Identifier: Apache-2.0 */
/* The kubelet's list of containers and their devices, from a simulated kubelet. */
#include "kubelet/podres.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kubelet/grpc-server.h"
#include "kubelet/podresources.pb-c.h"
#include "kubelet/unpack.h"
#include "unit.h"

static struct rig {
	struct loop *loop;
	char folder[64], socket[96];
	struct grpc_server *kubelet;
	struct podres *podres;
	struct buf list; /* the kubelet's answer */
	int n_v1, n_v1alpha1;
	int n_refuse; /* number of calls that the kubelet refuses first */
	bool is_slow;
	struct grpc_call *slow;
	/* the answers */
	int n_answers, n_failures;
	char who[128];
	struct error err;
} rig;

/* ---- the kubelet ---- */

static void list_v1(struct grpc_call *call, struct str request)
{
	rig.n_v1++;
	assert_int_equal(request.n, 0);
	if (rig.n_refuse > 0) {
		rig.n_refuse--;
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "rejected by rate limit");
	} else if (rig.is_slow) {
		rig.slow = call;
	} else {
		grpc_call_reply(call, buf_str(&rig.list));
	}
}

static void list_v1alpha1(struct grpc_call *call, struct str request)
{
	rig.n_v1alpha1++;
	grpc_call_reply(call, buf_str(&rig.list));
}

static const struct grpc_method both[] = {
	{"/v1alpha1.PodResourcesLister/List", list_v1alpha1},
	{"/v1.PodResourcesLister/List", list_v1},
};

/*
 * pod-a has two containers with a slot each. pod-b has a device of another resource with the id
 * "slot-1".
 */
static void make_list(void)
{
	char slot1[] = "slot-1", slot2[] = "slot-2", x[] = "x", space[] = "default";
	char *ids1[] = {slot1}, *ids2[] = {slot2, x};
	char resources[][16] = {"divvy.gpu/slot", "divvy.gpu/slot", "other/slot"};
	char containers[][4] = {"one", "two", "one"}, pods[][8] = {"pod-a", "pod-b"};
	Podres__ContainerDevices d[3], *pd[3] = {&d[0], &d[1], &d[2]};
	Podres__ContainerResources c[3], *pc[3] = {&c[0], &c[1], &c[2]};
	Podres__PodResources p[2], *pp[2] = {&p[0], &p[1]};
	Podres__ListResponse list = PODRES__LIST_RESPONSE__INIT;

	for (int i = 0; i < 3; i++) {
		podres__container_devices__init(&d[i]);
		podres__container_resources__init(&c[i]);
		d[i].resource_name = resources[i];
		d[i].device_ids = i == 1 ? ids2 : ids1;
		d[i].n_device_ids = i == 1 ? 2 : 1;
		c[i].name = containers[i];
		c[i].devices = &pd[i];
		c[i].n_devices = 1;
	}
	for (int i = 0; i < 2; i++) {
		podres__pod_resources__init(&p[i]);
		p[i].name = pods[i];
		p[i].namespace_ = space;
		p[i].containers = i ? &pc[2] : &pc[0];
		p[i].n_containers = i ? 1 : 2;
	}
	list.pod_resources = pp;
	list.n_pod_resources = 2;
	assert_ok(pack(&list.base, &rig.list));
}

static void start(const struct grpc_method *methods, size_t n)
{
	struct error err;

	assert_ok(grpc_server_new(rig.loop, methods, n, NULL, &rig.kubelet));
	assert_ok(grpc_server_listen(rig.kubelet, rig.socket, &err));
}

static int set_up(void **state)
{
	rig = (struct rig){0};
	snprintf(rig.folder, sizeof(rig.folder), "/tmp/divvy-podres-XXXXXX");
	assert_non_null(mkdtemp(rig.folder));
	snprintf(rig.socket, sizeof(rig.socket), "%s/kubelet.sock", rig.folder);
	assert_ok(loop_new(&rig.loop));
	assert_ok(podres_new(rig.loop, rig.socket, 0, &rig.podres));
	make_list();
	return 0;
}

static int tear_down(void **state)
{
	podres_free(rig.podres);
	grpc_server_free(rig.kubelet);
	loop_free(rig.loop);
	buf_done(&rig.list);
	return rmdir(rig.folder);
}

/* ---- questions ---- */

static void on_list(void *data, const struct podres_list *list, const struct error *err)
{
	const struct podres_container *c = NULL;

	if (!list) {
		rig.n_failures++;
		rig.err = *err;
		return;
	}
	rig.n_answers++;
	if (data) {
		int r = podres_find(list, STR("divvy.gpu/slot"), str_from(data), &c);

		snprintf(rig.who, sizeof(rig.who), "%d", r);
	}
	if (c)
		snprintf(rig.who, sizeof(rig.who), "%s/%s/%s", c->space, c->pod, c->name);
}

static void ask(const char *slot)
{
	int n = rig.n_answers;

	assert_ok(podres_ask(rig.podres, on_list, (void *)(uintptr_t)slot, NULL));
	assert_int_equal(rig.n_answers, n); /* never called before podres_ask() returns */
	while (rig.n_answers == n)
		loop_run_once(rig.loop, CLOCK_NEVER);
}

static void a_slot_names_pod_and_container(void **state)
{
	start(both, 2);
	ask("slot-1");
	assert_string_equal(rig.who, "default/pod-a/one");
	ask("slot-2");
	assert_string_equal(rig.who, "default/pod-a/two");
	ask("x");
	assert_string_equal(rig.who, "default/pod-a/two");
	ask("slot-3");
	assert_string_equal(rig.who, "-2"); /* ENOENT */
	assert_int_equal(rig.n_v1, 4);
	assert_int_equal(rig.n_v1alpha1, 0);
}

static void an_older_kubelet_is_asked_with_v1alpha1(void **state)
{
	start(both, 1); /* the kubelet serves only v1alpha1 */
	ask("slot-1");
	assert_string_equal(rig.who, "default/pod-a/one");
	ask("slot-1");
	assert_int_equal(rig.n_v1alpha1, 2);
	/* The kubelet is upgraded: it answers v1 again. */
	grpc_server_free(rig.kubelet);
	start(&both[1], 1);
	ask("slot-1");
	assert_int_equal(rig.n_v1, 1);
}

static void questions_at_once_share_a_call(void **state)
{
	start(both, 2);
	for (int i = 0; i < 100; i++)
		assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	while (rig.n_answers < 100)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_v1, 1);
}

/* A list that was requested before the call of podres_ask() may lack the caller's container. */
static void a_question_is_answered_by_a_later_call(void **state)
{
	start(both, 2);
	rig.is_slow = true;
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	while (!rig.slow)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	rig.is_slow = false;
	grpc_call_reply(rig.slow, buf_str(&rig.list));
	while (rig.n_answers < 1)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_answers, 1);
	while (rig.n_answers < 3)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_v1, 2);
}

static void refusals_are_tried_again(void **state)
{
	start(both, 2);
	rig.n_refuse = 2;
	ask("slot-1");
	assert_string_equal(rig.who, "default/pod-a/one");
	assert_int_equal(rig.n_v1, 3);
	assert_int_equal(rig.n_failures, 0);
}

static void a_question_waits_for_a_kubelet_that_starts_later(void **state)
{
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	for (int i = 0; i < 3; i++)
		loop_run_once(rig.loop, CLOCK_NEVER);
	start(both, 2);
	while (!rig.n_answers)
		loop_run_once(rig.loop, CLOCK_NEVER);
}

static void a_question_without_an_answer_fails_with_a_message(void **state)
{
	podres_free(rig.podres);
	assert_ok(podres_new(rig.loop, rig.socket, NSEC_PER_MSEC, &rig.podres));
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	while (!rig.n_failures)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_contains(rig.err.msg, rig.socket); /* no kubelet runs */
	start(both, 2);
	rig.is_slow = true;
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	while (rig.n_failures < 2)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_contains(rig.err.msg, "DEADLINE_EXCEEDED");
	assert_int_equal(rig.n_answers, 0);
}

static void ask_again(void *data, const struct podres_list *list, const struct error *err)
{
	on_list(NULL, list, err);
	if (rig.n_answers < 3)
		assert_ok(podres_ask(rig.podres, ask_again, NULL, NULL));
}

static void an_answer_may_ask_again(void **state)
{
	start(both, 2);
	assert_ok(podres_ask(rig.podres, ask_again, NULL, NULL));
	while (rig.n_answers < 3)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_v1, 3);
}

static void a_question_may_be_forgotten(void **state)
{
	struct podres_question *first, *second;

	start(both, 2);
	assert_ok(podres_ask(rig.podres, on_list, NULL, &first));
	assert_ok(podres_ask(rig.podres, on_list, NULL, &second));
	podres_forget(first);
	podres_forget(NULL);
	while (!rig.n_answers)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_answers, 1);
	assert_ok(podres_ask(rig.podres, on_list, NULL, &first)); /* the callback is never called */
}

static void questions_have_a_limit(void **state)
{
	for (uint32_t i = 0; i < PODRES_QUESTIONS_MAX; i++)
		assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
	assert_int_equal(podres_ask(rig.podres, on_list, NULL, NULL), -EAGAIN);
	start(both, 2);
	while (rig.n_answers < (int)PODRES_QUESTIONS_MAX)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_ok(podres_ask(rig.podres, on_list, NULL, NULL));
}

static void a_device_with_two_owners_is_refused(void **state)
{
	struct podres_list *list = NULL;
	const struct podres_container *c;
	struct error err;

	/* { pod "p", { "c", { "r", "1", "1" } }, { "d", { "r", "1" } } } */
	assert_ok(podres_parse(STR("\x0a\x20\x0a\x01p\x1a\x0e\x0a\x01"
				   "c\x12\x09\x0a\x01r\x12\x01"
				   "1\x12\x01"
				   "1\x1a\x0b\x0a\x01"
				   "d\x12\x06\x0a\x01r\x12\x01"
				   "1"),
		&list, &err));
	assert_int_equal(list->n_containers, 2);
	assert_int_equal(podres_find(list, STR("r"), STR("1"), &c), -EEXIST);
	assert_int_equal(podres_find(list, STR("r"), STR("2"), &c), -ENOENT);
	assert_int_equal(podres_find(list, STR("s"), STR("1"), &c), -ENOENT);
	podres_list_free(list);
	assert_int_equal(podres_parse(STR("\x0a"), &list, &err), -EBADMSG);
	assert_contains(err.msg, "decoded");
}

#define RIGGED(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

UNIT_MAIN(RIGGED(a_slot_names_pod_and_container), RIGGED(an_older_kubelet_is_asked_with_v1alpha1),
	RIGGED(questions_at_once_share_a_call), RIGGED(a_question_is_answered_by_a_later_call),
	RIGGED(refusals_are_tried_again), RIGGED(a_question_waits_for_a_kubelet_that_starts_later),
	RIGGED(a_question_without_an_answer_fails_with_a_message), RIGGED(an_answer_may_ask_again),
	RIGGED(a_question_may_be_forgotten), RIGGED(questions_have_a_limit),
	UNIT(a_device_with_two_owners_is_refused))
