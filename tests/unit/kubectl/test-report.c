/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the lists of devices, tenants and accounts, the bars, and the explanations of a tenant's
 * share.
 */
#include "../unit.h"

#include <errno.h>

#include "base/clock.h"
#include "cmdline/json-member.h"
#include "fields/yaml.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "kubectl/device-bars.h"
#include "kubectl/report.h"
#include "kubectl/throttle.h"

static const char nodes_text[] =
	"metadata: {name: n2}\nspec: {cordoned: [{uuid: GPU-c, reason: old}]}\n"
	"status:\n  devices:\n  - {uuid: GPU-c, index: 0, model: T4, memoryBytes: 100, health: "
	"Healthy}\n"
	"  - {uuid: GPU-d, index: 1, model: T4, memoryBytes: 100, health: Healthy, owner: native}\n"
	"  accounts:\n  - {day: '2026-01-02', namespace: z, requestedMilliseconds: 1500, "
	"askedMilliseconds: 1500, "
	"grantedMilliseconds: 1000, usedMilliseconds: 250}\n"
	"---\nmetadata: {name: n1}\nstatus:\n  devices:\n"
	"  - {uuid: GPU-a, index: 0, model: A100, memoryBytes: 1000, health: Healthy}\n"
	"  - {uuid: GPU-b, index: 1, model: A100, memoryBytes: 1000, health: Healthy}\n"
	"  tenants:\n"
	"  - {podUID: u1, namespace: s, pod: p, container: c, devices: [GPU-a, GPU-b], request: "
	"300, limit: 600, memoryBytes: [100, 200], class: standard, mode: local}\n"
	"  - {podUID: u2, namespace: s, pod: q, container: c, devices: [GPU-b], request: 500, "
	"limit: 1000, memoryBytes: [300], class: latency, mode: local, idleSince: "
	"'2026-01-01T00:00:00Z'}\n"
	"  accounts:\n  - {day: '2026-01-01', namespace: z, askedMilliseconds: 1000, "
	"grantedMilliseconds: 1000, usedMilliseconds: 1000}\n"
	"  - {day: '2026-01-02', namespace: a, askedMilliseconds: 1, grantedMilliseconds: 1, "
	"usedMilliseconds: 1}\n";

static const char leases_text[] =
	"metadata:\n  name: n1\n  annotations:\n"
	"    divvy.gpu/measured: u1/c=100:50,590:60 nonsense u2/c=400:290\n";

static const char pods_text[] =
	"metadata:\n  name: p\n  namespace: s\n  uid: u1\n  annotations: {divvy.gpu/request: "
	"'0.3', divvy.gpu/limit: '0.7', divvy.gpu/count: '2'}\n"
	"spec: {nodeName: n1, containers: [{name: c}]}\n"
	"---\nmetadata:\n  name: w\n  namespace: s\n  uid: u9\n  annotations: "
	"{divvy.gpu/request: '2'}\nspec: {containers: [{name: c}]}\n"
	"---\nmetadata:\n  name: bad\n  namespace: s\n  uid: u8\n  annotations: "
	"{divvy.gpu/request: '7.5'}\nspec: {containers: [{name: c}]}\n"
	"---\nmetadata: {name: plain, namespace: s, uid: u7}\nspec: {containers: [{name: c}]}\n"
	"---\nmetadata:\n  name: over\n  namespace: s\n  uid: u6\n  annotations: "
	"{divvy.gpu/request: '1'}\nspec: {containers: [{name: c}]}\nstatus: {phase: Succeeded}\n";

static json_t *of(const char *text)
{
	json_t *list = NULL;

	assert_ok(yaml_parse(str_from(text), &list, NULL));
	return list;
}

static void lists_devices_with_tenants(void **state)
{
	_cleanup_json_ json_t *nodes = of(nodes_text), *leases = of(leases_text);
	_cleanup_json_ json_t *devices = report_devices(&(struct report_facts){nodes, leases});
	const json_t *b = json_array_get(devices, 1), *c = json_array_get(devices, 2);

	assert_int_equal(json_array_size(devices), 4);
	assert_string_equal(json_text_or_empty(json_array_get(devices, 0), "uuid"), "GPU-a");
	assert_int_equal(json_int_or_zero(b, "granted_permille"), 800);
	assert_int_equal(json_int_or_zero(b, "used_permille"), 990);
	assert_int_equal(json_int_or_zero(b, "got_permille"), 990);
	assert_int_equal(json_int_or_zero(b, "granted_bytes"), 500);
	assert_int_equal(json_int_or_zero(b, "used_bytes"), 350);
	assert_string_equal(json_text_or_empty(c, "node"), "n2");
	assert_true(json_bool_or_false(c, "cordoned"));
	assert_string_equal(json_text_or_empty(c, "cordon_reason"), "old");
	assert_int_equal(json_int_or_zero(c, "granted_permille"), 0);
}

static void unknown_values_are_left_out(void **state)
{
	_cleanup_json_ json_t *nodes = of(nodes_text);
	_cleanup_json_ json_t *devices = report_devices(&(struct report_facts){nodes, NULL});

	assert_null(json_object_get(json_array_get(devices, 0), "used_permille"));
	assert_null(json_object_get(json_array_get(devices, 0), "got_permille"));
	assert_int_equal(json_int_or_zero(json_array_get(devices, 0), "granted_permille"), 300);
}

static void lists_tenants(void **state)
{
	_cleanup_json_ json_t *nodes = of(nodes_text), *leases = of(leases_text),
			      *pods = of(pods_text);
	_cleanup_json_ json_t *rows = report_tenants(
		&(struct report_facts){nodes, leases}, pods, NULL);
	const json_t *p = json_array_get(rows, 0), *w = json_array_get(rows, 1),
		     *bad = json_array_get(rows, 2);

	assert_int_equal(json_array_size(rows), 3);
	assert_string_equal(json_text_or_empty(p, "requested"), "2x0.3-0.7");
	assert_string_equal(json_text_or_empty(p, "asked"), "2x0.3-0.7");
	assert_string_equal(json_text_or_empty(p, "granted"), "2x0.3-0.6");
	assert_int_equal(json_int_or_zero(p, "used_permille"), 345);
	assert_int_equal(json_int_or_zero(p, "got_permille"), 345);
	assert_int_equal(json_int_or_zero(p, "memory_bytes"), 300);
	assert_string_equal(json_text_or_empty(p, "state"), "Running");
	assert_string_equal(json_text_or_empty(w, "requested"), "2 GPUs");
	assert_string_equal(json_text_or_empty(w, "state"), "Pending");
	assert_string_equal(json_text_or_empty(bad, "state"), "Refused");
	assert_contains(json_text_or_empty(bad, "note"), "7.5");
}

/* The slot of the ended init container now belongs to the container after it. */
static void an_ended_init_container_is_not_waiting(void **state)
{
	_cleanup_json_ json_t
		*nodes = of(nodes_text),
		*pods = of("metadata:\n  name: i\n  namespace: s\n  uid: u5\n  annotations:\n"
			   "    {divvy.gpu/request: '0.3', divvy.gpu/container: 'a,b', "
			   "divvy.gpu/epoch: '1',\n"
			   "    divvy.gpu/devices: 'a=GPU-a b=GPU-a', divvy.gpu/granted-request: "
			   "'a=0.3 b=0.3',\n"
			   "    divvy.gpu/granted-limit: 'a=1 b=1', divvy.gpu/granted-memory: "
			   "'a=1 b=1',\n"
			   "    divvy.gpu/granted-memory-policy: 'a=fail b=fail', "
			   "divvy.gpu/granted-class:\n"
			   "    'a=standard b=standard', divvy.gpu/granted-priority: 'a=50 b=50',\n"
			   "    divvy.gpu/granted-mode: 'a=local b=local'}\n"
			   "spec: {nodeName: n1, initContainers: [{name: a}], containers: [{name: "
			   "b}]}\n"
			   "status:\n  initContainerStatuses: [{name: a, state: {terminated: "
			   "{exitCode: 0}}}]\n"
			   "  containerStatuses: [{name: b, state: {waiting: {}}}]\n");
	const struct report_facts facts = {nodes, NULL};
	_cleanup_json_ json_t *rows = report_tenants(&facts, pods, NULL),
			      *devices = report_devices(&facts),
			      *all = throttle_explain(devices, rows);
	const json_t *why = json_object_get(json_array_get(all, 0), "why");

	assert_int_equal(json_array_size(rows), 2);
	assert_string_equal(json_text_or_empty(json_array_get(rows, 0), "state"), "Ended");
	assert_null(json_object_get(json_array_get(rows, 0), "devices"));
	assert_string_equal(json_text_or_empty(json_array_get(rows, 1), "state"), "Placed");
	assert_int_equal(json_array_size(why), 1);
	assert_string_equal(json_string_value(json_array_get(why, 0)), "the container has exited");
}

static void tenants_of_claims_are_listed(void **state)
{
	_cleanup_json_ json_t *nodes = of(
		"metadata: {name: n1}\nstatus: {tenants: [{podUID: u1, namespace: s, pod: p, claim: "
		"c, container: gpu, devices: [GPU-a], request: 300, limit: 600, memoryBytes: [7], "
		"class: standard}, {podUID: u2, namespace: s, pod: q, claim: c, container: gpu}]}\n");
	_cleanup_json_ json_t *pods = of("metadata: {name: p, namespace: s, uid: u1}\nspec: "
					 "{nodeName: n1, containers: [{name: main}]}\n");
	_cleanup_json_ json_t *rows = report_tenants(
		&(struct report_facts){nodes, NULL}, pods, NULL);
	const json_t *row = json_array_get(rows, 0);

	assert_int_equal(json_array_size(rows), 1);
	assert_string_equal(json_text_or_empty(row, "claim"), "c");
	assert_string_equal(json_text_or_empty(row, "container"), "gpu");
	assert_string_equal(json_text_or_empty(row, "granted"), "0.3-0.6");
	assert_string_equal(json_text_or_empty(row, "state"), "Running");
	assert_int_equal(json_int_or_zero(row, "memory_bytes"), 7);
}

static void finds_devices_by_any_name(void **state)
{
	_cleanup_json_ json_t *nodes = of(nodes_text);
	struct report_found found;
	struct error err = {0};

	assert_ok(report_find_device(nodes, "n1/GPU-b", &found, &err));
	assert_string_equal(found.uuid, "GPU-b");
	assert_ok(report_find_device(nodes, "n1/1", &found, &err));
	assert_string_equal(found.uuid, "GPU-b");
	assert_ok(report_find_device(nodes, "GPU-c", &found, &err));
	assert_string_equal(found.node, "n2");
	assert_int_equal(report_find_device(nodes, "n1/GPU-c", &found, &err), -ENOENT);
	assert_contains(err.msg, "NODE/UUID");
	assert_int_equal(report_find_device(nodes, "n3/0", &found, &err), -ENOENT);
	assert_contains(err.msg, "no GPUNode 'n3'");
	assert_int_equal(report_find_device(nodes, "0", &found, &err), -ENOENT);
}

static void adds_up_accounts(void **state)
{
	_cleanup_json_ json_t *nodes = of(nodes_text), *all = report_usage(nodes, ""),
			      *late = report_usage(nodes, "2026-01-02");

	assert_int_equal(json_array_size(all), 2);
	assert_string_equal(json_text_or_empty(json_array_get(all, 0), "namespace"), "a");
	/* One of the two accounts was written by a divvyd of the previous release. */
	assert_true(json_real_or_zero(json_array_get(all, 1), "requested_gpu_seconds") == 2.5);
	assert_true(json_real_or_zero(json_array_get(all, 1), "asked_gpu_seconds") == 2.5);
	assert_true(json_real_or_zero(json_array_get(all, 1), "used_gpu_seconds") == 1.25);
	assert_true(json_real_or_zero(json_array_get(late, 1), "used_gpu_seconds") == 0.25);
}

static void idle_tenants_are_found(void **state)
{
	const uint64_t then_ns = UINT64_C(1767225600) * NSEC_PER_SEC; /* 2026-01-01 */
	_cleanup_json_ json_t *nodes = of(nodes_text);
	const struct report_facts facts = {nodes, NULL};
	_cleanup_json_ json_t *soon = report_idle(&facts, 600 * NSEC_PER_SEC, then_ns),
			      *late = report_idle(
				      &facts, 600 * NSEC_PER_SEC, then_ns + 600 * NSEC_PER_SEC);

	assert_int_equal(json_array_size(soon), 1);
	assert_string_equal(json_text_or_empty(json_array_get(soon, 0), "uuid"), "GPU-c");
	assert_string_equal(
		json_text_or_empty(json_array_get(soon, 0), "why"), "no tenant: cordoned");
	assert_int_equal(json_array_size(late), 2);
	assert_string_equal(json_text_or_empty(json_array_get(late, 0), "pod"), "q");
}

static void draws_bars(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1000);

	draw_bar(500, 250, true, &out);
	assert_string_equal(buf_text(&out), "##########==========....................");
	buf_clear(&out);
	draw_bar(250, 500, true, &out);
	assert_string_equal(buf_text(&out), "####################....................");
	buf_clear(&out);
	draw_bar(2000, 0, true, &out);
	assert_string_equal(buf_text(&out), "========================================");
}

static void the_limit_of_a_tenant_is_named(void **state)
{
	_cleanup_json_ json_t *nodes = of(nodes_text), *leases = of(leases_text),
			      *pods = of(pods_text);
	const struct report_facts facts = {nodes, leases};
	_cleanup_json_ json_t *devices = report_devices(&facts),
			      *rows = report_tenants(&facts, pods, NULL),
			      *all = throttle_explain(devices, rows);
	const json_t *why = json_object_get(json_array_get(all, 0), "why");

	assert_string_equal(json_string_value(json_array_get(why, 0)),
		"GPU-a: nothing limits the tenant: it used 0.1, and 0.9 was unused");
	assert_string_equal(json_string_value(json_array_get(why, 1)),
		"GPU-b: the tenant uses all of its limit, 0.6");
	assert_string_equal(json_string_value(json_array_get(why, 2)),
		"GPU-b: tenants of class latency have precedence and used 0.4");
	assert_int_equal(json_array_size(why), 3);
}

/*
 * The request of an opportunistic tenant is no guarantee, so the explanation does not mention it.
 */
static void an_opportunistic_tenant_uses_leftover_time(void **state)
{
	static const char text[] =
		"metadata: {name: n1}\nstatus:\n  devices:\n"
		"  - {uuid: GPU-a, index: 0, model: A100, memoryBytes: 1000, health: Healthy}\n"
		"  tenants:\n"
		"  - {podUID: u1, namespace: s, pod: p, container: c, devices: [GPU-a], request: "
		"300, limit: 1000, memoryBytes: [1], class: %s, mode: local}\n"
		"  - {podUID: u2, namespace: s, pod: q, container: c, devices: [GPU-a], request: "
		"700, limit: 1000, memoryBytes: [1], class: standard, mode: local}\n";
	static const struct {
		const char *class, *why;
	} cases[] = {
		{"standard",
			"GPU-a is full: this tenant used 0.1, other tenants (1) used 0.9; 0.3 is "
			"its request"},
		{"opportunistic",
			"GPU-a is full: this tenant used 0.1, other tenants (1) used 0.9; an opportunistic "
			"tenant gets only unused time"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf buf = BUF_INIT(2048);
		_cleanup_json_ json_t *nodes, *leases, *pods, *devices, *rows, *all;

		buf_addf(&buf, text, cases[i].class);
		nodes = of(buf_text(&buf));
		leases = of("metadata:\n  name: n1\n  annotations:\n"
			    "    divvy.gpu/measured: u1/c=100:1 u2/c=900:1\n");
		pods = of(pods_text);
		devices = report_devices(&(struct report_facts){nodes, leases});
		rows = report_tenants(&(struct report_facts){nodes, leases}, pods, NULL);
		all = throttle_explain(devices, rows);
		assert_string_equal(json_string_value(json_array_get(
					    json_object_get(json_array_get(all, 0), "why"), 0)),
			cases[i].why);
	}
}

static void a_silent_daemon_is_reported(void **state)
{
	static const char lease[] = "metadata:\n  name: n1\n  annotations:\n"
				    "    divvy.gpu/measured: u1/c=100:50,590:60\n"
				    "spec:\n  leaseDurationSeconds: 40\n"
				    "  renewTime: '2026-11-22T10:00:00.000000Z'\n";
	_cleanup_json_ json_t *nodes = of(nodes_text), *leases = of(lease);
	_cleanup_buf_ struct buf out = BUF_INIT(64u << 10);
	uint64_t at_ns;

	assert_ok(kube_time_parse(STR("2026-11-22T10:00:00Z"), &at_ns));
	for (uint64_t age_s = 40; age_s <= 41; age_s++) {
		_cleanup_json_ json_t *devices = report_devices(
			&(struct report_facts){nodes, leases, at_ns + age_s * NSEC_PER_SEC});
		const json_t *of_n1 = json_array_get(devices, 1);
		const bool is_silent = age_s > 40;

		assert_string_equal(json_text_or_empty(of_n1, "node"), "n1");
		assert_int_equal(json_int_or_zero(of_n1, "silent_seconds"), is_silent ? 41 : 0);
		assert_int_equal(json_object_get(of_n1, "used_permille") != NULL, !is_silent);
		buf_clear(&out);
		draw_devices(devices, true, &out);
		assert_int_equal(
			strstr(buf_text(&out), "last reported 41s ago") != NULL, is_silent);
	}
}

static void nodes_in_trouble_are_shown(void **state)
{
	_cleanup_json_ json_t *nodes = of(
		"metadata: {name: n1}\nstatus:\n  owner: pool\n  devices:\n"
		"  - {uuid: GPU-a, index: 0, model: A100, memoryBytes: 1000, health: Healthy, "
		"owner: native}\n"
		"  conditions:\n  - {type: Ready, status: 'False', reason: KubeletUnreachable, "
		"message: no socket}\n"
		"---\nmetadata: {name: n3}\n"
		"---\nmetadata: {name: n2}\nstatus:\n  devices: []\n"
		"  conditions:\n  - {type: Ready, status: 'True', reason: Serving, message: none "
		"here}\n");
	const struct report_facts facts = {nodes, NULL};
	_cleanup_json_ json_t *devices = report_devices(&facts), *bare = report_bare_nodes(&facts);
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	draw_devices(devices, true, &out);
	draw_bare_nodes(bare, &out);
	assert_string_equal(buf_text(&out),
		"n1  (not ready: KubeletUnreachable: no socket)\n"
		"  0 GPU-a A100  another device plugin's\nn2  (no devices: none here)\nn3  (no "
		"devices: divvyd has not reported yet)\n");
}

UNIT_MAIN(UNIT(a_silent_daemon_is_reported), UNIT(nodes_in_trouble_are_shown),
	UNIT(lists_devices_with_tenants), UNIT(unknown_values_are_left_out), UNIT(lists_tenants),
	UNIT(tenants_of_claims_are_listed), UNIT(finds_devices_by_any_name), UNIT(adds_up_accounts),
	UNIT(idle_tenants_are_found), UNIT(an_ended_init_container_is_not_waiting),
	UNIT(draws_bars), UNIT(the_limit_of_a_tenant_is_named),
	UNIT(an_opportunistic_tenant_uses_leftover_time))
