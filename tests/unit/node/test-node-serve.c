/* SPDX-License-Identifier: Apache-2.0 */
/* The address at which a node serves devices: other nodes must reach it, and it is never a name. */
#include "unit.h"

#include <errno.h>

#include "base/clock.h"
#include "kube/kube-json.h"
#include "node/node-serve.h"

static void an_address_has_a_host_and_a_port(void **state)
{
	static const struct {
		const char *text, *host, *port;
	} right[] = {
		{"192.0.2.7:7007", "192.0.2.7", "7007"},
		{"[2001:db8::7]:7007", "2001:db8::7", "7007"},
		/* A manifest writes a pod's IPv6 address without brackets. */
		{"2001:db8::7:7007", "2001:db8::7", "7007"},
	};
	static const char *const wrong[] = {"", ":7007", "192.0.2.7", "192.0.2.7:", "gpu7:7007",
		"192.0.2.7:https", "192.0.2.7:70070", "192.0.2.256:7007", "[]:7007", "::1",
		"$(POD_IP):7007",
		/* Other nodes cannot reach these addresses. */
		"0.0.0.0:7007", "[::]:7007", "[fe80::7%eth0]:7007"};
	struct address at;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		assert_int_equal(serve_address_parse(right[i].text, &at, &err), 0);
		assert_string_equal(at.host, right[i].host);
		assert_string_equal(at.port, right[i].port);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(serve_address_parse(wrong[i], &at, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "expected ADDRESS:PORT"));
	}
}

/* 2026-01-02T03:04:05Z */
#define UNTIL_S UINT64_C(1767323045)

static bool is_left(const char *until, uint32_t n_processes, uint64_t s, uint64_t ns)
{
	_cleanup_json_ json_t *pod = json_pack(
		"{s:{s:s, s:s*}}", "metadata", "name", "p", "deletionTimestamp", until);

	return serve_is_left_behind(pod, n_processes, s * NSEC_PER_SEC + ns);
}

/*
 * Kubernetes does not announce that a node has vanished: its deleted pods stay on the API server.
 */
static void a_pod_of_a_vanished_node_ends_30_s_after_its_grace_period(void **state)
{
	static const char until[] = "2026-01-02T03:04:05Z";

	assert_false(is_left(until, 0, UNTIL_S - 3600, 0)); /* in its grace period */
	assert_false(is_left(until, 0, UNTIL_S, 0));
	assert_false(is_left(until, 0, UNTIL_S + 30, 0));
	assert_true(is_left(until, 0, UNTIL_S + 30, 1));
	assert_true(is_left(until, 0, UNTIL_S + 86400, 0));
	/*
	 * A deleted pod with a connected process is kept, however long ago its grace period has
	 * ended. A pod that is not deleted is kept as well.
	 */
	assert_false(is_left(until, 1, UNTIL_S + 86400, 0));
	assert_false(is_left(NULL, 0, UNTIL_S + 86400, 0));
	/* An unreadable time or an unknown pod ends no tenant. */
	assert_false(is_left("soon", 0, UNTIL_S + 86400, 0));
	assert_false(serve_is_left_behind(NULL, 0, UINT64_MAX));
}

UNIT_MAIN(UNIT(an_address_has_a_host_and_a_port),
	UNIT(a_pod_of_a_vanished_node_ends_30_s_after_its_grace_period))
