/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the rules of volumes: claims, storage classes, zones, shared disks, the number of attached
 * volumes.
 */
#include "base/cleanup.h"
#include "rules.h"
#include "unit.h"

#define ZONE "topology.kubernetes.io/zone"
#define NODES \
	NODE("n1", "'" ZONE "':'a','host':'n1'", "") NODE("n2", "'" ZONE "':'b','host':'n2'", "")
#define CLAIM_WITH(name, meta, spec) \
	"persistentvolumeclaim {'metadata':{'name':'" name "','namespace':'a','uid':'c-" name \
	"'" meta "},'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':" \
	"'5Gi'}}," spec "}}\n"
#define DONE ",'annotations':{'pv.kubernetes.io/bind-completed':'yes'}"
#define BOUND(name, volume) CLAIM_WITH(name, DONE, "'volumeName':'" volume "'")
#define WAITS(name, class) CLAIM_WITH(name, "", "'storageClassName':'" class "'")
#define CLASS(name, provisioner, more) \
	"storageclass {'metadata':{'name':'" name "'},'provisioner':'" provisioner \
	"','volumeBindingMode':'WaitForFirstConsumer'" more "}\n"
#define LOCAL CLASS("local", "kubernetes.io/no-provisioner", "")
#define VOLUME_WITH(name, labels, size, more, status) \
	"persistentvolume {" META(name, labels) ",'spec':{'capacity':{'storage':'" size "'}," \
						"'accessModes':['ReadWriteOnce']," more \
						"},'status':{'phase':'" status "'}}\n"
#define VOLUME(name, size, more) VOLUME_WITH(name, "", size, more, "Available")
#define AT(host) \
	"'nodeAffinity':{'required':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'host'," \
	"'operator':'In','values':['" host "']}]}]}}"
#define FREE(name, size, host) \
	VOLUME(name, size, "'storageClassName':'local','local':{'path':'/'}," AT(host))
#define USES(name, claim) "{'name':'" name "','persistentVolumeClaim':{'claimName':'" claim "'}}"
#define WITH(volumes) "'volumes':[" volumes "]," EMPTY

static void a_bound_claim_goes_where_its_volume_is(void **state)
{
	static const struct rule_case cases[] = {
		{"a volume that every node reaches",
			NODES BOUND("c", "v") VOLUME("v", "5Gi", "'hostPath':{'path':'/'}")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"a volume of one node",
			NODES BOUND("c", "v") VOLUME("v", "5Gi", "'local':{'path':'/'}," AT("n2"))
				Q(WITH(USES("x", "c"))),
			"n2", "1 volume v not reachable"},
		{"a volume of one zone",
			NODES BOUND("c", "v") VOLUME_WITH("v", "'" ZONE "':'b'", "5Gi",
				"'hostPath':{'path':'/'}", "Bound") Q(WITH(USES("x", "c"))),
			"n2", "1 not in the zone of volume v"},
		{"a volume of several zones",
			NODES BOUND("c", "v") VOLUME_WITH("v", "'" ZONE "':'x__b'", "5Gi",
				"'hostPath':{'path':'/'}", "Bound") Q(WITH(USES("x", "c"))),
			"n2", NULL},
		{"a zone label with an empty zone",
			NODES BOUND("c", "v") VOLUME_WITH("v", "'" ZONE "':'x__'", "5Gi",
				"'hostPath':{'path':'/'}", "Bound") Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"an old zone label on nodes with the new one: before",
			NODES BOUND("c", "v") VOLUME_WITH("v",
				"'failure-domain.beta.kubernetes.io/zone':'b'", "5Gi",
				"'hostPath':{'path':'/'}", "Bound") Q(WITH(USES("x", "c"))),
			"", NULL, 27},
		{"... and since",
			NODES BOUND("c", "v") VOLUME_WITH("v",
				"'failure-domain.beta.kubernetes.io/zone':'b'", "5Gi",
				"'hostPath':{'path':'/'}", "Bound") Q(WITH(USES("x", "c"))),
			"n2", NULL, 28},
		{"nodes without zone labels accept all zones",
			NODE("n1", "", "") BOUND("c", "v") VOLUME_WITH("v", "'" ZONE "':'b'", "5Gi",
				"'hostPath':{'path':'/'}", "Bound") Q(WITH(USES("x", "c"))),
			"n1", NULL},
		{"no such claim", NODES Q(WITH(USES("x", "c"))), "", "claim c does not exist"},
		{"a missing volume", NODES BOUND("c", "v") Q(WITH(USES("x", "c"))), "",
			"claim c is bound to volume v, which does not exist"},
		{"a claim that names a volume and is not bound yet",
			NODES LOCAL CLAIM_WITH(
				"c", "", "'storageClassName':'local','volumeName':'v'") VOLUME("v",
				"5Gi", "'hostPath':{'path':'/'}") Q(WITH(USES("x", "c"))),
			"", "claim c is not bound yet"},
		{"a claim that is being deleted",
			NODES CLAIM_WITH("c", DONE ",'deletionTimestamp':'x'", "'volumeName':'v'")
				VOLUME("v", "5Gi", "'hostPath':{'path':'/'}")
					Q(WITH(USES("x", "c"))),
			"", "claim c is being deleted"},
		{"a claim that has lost its volume",
			NODES "persistentvolumeclaim {'metadata':{'name':'c','namespace':'a'" DONE
			      "},'spec':{'volumeName':'v'},'status':{'phase':'Lost'}}\n" Q(
				      WITH(USES("x", "c"))),
			"", "claim c has lost its volume v"},
		{"a volume with an unknown source",
			NODES BOUND("c", "v") VOLUME("v", "5Gi", "'warp':{}")
				Q(WITH(USES("x", "c"))),
			"", "persistentvolume v: spec: warp: this scheduler does not know"},
		{"ReadWriteOncePod, used by another pod",
			NODES CLAIM_WITH(
				"c", DONE, "'volumeName':'v','accessModes':['ReadWriteOncePod']")
				VOLUME("v", "5Gi", "'hostPath':{'path':'/'}") POD("p", "",
					ON("n1") WITH(USES("x", "c"))) Q(WITH(USES("x", "c"))),
			"", "claim c is ReadWriteOncePod and pod p uses it", 29},
		{"ReadWriteOncePod, used by no other pod",
			NODES CLAIM_WITH("c", DONE,
				"'volumeName':'v','accessModes':['ReadWriteOncePod']") VOLUME("v",
				"5Gi", "'hostPath':{'path':'/'}") Q(WITH(USES("x", "c"))),
			"n1 n2", NULL, 29},
		{"an ephemeral volume's claim must be there",
			NODES Q(WITH("{'name':'x','ephemeral':{'volumeClaimTemplate':{}}}")), "",
			"claim q-x does not exist yet", 25},
		{"... and be made for the pod",
			NODES BOUND("q-x", "v") VOLUME("v", "5Gi", "'hostPath':{'path':'/'}")
				Q(WITH("{'name':'x','ephemeral':{'volumeClaimTemplate':{}}}")),
			"", "claim q-x was not made for this pod", 25},
		{"... as this one",
			NODES CLAIM_WITH("q-x",
				DONE ",'ownerReferences':[{'uid':'u-q','controller':true}]",
				"'volumeName':'v'") VOLUME("v", "5Gi", "'hostPath':{'path':'/'}")
				Q(WITH("{'name':'x','ephemeral':{'volumeClaimTemplate':{}}}")),
			"n1 n2", NULL, 25},
		{"an unknown volume source", NODES Q(WITH("{'name':'x','warp':{}}")), "",
			"spec: volumes: 0: warp: this scheduler does not know the volume source"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

static void a_waiting_claim_goes_where_a_volume_can_be(void **state)
{
	static const struct rule_case cases[] = {
		{"a node that reaches a volume",
			NODES LOCAL WAITS("c", "local") FREE("v", "5Gi", "n2")
				Q(WITH(USES("x", "c"))),
			"n2", "1 no volume for claim c"},
		{"a volume that is too small",
			NODES LOCAL WAITS("c", "local") FREE("v", "4Gi", "n2")
				Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume of another class",
			NODES LOCAL CLASS("other", "kubernetes.io/no-provisioner", "")
				WAITS("c", "other") FREE("v", "5Gi", "n2") Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume of another mode",
			NODES LOCAL CLAIM_WITH(
				"c", "", "'storageClassName':'local','volumeMode':'Block'")
				FREE("v", "5Gi", "n2") Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume without the access mode",
			NODES LOCAL CLAIM_WITH("c", "",
				"'storageClassName':'local','accessModes':['ReadWriteMany']")
				FREE("v", "5Gi", "n2") Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume that the selector does not match",
			NODES LOCAL CLAIM_WITH("c", "",
				"'storageClassName':'local','selector':{'matchLabels':{'a':'b'}}")
				FREE("v", "5Gi", "n2") Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume that is not available",
			NODES LOCAL WAITS("c", "local") VOLUME_WITH(
				"v", "", "5Gi", "'storageClassName':'local'," AT("n2"), "Released")
				Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume that is reserved for another claim",
			NODES LOCAL WAITS("c", "local") VOLUME("v", "5Gi",
				"'storageClassName':'local','claimRef':{'namespace':'a','name':'d'}"
				"," AT("n2")) Q(WITH(USES("x", "c"))),
			"", NULL},
		{"a volume that is reserved for the claim is used",
			NODES LOCAL WAITS("c", "local") FREE("w", "5Gi", "n1") VOLUME("v", "5Gi",
				"'storageClassName':'local','claimRef':{'namespace':'a','name':'c',"
				"'uid':'c-c'}," AT("n2")) Q(WITH(USES("x", "c"))),
			"n2", NULL},
		{"two claims need two volumes",
			NODES LOCAL WAITS("c", "local") WAITS("d", "local") FREE("v", "5Gi", "n2")
				FREE("w", "5Gi", "n2") FREE("u", "5Gi", "n1")
					Q(WITH(USES("x", "c") "," USES("y", "d"))),
			"n2", NULL},
		{"the smaller claim chooses first",
			NODES LOCAL CLAIM_WITH("big", "",
				"'storageClassName':'local','resources':{'requests':{'storage':'"
				"8Gi'}}") CLAIM_WITH("c", "",
				"'storageClassName':'local','selector':{'matchLabels':{'a':'b'}}")
				VOLUME_WITH("v", "'a':'b'", "9Gi",
					"'storageClassName':'local'," AT("n2"), "Available")
					FREE("w", "10Gi", "n2")
						Q(WITH(USES("x", "big") "," USES("y", "c"))),
			"n2", NULL},
		{"the smallest volume is taken",
			NODES LOCAL WAITS("c", "local") CLAIM_WITH("d", "",
				"'storageClassName':'local','resources':{'requests':{'storage':'"
				"8Gi'}}") FREE("v", "10Gi", "n2") FREE("w", "6Gi", "n2")
				Q(WITH(USES("x", "c") "," USES("y", "d"))),
			"n2", NULL},
		{"a volume of another attributes class",
			NODES LOCAL CLAIM_WITH("c", "",
				"'storageClassName':'local','volumeAttributesClassName':'fast'")
				FREE("v", "5Gi", "n2") Q(WITH(USES("x", "c"))),
			"", NULL, 34},
		{"the class can provision a volume",
			NODES CLASS("made", "x.io/y", "") WAITS("c", "made")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"a node in the class's topologies",
			NODES CLASS("made", "x.io/y",
				",'allowedTopologies':[{'matchLabelExpressions':[{'key':'" ZONE
				"','values':['b','c']}]}]") WAITS("c", "made")
				Q(WITH(USES("x", "c"))),
			"n2", "1 outside the topologies of the class of claim c"},
		{"the node that an earlier try selected",
			NODES CLASS("made", "x.io/y", "") CLAIM_WITH("c",
				",'annotations':{'volume.kubernetes.io/selected-node':'n2'}",
				"'storageClassName':'made'") Q(WITH(USES("x", "c"))),
			"n2", "1 claim c assigned to another node"},
		{"an annotation names the class",
			NODES CLASS("made", "x.io/y", "") CLAIM_WITH("c",
				",'annotations':{'volume.beta.kubernetes.io/storage-class':'made'}",
				"'storageClassName':'none'") Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"a missing class", NODES WAITS("c", "made") Q(WITH(USES("x", "c"))), "",
			"claim c has the storage class made, which does not exist"},
		{"a class that binds at once",
			NODES "storageclass {'metadata':{'name':'now'},'provisioner':'x.io/y',"
			      "'volumeBindingMode':'Immediate'}\n" WAITS("c", "now")
				      Q(WITH(USES("x", "c"))),
			"", "claim c is not bound yet; its class binds without waiting"},
		{"a class with an unknown binding mode",
			NODES "storageclass {'metadata':{'name':'odd'},'provisioner':'x.io/y',"
			      "'volumeBindingMode':'Later'}\n" WAITS("c", "odd")
				      Q(WITH(USES("x", "c"))),
			"", "storageclass odd: volumeBindingMode: 'Later' is not known"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define DRIVER(has) "csidriver {'metadata':{'name':'x.io/y'},'spec':{'storageCapacity':" has "}}\n"
#define CAPACITY(more) \
	"csistoragecapacity {'metadata':{'name':'k','namespace':'x'},'storageClassName':'made'," \
	"'nodeTopology':{'matchLabels':{'host':'n2'}}," more "}\n"
#define MADE CLASS("made", "x.io/y", "") WAITS("c", "made") Q(WITH(USES("x", "c")))

static void storage_capacity_counts_if_the_driver_wants_it(void **state)
{
	static const struct rule_case cases[] = {
		{"the driver requires capacity objects",
			NODES DRIVER("true") CAPACITY("'capacity':'5Gi'") MADE, "n2",
			"1 too little storage for claim c", 24},
		{"too little", NODES DRIVER("true") CAPACITY("'capacity':'4Gi'") MADE, "", NULL,
			24},
		{"maximumVolumeSize replaces the capacity",
			NODES DRIVER("true") CAPACITY("'capacity':'9Gi','maximumVolumeSize':'4Gi'")
				MADE,
			"", NULL, 24},
		{"the driver requires no capacity objects", NODES DRIVER("false") MADE, "n1 n2",
			NULL, 24},
		{"not before 1.21", NODES DRIVER("true") MADE, "n1 n2", NULL, 20},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define DISK(kind, id, more) "{'name':'d','" kind "':{" id more "}}"
#define RW
#define RO ",'readOnly':true"
#define TWO(disk, other) NODES POD("p", "", ON("n1") WITH(disk)) Q(WITH(other))
#define GCE(more) DISK("gcePersistentDisk", "'pdName':'d'", more)
#define EBS(id, more) DISK("awsElasticBlockStore", "'volumeID':'" id "'", more)
#define ISCSI(more) DISK("iscsi", "'iqn':'i'", more)
#define RBD(monitors, image, more) \
	DISK("rbd", "'image':'" image "','monitors':[" monitors "]", more)

static void exclusive_disks_are_not_shared(void **state)
{
	static const struct rule_case cases[] = {
		{"GCE", TWO(GCE(RW), GCE(RW)), "n2", "1 disk d in use by another pod"},
		{"GCE, one of them reads", TWO(GCE(RW), GCE(RO)), "n2", NULL},
		{"GCE, both read", TWO(GCE(RO), GCE(RO)), "n1 n2", NULL},
		{"EBS, even if both read", TWO(EBS("d", RO), EBS("d", RO)), "n2", NULL},
		{"another one", TWO(EBS("d", RW), EBS("e", RW)), "n1 n2", NULL},
		{"iSCSI", TWO(ISCSI(RW), ISCSI(RO)), "n2", NULL},
		{"iSCSI, both read", TWO(ISCSI(RO), ISCSI(RO)), "n1 n2", NULL},
		{"RBD with a monitor in common",
			TWO(RBD("'a','b'", "i", RW), RBD("'b','c'", "i", RW)), "n2", NULL},
		{"RBD with none", TWO(RBD("'a'", "i", RW), RBD("'b'", "i", RW)), "n1 n2", NULL},
		{"RBD of another pool", TWO(RBD("'a'", "i", RW), RBD("'a'", "i", ",'pool':'p'")),
			"n1 n2", NULL},
		{"another image", TWO(RBD("'a'", "i", RW), RBD("'a'", "j", RW)), "n1 n2", NULL},
		{"a GCE disk is no EBS volume", TWO(GCE(RW), EBS("d", RW)), "n1 n2", NULL},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define LIMITS(count) \
	"csinode {'metadata':{'name':'n1'},'spec':{'drivers':[{'name':'x.io','allocatable':" \
	"{'count':" count "}}]}}\n"
#define CSI(name, handle) \
	BOUND(name, name) VOLUME(name, "5Gi", "'csi':{'driver':'x.io','volumeHandle':'" handle "'}")
#define ATTACHED(volume, node, driver) \
	"volumeattachment {'metadata':{'name':'at-" volume "'},'spec':{'attacher':'" driver \
	"','nodeName':'" node "','source':{'persistentVolumeName':'" volume "'}}}\n"
#define HOLDS(claim) POD("p", "", ON("n1") WITH(USES("x", claim)))

#define EBS5(id) \
	EBS(id "1", RW) \
	"," EBS(id "2", RW) "," EBS(id "3", RW) "," EBS(id "4", RW) "," EBS(id "5", RW)
#define EBS25 EBS5("a") "," EBS5("b") "," EBS5("c") "," EBS5("d") "," EBS5("e")
#define MACHINES \
	NODE("n1", "'node.kubernetes.io/instance-type':'m5.large'", "") \
	NODE("n2", "'beta.kubernetes.io/instance-type':'m4.large'", "") \
	NODE("n3", "'node.kubernetes.io/instance-type':'t3.large'", "")

static void a_node_has_a_limit_of_volumes(void **state)
{
	static const struct rule_case cases[] = {
		{"the limit is reached",
			NODES LIMITS("1") CSI("c", "1") CSI("d", "2") HOLDS("d")
				Q(WITH(USES("x", "c"))),
			"n2", "1 no room for one more volume of x.io"},
		{"one volume fits",
			NODES LIMITS("2") CSI("c", "1") CSI("d", "2") HOLDS("d")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"the volume is attached already",
			NODES LIMITS("1") CSI("c", "1") HOLDS("c") Q(WITH(USES("x", "c"))), "n1 n2",
			NULL},
		{"a volume without a pod is attached still",
			NODES LIMITS("1") CSI("c", "1") CSI("d", "2") ATTACHED("d", "n1", "x.io")
				Q(WITH(USES("x", "c"))),
			"n2", "1 no room for one more volume of x.io"},
		{"... and its pod is there: it counts once",
			NODES LIMITS("2") CSI("c", "1") CSI("d", "2") HOLDS("d")
				ATTACHED("d", "n1", "x.io") Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"... and the pod wants this one",
			NODES LIMITS("1") CSI("c", "1") ATTACHED("c", "n1", "x.io")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"... on another node",
			NODES LIMITS("1") CSI("c", "1") CSI("d", "2") ATTACHED("d", "n2", "x.io")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"... of another driver",
			NODES LIMITS("1") CSI("c", "1") CSI("d", "2") ATTACHED("d", "n1", "y.io")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"... of a node that is not known yet",
			ATTACHED("d", "n1", "x.io") NODES LIMITS("1") CSI("c", "1") CSI("d", "2")
				Q(WITH(USES("x", "c"))),
			"n2", NULL},
		{"... and its volume has no object",
			NODES LIMITS("1") CSI("c", "1") ATTACHED("d", "n1", "x.io")
				Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"a limit of 0", NODES LIMITS("0") CSI("c", "1") Q(WITH(USES("x", "c"))), "n2",
			NULL},
		{"two volumes of one pod",
			NODES LIMITS("1") CSI("c", "1") CSI("d", "2")
				Q(WITH(USES("x", "c") "," USES("y", "d"))),
			"n2", NULL},
		{"two volumes of one claim are one",
			NODES LIMITS("1") CSI("c", "1") Q(WITH(USES("x", "c") "," USES("y", "c"))),
			"n1 n2", NULL},
		{"a node above its limit takes what it has already",
			NODES LIMITS("1") CSI("c", "1") CSI("d", "2")
				POD("p", "", ON("n1") WITH(USES("x", "c") "," USES("y", "d")))
					Q(WITH(USES("x", "c"))),
			"n1 n2", NULL},
		{"... of an in-tree driver it did not",
			NODE_WITH("n1", "", "", "'pods':'9','attachable-volumes-gce-pd':'0'")
				POD("p", "", ON("n1") WITH(GCE(RO))) Q(WITH(GCE(RO))),
			"", "one more volume of kubernetes.io/gce-pd", 20},
		{"a volume without a handle is none",
			NODES LIMITS("0") CSI("c", "") Q(WITH(USES("x", "c"))), "n1 n2", NULL},
		{"25 EBS volumes fit any machine", MACHINES Q(WITH(EBS25)), "n1 n2 n3", NULL, 20},
		{"a 26th not some kinds of them", MACHINES Q(WITH(EBS25 "," EBS("f", RW))), "n2",
			NULL, 20},
		{"one that will be made counts",
			NODES LIMITS("0") CLASS("made", "x.io", "") WAITS("c", "made")
				Q(WITH(USES("x", "c"))),
			"n2", NULL},
		{"a driver without a limit",
			NODES LIMITS("null") CSI("c", "1") Q(WITH(USES("x", "c"))), "n1 n2", NULL},
		{"the limit as the node said it, before",
			NODE_WITH("n1", "", "", "'pods':'9','attachable-volumes-csi-x.io':'0'")
				CSI("c", "1") Q(WITH(USES("x", "c"))),
			"", NULL, 20},
		{"in-tree volumes before the migration: by the node's own limit",
			NODE_WITH("n1", "", "", "'pods':'9','attachable-volumes-gce-pd':'0'")
				Q(WITH(GCE(RW))),
			"", "one more volume of kubernetes.io/gce-pd", 20},
		{"... or a default", NODES Q(WITH(GCE(RW))), "n1 n2", NULL, 20},
		{"... since, as those of the CSI driver",
			NODES
			"csinode {'metadata':{'name':'n1'},'spec':{'drivers':[{'name':"
			"'pd.csi.storage.gke.io','allocatable':{'count':0}}]}}\n" Q(WITH(GCE(RW))),
			"n2", "one more volume of pd.csi.storage.gke.io", 31},
		{"inline CSI volumes are attached to nothing",
			NODES LIMITS("0") Q(WITH("{'name':'x','csi':{'driver':'x.io'}}")), "n1 n2",
			NULL},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define CSI_DRIVER(name, spec) "csidriver {'metadata':{'name':'" name "'},'spec':{" spec "}}\n"
#define MANDATORY "'preventPodSchedulingIfMissing':true"
/* n1 has the driver x.io, n2 another one, n3 no CSINode object. */
#define DRIVERS \
	NODES NODE("n3", "", "") LIMITS( \
		"null") "csinode {'metadata':{'name':'n2'},'spec':{'drivers':[{'name':'y.io'}]}}\n"

static void a_node_needs_a_mandatory_driver(void **state)
{
	static const struct rule_case cases[] = {
		{"a mandatory driver",
			DRIVERS CSI_DRIVER("x.io", MANDATORY) CSI("c", "1") Q(WITH(USES("x", "c"))),
			"n1", "2 without the CSI driver x.io", 37},
		{"... of a volume that will be made",
			DRIVERS CSI_DRIVER("x.io", MANDATORY) CLASS("made", "x.io", "")
				WAITS("c", "made") Q(WITH(USES("x", "c"))),
			"n1", NULL, 37},
		{"releases before 1.37 do not ask",
			DRIVERS CSI_DRIVER("x.io", MANDATORY) CSI("c", "1") Q(WITH(USES("x", "c"))),
			"n1 n2 n3", NULL, 36},
		{"another driver",
			DRIVERS CSI_DRIVER("x.io", "") CSI("c", "1") Q(WITH(USES("x", "c"))),
			"n1 n2 n3", NULL, 37},
		{"a driver without an object", DRIVERS CSI("c", "1") Q(WITH(USES("x", "c"))),
			"n1 n2 n3", NULL, 37},
		{"a pod that does not use it",
			DRIVERS CSI_DRIVER("x.io", MANDATORY) CSI("c", "1") Q(EMPTY), "n1 n2 n3",
			NULL, 37},
		{"an in-tree volume on a node without a CSINode",
			DRIVERS CSI_DRIVER("pd.csi.storage.gke.io", MANDATORY) Q(WITH(GCE(RW))),
			"n3", "2 without the CSI driver pd.csi.storage.gke.io", 37},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

UNIT_MAIN(UNIT(a_bound_claim_goes_where_its_volume_is),
	UNIT(a_waiting_claim_goes_where_a_volume_can_be),
	UNIT(storage_capacity_counts_if_the_driver_wants_it), UNIT(exclusive_disks_are_not_shared),
	UNIT(a_node_has_a_limit_of_volumes), UNIT(a_node_needs_a_mandatory_driver))
