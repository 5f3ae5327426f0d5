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
	_cleanup_json_ json_t *is = json_of(before), *want = json_of(after);

	prune_object(is, kind);
	assert_true(json_equal(is, want));
}

static void a_node_keeps_labels_taints_and_capacity(void **state)
{
	expect(PRUNE_NODE,
		"{'metadata':{'name':'n','labels':{'a':'b'}},'spec':{'taints':[{}]},"
		"'status':{'images':[{}],'nodeInfo':{},'capacity':{'cpu':'1'}}}",
		"{'metadata':{'name':'n','labels':{'a':'b'}},'spec':{'taints':[{}]},"
		"'status':{'capacity':{'cpu':'1'}}}");
}

static void a_gpu_node_loses_links_and_accounts(void **state)
{
	expect(PRUNE_GPU_NODE,
		"{'spec':{'pool':{}},'status':{'accounts':[{}],'network':{},'tenants':[{}],"
		"'devices':[{'uuid':'a','links':[{}],'numa':1},{'uuid':'b'}]}}",
		"{'spec':{'pool':{}},'status':{'tenants':[{}],"
		"'devices':[{'uuid':'a'},{'uuid':'b'}]}}");
}

static void a_tenant_keeps_what_share_pods_and_the_pool_need(void **state)
{
	expect(PRUNE_TENANT,
		"{'spec':{'nodeName':'n','restartPolicy':'Never','volumes':[{}],"
		"'initContainers':[{'name':'i','args':['x'],'restartPolicy':'Always'}],"
		"'containers':[{'name':'c','image':'m','env':[{}],'resources':{'limits':{}}}]},"
		"'metadata':{'annotations':{'a':'b'}},'status':{'phase':'Running'}}",
		"{'spec':{'nodeName':'n','restartPolicy':'Never',"
		"'initContainers':[{'name':'i','restartPolicy':'Always'}],"
		"'containers':[{'name':'c','image':'m','resources':{'limits':{}}}]},"
		"'metadata':{'annotations':{'a':'b'}},'status':{'phase':'Running'}}");
}

static void an_object_of_another_form_stays_as_it_is(void **state)
{
	expect(PRUNE_TENANT, "{'metadata':{},'spec':[]}", "{'metadata':{},'spec':[]}");
	expect(PRUNE_GPU_NODE, "{'status':{'devices':[1]}}", "{'status':{'devices':[1]}}");
}

UNIT_MAIN(UNIT(a_node_keeps_labels_taints_and_capacity), UNIT(a_gpu_node_loses_links_and_accounts),
	UNIT(a_tenant_keeps_what_share_pods_and_the_pool_need),
	UNIT(an_object_of_another_form_stays_as_it_is))
