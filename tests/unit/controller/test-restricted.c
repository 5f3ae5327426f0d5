/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a tenant's pod needs no privilege: the webhook's changes of a pod do not violate the
 * restricted profile of the Pod Security Standards, and do not hide a violation.
 */
#include "unit-json.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/admit.h"
#include "controller/controller-placeholder.h"
#include "kube/kube-json.h"
#include "patch.h"
#include "restricted.h"

static const struct admit_rules rules = {
	.scheduler_name = "divvy-scheduler", .ns = "divvy-system", .lease_ns = "divvy-node-lease"};

#define SAFE "'securityContext':{'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']}}"
#define SAFE_POD \
	"'securityContext':{'runAsNonRoot':true,'seccompProfile':{'type':'RuntimeDefault'}}"
#define POD(annotations, more, container) \
	"{'metadata':{'name':'p','annotations':{" annotations "}},'spec':{" SAFE_POD more \
	",'containers':[{'name':'main'," SAFE container "}]}}"

/* Merges objects member by member and lists item by item; other values replace those of `base`. */
static void lay_over(json_t *base, json_t *change)
{
	const char *key;
	json_t *value;

	json_object_foreach(change, key, value) {
		json_t *there = json_object_get(base, key);

		if (json_is_object(there) && json_is_object(value))
			lay_over(there, value);
		else if (json_is_array(there) && json_is_array(value) && json_array_size(there) &&
			json_is_object(json_array_get(there, 0)))
			lay_over(json_array_get(there, 0), json_array_get(value, 0));
		else
			json_object_set(base, key, value);
	}
}

static const char *broken_by(const json_t *pod, size_t rule)
{
	return restricted_rules[rule].broken(pod);
}

static void assert_restricted(const json_t *pod)
{
	for (size_t i = 0; i < restricted_n_rules; i++)
		if (broken_by(pod, i))
			fail_msg("%s: %s", restricted_rules[i].control, broken_by(pod, i));
}

#define CONTEXT(text) "{'spec':{'containers':[{'securityContext':{" text "}}]}}"
#define POD_CONTEXT(text) "{'spec':{'securityContext':{" text "}}}"

/* Each change violates the control of that name, and perhaps others. */
static const struct {
	const char *control, *change;
} breaches[] = {
	{"HostProcess", POD_CONTEXT("'windowsOptions':{'hostProcess':true}")},
	{"HostProcess", CONTEXT("'windowsOptions':{'hostProcess':true}")},
	{"Host Namespaces", "{'spec':{'hostNetwork':true}}"},
	{"Host Namespaces", "{'spec':{'hostPID':true}}"},
	{"Host Namespaces", "{'spec':{'hostIPC':true}}"},
	{"Privileged Containers", CONTEXT("'privileged':true")},
	{"Privileged Containers",
		"{'spec':{'initContainers':[{'name':'first','securityContext':{'privileged':true}}]"
		"}}"},
	{"HostPath Volumes", "{'spec':{'volumes':[{'name':'v','hostPath':{'path':'/'}}]}}"},
	{"Host Ports", "{'spec':{'containers':[{'ports':[{'hostPort':80}]}]}}"},
	{"Host Probes and Lifecycle Hooks",
		"{'spec':{'containers':[{'livenessProbe':{'httpGet':{'host':'10.0.0.1'}}}]}}"},
	{"Host Probes and Lifecycle Hooks",
		"{'spec':{'containers':[{'lifecycle':{'preStop':{'tcpSocket':{'host':'h'}}}}]}}"},
	{"AppArmor", CONTEXT("'appArmorProfile':{'type':'Unconfined'}")},
	{"AppArmor",
		"{'metadata':{'annotations':{"
		"'container.apparmor.security.beta.kubernetes.io/main':'unconfined'}}}"},
	{"SELinux", CONTEXT("'seLinuxOptions':{'type':'spc_t'}")},
	{"SELinux", POD_CONTEXT("'seLinuxOptions':{'user':'root'}")},
	{"SELinux", CONTEXT("'seLinuxOptions':{'role':'r'}")},
	{"/proc Mount Type", CONTEXT("'procMount':'Unmasked'")},
	{"Sysctls", POD_CONTEXT("'sysctls':[{'name':'kernel.msgmax','value':'1'}]")},
	{"Volume Types", "{'spec':{'volumes':[{'name':'v','nfs':{}}]}}"},
	{"Privilege Escalation", CONTEXT("'allowPrivilegeEscalation':true")},
	{"Privilege Escalation", "{'spec':{'initContainers':[{'name':'first'}]}}"},
	{"Running as Non-root", POD_CONTEXT("'runAsNonRoot':false")},
	{"Running as Non-root", CONTEXT("'runAsNonRoot':false")},
	{"Running as Non-root user", POD_CONTEXT("'runAsUser':0")},
	{"Running as Non-root user", CONTEXT("'runAsUser':0")},
	{"Seccomp", POD_CONTEXT("'seccompProfile':{'type':'Unconfined'}")},
	{"Seccomp", CONTEXT("'seccompProfile':{'type':'Unconfined'}")},
	{"Seccomp",
		"{'metadata':{'annotations':{"
		"'seccomp.security.alpha.kubernetes.io/pod':'unconfined'}}}"},
	{"Capabilities", CONTEXT("'capabilities':{'drop':['NET_RAW']}")},
	{"Capabilities", CONTEXT("'capabilities':{'add':['SYS_ADMIN']}")},
	{"Capabilities",
		"{'spec':{'ephemeralContainers':[{'name':'debug','securityContext':"
		"{'allowPrivilegeEscalation':false}}]}}"},
};

static size_t rule_of(const char *control)
{
	for (size_t i = 0; i < restricted_n_rules; i++)
		if (!strcmp(restricted_rules[i].control, control))
			return i;
	fail_msg("no control '%s'", control);
	return 0;
}

static json_t *breach(size_t i)
{
	_cleanup_json_ json_t *change = unit_json(breaches[i].change);
	json_t *pod = unit_json(POD("'divvy.gpu/request':'0.3'", "", ""));

	lay_over(pod, change);
	return pod;
}

static void each_rule_finds_its_violation(void **state)
{
	bool is_seen[64] = {false};

	for (size_t i = 0; i < ARRAY_SIZE(breaches); i++) {
		_cleanup_json_ json_t *pod = breach(i);
		const size_t rule = rule_of(breaches[i].control);

		if (!broken_by(pod, rule))
			fail_msg("%s: not seen: %s", breaches[i].control, breaches[i].change);
		is_seen[rule] = true;
	}
	for (size_t i = 0; i < restricted_n_rules; i++)
		if (!is_seen[i])
			fail_msg("nothing breaks '%s'", restricted_rules[i].control);
}

/* Applies the webhook's patch to the pod. */
static void mutate(json_t *pod, const char *dialects)
{
	_cleanup_json_ json_t *review = json_pack(
		"{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s, s:s}, s:s, s:s, s:O}}", "apiVersion",
		"admission.k8s.io/v1", "kind", "AdmissionReview", "request", "uid", "u-1",
		"operation", "CREATE", "userInfo", "username", "alice", "resource", "group", "",
		"resource", "pods", "namespace", "ns1", "name", "p", "object", pod);
	const struct admit_facts facts = {.ns = {.dialects = dialects}};
	_cleanup_json_ json_t *got = NULL, *patch = NULL;
	struct admit_request request;

	assert_ok(admit_parse(review, &request, NULL));
	got = admit_answer(admit_path_find("/mutate/pods"), &rules, &request, &facts);
	if (!json_is_true(kube_json_at(got, "response", "allowed", NULL)))
		fail_msg("%s", kube_json_text_at(got, "response", "status", "message", NULL));
	patch = patch_of_review(got);
	assert_non_null(patch);
	assert_true(patch_apply(pod, patch));
	assert_string_equal(
		kube_json_text_at(pod, "metadata", "labels", "divvy.gpu/tenant", NULL), "true");
}

static void a_tenants_pod_is_restricted(void **state)
{
	static const struct {
		const char *dialects, *pod;
	} pods[] = {
		{NULL, POD("'divvy.gpu/request':'0.3'", "", "")},
		{NULL, POD("'divvy.gpu/request':'2','divvy.gpu/memory':'40Gi'", "", "")},
		{NULL,
			POD("'divvy.gpu/request':'0.3','divvy.gpu/count':'2','divvy.gpu/mode':"
			    "'local'",
				",'volumes':[{'name':'v','emptyDir':{}}]", "")},
		{NULL,
			POD("'first.divvy.gpu/request':'0.5','main.divvy.gpu/request':'0.3'",
				",'initContainers':[{'name':'first'," SAFE "}]", "")},
		{NULL,
			POD("'divvy.gpu/request':'0.3','divvy.gpu/group':'g','divvy.gpu/"
			    "group-size':'2'",
				"", "")},
		{"nvidia", POD("", "", ",'resources':{'limits':{'nvidia.com/gpu':'1'}}")},
		{"hami,nvidia",
			POD("", "",
				",'resources':{'limits':{'nvidia.com/gpu':'2','nvidia.com/"
				"gpumem':'3000'}}")},
		{"kubeshare",
			POD("'kubeshare/gpu_request':'0.3','kubeshare/gpu_limit':'1.0','kubeshare/"
			    "gpu_mem':'1000000000'",
				"", "")},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		_cleanup_json_ json_t *pod = unit_json(pods[i].pod);

		assert_restricted(pod);
		mutate(pod, pods[i].dialects);
		assert_restricted(pod);
	}
}

/* An admission plugin after the webhook finds the same violations in the changed pod. */
static void translation_hides_no_violation(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(breaches); i++) {
		_cleanup_json_ json_t *pod = breach(i), *before = json_deep_copy(pod);

		mutate(pod, NULL);
		for (size_t k = 0; k < restricted_n_rules; k++)
			if (!broken_by(before, k) != !broken_by(pod, k))
				fail_msg("%s: %s", breaches[i].change, restricted_rules[k].control);
	}
}

/* The placeholder also permits an autoscaler to remove its node, although it has no owner. */
static void a_placeholder_is_restricted(void **state)
{
	_cleanup_json_ json_t *pod = placeholder_pod("p", "image", NULL);

	assert_restricted(pod);
	assert_string_equal(kube_json_text_at(pod, "metadata", "annotations",
				    "cluster-autoscaler.kubernetes.io/safe-to-evict", NULL),
		"true");
}

UNIT_MAIN(UNIT(a_placeholder_is_restricted), UNIT(each_rule_finds_its_violation),
	UNIT(a_tenants_pod_is_restricted), UNIT(translation_hides_no_violation))
