/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the webhook's answers by tables of reviews. Like an API server, a test sends an accepted
 * pod to the webhook again: the pod must not change any more, and validation must accept it.
 */
#include "unit-json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/admit.h"
#include "patch.h"

static const struct admit_rules rules = {
	.scheduler_name = "divvy-scheduler", .ns = "divvy-system", .lease_ns = "divvy-node-lease"};

#define SCHEDULER "system:serviceaccount:divvy-system:divvy-scheduler"
#define DAEMON "system:serviceaccount:divvy-system:divvyd"

struct ask {
	const char *path, *operation, *user, *resource, *subresource, *extra;
	const char *dialects, *policy, *pod_uid, *pod_node;
	const json_t *object, *old;
};

/* Returns the answer, owned by the caller. */
static json_t *answer(const struct ask *ask)
{
	const char *user = ask->user ? ask->user : "alice";
	_cleanup_json_ json_t *extra = unit_json(ask->extra ? ask->extra : "{}");
	_cleanup_json_ json_t *policy = ask->policy ? unit_json(ask->policy) : NULL;
	_cleanup_json_ json_t *review = json_pack(
		"{s:s, s:s, s:{s:s, s:s, s:{s:s, s:O}, s:{s:s, s:s}, s:s, s:s, s:s, s:O?, s:O?}}",
		"apiVersion", "admission.k8s.io/v1", "kind", "AdmissionReview", "request", "uid",
		"u-1", "operation", ask->operation ? ask->operation : "CREATE", "userInfo",
		"username", user, "extra", extra, "resource", "group",
		!strcmp(ask->path, "/validate/objects") ? "divvy.gpu" : "", "resource",
		ask->resource ? ask->resource : "pods", "subResource",
		ask->subresource ? ask->subresource : "", "namespace", "ns1", "name", "p", "object",
		ask->object, "oldObject", ask->old);
	const json_t *policies[] = {policy};
	const struct admit_facts facts = {.ns = {ask->dialects, policies, policy ? 1 : 0},
		.author = {ask->pod_uid, ask->pod_node}};
	struct admit_request request;
	struct error err;
	json_t *out;

	assert_non_null(review);
	if (admit_parse(review, &request, &err) < 0)
		fail_msg("%s", err.msg);
	out = admit_answer(admit_path_find(ask->path), &rules, &request, &facts);
	assert_non_null(out);
	assert_string_equal(kube_json_text_at(out, "response", "uid", NULL), "u-1");
	return out;
}

static bool is_allowed(const json_t *review)
{
	return json_is_true(kube_json_at(review, "response", "allowed", NULL));
}

static const char *why(const json_t *review)
{
	const char *text = kube_json_text_at(review, "response", "status", "message", NULL);

	return text ? text : "(allowed)";
}

static void assert_refused(const struct ask *ask, const char *part)
{
	_cleanup_json_ json_t *got = answer(ask);

	if (is_allowed(got))
		fail_msg("allowed, and should say: %s", part);
	assert_contains(why(got), part);
}

static void assert_allowed(const struct ask *ask)
{
	_cleanup_json_ json_t *got = answer(ask);

	if (!is_allowed(got))
		fail_msg("%s", why(got));
}

#define POD(annotations, spec) \
	"{'metadata':{'name':'p','annotations':{" annotations "}},'spec':{" spec "}}"
#define MAIN "'containers':[{'name':'main'}]"
#define LIMITS(limits) "'containers':[{'name':'main','resources':{'limits':{" limits "}}}]"
#define SAME(list) \
	"'containers':[{'name':'main','resources':{'limits':{" list "},'requests':{" list "}}}]"
#define TENANT "'metadata':{'name':'p','labels':{'divvy.gpu/tenant':'true'},'annotations':{"

#define HAS_SHARE(name, milli) \
	"{'name':'" name "','resources':{" \
	"'limits':{'divvy.gpu/slot':'1','divvy.gpu/milli':'" milli "'}," \
	"'requests':{'divvy.gpu/slot':'1','divvy.gpu/milli':'" milli "'}}}"
/* managedFields by which an API server says that the pod's author wrote the container "main". */
#define MANAGED \
	"'managedFields':[{'manager':'m','operation':'Update','fieldsV1':{'f:spec':{" \
	"'f:containers':{'.':{},'k:{\\\"name\\\":\\\"main\\\"}':{'.':{}}}}}}],"

/* The annotation in which LimitRanger says which resources it added. */
#define RANGED(text) "'kubernetes.io/limit-ranger':'LimitRanger plugin set: " text "'"
#define RANGES(name) \
	"{'name':'" name "','resources':{" \
	"'limits':{'divvy.gpu/milli':'500'},'requests':{'divvy.gpu/milli':'500'}}}"
#define NO_RANGE(name) \
	"{'name':'" name "','resources':{" \
	"'limits':{'divvy.gpu/milli':'0'},'requests':{'divvy.gpu/milli':'0'}}}"

#define SLOTS(n) \
	"'resources':{'limits':{'divvy.gpu/slot':'" n "'},'requests':{'divvy.gpu/slot':'" n "'}}"
#define RANGED_SLOT(name) \
	"divvy.gpu/slot request for container " name "; divvy.gpu/slot limit for container " name
#define AUTHOR "'kubectl.kubernetes.io/default-container':'train',"
#define TRAINS \
	"{'name':'train','resources':{'limits':{'divvy.gpu/slot':'1','divvy.gpu/milli':'300'}," \
	"'requests':{'divvy.gpu/slot':'1','divvy.gpu/milli':'300'}}}"
#define TRAIN(first) \
	",'divvy.gpu/default-container':'train'}},'spec':{'schedulerName':'divvy-scheduler'," \
	"'containers':[{'name':'" first "'," SLOTS("0") "}," TRAINS "]}}"

/* Pods, and the result of the webhook's patch. */
static const struct {
	const char *dialects, *pod, *result;
} translated[] = {
	{NULL, POD("", MAIN), POD("", MAIN)},
	{NULL, POD("'divvy.gpu/request':'0.3','divvy.gpu/memory':'1000000000'", MAIN),
		"{" TENANT "'divvy.gpu/request':'0.3','divvy.gpu/"
		"memory':'1000000000'}},'spec':{"
		"'schedulerName':'divvy-scheduler'," SAME("'divvy.gpu/slot':'1','divvy.gpu/"
							  "milli':'300','divvy.gpu/"
							  "memory-mib':'954'") "}}"},
	{NULL,
		POD("'divvy.gpu/request':'2'",
			"'schedulerName':'default-scheduler'," LIMITS("'cpu':'1'")),
		"{" TENANT "'divvy.gpu/"
		"request':'2'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'main','resources':{'limits':{'cpu':'1','"
		"divvy.gpu/"
		"slot':'1',"
		"'divvy.gpu/milli':'2000'},'requests':{'divvy.gpu/"
		"slot':'1','divvy.gpu/"
		"milli':'2000'}}}]}}"},
	/*
	 * The name of another scheduler stays, because that scheduler may use divvy-scheduler as
	 * its extender.
	 */
	{NULL, POD("'divvy.gpu/request':'1'", "'schedulerName':'volcano'," MAIN),
		"{" TENANT "'divvy.gpu/request':'1'}},'spec':{'schedulerName':'volcano'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'1000'") "}}"},
	/*
	 * Keys of a further container, of an init container, and of a name that no container has.
	 */
	{NULL,
		POD("'side.divvy.gpu/request':'0.25','side.divvy.gpu/count':'2',"
		    "'first.divvy.gpu/request':'0.5'",
			"'initContainers':[{'name':'first'}],'containers':[{'name':"
			"'main'},{'name':"
			"'side'}]"),
		"{" TENANT "'side.divvy.gpu/request':'0.25','side.divvy.gpu/count':'2',"
		"'first.divvy.gpu/"
		"request':'0.5'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'initContainers':[{'name':'first','resources':{"
		"'limits':{'divvy.gpu/slot':'1','divvy.gpu/milli':'500'},"
		"'requests':{'divvy.gpu/slot':'1','divvy.gpu/milli':'500'}}}],"
		"'containers':[{'name':'main'},{'name':'side','resources':{"
		"'limits':{'divvy.gpu/slot':'1','divvy.gpu/milli':'500'},"
		"'requests':{'divvy.gpu/slot':'1','divvy.gpu/milli':'500'}}}]}}"},
	/* An init container uses the device of the main container. */
	{NULL,
		POD("'divvy.gpu/request':'0.5','divvy.gpu/mode':'remote','divvy.gpu/"
		    "container':'i,main'",
			"'initContainers':[{'name':'i'}],'containers':[{'name':'main'}]"),
		"{" TENANT "'divvy.gpu/request':'0.5','divvy.gpu/mode':'remote',"
		"'divvy.gpu/container':'i,main'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'initContainers':[" HAS_SHARE("i", "500") "],'containers':[" HAS_SHARE(
			"main", "500") "]}}"},
	/*
	 * In a pod with several main containers the webhook records which of them gets the share.
	 */
	{NULL, POD("'divvy.gpu/request':'0.5'", "'containers':[{'name':'main'},{'name':'side'}]"),
		"{" TENANT "'divvy.gpu/request':'0.5','divvy.gpu/default-container':'main'}},"
		"'spec':{'schedulerName':'divvy-scheduler','containers':"
		"[" HAS_SHARE("main", "500") ",{'name':'side'}]}}"},
	/*
	 * Another webhook added the container "side": managedFields show that the pod's author
	 * wrote one container.
	 */
	{NULL,
		"{'metadata':{'name':'p'," MANAGED "'annotations':{'divvy.gpu/request':'0.5'}},"
		"'spec':{'containers':[{'name':'side'},{'name':'main'}]}}",
		"{'metadata':{'name':'p'," MANAGED "'labels':{'divvy.gpu/tenant':'true'},"
		"'annotations':{'divvy.gpu/request':'0.5','divvy.gpu/"
		"default-container':'main'}},"
		"'spec':{'schedulerName':'divvy-scheduler','containers':[{'name':'"
		"side'}"
		"," HAS_SHARE("main", "500") "]}}"},
	{NULL,
		POD("'divvy.gpu/request':'0.5','kubectl.kubernetes.io/"
		    "default-container':'main'",
			"'containers':[{'name':'wait'},{'name':'main'}]"),
		"{" TENANT "'divvy.gpu/request':'0.5','kubectl.kubernetes.io/"
		"default-container':"
		"'main','divvy.gpu/"
		"default-container':'main'}},'spec':{'schedulerName':"
		"'divvy-scheduler','containers':[{'name':'wait'}," HAS_SHARE("main", "500") "]}}"},
	/* After divvy's webhook another webhook added a container in front. */
	{NULL,
		"{" TENANT "'divvy.gpu/request':'0.5','main.divvy.gpu/limit':'0.6'}},'spec':{"
		"'schedulerName':'divvy-scheduler','containers':[{'name':'side'}"
		"," HAS_SHARE("main", "500") "]}}",
		"{" TENANT "'divvy.gpu/request':'0.5','main.divvy.gpu/limit':'0.6',"
		"'divvy.gpu/"
		"default-container':'main'}},'spec':{'schedulerName':'divvy-"
		"scheduler',"
		"'containers':[{'name':'side'}," HAS_SHARE("main", "500") "]}}"},
	{NULL,
		"{" TENANT "'divvy.gpu/request':'0.5','b.divvy.gpu/request':'0.2',"
		"'divvy.gpu/default-container':'main'}},'spec':{'schedulerName':"
		"'divvy-scheduler','containers':[{'name':'side'}," HAS_SHARE(
			"b", "200") "," HAS_SHARE("main", "500") "]}}",
		"{" TENANT "'divvy.gpu/request':'0.5','b.divvy.gpu/request':'0.2',"
		"'divvy.gpu/default-container':'main'}},'spec':{'schedulerName':"
		"'divvy-scheduler','containers':[{'name':'side'}," HAS_SHARE(
			"b", "200") "," HAS_SHARE("main", "500") "]}}"},
	{"nvidia",
		"{" TENANT "'divvy.gpu/translated-from':'main/nvidia.com/gpu=1',"
		"'divvy.gpu/"
		"dialects':'nvidia'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'side'}," HAS_SHARE("main", "1000") "]}}",
		"{" TENANT "'divvy.gpu/translated-from':'main/nvidia.com/gpu=1',"
		"'divvy.gpu/"
		"dialects':'nvidia'}},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'side'}," HAS_SHARE("main", "1000") "]}}"},
	/* A LimitRange with a maximum gives all containers this default. */
	{NULL,
		POD(RANGED("divvy.gpu/milli limit for container main; cpu, divvy.gpu/milli request "
			   "for container main"),
			"'containers':[" RANGES("main") "]"),
		POD(RANGED("divvy.gpu/milli limit for container main; cpu, divvy.gpu/milli request "
			   "for container main"),
			"'containers':[" NO_RANGE("main") "]")},
	{NULL,
		POD("'divvy.gpu/request':'0.3'," RANGED(
			    "divvy.gpu/milli request for init container i; divvy.gpu/milli limit "
			    "for init container i; divvy.gpu/milli request for container side; "
			    "divvy.gpu/milli limit for container side; cpu, divvy.gpu/milli "
			    "request for container main; divvy.gpu/milli limit for container main"),
			"'initContainers':[" RANGES("i") "],'containers':[" RANGES(
				"main") "," RANGES("side") "]"),
		"{" TENANT "'divvy.gpu/request':'0.3'," RANGED(
			"divvy.gpu/milli request for init container i; divvy.gpu/milli limit for "
			"init container i; divvy.gpu/milli request for container side; "
			"divvy.gpu/milli limit for container side; cpu, divvy.gpu/milli request "
			"for container main; divvy.gpu/milli limit for container "
			"main") ",'divvy.gpu/"
				"default-container':'main'}},'spec':{'"
				"schedulerName':'divvy-scheduler',"
				"'initContainers':[" NO_RANGE(
					"i") "],'containers':[{'name':'main','"
					     "resources':{"
					     "'limits':{'divvy.gpu/"
					     "milli':'300','divvy.gpu/slot':'1'},"
					     "'requests':{'divvy.gpu/"
					     "milli':'300','divvy.gpu/"
					     "slot':'1'}}}," NO_RANGE("side") "]}}"},
	/* Slots that LimitRanger added do not say which container the webhook chose. */
	{NULL,
		POD("'divvy.gpu/request':'0.3'," AUTHOR RANGED(
			    RANGED_SLOT("side") "; " RANGED_SLOT("train")),
			"'containers':[{'name':'side'," SLOTS("1") "},{'name':'train'," SLOTS(
				"1") "}]"),
		"{" TENANT "'divvy.gpu/request':'0.3'," AUTHOR RANGED(
			RANGED_SLOT("side") "; " RANGED_SLOT("train")) TRAIN("side")},
	/* A further webhook added a container later, and LimitRanger wrote its annotation again. */
	{NULL,
		"{" TENANT "'divvy.gpu/request':'0.3'," RANGED(RANGED_SLOT(
			"proxy")) "}},'spec':{'schedulerName':'divvy-scheduler','containers':[{"
				  "'name':'proxy'," SLOTS("1") "}," TRAINS "]}}",
		"{" TENANT "'divvy.gpu/request':'0.3'," RANGED(RANGED_SLOT("proxy"))
			TRAIN("proxy")},
	/* A pod of a gang names a scheduler for gangs, which divvy-scheduler replaces. */
	{NULL,
		"{'metadata':{'name':'p','annotations':{'divvy.gpu/request':'1',"
		"'scheduling.k8s.io/"
		"group-name':'job'}},'spec':{'schedulerName':'volcano',"
		"'containers':[{'name':'main'}]}}",
		"{" TENANT "'divvy.gpu/request':'1','scheduling.k8s.io/group-name':'job'}},"
		"'spec':{'schedulerName':'divvy-scheduler'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'1000'") "}}"},
	/* The user's own key for a gang, in the pod of a leader. */
	{NULL,
		"{'metadata':{'name':'p','annotations':{'divvy.gpu/request':'1',"
		"'divvy.gpu/group-by':'leaderworkerset','leaderworkerset.sigs.k8s.io/size':'2'}},"
		"'spec':{'schedulerName':'volcano','containers':[{'name':'main'}]}}",
		"{" TENANT "'divvy.gpu/request':'1','divvy.gpu/group-by':'leaderworkerset',"
		"'leaderworkerset.sigs.k8s.io/size':'2'}},'spec':{'schedulerName':"
		"'divvy-scheduler'," SAME("'divvy.gpu/slot':'1','divvy.gpu/milli':'1000'") "}}"},
	/* The Job controller names a group in each pod, whatever scheduler its user has chosen. */
	{NULL,
		"{'metadata':{'name':'p','annotations':{'divvy.gpu/request':'1'}},'spec':{"
		"'schedulingGroup':{'podGroupName':'job'},'schedulerName':'volcano',"
		"'containers':[{'name':'main'}]}}",
		"{" TENANT "'divvy.gpu/request':'1'}},'spec':{"
		"'schedulingGroup':{'podGroupName':'job'},'schedulerName':'volcano'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'1000'") "}}"},
	/* Keys of another system stay untouched unless the namespace enables its dialect. */
	{NULL, POD("", LIMITS("'nvidia.com/gpu':'1'")), POD("", LIMITS("'nvidia.com/gpu':'1'"))},
	{"nvidia", POD("", LIMITS("'nvidia.com/gpu':'1'")),
		"{" TENANT "'divvy.gpu/translated-from':'main/nvidia.com/gpu=1','divvy.gpu/"
		"dialects':'nvidia'}},"
		"'spec':{'schedulerName':'divvy-scheduler'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'1000'") "}}"},
	{" hami , nvidia",
		POD("",
			"'schedulerName':'hami-scheduler'," SAME(
				"'nvidia.com/gpu':'2',"
				"'nvidia.com/gpumem':'3000','nvidia.com/"
				"gpucores':'30'")),
		"{" TENANT "'divvy.gpu/translated-from':"
		"'main/nvidia.com/gpu=2,main/nvidia.com/gpumem=3000,main/"
		"nvidia.com/gpucores=30',"
		"'divvy.gpu/"
		"dialects':'hami,nvidia'}},'spec':{'schedulerName':'divvy-"
		"scheduler'," SAME("'divvy.gpu/slot':'1','divvy.gpu/milli':'600','divvy.gpu/"
				   "memory-mib':'6000'") "}}"},
	/* The scheduler of a dialect that is on is replaced; another system's scheduler stays. */
	{"koordinator",
		POD("", "'schedulerName':'koord-scheduler'," SAME("'koordinator.sh/gpu':'50'")),
		"{" TENANT "'divvy.gpu/translated-from':'main/koordinator.sh/gpu=50',"
		"'divvy.gpu/dialects':'koordinator'}},'spec':{'schedulerName':'divvy-scheduler'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'500'") "}}"},
	{"volcano=10", POD("", "'schedulerName':'volcano'," SAME("'volcano.sh/vgpu-memory':'100'")),
		"{" TENANT "'divvy.gpu/translated-from':'main/volcano.sh/vgpu-memory=100',"
		"'divvy.gpu/dialects':'volcano=10'}},'spec':{'schedulerName':'divvy-scheduler'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'1','divvy.gpu/memory-mib':'1000'") "}}"},
	{"koordinator", POD("", "'schedulerName':'volcano'," SAME("'koordinator.sh/gpu':'50'")),
		"{" TENANT "'divvy.gpu/translated-from':'main/koordinator.sh/gpu=50',"
		"'divvy.gpu/dialects':'koordinator'}},'spec':{'schedulerName':'volcano'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'500'") "}}"},
	{"mig", POD("", LIMITS("'nvidia.com/mig-1g.5gb':'1'")),
		"{" TENANT "'divvy.gpu/translated-from':'main/nvidia.com/mig-1g.5gb=1',"
		"'divvy.gpu/dialects':'mig'}},'spec':{'schedulerName':'divvy-scheduler'," SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'142','divvy.gpu/memory-mib':'4769'") "}}"},
};

static void pods_are_translated_once(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(translated); i++) {
		_cleanup_json_ json_t *pod = unit_json(translated[i].pod),
				      *want = unit_json(translated[i].result);
		struct ask ask = {
			.path = "/mutate/pods", .dialects = translated[i].dialects, .object = pod};
		_cleanup_json_ json_t *got = answer(&ask), *patch = patch_of_review(got);
		_cleanup_json_ json_t *again = NULL;
		_cleanup_free_ char *text = NULL;

		if (!is_allowed(got))
			fail_msg("%s: %s", translated[i].pod, why(got));
		assert_true(patch_apply(pod, patch));
		text = json_dumps(pod, JSON_COMPACT);
		if (!json_equal(pod, want))
			fail_msg("%s\nbecomes\n%s", translated[i].pod, text);
		again = answer(&ask);
		assert_true(is_allowed(again));
		assert_null(kube_json_at(again, "response", "patch", NULL));
		ask.path = "/validate/pods";
		assert_allowed(&ask);
	}
}

static const struct {
	const char *dialects, *policy, *pod, *says;
} refused[] = {
	{NULL, NULL, POD("'divvy.gpu/request':'1.5'", MAIN), "divvy.gpu/request"},
	{NULL, NULL, POD("'divvy.gpu/reqest':'1'", MAIN), "did you mean request?"},
	{NULL, NULL, POD("'divvy.gpu/limit':'1'", MAIN), "request"},
	{NULL, NULL, POD("'divvy.gpu/devices':'main=GPU-1'", MAIN), "only divvy's scheduler"},
	{NULL, NULL, POD("'divvy.gpu/granted-limit':'main=1'", MAIN), "only divvy's scheduler"},
	{NULL, NULL, POD("'divvy.gpu/granted-soul':'main=1'", MAIN), "only divvy's scheduler"},
	{NULL, NULL, POD("'divvy.gpu/epoch':'1'", MAIN), "only divvy's scheduler"},
	{NULL, NULL, POD("'main.divvy.gpu/devices':'GPU-1'", MAIN), "only divvy's scheduler"},
	{NULL, NULL, POD("'divvy.gpu/dialects':'nvidia'", MAIN), "divvy writes it"},
	{NULL, NULL, POD("'divvy.gpu/dialects':'nvidia'", LIMITS("'nvidia.com/gpu':'1'")),
		"divvy writes it"},
	{"nvidia", NULL,
		POD("'divvy.gpu/translated-from':'main/nvidia.com/gpu=2'",
			LIMITS("'nvidia.com/gpu':'1'")),
		"was created with 2"},
	{NULL, NULL, POD("'divvy.gpu/translated-from':'main/nvidia.com/gpu=2'", MAIN),
		"divvy writes it"},
	{NULL, NULL, POD("'divvy.gpu/request':'0.3'", LIMITS("'divvy.gpu/milli':'1'")),
		"divvy.gpu/milli '1'"},
	{NULL, NULL, POD("", LIMITS("'divvy.gpu/slot':'1'")), "divvy writes it"},
	{NULL, NULL, POD("'divvy.gpu/request':'0.3'", LIMITS("'divvy.gpu/gpu':'1'")),
		"divvy.gpu/gpu '1'"},
	{NULL, NULL,
		POD("'a.divvy.gpu/request':'0.3','b.divvy.gpu/request':'0.3',"
		    "'a.divvy.gpu/mode':'local','b.divvy.gpu/mode':'remote'",
			"'containers':[{'name':'a'},{'name':'b'}]"),
		"container a: mode local beside mode remote of container b"},
	{NULL, NULL,
		POD("'a.divvy.gpu/request':'0.3','b.divvy.gpu/request':'1',"
		    "'a.divvy.gpu/mode':'remote','b.divvy.gpu/mode':'exclusive'",
			"'initContainers':[{'name':'a'}],'containers':[{'name':'b'}]"),
		"container b: mode exclusive beside mode remote of container a"},
	{NULL, NULL,
		POD("'divvy.gpu/request':'0.3','divvy.gpu/container':'a,b',"
		    "'a.divvy.gpu/mode':'remote'",
			"'containers':[{'name':'a'},{'name':'b'}]"),
		"container a: mode remote serves one container of a pod, and container b has"},
	{NULL, NULL, POD("'divvy.gpu/default-container':'main'", MAIN), "divvy writes it"},
	{NULL, NULL,
		POD(RANGED("divvy.gpu/milli limit for container side; cpu limit for container "
			   "main; "
			   "divvy.gpu/milli request for container main; divvy.gpu/milli limit for "
			   "init container main; divvy.gpu/milli limit for container xmain"),
			LIMITS("'divvy.gpu/milli':'500'")),
		"divvy.gpu/milli '500'"},
	{NULL, NULL, POD("'divvy.gpu/request':'1'", LIMITS("'divvy.gpu/milli':'0'")),
		"divvy.gpu/milli '0'"},
	{NULL, NULL, POD("'divvy.gpu/request':'1','divvy.gpu/default-container':'main'", MAIN),
		"name containers in divvy.gpu/container"},
	{NULL, NULL, POD("'divvy.gpu/request':'1','divvy.gpu/default-container':'x'", MAIN),
		"name containers in divvy.gpu/container"},
	{NULL, NULL, POD("'divvy.gpu/request':'0.3'", "'nodeName':'n1'," MAIN),
		"spec.nodeName 'n1'"},
	{NULL, NULL, POD("", "'priorityClassName':'divvy-placeholder'," MAIN),
		"reserved for divvy's placeholder"},
	{"hamy", NULL, POD("'divvy.gpu/request':'0.3'", MAIN),
		"namespace 'ns1': divvy.gpu/dialects 'hamy'"},
	{NULL, "{'classes':['standard']}",
		POD("'divvy.gpu/request':'1','divvy.gpu/class':'latency'", MAIN), "class latency"},
	{NULL, "{'highestPriority':60}",
		POD("'divvy.gpu/request':'1','divvy.gpu/priority':'61'", MAIN), "allows 0 to 60"},
	{NULL, "{'remote':'denied'}",
		POD("'divvy.gpu/request':'0.5','divvy.gpu/mode':'remote'", MAIN), "mode remote"},
	{NULL, "{'labelSpaces':['b']}",
		POD("'divvy.gpu/request':'0.5','divvy.gpu/affinity':'a/x'", MAIN),
		"label space 'a'"},
	{NULL, "{'labelSpaces':['b']}",
		POD("'divvy.gpu/request':'0.5','divvy.gpu/preferred-anti-affinity':'a/x'", MAIN),
		"preferred-anti-affinity 'a/x'"},
	{NULL, NULL, POD("'divvy.gpu/request':'0.5','divvy.gpu/preferred-anti-affinity':''", MAIN),
		"preferred-anti-affinity '': expected 1 to 63"},
};

static void impossible_pods_are_refused_with_a_message(void **state)
{
	static const char *const both[] = {"/mutate/pods", "/validate/pods"};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		for (size_t k = 0; k < ARRAY_SIZE(both); k++) {
			_cleanup_json_ json_t *pod = unit_json(refused[i].pod);
			const struct ask ask = {.path = both[k],
				.dialects = refused[i].dialects,
				.policy = refused[i].policy,
				.object = pod};

			assert_refused(&ask, refused[i].says);
		}
}

/*
 * Validation refuses a resource of LimitRanger, because the webhook's patch would have replaced it.
 */
static void a_range_that_was_not_replaced_is_refused(void **state)
{
	_cleanup_json_ json_t *pod = unit_json(
		POD(RANGED("divvy.gpu/milli request for container main; divvy.gpu/milli "
			   "limit for container main"),
			"'containers':[" RANGES("main") "]"));
	const struct ask ask = {.path = "/validate/pods", .object = pod};

	assert_refused(&ask, "divvy.gpu/milli '500'");
}

static void a_pod_changed_by_a_later_webhook_is_refused(void **state)
{
	static const struct {
		const char *pod, *says;
	} changed[] = {
		{POD("'divvy.gpu/request':'0.3'", MAIN), "divvy.gpu/tenant=true is missing"},
		{"{" TENANT "'divvy.gpu/request':'0.3'}},'spec':{" MAIN "}}",
			"divvy.gpu/slot is missing"},
		{"{" TENANT "'divvy.gpu/request':'0.3'}},'spec':{" SAME(
			 "'divvy.gpu/slot':'1','divvy.gpu/milli':'200'") "}}",
			"divvy.gpu/milli '200'"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(changed); i++) {
		_cleanup_json_ json_t *pod = unit_json(changed[i].pod);
		const struct ask ask = {.path = "/validate/pods", .object = pod};

		assert_refused(&ask, changed[i].says);
	}
}

/* kube-scheduler allocates such a pod by dynamic resource allocation. */
static void whole_devices_of_the_driver_pass(void **state)
{
	static const char *const both[] = {"/mutate/pods", "/validate/pods"};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		_cleanup_json_ json_t *pod = unit_json(POD("", LIMITS("'divvy.gpu/gpu':'2'")));
		const struct ask ask = {.path = both[i], .object = pod};
		_cleanup_json_ json_t *got = answer(&ask);

		assert_true(is_allowed(got));
		assert_null(kube_json_at(got, "response", "patch", NULL));
	}
}

/* A faulty list of dialects does not affect pods without a request. */
static void a_malformed_namespace_is_reported(void **state)
{
	_cleanup_json_ json_t *pod = unit_json(POD("", MAIN));
	const struct ask ask = {.path = "/mutate/pods", .dialects = "hamy", .object = pod};
	_cleanup_json_ json_t *got = answer(&ask);

	assert_true(is_allowed(got));
	assert_contains(json_string_value(
				json_array_get(kube_json_at(got, "response", "warnings", NULL), 0)),
		"hamy");
}

/* ---- edits ---- */

#define MADE(annotations, spec) \
	"{" TENANT "'divvy.gpu/request':'0.3'" annotations \
	"}},'spec':{" spec SAME("'divvy.gpu/slot':'1','divvy.gpu/milli':'300'") "}}"
#define BOUND "'nodeName':'n1',"
#define GIVEN ",'divvy.gpu/devices':'main=GPU-1','divvy.gpu/epoch':'7'"

#define BESIDE(annotations) \
	"{" TENANT "'main.divvy.gpu/request':'0.3'" annotations \
	"}},'spec':{'containers':[{'name':'main','resources':{" \
	"'limits':{'divvy.gpu/slot':'1','divvy.gpu/milli':'300'}," \
	"'requests':{'divvy.gpu/slot':'1','divvy.gpu/milli':'300'}}},{'name':'b'," SLOTS( \
		"0") "}]}}"

static const struct {
	/* says: part of the message; NULL: the edit is allowed */
	const char *user, *subresource, *old, *new, *says;
} edits[] = {
	{NULL, NULL, MADE("", ""), MADE(",'a':'b'", ""), NULL},
	{NULL, NULL, MADE("", ""), MADE(GIVEN, ""), "only divvy's scheduler"},
	{NULL, "status", MADE("", ""), MADE(GIVEN, ""), "only divvy's scheduler"},
	{"system:node:n1", "status", MADE(GIVEN, BOUND), MADE("", BOUND), "only divvy's scheduler"},
	{"system:node:n1", "status", MADE(GIVEN, BOUND), MADE(GIVEN, BOUND), NULL},
	{DAEMON, "status", MADE("", BOUND), MADE(GIVEN, BOUND), "only divvy's scheduler"},
	{"system:serviceaccount:ns1:divvy-scheduler", "status", MADE("", BOUND), MADE(GIVEN, BOUND),
		"only divvy's scheduler"},
	{SCHEDULER, "status", MADE("", BOUND), MADE(GIVEN, BOUND), NULL},
	{SCHEDULER, "status", MADE("", BOUND), MADE(",'divvy.gpu/dialects':'nvidia'", BOUND),
		"leave it unchanged"},
	{NULL, NULL, MADE("", ""), MADE(",'divvy.gpu/default-container':'main'", ""),
		"leave it unchanged"},
	{NULL, NULL, MADE(",'divvy.gpu/replaced-pods':'1'", ""),
		MADE(",'divvy.gpu/replaced-pods':'1','a':'b'", ""), NULL},
	{NULL, NULL, MADE(",'divvy.gpu/replaced-pods':'1'", ""), MADE("", ""),
		"leave it unchanged"},
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/limit':'0.6'", BOUND), NULL},
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/limit':'0.2'", BOUND), "limit"},
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/count':'2'", BOUND),
		"count: cannot be changed"},
	{NULL, NULL, MADE("", ""), MADE(",'divvy.gpu/count':'2'", ""), NULL},
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/model':'T4'", BOUND), "model: cannot"},
	/*
	 * The memory policy of a running pod cannot change: its programs may have got "out of
	 * memory" already.
	 */
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/memory-policy':'wait'", BOUND),
		"memory-policy: cannot"},
	{NULL, NULL, MADE("", ""), MADE(",'divvy.gpu/memory-policy':'wait'", ""), NULL},
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/affinity':'x'", BOUND), "affinity: cannot"},
	{NULL, NULL, MADE("", BOUND), MADE(",'divvy.gpu/preferred-anti-affinity':'x'", BOUND),
		"preferred-anti-affinity: cannot"},
	{NULL, NULL, MADE("", BOUND),
		MADE(",'divvy.gpu/group':'g','divvy.gpu/group-size':'2'", BOUND), "group"},
	{NULL, NULL, MADE("", BOUND),
		"{'metadata':{'annotations':{'divvy.gpu/request':'0.3'}},'spec':{" BOUND MAIN "}}",
		"divvy.gpu/tenant"},
	{NULL, "resize", MADE("", BOUND),
		"{" TENANT "'divvy.gpu/request':'0.3'}},'spec':{" BOUND SAME(
			"'divvy.gpu/slot':'1','divvy.gpu/milli':'1'") "}}",
		"divvy.gpu/milli"},
	{NULL, NULL, MADE("", BOUND),
		"{" TENANT
		"}},'spec':{" BOUND SAME("'divvy.gpu/slot':'1','divvy.gpu/milli':'300'") "}}",
		"cannot be removed"},
	/*
	 * A user can set the label, so the label alone does not prove that the pod was created with
	 * a share.
	 */
	{NULL, NULL, "{" TENANT "'a':'b'}},'spec':{" MAIN "}}",
		"{" TENANT "'divvy.gpu/request':'0.3'}},'spec':{" MAIN "}}",
		"container main: cannot request a share after"},
	{NULL, NULL, "{" TENANT "'a':'b'}},'spec':{" BOUND MAIN "}}",
		"{" TENANT "'divvy.gpu/request':'0.3'}},'spec':{" BOUND MAIN "}}",
		"container main: cannot request a share after"},
	/*
	 * A slot count of 0 (divvy.gpu/slot) is no proof that the pod was created with a share for
	 * container b.
	 */
	{NULL, NULL, BESIDE(""), BESIDE(",'b.divvy.gpu/request':'1'"),
		"container b: cannot request a share after"},
};

static void edits_of_a_running_pod_are_resize_requests(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(edits); i++) {
		_cleanup_json_ json_t *old = unit_json(edits[i].old),
				      *new = unit_json(edits[i].new);
		const struct ask ask = {.path = "/validate/pods",
			.operation = "UPDATE",
			.user = edits[i].user,
			.subresource = edits[i].subresource,
			.object = new,
			.old = old};

		print_message("# %s\n", edits[i].new);
		if (edits[i].says)
			assert_refused(&ask, edits[i].says);
		else
			assert_allowed(&ask);
	}
}

/* ---- templates and objects ---- */

#define TEMPLATE(annotations) \
	"{'spec':{'template':{'metadata':{'annotations':{" annotations "}},'spec':{" MAIN "}}}}"

static void a_template_is_refused_where_it_is_applied(void **state)
{
	static const char *const resources[] = {
		"deployments", "statefulsets", "daemonsets", "replicasets", "jobs"};
	_cleanup_json_ json_t *bad = unit_json(TEMPLATE("'divvy.gpu/request':'1.5'")),
			      *good = unit_json(TEMPLATE("'divvy.gpu/request':'0.5'")),
			      *cron = unit_json("{'spec':{'jobTemplate':" TEMPLATE(
				      "'divvy.gpu/devices':'main=GPU-1'") "}}");
	struct ask ask = {.path = "/validate/templates", .resource = "cronjobs", .object = cron};

	assert_refused(&ask, "only divvy's scheduler");
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		ask = (struct ask){
			.path = "/validate/templates", .resource = resources[i], .object = bad};
		assert_refused(&ask, "template: divvy.gpu/request");
		/* An existing object whose template does not change may be scaled. */
		ask.operation = "UPDATE";
		ask.old = bad;
		assert_allowed(&ask);
		ask.old = good;
		assert_refused(&ask, "divvy.gpu/request");
		ask.object = good;
		assert_allowed(&ask);
	}
}

/* The annotations of a workload itself do not apply to its pods. */
static void a_request_outside_the_template_is_refused(void **state)
{
	static const struct {
		const char *own, *of_pods;
		bool is_told;
	} cases[] = {{"'divvy.gpu/request':'0.5'", "", true}, {"'a':'b'", "", false},
		{"'divvy.gpu/request':'0.5'", "'divvy.gpu/request':'0.4'", false}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			"{'metadata':{'name':'d','annotations':{%s}},'spec':{'template':{'metadata'"
			":{'annotations':{%s}},'spec':{" MAIN "}}}}",
			cases[i].own, cases[i].of_pods);
		_cleanup_json_ json_t *object = unit_json(text);
		const struct ask ask = {
			.path = "/validate/templates", .resource = "deployments", .object = object};
		_cleanup_json_ json_t *got = answer(&ask);
		const char *warning = json_string_value(
			json_array_get(kube_json_at(got, "response", "warnings", NULL), 0));

		assert_true(is_allowed(got));
		assert_int_equal(warning != NULL, cases[i].is_told);
		if (warning)
			assert_contains(warning, "spec.template.metadata.annotations");
	}
}

#define SHARE(fields, annotations) \
	"{'metadata':{'name':'s'},'spec':{" fields \
	",'template':{'metadata':{'annotations':{" annotations "}},'spec':{" MAIN "}}}}"

static void a_share_pod_is_checked_as_its_pod(void **state)
{
	static const struct {
		const char *object, *says;
	} objects[] = {
		{SHARE("'request':0.3", ""), NULL},
		{SHARE("'request':'0.3','memoryPolicy':'swap','antiAffinity':'x'", ""), NULL},
		{SHARE("'request':0.3,'preferredAntiAffinity':'x'", ""), NULL},
		{SHARE("'request':0.3,'preferredAntiAffinity':''", ""), "preferred-anti-affinity"},
		{SHARE("'request':0.3", "'divvy.gpu/request':'0.3'"), NULL},
		{SHARE("'request':0.3", "'divvy.gpu/request':'0.4'"), "the spec says '0.3'"},
		{SHARE("'request':0.3", "'divvy.gpu/limit':'0.4'"),
			"set it in the SharePod's spec"},
		{SHARE("'request':0.3", "'divvy.gpu/devices':'main=GPU-1'"),
			"only divvy's scheduler"},
		{SHARE("'request':0.3,'limit':0.2", ""), "limit"},
		{SHARE("'request':0.0005", ""), "0.0005"},
		{SHARE("'request':0.3,'containers':['other']", ""), "other"},
		{SHARE("'request':true", ""), "spec.request"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
		_cleanup_json_ json_t *object = unit_json(objects[i].object);
		const struct ask ask = {
			.path = "/validate/objects", .resource = "sharepods", .object = object};

		if (objects[i].says)
			assert_refused(&ask, objects[i].says);
		else
			assert_allowed(&ask);
	}
}

/* ---- objects of a node ---- */

static void a_daemon_writes_only_its_own_node(void **state)
{
#define TOKEN \
	"{'authentication.kubernetes.io/pod-name':['d-1'],'authentication.kubernetes.io/" \
	"pod-uid':['uid-1']"
	static const struct {
		const char *user, *extra, *pod_uid, *pod_node, *says;
	} cases[] = {
		{DAEMON, TOKEN "}", "uid-1", "n1", NULL},
		{DAEMON, TOKEN ",'authentication.kubernetes.io/node-name':['n1']}", "uid-1", "n1",
			NULL},
		{DAEMON, TOKEN ",'authentication.kubernetes.io/node-name':['n2']}", "uid-1", "n1",
			"the token belongs to node 'n2'"},
		{DAEMON, TOKEN "}", "uid-1", "n2", "runs on node 'n2'"},
		{DAEMON, TOKEN "}", "uid-2", "n1", "an earlier pod"},
		{DAEMON, TOKEN "}", NULL, NULL, "does not exist"},
		{DAEMON, "{}", "uid-1", "n1", "names no pod"},
		{DAEMON, NULL, NULL, NULL, "names no pod"},
		{"admin", NULL, NULL, NULL, NULL},
		/* not a daemon: RBAC decides */
		{"system:serviceaccount:ns1:divvyd", NULL, NULL, NULL, NULL},
	};
	static const char *const both[] = {"/validate/gpunodes", "/validate/leases"};
	_cleanup_json_ json_t *object = unit_json("{'metadata':{'name':'n1'}}");

	for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
		const struct ask ask = {.path = both[i % 2],
			.operation = "UPDATE",
			.user = cases[i / 2].user,
			.extra = cases[i / 2].extra,
			.pod_uid = cases[i / 2].pod_uid,
			.pod_node = cases[i / 2].pod_node,
			.object = object,
			.old = object};

		if (cases[i / 2].says)
			assert_refused(&ask, cases[i / 2].says);
		else
			assert_allowed(&ask);
	}
}

static void a_malformed_review_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"[]", "expected an AdmissionReview"},
		{"{'kind':'AdmissionReview'}", "expected an AdmissionReview"},
		{"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1beta1','request':{}}",
			"v1beta1"},
		{"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','request':{}}",
			"request.uid"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *review = unit_json(cases[i].text);
		struct admit_request request;
		struct error err;

		assert_int_equal(admit_parse(review, &request, &err), -EBADMSG);
		assert_contains(err.msg, cases[i].says);
	}
	assert_null(admit_path_find("/mutate"));
}

/* Thousands of containers and a megabyte of annotations are refused with a message, and quickly. */
static void huge_pods_are_refused(void **state)
{
	_cleanup_json_ json_t *pod = unit_json(POD("'divvy.gpu/request':'1'", MAIN));
	json_t *list = json_object_get(json_object_get(pod, "spec"), "containers");
	struct ask ask = {.path = "/mutate/pods", .object = pod};
	_cleanup_free_ char *huge = calloc(1, (1 << 20) + 1);

	for (int i = 0; i < 5000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "c%d", i);
		json_array_append_new(list, json_pack("{s:s}", "name", name));
	}
	assert_refused(&ask, "at most 256");
	json_array_clear(list);
	json_array_append_new(list, json_pack("{s:s}", "name", "main"));
	memset(huge, 'x', 1 << 20);
	json_object_set_new(kube_json_at(pod, "metadata", "annotations", NULL), "divvy.gpu/limit",
		json_string(huge));
	assert_refused(&ask, "at most");
}

UNIT_MAIN(UNIT(whole_devices_of_the_driver_pass), UNIT(a_range_that_was_not_replaced_is_refused),
	UNIT(pods_are_translated_once), UNIT(impossible_pods_are_refused_with_a_message),
	UNIT(a_pod_changed_by_a_later_webhook_is_refused), UNIT(a_malformed_namespace_is_reported),
	UNIT(edits_of_a_running_pod_are_resize_requests),
	UNIT(a_template_is_refused_where_it_is_applied),
	UNIT(a_request_outside_the_template_is_refused), UNIT(a_share_pod_is_checked_as_its_pod),
	UNIT(a_daemon_writes_only_its_own_node), UNIT(a_malformed_review_is_refused),
	UNIT(huge_pods_are_refused))
