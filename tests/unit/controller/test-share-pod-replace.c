/* SPDX-License-Identifier: Apache-2.0 */
/* Which failed pods another pod follows, when, and with which explanation. */
#include "unit-json.h"

#include "base/cleanup.h"
#include "controller/share-pod-replace.h"
#include "controller/share-pod.h"
#include "kube/time.h"
#include "spec/dialect.h"

#define MADE (UINT64_C(1700000000) * NSEC_PER_SEC) /* 2023-11-14T22:13:20Z */

static json_t *pod_of(const char *spec, const char *status)
{
	_cleanup_json_ json_t *pod = unit_json("{'metadata':{'name':'s','uid':'p-1',"
					       "'creationTimestamp':'2023-11-14T22:13:20Z'}}");

	json_object_set_new(pod, "spec", unit_json(spec));
	json_object_set_new(pod, "status", unit_json(status));
	return TAKE_PTR(pod);
}

static void another_pod_follows_one_that_the_node_has_ended(void **state)
{
	static const struct {
		const char *spec, *status;
		bool is_replaced;
	} cases[] = {
		{"{'restartPolicy':'Always'}",
			"{'phase':'Failed','reason':'UnexpectedAdmissionError'}", true},
		{"{}", "{'phase':'Failed','reason':'Evicted'}", true},
		{"{}", "{'phase':'Failed','reason':'Preempting'}", true},
		{"{}", "{'phase':'Failed','reason':'NodeShutdown'}", true},
		{"{}", "{'phase':'Failed','reason':'Terminated'}", true},
		{"{}", "{'phase':'Failed','reason':'NodeLost'}", true},
		{"{}", "{'phase':'Failed','reason':'OutOfdivvy.gpu/slot'}", true},
		{"{}", "{'phase':'Failed'}", true},
		{"{}", "{'phase':'Running','reason':'NodeLost'}", false},
		{"{}", "{'phase':'Pending'}", false},
		{"{}", "{}", false},
		/* The pod's own time limit, and pods that run once. */
		{"{}", "{'phase':'Failed','reason':'DeadlineExceeded'}", false},
		{"{'restartPolicy':'Never'}", "{'phase':'Failed','reason':'Evicted'}", false},
		{"{'restartPolicy':'OnFailure'}", "{'phase':'Failed','reason':'Evicted'}", false},
		{"{}", "{'phase':'Succeeded'}", false},
		/* Since Kubernetes 1.35 a container's policy comes before the pod's. */
		{"{'containers':[{'name':'a','restartPolicy':'Never'}]}", "{'phase':'Failed'}",
			false},
		{"{'initContainers':[{'name':'a','restartPolicy':'Never'}]}", "{'phase':'Failed'}",
			false},
		{"{'initContainers':[{'name':'a','restartPolicy':'Always'}]}", "{'phase':'Failed'}",
			true},
		{"{'containers':[{'name':'a','restartPolicy':'Never'}]}",
			"{'phase':'Failed','reason':'Evicted'}", true},
		{"{'containers':[{'name':'a','restartPolicy':'Never'}]}",
			"{'phase':'Failed','conditions':[{'type':'DisruptionTarget','status':'True',"
			"'reason':'DeletionByPodGC'}]}",
			true},
		{"{'containers':[{'name':'a','restartPolicy':'Never'}]}",
			"{'phase':'Failed','conditions':[{'type':'DisruptionTarget','status':'False'"
			"}]}",
			false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *pod = pod_of(cases[i].spec, cases[i].status);

		if (share_pod_is_replaced(pod) != cases[i].is_replaced)
			fail_msg("%s %s", cases[i].spec, cases[i].status);
	}
}

/* Since Kubernetes 1.27 the kubelet writes a final phase before a deleted pod disappears. */
static void another_pod_follows_a_deleted_one(void **state)
{
	static const struct {
		const char *spec, *status;
		bool is_replaced;
	} cases[] = {
		{"{}", "{'phase':'Succeeded'}", true},
		{"{}", "{'phase':'Failed'}", true},
		{"{'restartPolicy':'Never'}", "{'phase':'Failed'}", false},
		{"{}", "{'phase':'Failed','reason':'DeadlineExceeded'}", false},
		{"{}", "{'phase':'Running'}", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *pod = pod_of(cases[i].spec, cases[i].status);

		json_object_set_new(json_object_get(pod, "metadata"), "deletionTimestamp",
			json_string("2023-11-14T22:15:00Z"));
		if (share_pod_is_replaced(pod) != cases[i].is_replaced)
			fail_msg("%s %s", cases[i].spec, cases[i].status);
	}
}

static void each_further_pod_waits_longer(void **state)
{
	static const uint64_t delay_s[] = {10, 20, 40, 80, 160, 300, 300};
	_cleanup_json_ json_t *pod = pod_of("{}", "{'phase':'Failed','reason':'Evicted'}");
	char count[24];

	for (size_t i = 0; i < ARRAY_SIZE(delay_s); i++) {
		_cleanup_json_ json_t *next = unit_json("{'metadata':{'name':'s'}}");
		const uint64_t due_ns = share_pod_replace_due_ns(pod);

		assert_int_equal(due_ns, MADE + delay_s[i] * NSEC_PER_SEC);
		assert_ok(share_pod_replace_count(pod, due_ns, next));
		snprintf(count, sizeof(count), "%zu", i + 1);
		assert_string_equal(kube_json_text_at(next, "metadata", "annotations",
					    DIALECT_REPLACED_KEY, NULL),
			count);
		json_object_set(json_object_get(pod, "metadata"), "annotations",
			kube_json_at(next, "metadata", "annotations", NULL));
	}
}

static void a_pod_that_ran_long_ends_the_row(void **state)
{
	static const struct {
		const char *count, *next;
		uint64_t age_ns;
	} cases[] = {
		{"4", "5", SHARE_POD_REPLACE_RESET_NS - 1},
		{"4", "1", SHARE_POD_REPLACE_RESET_NS},
		{"1000000", "1000000", 0},
		{"1000001", "1", 0}, /* not written by divvy: above the largest count */
		{"-1", "1", 0},
		{"many", "1", 0},
	};
	_cleanup_json_ json_t *pod = pod_of("{}", "{'phase':'Failed','reason':'Evicted'}"),
			      *next = unit_json("{'metadata':{'annotations':{'a':'b'}}}");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_object_set_new(json_object_get(pod, "metadata"), "annotations",
			json_pack("{s:s}", DIALECT_REPLACED_KEY, cases[i].count));
		assert_ok(share_pod_replace_count(pod, MADE + cases[i].age_ns, next));
		assert_string_equal(kube_json_text_at(next, "metadata", "annotations",
					    DIALECT_REPLACED_KEY, NULL),
			cases[i].next);
	}
	assert_string_equal(kube_json_text_at(next, "metadata", "annotations", "a", NULL), "b");
	/* A pod without a time of creation waits for nothing. */
	json_object_del(json_object_get(pod, "metadata"), "creationTimestamp");
	assert_int_equal(share_pod_replace_due_ns(pod), 0);
}

/*
 * The annotation with the count of replaced pods is no requested key, so a resize leaves it alone.
 */
static void a_resize_leaves_the_count_alone(void **state)
{
	_cleanup_json_ json_t *share_pod = unit_json("{'metadata':{'name':'s','uid':'u-1'},'spec':{"
						     "'request':0.3,'template':{}}}"),
			      *pod = NULL, *patch = NULL,
			      *failed = pod_of("{}", "{'phase':'Failed'}");

	assert_ok(share_pod_make(share_pod, SHARE_POD_OURS, &pod, NULL));
	assert_ok(share_pod_replace_count(failed, MADE, pod));
	assert_ok(share_pod_carry(share_pod, SHARE_POD_OURS, pod, &patch));
	assert_null(patch);
}

static void the_cause_names_the_pod_and_its_node(void **state)
{
	static const struct {
		const char *spec, *status, *cause;
	} cases[] = {
		{"{'nodeName':'n1'}",
			"{'phase':'Failed','reason':'Evicted','message':'The node was low on "
			"resource: memory.'}",
			"pod s failed on node n1, Evicted: The node was low on resource: memory."},
		{"{'nodeName':'n1'}", "{'phase':'Failed','reason':'Terminated'}",
			"pod s failed on node n1, Terminated"},
		{"{}", "{'phase':'Failed'}", "pod s failed"},
		{"{'nodeName':'n1'}",
			"{'phase':'Failed','conditions':[{'type':'DisruptionTarget','status':'True',"
			"'reason':'DeletionByPodGC','message':'node is gone'}]}",
			"pod s failed on node n1, DeletionByPodGC: node is gone"},
	};
	char text[SHARE_POD_REPLACE_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *pod = pod_of(cases[i].spec, cases[i].status);

		share_pod_replace_cause(pod, text);
		assert_string_equal(text, cases[i].cause);
	}
}

static void a_long_cause_is_cut_between_characters(void **state)
{
	_cleanup_json_ json_t *pod = pod_of("{}", "{'phase':'Failed','reason':'Evicted'}");
	char text[SHARE_POD_REPLACE_TEXT], message[1001];
	json_t *string;

	for (size_t i = 0; i < sizeof(message) - 1; i += 2)
		memcpy(message + i, "\xc3\xa4", 2);
	message[sizeof(message) - 1] = '\0';
	/* the text is cut within a character in one of the two rounds */
	for (int i = 0; i < 2; i++) {
		json_object_set_new(
			json_object_get(pod, "status"), "message", json_string(message));
		share_pod_replace_cause(pod, text);
		string = json_string(text);
		assert_non_null(string);
		json_decref(string);
		memcpy(message, "bb", 2);
		memmove(message + 1, message + 2, sizeof(message) - 2);
	}
}

UNIT_MAIN(UNIT(another_pod_follows_one_that_the_node_has_ended),
	UNIT(another_pod_follows_a_deleted_one), UNIT(each_further_pod_waits_longer),
	UNIT(a_pod_that_ran_long_ends_the_row), UNIT(a_resize_leaves_the_count_alone),
	UNIT(the_cause_names_the_pod_and_its_node), UNIT(a_long_cause_is_cut_between_characters))
