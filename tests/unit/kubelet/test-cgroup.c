/* SPDX-License-Identifier: Apache-2.0 */
#include "kubelet/cgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#define UID "0f3a6b52-6c0e-4a5b-9d8e-3b8f0c1d2e4f"
#define UID_ "0f3a6b52_6c0e_4a5b_9d8e_3b8f0c1d2e4f"
#define UID2 "11111111-2222-3333-4444-555555555555"
#define UID2_ "11111111_2222_3333_4444_555555555555"
#define STATIC "9b1c2d3e4f5061728394a5b6c7d8e9f0" /* a static pod */
#define ID "3e5a2b1c0d9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a49382716050"
#define ID2 "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"
#define INNER "/kubepods/burstable/pod" UID2 "/" ID2

static const struct {
	const char *about, *text, *root, *uid, *id;
} pods[] = {
	{"v2, cgroupfs, containerd", "0::/kubepods/burstable/pod" UID "/" ID "\n", "", UID, ID},
	{"... guaranteed", "0::/kubepods/pod" UID "/" ID "\n", "", UID, ID},
	{"... best effort, no newline", "0::/kubepods/besteffort/pod" UID "/" ID, "", UID, ID},
	{"... a static pod", "0::/kubepods/burstable/pod" STATIC "/" ID "\n", "", STATIC, ID},
	{"v2, systemd, containerd",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		".slice/cri-containerd-" ID ".scope\n",
		"", UID, ID},
	{"... guaranteed",
		"0::/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", "",
		UID, ID},
	{"v2, systemd, CRI-O",
		"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
		".slice/crio-" ID ".scope\n",
		"", UID, ID},
	{"... with crun, one deeper",
		"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container\n", "",
		UID, ID},
	{"... its helper is in no container",
		"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope\n", "", UID,
		""},
	{"cgroupfs, CRI-O", "0::/kubepods/burstable/pod" UID "/crio-" ID "\n", "", UID, ID},
	{"systemd, Docker",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		".slice/docker-" ID ".scope\n",
		"", UID, ID},
	{"drivers that differ, under systemd",
		"0::/system.slice/containerd.service/kubepods-burstable-pod" UID_
		".slice:cri-containerd:" ID "\n",
		"", UID, ID},
	{"... at the top, guaranteed",
		"11:memory:/kubepods-pod" UID_ ".slice:cri-containerd:" ID "\n", "", UID, ID},
	{"v1, cgroupfs",
		"12:pids:/kubepods/burstable/pod" UID "/" ID
		"\n11:cpu,cpuacct:/kubepods/burstable/pod" UID "/" ID
		"\n5:memory:/kubepods/burstable/pod" UID "/" ID
		"\n1:name=systemd:/kubepods/burstable/pod" UID "/" ID "\n",
		"", UID, ID},
	{"hybrid: v2's line is elsewhere",
		"9:name=systemd:/kubepods/besteffort/pod" UID "/" ID
		"\n3:cpuset:/kubepods/besteffort/pod" UID "/" ID
		"\n0::/system.slice/containerd.service\n",
		"", UID, ID},
	{"v1: one hierarchy that the runtime does not use",
		"13:misc:/\n4:devices:/kubepods/pod" UID "/" ID "\n0::/\n", "", UID, ID},
	{"v1: in the pod, in one hierarchy in the container",
		"4:devices:/kubepods/pod" UID "\n3:cpu:/kubepods/pod" UID "/" ID "\n", "", UID, ID},
	{"... the other way round",
		"4:devices:/kubepods/pod" UID "/" ID "\n3:cpu:/kubepods/pod" UID "\n", "", UID, ID},
	{"in the pod alone", "0::/kubepods/pod" UID "\n", "", UID, ""},
	{"removed meanwhile", "0::/kubepods/pod" UID "/" ID " (deleted)\n", "", UID, ID},
	{"a node that is a container, cgroupfs",
		"0::/kubelet/kubepods/burstable/pod" UID "/" ID "\n", "/kubelet", UID, ID},
	{"... systemd",
		"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
		"kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
		"/kubelet.slice", UID, ID},
	{"... seen from outside",
		"0::/docker/" ID2 "/kubelet/kubepods/burstable/pod" UID "/" ID "\n",
		"/docker/" ID2 "/kubelet", UID, ID},
	{"... seen from outside, systemd",
		"0::/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
		"kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
		"/system.slice/docker-" ID2 ".scope/kubelet.slice", UID, ID},
	/* If a path names two pods, the outermost counts. */
	{"a cluster within a pod", "0::/kubepods/burstable/pod" UID "/" ID "/kubelet" INNER "\n",
		"", UID, ID},
	{"a tenant's own cgroup called like another pod",
		"0::/kubepods/burstable/pod" UID "/" ID INNER "\n", "", UID, ID},
	{"... as slices",
		"0::/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID
		".scope/kubepods.slice/kubepods-pod" UID2_ ".slice/cri-containerd-" ID2 ".scope\n",
		"", UID, ID},
	{"... with colons",
		"0::/kubepods/pod" UID "/" ID "/kubepods-pod" UID2_ ".slice:cri-containerd:" ID2
		"\n",
		"", UID, ID},
	{"... with lines in it", "0::/kubepods/pod" UID "/" ID "/0::" INNER "\n", "", UID, ID},
	{"... right below the pod", "0::/kubepods/pod" UID INNER "\n", "", UID, ""},
};

static const struct {
	const char *about, *text, *root;
	int r;
} others[] = {
	{"a login", "0::/user.slice/user-1000.slice/session-3.scope\n", "", -ENOENT},
	{"a login's own cgroups, called like a pod",
		"0::/user.slice/user-1000.slice/user@1000.service" INNER "\n", "", -ENOENT},
	{"... as slices",
		"0::/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod" UID_
		".slice/cri-containerd-" ID ".scope\n",
		"", -ENOENT},
	{"... with colons",
		"0::/user.slice/user-1000.slice/kubepods-pod" UID_ ".slice:cri-containerd:" ID "\n",
		"", -ENOENT},
	{"another service's cgroups, called like a pod",
		"0::/system.slice/other.service/kubepods-pod" UID_ ".slice:cri-containerd:" ID "\n",
		"", -ENOENT},
	{"a service called nearly so",
		"0::/system.slice/containerd.service2/kubepods-pod" UID_ ".slice:cri-containerd:" ID
		"\n",
		"", -ENOENT},
	{"a container of a plain engine", "0::/docker/" ID INNER "\n", "", -ENOENT},
	{"... as scope", "0::/system.slice/docker-" ID ".scope" INNER "\n", "", -ENOENT},
	{"below another root", "0::/kubelet/kubepods/pod" UID "/" ID "\n", "", -ENOENT},
	{"above the root", "0::/kubepods/pod" UID "/" ID "\n", "/kubelet", -ENOENT},
	{"a root's longer neighbour", "0::/kubelet2/kubepods/pod" UID "/" ID "\n", "/kubelet",
		-ENOENT},
	{"pods in general", "0::/kubepods/burstable\n", "", -ENOENT},
	{"a class between two", "0::/kubepods/burstable/besteffort/pod" UID "/" ID "\n", "",
		-ENOENT},
	{"classes that differ",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-besteffort-pod" UID_
		".slice/cri-containerd-" ID ".scope\n",
		"", -ENOENT},
	{"a slice without what is above it",
		"0::/kubelet.slice/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID
		".scope\n",
		"/kubelet.slice", -ENOENT},
	{"a uid with dashes in a slice",
		"0::/kubepods.slice/kubepods-pod" UID ".slice/cri-containerd-" ID ".scope\n", "",
		-ENOENT},
	{"a uid that is short", "0::/kubepods/pod0f3a6b52/" ID "\n", "", -ENOENT},
	{"a uid with capitals", "0::/kubepods/pod0F3A6B52-6c0e-4a5b-9d8e-3b8f0c1d2e4f/" ID "\n", "",
		-ENOENT},
	{"parts that are empty", "0:://kubepods//pod" UID "/" ID "\n", "", -ENOENT},
	{"a relative path", "0::kubepods/pod" UID "/" ID "\n", "", -ENOENT},
	{"nothing", "", "", -ENOENT},
	{"no lines of that kind", "kubepods\n:\n::\n0:\n\n", "", -ENOENT},
	{"two pods", "2:cpu:/kubepods/pod" UID "/" ID "\n1:memory:/kubepods/pod" UID2 "/" ID "\n",
		"", -EBADMSG},
	{"two containers",
		"2:cpu:/kubepods/pod" UID "/" ID "\n1:memory:/kubepods/pod" UID "/" ID2 "\n", "",
		-EBADMSG},
	{"just outside of our namespace", "0::/..\n", "", -EXDEV},
	{"... a neighbour of our own container", "0::/../" ID "\n", "", -EXDEV},
	{"... a login", "0::/../../../../user.slice/user-1000.slice/session-3.scope\n", "", -EXDEV},
	{"... a login's own cgroups, called like a pod",
		"0::/../../../../user.slice/user-1000.slice" INNER "\n", "", -EXDEV},
	{"... a container of a plain engine", "0::/../../../../docker/" ID INNER "\n", "", -EXDEV},
	{"... ups in between", "0::/../kubepods/../pod" UID "/" ID "\n", "", -EXDEV},
	{"... classes that differ",
		"0::/../../../kubepods-burstable.slice/kubepods-besteffort-pod" UID_
		".slice/cri-containerd-" ID ".scope\n",
		"", -EXDEV},
	{"... two pods", "1:name=systemd:/../../pod" UID "/" ID "\n0::/../../pod" UID2 "/" ID "\n",
		"", -EBADMSG},
};

/*
 * Paths of pods as divvyd reads them on a host with cgroup v2 alone. divvyd is a Burstable pod, and
 * each container has its own cgroup namespace. The root is then unknown.
 */
#define UP2 "0::/../../"
#define UP3 "0::/../../../"
#define UP4 "0::/../../../../"
static const struct {
	const char *about, *text, *id;
} beside[] = {
	{"containerd, systemd: burstable, too",
		UP2 "kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", ID},
	{"... guaranteed", UP3 "kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", ID},
	{"... best effort",
		UP3 "kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
		    ".slice/cri-containerd-" ID ".scope\n",
		ID},
	{"... its init process in a cgroup below",
		UP3 "kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope/init.scope\n", ID},
	{"CRI-O with crun",
		UP3 "kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID
		    ".scope/container\n",
		ID},
	{"... burstable", UP3 "kubepods-burstable-pod" UID_ ".slice/crio-" ID ".scope/container\n",
		ID},
	{"cgroupfs: burstable, too", UP2 "pod" UID "/" ID "\n", ID},
	{"... guaranteed", UP3 "pod" UID "/" ID "\n", ID},
	{"... best effort", UP3 "besteffort/pod" UID "/" ID "\n", ID},
	{"... a static pod", UP3 "pod" UID "\n", ""},
	{"all of the path, of a divvyd in no pod", UP2 "kubepods/burstable/pod" UID "/" ID "\n",
		ID},
	{"... systemd",
		UP4 "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		    ".slice/cri-containerd-" ID ".scope\n",
		ID},
	{"drivers that differ",
		UP2 "system.slice/containerd.service/kubepods-burstable-pod" UID_
		    ".slice:cri-containerd:" ID "\n",
		ID},
	{"... divvyd among them",
		"0::/../kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID "\n", ID},
	{"a node that is a container",
		UP2 "kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
		ID},
	{"... guaranteed", UP3 "kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
		ID},
	{"... best effort",
		UP3 "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" UID_
		    ".slice/cri-containerd-" ID ".scope\n",
		ID},
	{"a tenant's own cgroup called like another pod", UP2 "pod" UID "/" ID INNER "\n", ID},
	{"... as slices",
		UP3 "kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope/kubepods-pod" UID2_
		    ".slice/cri-containerd-" ID2 ".scope\n",
		ID},
	{"... right below the pod", UP3 "pod" UID INNER "\n", ""},
	{"removed meanwhile", UP2 "pod" UID "/" ID " (deleted)\n", ID},
};

static void pods_are_read(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		struct cgroup_pod pod = {0};
		int r = cgroup_parse_pod(str_from(pods[i].text), pods[i].root, &pod);

		if (r < 0 || strcmp(pod.uid, pods[i].uid) || strcmp(pod.container, pods[i].id))
			fail_msg("%s: %d, pod '%s', container '%s'", pods[i].about, r, pod.uid,
				pod.container);
	}
}

static void pods_are_read_from_another_namespace(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
		struct cgroup_pod pod = {0};
		int r = cgroup_parse_pod(str_from(beside[i].text), NULL, &pod);

		if (r < 0 || strcmp(pod.uid, UID) || strcmp(pod.container, beside[i].id))
			fail_msg("%s: %d, pod '%s', container '%s'", beside[i].about, r, pod.uid,
				pod.container);
	}
}

static void other_processes_are_in_no_pod(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct cgroup_pod pod = {0};
		int r = cgroup_parse_pod(str_from(others[i].text), others[i].root, &pod);

		if (r != others[i].r || pod.uid[0])
			fail_msg("%s: %d, pod '%s'", others[i].about, r, pod.uid);
	}
}

static void any_usual_root_is_accepted_when_none_is_known(void **state)
{
	struct cgroup_pod pod;

	assert_ok(cgroup_parse_pod(STR("0::/kubepods/pod" UID "/" ID), NULL, &pod));
	assert_ok(cgroup_parse_pod(STR("0::/kubelet/kubepods/pod" UID "/" ID), NULL, &pod));
	assert_ok(cgroup_parse_pod(STR("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-"
				       "pod" UID_ ".slice/cri-containerd-" ID ".scope"),
		NULL, &pod));
	assert_int_equal(cgroup_parse_pod(STR("0::/docker/" ID INNER), NULL, &pod), -ENOENT);
}

/*
 * The root, the cgroup that contains the kubelet's pods, is found from the daemon's own cgroup.
 * With the root, the paths of all other cgroups can be parsed.
 */
static void the_root_is_found(void **state)
{
	char root[CGROUP_ROOT_SIZE];
	struct cgroup_pod pod;

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		int r = cgroup_parse_root(str_from(pods[i].text), root);

		if (r < 0 || strcmp(root, pods[i].root))
			fail_msg("%s: %d, '%s'", pods[i].about, r, root);
		assert_ok(cgroup_parse_pod(str_from(pods[i].text), root, &pod));
		assert_string_equal(pod.uid, pods[i].uid);
	}
	assert_int_equal(cgroup_parse_root(STR("0::/user.slice/session-1.scope"), root), -ENOENT);
	assert_int_equal(cgroup_parse_root(STR(""), root), -ENOENT);
}

static void long_paths_are_refused(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CGROUP_FILE_MAX);
	char root[CGROUP_ROOT_SIZE];
	struct cgroup_pod pod;

	buf_add_text(&text, "0::");
	while (text.n < 32768)
		buf_add_text(&text, "/kubepods/pod");
	assert_int_equal(cgroup_parse_pod(buf_str(&text), "", &pod), -ENOENT);
	assert_int_equal(cgroup_parse_root(buf_str(&text), root), -ENOENT);
}

static void the_pod_of_a_process_is_read(void **state)
{
	struct cgroup_pod pod;
	struct error err;

	assert_int_equal(cgroup_read_pod(INT32_MAX, NULL, &pod, &err), -ESRCH);
	assert_contains(err.msg, "2147483647");
	/* This test may run in a pod or elsewhere: the result is a pod, or a message. */
	if (cgroup_read_pod(getpid(), NULL, &pod, &err) < 0)
		assert_contains(err.msg, "process");
}

UNIT_MAIN(UNIT(pods_are_read), UNIT(pods_are_read_from_another_namespace),
	UNIT(other_processes_are_in_no_pod), UNIT(any_usual_root_is_accepted_when_none_is_known),
	UNIT(the_root_is_found), UNIT(long_paths_are_refused), UNIT(the_pod_of_a_process_is_read))
