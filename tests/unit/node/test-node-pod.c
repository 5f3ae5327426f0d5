/* SPDX-License-Identifier: Apache-2.0 */
/* When a container of a pod has ended for good, so that its slot is free. */
#include <jansson.h>

#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "node/node-internal.h"
#include "unit-json.h"

#define ENDED(code) \
	"'containerStatuses':[{'name':'c','state':{'terminated':{'exitCode':" code "}}}]"
#define POD(policy, container, status) \
	"{'spec':{'restartPolicy':'" policy "','containers':[{'name':'c'" container "},{'name':" \
	"'d'}]},'status':{" status "}}"
#define RULES(action, op, values) \
	",'restartPolicyRules':[{'action':'" action "','exitCodes':{'operator':'" op \
	"','values':[" values "]}}]"

static void a_container_is_over_when_the_kubelet_will_not_restart_it(void **state)
{
	static const struct {
		const char *what, *pod;
		bool is_over;
	} cases[] = {
		{"it runs",
			POD("Never", "",
				"'containerStatuses':[{'name':'c','state':{'running':{}}}]"),
			false},
		{"the pod has failed", POD("Always", "", "'phase':'Failed'"), true},
		{"the pod has succeeded", POD("Always", "", "'phase':'Succeeded'"), true},
		{"the pod's policy Never", POD("Never", "", ENDED("1")), true},
		{"the pod's policy OnFailure after success", POD("OnFailure", "", ENDED("0")),
			true},
		{"the pod's policy OnFailure after a failure", POD("OnFailure", "", ENDED("1")),
			false},
		{"the pod's policy Always", POD("Always", "", ENDED("0")), false},
		{"the container's own policy Always",
			POD("Never", ",'restartPolicy':'Always'", ENDED("0")), false},
		{"the container's own policy Never",
			POD("Always", ",'restartPolicy':'Never'", ENDED("1")), true},
		{"the container's own policy OnFailure after success",
			POD("Always", ",'restartPolicy':'OnFailure'", ENDED("0")), true},
		{"a rule that lists the exit code",
			POD("Never", ",'restartPolicy':'Never'" RULES("Restart", "In", "3,0"),
				ENDED("0")),
			false},
		{"a rule that does not list the exit code",
			POD("Never", ",'restartPolicy':'Never'" RULES("Restart", "In", "3"),
				ENDED("0")),
			true},
		{"a rule for all other exit codes",
			POD("Never", ",'restartPolicy':'Never'" RULES("Restart", "NotIn", "3"),
				ENDED("0")),
			false},
		{"a rule for all other exit codes, and one of these",
			POD("Never", ",'restartPolicy':'Never'" RULES("Restart", "NotIn", "3"),
				ENDED("3")),
			true},
		{"a rule that restarts all containers, whatever the exit code",
			POD("Never",
				",'restartPolicy':'Never'" RULES("RestartAllContainers", "In", "3"),
				ENDED("0")),
			false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *pod = unit_json(cases[i].pod);

		if (node_is_over(pod, "c") != cases[i].is_over)
			fail_msg("%s", cases[i].what);
	}
}

static void a_finished_init_container_is_over(void **state)
{
#define INIT(rules, status) \
	"{'spec':{'containers':[{'name':'c'" rules \
	"}],'initContainers':[{'name':'i'}]},'status':{" \
	"'initContainerStatuses':[{'name':'i','ready':" status \
	",'state':{'terminated':{'exitCode':0}}}]}}"
	_cleanup_json_ json_t *done = unit_json(INIT("", "true")),
			      *not_ready = unit_json(INIT("", "false")),
			      *again = unit_json(
				      INIT(RULES("RestartAllContainers", "In", "1"), "true"));

	assert_true(node_is_over(done, "i"));
	assert_false(node_is_over(not_ready, "i"));
	assert_false(node_is_over(again, "i"));
}

UNIT_MAIN(UNIT(a_container_is_over_when_the_kubelet_will_not_restart_it),
	UNIT(a_finished_init_container_is_over))
