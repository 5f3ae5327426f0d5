/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which parts of cached objects stay. Objects are JSON with ' for ". */
#include "controller/prune.h"

#include "kube/kube-json.h"
#include "unit.h"

static json_t *json_of(const char *text)
{
	char copy[2048];
	json_t *json;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	json = json_loads(copy, 0, NULL);
	assert_non_null(json);
	return json;
}

static void expect(enum prune_kind kind, const char *before, const char *after)
{
	_cleanup_json_ json_t *is = json_of(before), *want = json_of(after),
			      *own = prune_object(is, kind);

	assert_non_null(own);
	assert_true(json_equal(own, want));
}

static void expect_kind(const char *pod, enum prune_kind want)
{
	_cleanup_json_ json_t *json = json_of(pod);

	assert_int_equal(prune_kind_of_pod(json, "divvy-system"), want);
}

static void a_node_keeps_taints_and_what_divvy_writes(void **state)
{
	expect(PRUNE_NODE,
		"{'kind':'Node','metadata':{'name':'n','uid':'u','resourceVersion':'7',"
		"'labels':{'a':'b','divvy.gpu/owner':'pool','nvidia.com/gpu.count':'8'},"
		"'annotations':{'x':'y','divvy.gpu/labels':'l',"
		"'nfd.node.kubernetes.io/feature-labels':'f'}},"
		"'spec':{'podCIDR':'10.0.0.0/24','taints':[{'key':'k','value':'v'}]},"
		"'status':{'images':[{}],'nodeInfo':{},'capacity':{'cpu':'1','divvy.gpu/slot':'64'},"
		"'allocatable':{'cpu':'1','divvy.gpu/milli':'8000'}}}",
		"{'metadata':{'name':'n','uid':'u','resourceVersion':'7',"
		"'labels':{'divvy.gpu/owner':'pool','nvidia.com/gpu.count':'8'},"
		"'annotations':{'divvy.gpu/labels':'l',"
		"'nfd.node.kubernetes.io/feature-labels':'f'}},"
		"'spec':{'taints':[{'key':'k','value':'v'}]},"
		"'status':{'capacity':{'divvy.gpu/slot':'64'},"
		"'allocatable':{'divvy.gpu/milli':'8000'}}}");
}

static void a_gpu_node_loses_links_and_accounts(void **state)
{
	expect(PRUNE_GPU_NODE,
		"{'metadata':{'name':'n','uid':'u','generation':2},'spec':{'pool':{}},"
		"'status':{'accounts':[{}],'network':{},'tenants':[{'pod':'p','slot':'slot-1'}],"
		"'conditions':[{'type':'Ready','status':'True','lastTransitionTime':'t'}],"
		"'devices':[{'uuid':'a','links':[{}],'numa':1},{'uuid':'b'}]}}",
		"{'metadata':{'name':'n','uid':'u'},'spec':{'pool':{}},"
		"'status':{'tenants':[{'pod':'p'}],'conditions':[{'type':'Ready','status':'True'}],"
		"'devices':[{'uuid':'a'},{'uuid':'b'}]}}");
}

static void a_lease_keeps_renewal_and_measurements(void **state)
{
	expect(PRUNE_LEASE,
		"{'metadata':{'name':'n','uid':'u','annotations':{'divvy.gpu/measured':'m'}},"
		"'spec':{'holderIdentity':'h','renewTime':'t','leaseDurationSeconds':40}}",
		"{'metadata':{'name':'n','annotations':{'divvy.gpu/measured':'m'}},"
		"'spec':{'renewTime':'t','leaseDurationSeconds':40}}");
}

#define POD \
	"{'metadata':{'name':'p','uid':'u','labels':{'a':'b'}," \
	"'ownerReferences':[{'kind':'Job'}],'annotations':{'c':'d','divvy.gpu/devices':'main=G'}}," \
	"'spec':{'nodeName':'n','restartPolicy':'Never','volumes':[{}]," \
	"'initContainers':[{'name':'i','args':['x'],'restartPolicy':'Always'}]," \
	"'containers':[{'name':'c','image':'m','env':[{}]," \
	"'resources':{'limits':{'cpu':'1','divvy.gpu/milli':'300'}}}]}," \
	"'status':{'phase':'Pending','podIP':'10.0.0.1','conditions':[{'type':'PodScheduled'," \
	"'status':'False','message':'none','lastProbeTime':null}]," \
	"'containerStatuses':[{'name':'c','image':'m','state':{'waiting':{'reason':'r'}}}]}}"

#define TENANT \
	"{'metadata':{'name':'p','uid':'u','labels':{'a':'b'}," \
	"'annotations':{'divvy.gpu/devices':'main=G'}}," \
	"'spec':{'nodeName':'n','initContainers':[{'restartPolicy':'Always'}]," \
	"'containers':[{'resources':{'limits':{'divvy.gpu/milli':'300'}}}]},'status':{" \
	"'phase':'Pending'"

static void a_tenant_keeps_labels_shares_and_phase(void **state)
{
	expect(PRUNE_TENANT, POD, TENANT "}}");
}

static void a_waiting_tenant_keeps_the_reason(void **state)
{
	expect(PRUNE_WAITING, POD,
		TENANT ",'conditions':[{'type':'PodScheduled','status':'False','message':'none'}],"
		       "'containerStatuses':[{'state':{'waiting':{'reason':'r'}}}]}}");
}

static void a_pod_of_a_share_pod_keeps_metadata_and_status(void **state)
{
	expect(PRUNE_SHARE_POD,
		"{'metadata':{'x':'y'},'spec':{'nodeName':'n','restartPolicy':'Never','volumes':[],"
		"'containers':[{'name':'c','env':[{}],'restartPolicy':'Never'}]},'status':{'z':1}}",
		"{'metadata':{'x':'y'},'spec':{'nodeName':'n','restartPolicy':'Never',"
		"'containers':[{'restartPolicy':'Never'}]},'status':{'z':1}}");
}

static void a_pod_of_divvy_keeps_metadata_node_and_image(void **state)
{
	expect(PRUNE_OWN,
		"{'metadata':{'x':'y'},'spec':{'nodeName':'n','volumes':[],"
		"'containers':[{'name':'c','image':'m','env':[{}]}]},"
		"'status':{'phase':'Running','conditions':[{}]}}",
		"{'metadata':{'x':'y'},'spec':{'nodeName':'n',"
		"'containers':[{'name':'c','image':'m'}]},'status':{'phase':'Running'}}");
}

static void an_object_of_another_form_stays_as_it_is(void **state)
{
	expect(PRUNE_TENANT, "{'metadata':{},'spec':[1]}", "{'metadata':{},'spec':[1]}");
	expect(PRUNE_GPU_NODE, "{'status':{'devices':[1]}}", "{'status':{'devices':[1]}}");
	expect(PRUNE_NOTHING, "{'a':{'b':[{}]}}", "{'a':{'b':[{}]}}");
}

static void the_object_itself_does_not_change(void **state)
{
	_cleanup_json_ json_t *is = json_of(POD), *want = json_of(POD), *own = NULL;

	own = prune_object(is, PRUNE_TENANT);
	assert_true(json_equal(is, want));
	assert_null(prune_object(is, PRUNE_WHOLE));
}

static void a_pod_has_the_kind_that_says_what_is_read(void **state)
{
	static const char share_pod[] =
		"{'metadata':{'namespace':'divvy-system','labels':{'divvy.gpu/tenant':'true'},"
		"'ownerReferences':[{'kind':'SharePod','controller':true}]}}";

	expect_kind(share_pod, PRUNE_SHARE_POD);
	expect_kind("{'metadata':{'namespace':'a','labels':{'divvy.gpu/tenant':'true'}},"
		    "'status':{'phase':'Pending'}}",
		PRUNE_WAITING);
	expect_kind("{'metadata':{'namespace':'divvy-system','labels':{'divvy.gpu/tenant':'true'}},"
		    "'status':{'phase':'Running'}}",
		PRUNE_TENANT);
	expect_kind("{'metadata':{'namespace':'divvy-system'}}", PRUNE_OWN);
	expect_kind("{'metadata':{'namespace':'a','ownerReferences':[{'kind':'Job',"
		    "'controller':true}]},'status':{'phase':'Pending'}}",
		PRUNE_WHOLE);
	expect_kind("{'metadata':{}}", PRUNE_WHOLE);
}

UNIT_MAIN(UNIT(a_node_keeps_taints_and_what_divvy_writes),
	UNIT(a_gpu_node_loses_links_and_accounts), UNIT(a_lease_keeps_renewal_and_measurements),
	UNIT(a_tenant_keeps_labels_shares_and_phase), UNIT(a_waiting_tenant_keeps_the_reason),
	UNIT(a_pod_of_a_share_pod_keeps_metadata_and_status),
	UNIT(a_pod_of_divvy_keeps_metadata_node_and_image),
	UNIT(an_object_of_another_form_stays_as_it_is), UNIT(the_object_itself_does_not_change),
	UNIT(a_pod_has_the_kind_that_says_what_is_read))
