/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup of a process, as rules and container engines name it, on hosts of each kind. */
#include <errno.h>

#include "agent/conf.h"
#include "unit.h"

#define ID "3e5a2b1c0d9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a49382716050"
#define UID "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9"
#define PODS "/kubepods.slice/kubepods-burstable.slice"
#define POD "/kubepods-burstable-pod" UID ".slice"
#define SCOPE_OF(prefix) "/" prefix ID ".scope"
#define SCOPE "/system.slice/docker-" ID ".scope"

static const struct {
	const char *about, *text, *path;
} cases[] = {
	{"v2, a login", "0::/user.slice/user-1000.slice/session-3.scope\n",
		"/user.slice/user-1000.slice/session-3.scope"},
	{"v2, a service, no newline", "0::/system.slice/batch.service",
		"/system.slice/batch.service"},
	{"v2, Docker, systemd", "0::" SCOPE "\n", SCOPE},
	{"v2, Docker, cgroupfs", "0::/docker/" ID "\n", "/docker/" ID},
	{"v2, rootless Podman",
		"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
		".scope/container\n",
		"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
		".scope/container"},
	{"v2, removed meanwhile", "0::" SCOPE " (deleted)\n", SCOPE},
	{"v2, a namespace of its own", "0::/\n", "/"},
	{"v2, outside of our namespace", "0::/../job\n", "/../job"},
	{"v2, a name with colons", "0::/a:b:c\n", "/a:b:c"},
	{"v1, Docker",
		"12:pids:/docker/" ID "\n11:cpu,cpuacct:/docker/" ID "\n1:name=systemd:/docker/" ID
		"\n",
		"/docker/" ID},
	{"v1, hierarchies that nobody uses", "13:misc:/\n4:devices:/docker/" ID "\n0::/\n",
		"/docker/" ID},
	{"hybrid: v2's is its runtime's",
		"9:name=systemd:" SCOPE "\n3:cpuset:" SCOPE
		"\n0::/system.slice/containerd.service\n",
		SCOPE},
	{"hybrid: v2 has it alone", "3:cpuset:/\n1:name=systemd:/\n0::" SCOPE "\n", SCOPE},
	{"v2, a pod of a Kubernetes in Docker in a pod, systemd",
		"0::" PODS POD SCOPE_OF("cri-containerd-") SCOPE
		"/kubelet.slice/kubelet-kubepods.slice"
		"/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" UID
		".slice" SCOPE_OF("cri-containerd-") "\n",
		PODS POD SCOPE_OF("cri-containerd-") SCOPE
		"/kubelet.slice/kubelet-kubepods.slice"
		"/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" UID
		".slice" SCOPE_OF("cri-containerd-")},
	{"nothing", "", ""},
	{"no such line", "memory\n:\n\n", ""},
};

static void the_longest_path_is_the_cgroup(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[CONF_CGROUP];

		assert_ok(conf_cgroup_parse(str_from(cases[i].text), path, NULL));
		if (strcmp(path, cases[i].path))
			fail_msg("%s: '%s', expected '%s'", cases[i].about, path, cases[i].path);
	}
}

static void a_path_that_is_too_long_is_refused(void **state)
{
	char text[2 * CONF_CGROUP] = "0::/", path[CONF_CGROUP];
	struct error err;

	memset(text + 4, 'a', CONF_CGROUP - 2);
	assert_ok(conf_cgroup_parse(str_from(text), path, &err));
	assert_int_equal(strlen(path), CONF_CGROUP - 1);
	text[4 + CONF_CGROUP - 2] = 'a';
	assert_int_equal(conf_cgroup_parse(str_from(text), path, &err), -ENAMETOOLONG);
	assert_string_equal(err.msg,
		"the path of cgroup '/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' has "
		"1024 characters; at most 1023 are allowed");
}

UNIT_MAIN(UNIT(the_longest_path_is_the_cgroup), UNIT(a_path_that_is_too_long_is_refused))
