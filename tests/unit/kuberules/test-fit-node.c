/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the rules of a node and its pods: taints, node affinity, declared features, host ports,
 * resources, nominated pods.
 */
#include "base/cleanup.h"
#include "rules.h"
#include "unit.h"

#define TERMS(terms) \
	"'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':" \
	"{'nodeSelectorTerms':[" terms "]}}}," EMPTY
#define EXPR(key, op, values) \
	"{'matchExpressions':[{'key':'" key "','operator':'" op "','values':[" values "]}]}"
#define THREE \
	NODE("n1", "'disk':'ssd','gen':'5'", "") \
	NODE("n2", "'disk':'hdd','gen':'x'", "") NODE("n3", "", "")
#define TAINTED(effect) NODE("n1", "", "'taints':[{'key':'k','value':'v','effect':'" effect "'}]")
#define TAINT(value) \
	NODE("n1", "", "'taints':[{'key':'k','value':'" value "','effect':'NoSchedule'}]")
#define TOLERATES(t) "'tolerations':[{" t "}]," EMPTY
#define COMPARES(op, value) TOLERATES("'key':'k','operator':'" op "','value':'" value "'")

static void taints_keep_pods_off_that_do_not_tolerate_them(void **state)
{
	static const struct rule_case cases[] = {
		{"NoSchedule keeps off", TAINTED("NoSchedule") Q(EMPTY), "",
			"1 taint k not tolerated"},
		{"NoExecute keeps off", TAINTED("NoExecute") Q(EMPTY), "", NULL},
		{"PreferNoSchedule does not", TAINTED("PreferNoSchedule") Q(EMPTY), "n1", NULL},
		{"equal", TAINTED("NoSchedule") Q(TOLERATES("'key':'k','value':'v'")), "n1", NULL},
		{"another value", TAINTED("NoSchedule") Q(TOLERATES("'key':'k','value':'w'")), "",
			NULL},
		{"exists", TAINTED("NoSchedule") Q(TOLERATES("'key':'k','operator':'Exists'")),
			"n1", NULL},
		{"every key", TAINTED("NoSchedule") Q(TOLERATES("'operator':'Exists'")), "n1",
			NULL},
		{"another effect",
			TAINTED("NoSchedule")
				Q(TOLERATES("'key':'k','operator':'Exists','effect':'NoExecute'")),
			"", NULL},
		{"an operator of a newer release is refused with a message",
			TAINTED("NoSchedule") Q(TOLERATES("'key':'k','operator':'Ge','value':'1'")),
			"", "spec: tolerations: 0: operator: 'Ge' is not known"},
		{"a value that is no integer is neither above nor below",
			TAINTED("NoSchedule") Q(TOLERATES("'key':'k','operator':'Gt','value':'1'")),
			"", "1 taint k not tolerated"},
		{"the taint is above", TAINT("20") Q(COMPARES("Gt", "19")), "n1", NULL},
		{"... and not equal", TAINT("20") Q(COMPARES("Gt", "20")), "", NULL},
		{"the taint is below", TAINT("-20") Q(COMPARES("Lt", "-19")), "n1", NULL},
		{"... and not equal", TAINT("20") Q(COMPARES("Lt", "20")), "", NULL},
		{"leading zeros are no integer", TAINT("020") Q(COMPARES("Gt", "1")), "", NULL},
		{"nor is a plus sign", TAINT("20") Q(COMPARES("Gt", "+1")), "", NULL},
		{"a cordoned node", NODE("n1", "", "'unschedulable':true") Q(EMPTY), "",
			"1 cordoned"},
		{"a cordon is a taint that can be tolerated",
			NODE("n1", "", "'unschedulable':true")
				Q(TOLERATES("'key':'node.kubernetes.io/unschedulable',"
					    "'operator':'Exists'")),
			"n1", NULL},
		{"a taint that is not understood", TAINTED("Maybe") Q(EMPTY), "",
			"not understood (spec: taints: 0: effect: 'Maybe'"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define DECLARES(name, features) \
	"node {" META(name, "") ",'status':{'declaredFeatures':[" features "]," \
				"'allocatable':{'pods':'10'}}}\n"
#define MIXED \
	DECLARES("n1", "'Other','RestartAllContainersOnContainerExits'") \
	DECLARES("n2", "'UserNamespacesHostNetworkSupport','VolumeBindMountOptions'") \
	NODE("n3", "", "")
#define RESTARTS(kind, action) \
	"'" kind "':[{'name':'c','restartPolicyRules':[{'action':'Restart'}," \
	"{'action':'" action "'}]}]"
#define MOUNTS(kind, options) \
	"'" kind "':[{'name':'c','volumeMounts':[{'name':'v'},{'bindMountOptions':[" options "]}]}]"
#define HOST_USERS(network, users) "'hostNetwork':" network ",'hostUsers':" users "," EMPTY

static void nodes_declare_the_features_that_a_pod_uses(void **state)
{
	static const struct rule_case cases[] = {
		{"a plain pod", MIXED Q(EMPTY), "n1 n2 n3", NULL, 36},
		{"a container that restarts all containers",
			MIXED Q(RESTARTS("containers", "RestartAllContainers")), "n1",
			"2 without the feature RestartAllContainersOnContainerExits, which the pod "
			"uses",
			36},
		{"an init container that does",
			MIXED Q(RESTARTS("initContainers", "RestartAllContainers")), "n1", NULL,
			36},
		{"a container that restarts itself", MIXED Q(RESTARTS("containers", "Restart")),
			"n1 n2 n3", NULL, 36},
		{"no filter of releases before 1.36",
			MIXED Q(RESTARTS("containers", "RestartAllContainers")), "n1 n2 n3", NULL,
			35},
		{"the host's network with users of the pod's own",
			MIXED Q(HOST_USERS("true", "false")), "n2",
			"2 without the feature UserNamespacesHostNetworkSupport", 36},
		{"the host's network and users", MIXED Q(HOST_USERS("true", "true")), "n1 n2 n3",
			NULL, 36},
		{"users of the pod's own alone", MIXED Q(HOST_USERS("false", "false")), "n1 n2 n3",
			NULL, 36},
		{"options of a mount", MIXED Q(MOUNTS("containers", "'noexec'")), "n2",
			"2 without the feature VolumeBindMountOptions", 37},
		{"... of an init container", MIXED Q(MOUNTS("initContainers", "'noexec'")), "n2",
			NULL, 37},
		{"... of a debugging container", MIXED Q(MOUNTS("ephemeralContainers", "'noexec'")),
			"n2", NULL, 37},
		{"no options", MIXED Q(MOUNTS("containers", "")), "n1 n2 n3", NULL, 37},
		{"1.36 does not know options of mounts", MIXED Q(MOUNTS("containers", "'noexec'")),
			"n1 n2 n3", NULL, 36},
		{"two features on no node in common",
			MIXED Q("'hostNetwork':true,'hostUsers':false," RESTARTS(
				"containers", "RestartAllContainers")),
			"", NULL, 36},
		{"features that are no list",
			"node {" META("n1", "") ",'status':{'declaredFeatures':'x'}}\n" Q(EMPTY),
			"", "status: declaredFeatures: is no list", 36},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

static void node_selectors_and_affinity_choose_nodes(void **state)
{
	static const struct rule_case cases[] = {
		{"nodeName", THREE Q(ON("n2") EMPTY), "n2", "not the node that the pod names"},
		{"nodeSelector", THREE Q("'nodeSelector':{'disk':'ssd'}," EMPTY), "n1", NULL},
		{"In", THREE Q(TERMS(EXPR("disk", "In", "'ssd','hdd'"))), "n1 n2", NULL},
		{"NotIn also without the label", THREE Q(TERMS(EXPR("disk", "NotIn", "'ssd'"))),
			"n2 n3", NULL},
		{"Exists", THREE Q(TERMS(EXPR("disk", "Exists", ""))), "n1 n2", NULL},
		{"DoesNotExist", THREE Q(TERMS(EXPR("disk", "DoesNotExist", ""))), "n3", NULL},
		{"Gt takes numbers only", THREE Q(TERMS(EXPR("gen", "Gt", "'4'"))), "n1", NULL},
		{"Gt is not equal", THREE Q(TERMS(EXPR("gen", "Gt", "'5'"))), "", NULL},
		{"a term with an impossible label value matches no node",
			THREE Q(TERMS(EXPR("disk", "NotIn", "'-'"))), "", NULL},
		{"Lt", THREE Q(TERMS(EXPR("gen", "Lt", "'5'"))), "", NULL},
		{"Gt of no number matches nothing", THREE Q(TERMS(EXPR("gen", "Gt", "'x'"))), "",
			NULL},
		{"one of the terms is enough",
			THREE Q(TERMS(EXPR("gen", "Gt", "'x'") "," EXPR("disk", "In", "'hdd'"))),
			"n2", NULL},
		{"all of a term's expressions must hold",
			THREE Q(TERMS("{'matchExpressions':[{'key':'disk','operator':'Exists'},"
				      "{'key':'gen','operator':'In','values':['x']}]}")),
			"n2", NULL},
		{"an empty term matches nothing", THREE Q(TERMS("{}")), "", NULL},
		{"no terms match nothing", THREE Q(TERMS("")), "", NULL},
		{"the node's name",
			THREE Q(TERMS("{'matchFields':[{'key':'metadata.name','operator':'In',"
				      "'values':['n3']}]}")),
			"n3", NULL},
		{"all but one name",
			THREE Q(TERMS("{'matchFields':[{'key':'metadata.name','operator':'NotIn',"
				      "'values':['n3']}]}")),
			"n1 n2", NULL},
		{"another field",
			THREE Q(TERMS("{'matchFields':[{'key':'metadata.uid','operator':'In',"
				      "'values':['n3']}]}")),
			"", "'metadata.uid' is not known"},
		{"preferred terms do not filter",
			THREE Q("'affinity':{'nodeAffinity':{"
				"'preferredDuringSchedulingIgnoredDuringExecution':[]}}," EMPTY),
			"n1 n2 n3", NULL},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define PORT(more) "'containers':[{'name':'c','ports':[{'hostPort':80" more "}]}]"

static void host_ports_are_taken_once(void **state)
{
	static const struct rule_case cases[] = {
		{"the same", NODE("n1", "", "") POD("p", "", ON("n1") PORT("")) Q(PORT("")), "",
			"host port taken"},
		{"another protocol",
			NODE("n1", "", "") POD("p", "", ON("n1") PORT(",'protocol':'UDP'"))
				Q(PORT("")),
			"n1", NULL},
		{"another address",
			NODE("n1", "", "") POD("p", "", ON("n1") PORT(",'hostIP':'10.0.0.1'"))
				Q(PORT(",'hostIP':'10.0.0.2'")),
			"n1", NULL},
		{"a port on every address conflicts with each address",
			NODE("n1", "", "") POD("p", "", ON("n1") PORT(",'hostIP':'10.0.0.1'"))
				Q(PORT(",'hostIP':'0.0.0.0'")),
			"", NULL},
		{"a pod that has ended holds no port",
			NODE("n1", "", "") "pod "
					   "{'metadata':{'name':'p','namespace':'a'},'status':{'"
					   "phase':'Failed'},"
					   "'spec':{" ON("n1") PORT("") "}}\n" Q(PORT("")),
			"n1", NULL},
		{"a port of a sidecar counts",
			NODE("n1", "", "") POD("p", "", ON("n1") PORT(""))
				Q("'containers':[],'initContainers':[{'name':'i','restartPolicy':"
				  "'Always','ports':[{'hostPort':80}]}]"),
			"", "host port taken"},
		{"a port of an ordinary init container does not count",
			NODE("n1", "", "") POD("p", "", ON("n1") PORT(""))
				Q("'containers':[],'initContainers':[{'name':'i',"
				  "'ports':[{'hostPort':80}]}]"),
			"n1", NULL},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

static void resources_must_be_left(void **state)
{
	static const struct rule_case cases[] = {
		{"exactly all", NODE("n1", "", "") Q(ASKS("'cpu':'4','memory':'8Gi'")), "n1", NULL},
		{"a thousandth more", NODE("n1", "", "") Q(ASKS("'cpu':'4001m'")), "",
			"1 too little cpu"},
		{"requests of other pods count",
			NODE("n1", "", "") POD("p", "", ON("n1") ASKS("'memory':'8Gi'"))
				Q(ASKS("'memory':'1'")),
			"", "too little memory"},
		{"ephemeral storage", NODE("n1", "", "") Q(ASKS("'ephemeral-storage':'11Gi'")), "",
			"too little ephemeral-storage"},
		{"extended resources", NODE("n1", "", "") Q(ASKS("'example.com/foo':'5'")), "",
			"too little example.com/foo"},
		{"an extended resource that the node lacks",
			NODE("n1", "", "") Q(ASKS("'example.com/bar':'1'")), "",
			"too little example.com/bar"},
		{"huge pages", NODE("n1", "", "") Q(ASKS("'hugepages-2Mi':'2Mi'")), "",
			"too little hugepages-2Mi"},
		{"an unknown resource", NODE("n1", "", "") Q(ASKS("'foo':'1'")), "",
			"spec: containers: 0: resources: requests: foo: is no resource"},
		{"the number of pods",
			NODE_WITH("n1", "", "", "'cpu':'4','pods':'1'") POD("p", "", ON("n1") EMPTY)
				Q(EMPTY),
			"", "no room for one more pod"},
		{"a node overcommitted in another resource is refused before 1.27",
			NODE_WITH("n1", "", "", "'cpu':'1','memory':'1Gi','pods':'9'")
				POD("p", "", ON("n1") ASKS("'cpu':'2'")) Q(ASKS("'memory':'1'")),
			"", "too little cpu", 26},
		{"... and since",
			NODE_WITH("n1", "", "", "'cpu':'1','memory':'1Gi','pods':'9'")
				POD("p", "", ON("n1") ASKS("'cpu':'2'")) Q(ASKS("'memory':'1'")),
			"n1", NULL, 27},
		{"a pod without requests fits a full node",
			NODE_WITH("n1", "", "", "'cpu':'1','pods':'9'")
				POD("p", "", ON("n1") ASKS("'cpu':'2'")) Q(EMPTY),
			"n1", NULL},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define NOMINATED(name, priority, spec) \
	"pod {'metadata':{'name':'" name "','namespace':'a','labels':{'app':'" name "'}}," \
	"'spec':{'priority':" priority "," spec "},'status':{'nominatedNodeName':'n1'}}\n"
#define AWAY(app) \
	"'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[" \
	"{'labelSelector':{'matchLabels':{'app':'" app "'}},'topologyKey':'host'}]}},"
#define NEAR(app) \
	"'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[" \
	"{'labelSelector':{'matchLabels':{'app':'" app "'}},'topologyKey':'host'}]}},"
#define HOSTS NODE("n1", "'host':'n1'", "") NODE("n2", "'host':'n2'", "")

static void nominated_pods_count_unless_their_priority_is_lower(void **state)
{
	static const struct rule_case cases[] = {
		{"a nominated pod of equal priority counts",
			HOSTS NOMINATED("p", "5", ASKS("'cpu':'4'"))
				Q("'priority':5," ASKS("'cpu':'1'")),
			"n2", "1 too little cpu"},
		{"a nominated pod of lower priority does not count",
			HOSTS NOMINATED("p", "4", ASKS("'cpu':'4'"))
				Q("'priority':5," ASKS("'cpu':'1'")),
			"n1 n2", NULL},
		{"a pod's own nomination does not count against it",
			HOSTS NOMINATED("q", "5", ASKS("'cpu':'4'")), "n1 n2", NULL},
		{"the anti-affinity of a nominated pod counts",
			HOSTS NOMINATED("p", "0", AWAY("q") EMPTY) Q(EMPTY), "n2",
			"whose anti-affinity rejects this pod"},
		{"an anti-affinity that is not understood",
			HOSTS NOMINATED("p", "0",
				"'affinity':{'podAntiAffinity':{'new':[]}}," EMPTY) Q(EMPTY),
			"n2", "unsupported anti-affinity"},
		{"the pod's anti-affinity to a nominated pod counts",
			HOSTS NOMINATED("p", "0", EMPTY) Q(AWAY("p") EMPTY), "n2",
			"of the required anti-affinity"},
		{"a nominated pod does not satisfy affinity",
			HOSTS NOMINATED("p", "0", EMPTY) Q(NEAR("p") EMPTY), "", NULL},
		{"its ports", HOSTS NOMINATED("p", "0", PORT("")) Q(PORT("")), "n2", "host port"},
		{"the pod slot of a nominated pod counts",
			NODE_WITH("n1", "", "", "'pods':'1'") NOMINATED("p", "0", EMPTY) Q(EMPTY),
			"", "one more pod"},
		{"a spread constraint counts a nominated pod, also in the smallest domain",
			HOSTS NOMINATED("p", "0", EMPTY) Q(
				"'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'host',"
				"'whenUnsatisfiable':'DoNotSchedule','labelSelector':{}}]," EMPTY),
			"n2", "spread constraint on host"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

static void gates_and_unknown_rules_keep_a_pod_waiting(void **state)
{
	static const struct rule_case cases[] = {
		{"a gate", THREE Q("'schedulingGates':[{'name':'quota'}]," EMPTY), "",
			"waits for removal of the scheduling gate quota"},
		{"a later server's field changes nothing", THREE Q("'placement':1," EMPTY),
			"n1 n2 n3", NULL},
		{"an unknown field of an inner object",
			THREE Q("'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuring"
				"Execution':[{'topologyKey':'x','weight':1}]}}," EMPTY),
			"",
			"spec: affinity: podAffinity: "
			"requiredDuringSchedulingIgnoredDuringExecution: 0: weight: this"},
		{"null is nothing", THREE Q("'placement':null," EMPTY), "n1 n2 n3", NULL},
		{"claims, where the API server has none",
			THREE Q("'resourceClaims':[{'name':'x','resourceClaimName':'y'}]," EMPTY),
			"", "dynamic resource allocation"},
		{"claims of a kind that is not known",
			THREE Q("'resourceClaims':[{'name':'x','source':{}}]," EMPTY), "",
			"spec: resourceClaims: 0: source: this"},
		{"a claim without a name", THREE Q("'resourceClaims':[{'name':'x'}]," EMPTY), "",
			"spec: resourceClaims: 0: names neither a claim nor a template"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

UNIT_MAIN(UNIT(taints_keep_pods_off_that_do_not_tolerate_them),
	UNIT(nodes_declare_the_features_that_a_pod_uses),
	UNIT(node_selectors_and_affinity_choose_nodes), UNIT(host_ports_are_taken_once),
	UNIT(resources_must_be_left), UNIT(nominated_pods_count_unless_their_priority_is_lower),
	UNIT(gates_and_unknown_rules_keep_a_pod_waiting))
