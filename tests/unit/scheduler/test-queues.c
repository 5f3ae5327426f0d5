/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests queues of GPUPolicies: borrowing, reclaim and its time, changes of policies; overcommitted
 * memory, label spaces, and the status of policies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acts.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/rand.h"
#include "unit.h"

static void policy(const char *name, const char *spec)
{
	set(CLUSTER_POLICY, "{'metadata':{'name':'%s'},'spec':{%s}}", name, spec);
}

#define NS(name) "'namespaces':['" name "']"
#define QUEUE(x) "'queue':{" x "}"

/* Adds a pod in that namespace and expects that the scheduler binds it. */
static void run(const char *ns, const char *name, const char *annotations)
{
	space = ns;
	add_pod(name, annotations, "");
	confirm(next(SCHED_BIND, name, NULL), annotations);
}

static void ask(const char *ns, const char *name, const char *annotations)
{
	space = ns;
	add_pod(name, annotations, "");
}

static void gone(const char *ns, const char *name)
{
	assert_ok(sched_remove(sched, OBJECT_POD, ns, name));
}

static void idle_shares_are_borrowed_and_reclaimed(void **state)
{
	spec_of_all = ",'terminationGracePeriodSeconds':10";
	add_node("n1", 2);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1,'graceSeconds':30"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':'1','graceSeconds':30"));
	run("b", "b1", SHARE("1"));
	run("b", "b2", SHARE("1"));
	ask("a", "a1", SHARE("0.5"));
	/*
	 * The grace period is 30 s and a victim needs 10 s to end, so the eviction follows after 20
	 * s.
	 */
	told("a1", "queue a reclaims its guarantee after 30 s of grace: evicts 1 tenant on n1");
	nothing();
	pass(19);
	nothing();
	assert_true(sched_deadline(sched) == acts_now_ns + SECOND);
	pass(1);
	next(SCHED_EVICT, "b1", "a/a1, within the guarantee of queue a");
	next(SCHED_NOMINATE, "a1", "waits for 1 pod to terminate on n1");
	nothing();
	gone("b", "b1");
	next(SCHED_BIND, "a1", NULL);
	/*
	 * Queue b uses its guarantee. It may borrow an idle share, but no pod is evicted for that.
	 */
	ask("b", "b3", SHARE("0.5"));
	next(SCHED_BIND, "b3", NULL);
	ask("b", "b4", SHARE("0.5"));
	told("b4",
		"0/1 nodes: 1 no GPU with 0.5 free; queue b has 1.5 devices, 0.5 of them borrowed, "
		"and 0 are idle to borrow");
	nothing();
	/* The queue's guarantee, and no device, makes the pod wait. */
	assert_false(cpod_needs_device(cluster_pod(sched_cluster(sched), "b", "b4")));
}

static void tenants_that_end_within_the_grace_period_are_not_evicted(void **state)
{
	add_node("n1", 1);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1,'graceSeconds':60"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
#define HIGH ",'divvy.gpu/priority':'90'"
	run("b", "b1", SHARE("0.6") HIGH);
	run("b", "b2", SHARE("0.4") HIGH);
	ask("a", "a1", SHARE("0.4"));
	ask("b", "b3", SHARE("0.4") HIGH);
	nothing();
	pass(1);
	gone("b", "b2");
	/*
	 * A pod below its queue's guarantee comes before pods of higher priority in other queues,
	 * and does not pause.
	 */
	next(SCHED_BIND, "a1", NULL);
	nothing();
}

static void without_a_grace_period_reclaim_is_immediate(void **state)
{
	add_node("n1", 1);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	run("b", "b1", SHARE("1") ",'divvy.gpu/priority':'100'");
	ask("a", "a1", SHARE("1") ",'divvy.gpu/priority':'1'");
	next(SCHED_EVICT, "b1", NULL);
}

/* The node has no CPU left either, so each reclaiming pod needs one victim. */
static void many_pods_at_once_reclaim_one_each(void **state)
{
	char name[8];

	add_node("n1", 4);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':2"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		run("b", name, SHARE("0.5"));
	}
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		ask("a", name, SHARE("0.5"));
	}
	for (struct sched_action a; sched_next(sched, &a, NULL) == 1;)
		;
	assert_int_equal(sched_counts(sched).n_evictions, 3);
	assert_int_equal(cluster_n_nominated(sched_cluster(sched)), 3);
}

static void reclaim_respects_disruption_budgets(void **state)
{
	add_node("n1", 1);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	set(CLUSTER_BUDGET,
		"{'metadata':{'name':'p','namespace':'b'},'spec':{'selector':{}},'status':{"
		"'disruptionsAllowed':0}}");
	run("b", "b1", SHARE("1"));
	ask("a", "a1", SHARE("1"));
	told("a1",
		"0/1 nodes: 1 no GPU with 1 free; a PodDisruptionBudget forbids the evictions "
		"that it needs");
	nothing();
	set(CLUSTER_BUDGET,
		"{'metadata':{'name':'p','namespace':'b'},'spec':{'selector':{}},'status':{"
		"'disruptionsAllowed':1}}");
	next(SCHED_EVICT, "b1", NULL);
}

static void a_gang_reclaims_as_a_whole(void **state)
{
#define TWO SHARE("1") ",'divvy.gpu/group':'g','divvy.gpu/group-size':'2'"
	spec_of_all = ",'terminationGracePeriodSeconds':10";
	add_node("n1", 2);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':2,'graceSeconds':30"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	run("b", "b1", SHARE("1"));
	run("b", "b2", SHARE("1"));
	ask("a", "a1", TWO);
	ask("a", "a2", TWO);
	nothing();
	pass(19);
	nothing();
	pass(1);
	next(SCHED_NOMINATE, "a1", NULL);
	next(SCHED_NOMINATE, "a2", NULL);
	next(SCHED_EVICT, "b1", "a/a1, within the guarantee of queue a");
	next(SCHED_EVICT, "b2", NULL);
	gone("b", "b1");
	nothing();
	gone("b", "b2");
	next(SCHED_BIND, "a1", NULL);
	next(SCHED_BIND, "a2", NULL);
}

static void half_a_gang_reclaims_nothing(void **state)
{
	add_node("n1", 2);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	run("b", "b1", SHARE("1"));
	run("b", "b2", SHARE("1"));
	ask("a", "a1", TWO);
	ask("a", "a2", TWO);
	/*
	 * The guarantee covers one of the two members. The gang needs both, so no pod is evicted.
	 */
	told("a1",
		"group a/g: 1 of 2 pods fit, 2 are needed; 0/1 nodes: 1 no GPU with 1 free; queue "
		"a has 1 of its guaranteed 1 devices, and 0 are idle to borrow");
	nothing();
	ask("b", "b3", SHARE("0.1"));
	nothing();
	assert_int_equal(sched_counts(sched).n_evictions, 0);
}

static void priorities_do_not_matter_between_queues(void **state)
{
	add_node("n1", 1);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':0.5"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0.5"));
	run("a", "a1", SHARE("0.5") ",'divvy.gpu/priority':'10'");
	run("b", "b1", SHARE("0.5") ",'divvy.gpu/priority':'10'");
	ask("b", "b2", SHARE("0.5") ",'divvy.gpu/priority':'90'");
	/* A pod preempts less important pods of its own queue, but not pods of other queues. */
	next(SCHED_EVICT, "b1", "b/b2");
}

static void a_pod_in_no_queue_is_not_reclaimed(void **state)
{
	add_node("n1", 1);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1"));
	run("free", "f1", SHARE("1"));
	ask("a", "a1", SHARE("1"));
	told("a1", "0/1 nodes: 1 no GPU with 1 free");
	nothing();
	/* A policy without namespaces gives a queue to all pods that no other policy selects. */
	policy("rest", QUEUE("'name':'rest'"));
	next(SCHED_EVICT, "f1", "a/a1, within the guarantee of queue a");
}

static void namespaces_share_a_queue(void **state)
{
	add_node("n1", 2);
	policy("ml", "'namespaces':['a','b']," QUEUE("'name':'ml','limitShare':1.5"));
	run("a", "a1", SHARE("1"));
	ask("b", "b1", SHARE("0.6"));
	told("b1",
		"0/1 nodes: 1 above the queue's limit; queue ml has 1 of the 1.5 devices that it "
		"may have, 0.6 asked");
	run("b", "b2", SHARE("0.5"));
}

static void labels_choose_a_queue(void **state)
{
	add_node("n1", 2);
	policy("all", NS("a") "," QUEUE("'name':'all','limitShare':1"));
	policy("train",
		NS("a") "," QUEUE("'name':'train','limitShare':0.5,'podSelector':{'matchLabels':{'"
				  "job':'train'}}"));
	set(OBJECT_POD,
		"{'metadata':{'name':'t','namespace':'a','uid':'u-t','labels':{'job':'train','"
		"divvy.gpu/tenant':'true'},"
		"'annotations':{" SHARE("0.6") "}},'spec':{'schedulerName':'divvy-scheduler',"
					       "'containers':[{'name':'c'}]}}");
	space = "a";
	told("t",
		"0/1 nodes: 1 above the queue's limit; queue train may have 0.5 devices at most, "
		"0.6 asked");
	run("a", "other", SHARE("0.6"));
}

static void models_have_quotas_of_their_own(void **state)
{
	add_node("n1", 2);
	policy("a",
		NS("a") "," QUEUE("'guaranteedShare':2,'models':[{'model':'A','guaranteedShare':1,'"
				  "limitShare':1}]"));
	run("a", "a1", SHARE("1"));
	ask("a", "a2", SHARE("0.5"));
	told("a2",
		"0/1 nodes: 1 above the queue's limit; queue a has 1 of the 1 devices of model A "
		"that it may have, 0.5 asked");
}

static void queues_have_parents(void **state)
{
	add_node("n1", 4);
	policy("a", NS("a") "," QUEUE("'parent':'org','guaranteedShare':2"));
	policy("b", NS("b") "," QUEUE("'parent':'org','guaranteedShare':2"));
	policy("c", NS("c") "," QUEUE("'guaranteedShare':1"));
	policy("org", "'namespaces':['o']," QUEUE("'name':'org','guaranteedShare':3"));
	/* With queue b the guarantees below `org` would exceed its own, so queue b is refused. */
	ask("b", "b1", SHARE("1"));
	told("b1", "policy b: queue org: the quotas below it are 4 together, its own is 3");
	run("a", "a1", SHARE("1"));
	/* A queue with queues below it has no tenants itself. */
	ask("o", "o1", SHARE("0.1"));
	told("o1", "queue org has queues below it: tenants belong to those");
	/* A larger guarantee of `org` makes queue b valid. */
	policy("org", "'namespaces':['o']," QUEUE("'name':'org','guaranteedShare':4"));
	pass(20);
	space = "b";
	next(SCHED_BIND, "b1", NULL);
	/* A parent that does not exist is refused, and so is a queue that is its own parent. */
	policy("c", NS("c") "," QUEUE("'parent':'none','guaranteedShare':1"));
	ask("c", "c1", SHARE("0.1"));
	told("c1",
		"policy c: queue c: parent none, or a queue above it, does not exist, is below "
		"queue c, or is too deep: at most 16 levels are allowed");
	policy("c", NS("c") "," QUEUE("'parent':'c'"));
	pass(20);
	told("c1",
		"policy c: queue c: parent c, or a queue above it, does not exist, is below "
		"queue c, or is too deep: at most 16 levels are allowed");
}

/* The limit of `org` is used up by two half devices on two nodes, so the reclaim evicts both. */
static void a_guarantee_comes_before_a_limit_of_the_parent(void **state)
{
	add_node("n1", 1);
	policy("a", NS("a") "," QUEUE("'parent':'org','guaranteedShare':1,'graceSeconds':0"));
	policy("b", NS("b") "," QUEUE("'parent':'org','guaranteedShare':0"));
	policy("org",
		"'namespaces':['o']," QUEUE("'name':'org','guaranteedShare':1,'limitShare':1"));
	run("b", "b1", SHARE("0.5"));
	run("c", "c1", SHARE("0.5"));
	add_node("n2", 1);
	run("b", "b2", SHARE("0.5"));
	add_node("n3", 1);
	/* n3 is empty, but borrowed shares use up the limit of queue org. */
	ask("b", "b3", SHARE("0.1"));
	told("b3",
		"0/3 nodes: 3 above the queue's limit; queue org has 1 of the 1 devices that it "
		"may have, 0.1 asked");
	ask("a", "a1", SHARE("1"));
	next(SCHED_EVICT, "b1", "a/a1, within the guarantee of queue a");
	next(SCHED_EVICT, "b2", "a/a1, within the guarantee of queue a");
	next(SCHED_NOMINATE, "a1", "waits for 2 pods to terminate on n2 and others");
	gone("b", "b1");
	gone("b", "b2");
	next(SCHED_BIND, "a1", NULL);
}

/*
 * A device is idle, but the queue is at its limit. So a pod preempts a less important pod of its
 * own queue.
 */
static void priorities_matter_below_a_limit(void **state)
{
	add_node("n1", 2);
	policy("b", NS("b") "," QUEUE("'limitShare':1"));
	run("c", "c1", SHARE("0.5") ",'divvy.gpu/priority':'1'");
	run("b", "b1", SHARE("0.5") ",'divvy.gpu/priority':'20'");
	run("b", "b2", SHARE("0.5") ",'divvy.gpu/priority':'10'");
	ask("b", "b3", SHARE("0.5") ",'divvy.gpu/priority':'10'");
	told("b3",
		"0/1 nodes: 1 above the queue's limit; queue b has 1 of the 1 devices that it may "
		"have, 0.5 asked");
	ask("b", "b4", SHARE("0.5") HIGH);
	next(SCHED_EVICT, "b2", "b/b4");
	next(SCHED_NOMINATE, "b4", "waits for 1 pod to terminate on n1");
	gone("b", "b2");
	next(SCHED_BIND, "b4", NULL);
}

static void a_policy_changes_while_pods_run(void **state)
{
	add_node("n1", 2);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':1"));
	run("a", "a1", SHARE("1"));
	run("b", "b1", SHARE("1"));
	/*
	 * b's pod now exceeds its guarantee, so it borrows: it runs until another queue reclaims
	 * the share.
	 */
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	nothing();
	policy("a", NS("a") "," QUEUE("'guaranteedShare':2"));
	nothing();
	ask("a", "a2", SHARE("1"));
	next(SCHED_EVICT, "b1", NULL);
	next(SCHED_NOMINATE, "a2", NULL);
	/* The nominated pod keeps its place while the queues are made anew. */
	policy("c", NS("c") "," QUEUE("'guaranteedShare':0,'name':'first'"));
	ask("c", "c1", SHARE("0.1"));
	nothing();
	gone("b", "b1");
	space = "a";
	confirm(next(SCHED_BIND, "a2", NULL), SHARE("1"));
	/*
	 * The queue uses more than its new limit: its running pods stay, and it gets no further
	 * pod.
	 */
	policy("a", NS("a") "," QUEUE("'guaranteedShare':0,'limitShare':0.5"));
	nothing();
	gone("a", "a2");
	ask("a", "a3", SHARE("0.1"));
	told("a3",
		"0/1 nodes: 1 above the queue's limit; queue a has 1 of the 0.5 devices that it "
		"may have, 0.1 asked");
	/* Without the policy the pod is in no queue. */
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "a"));
	pass(20);
	next(SCHED_BIND, "a3", NULL);
}

static void a_namespaces_label_changes_its_queue(void **state)
{
	add_node("n1", 1);
	policy("gold",
		"'namespaceSelector':{'matchLabels':{'tier':'gold'}}," QUEUE(
			"'name':'gold','guaranteedShare':1"));
	policy("rest", QUEUE("'name':'rest'"));
	set(OBJECT_NAMESPACE, "{'metadata':{'name':'a'}}");
	set(OBJECT_NAMESPACE, "{'metadata':{'name':'b'}}");
	run("b", "b1", SHARE("1"));
	ask("a", "a1", SHARE("1"));
	told("a1",
		"0/1 nodes: 1 no GPU with 1 free; queue rest has 1 devices, 1 of them borrowed, "
		"and 0 are idle to borrow");
	set(OBJECT_NAMESPACE, "{'metadata':{'name':'a','labels':{'tier':'gold'}}}");
	pass(20);
	next(SCHED_EVICT, "b1", NULL);
}

static void opportunistic_pods_may_exceed_the_total(void **state)
{
#define OPPORTUNIST SHARE("0.5") ",'divvy.gpu/class':'opportunistic'"
	add_node("n1", 4);
	policy("a", NS("a") ",'totalShare':1,'overcommit':{'share':'1.5'}");
	run("a", "o1", OPPORTUNIST);
	run("a", "o2", OPPORTUNIST);
	run("a", "o3", OPPORTUNIST);
	ask("a", "o4", OPPORTUNIST);
	told("o4", "policy a: the namespace has 1.5 of 1 GPUs, 0.5 requested");
	gone("a", "o3");
	gone("a", "o4");
	run("a", "s1", SHARE("0.5"));
	ask("a", "s2", SHARE("0.6"));
	told("s2", "policy a: the namespace has 1.5 of 1 GPUs, 0.6 requested");
}

#define SWAPS(bytes) SHARE("0.1") ",'divvy.gpu/memory':'" bytes "','divvy.gpu/memory-policy':'swap'"
#define FAILS(bytes) SHARE("0.1") ",'divvy.gpu/memory':'" bytes "'"

static void memory_may_be_overcommitted(void **state)
{
	add_node("n1", 1);
	run("a", "a1", SWAPS("600000"));
	ask("a", "a2", SWAPS("600000"));
	told("a2", "0/1 nodes: 1 no GPU with 585.9Ki free");
	policy("a", NS("a") ",'overcommit':{'memory':1.5}");
	policy("b", NS("b") ",'overcommit':{'memory':'2'}");
	pass(20);
	space = "a";
	confirm(next(SCHED_BIND, "a2", NULL), SWAPS("600000"));
	/*
	 * On a device with tenants of several namespaces the smallest factor counts: 1.5 of
	 * namespace a, not 2 of b.
	 */
	ask("b", "b1", SWAPS("400000"));
	told("b1", "0/1 nodes: 1 no GPU with 390.6Ki free");
	run("b", "b2", SWAPS("300000"));
	/*
	 * A tenant with the memory policy fail needs memory that no other tenant may use; the
	 * device has none left.
	 */
	ask("b", "b3", FAILS("1000"));
	told("b3", "0/1 nodes: 1 no GPU with 1000 free");
	gone("a", "a1");
	gone("a", "a2");
	gone("b", "b1");
	gone("b", "b3");
	run("b", "b4", FAILS("500000"));
	/*
	 * The other half of the device counts twice for swap tenants, because the memory factor of
	 * namespace b is 2. "b2" uses 300000 of these 1000000 bytes.
	 */
	ask("b", "b5", SWAPS("701000"));
	told("b5", "0/1 nodes: 1 no GPU with 684.6Ki free");
	run("b", "b6", SWAPS("700000"));
	/* Running pods stay when the policy allows less. */
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "b"));
	ask("b", "b7", SWAPS("1000"));
	told("b7", "0/1 nodes: 1 no GPU with 1000 free");
}

/* Adds a pod with an init container "i" and a main container "c". */
static void ask_stages(const char *name, const char *annotations)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'a','uid':'u-%s'," TENANT
		"'annotations':{%s}},'spec':{"
		"'schedulerName':'divvy-scheduler','initContainers':[{'name':'i'}],'containers':["
		"{'name':'c'}]}}",
		name, name, annotations);
}

static void an_init_container_counts_by_its_own_class(void **state)
{
#define FIRM_FIRST \
	"'i.divvy.gpu/request':'0.5','c.divvy.gpu/request':'0.5','c.divvy.gpu/class':" \
	"'opportunistic'"
	add_node("n1", 4);
	policy("a", NS("a") ",'totalShare':1,'overcommit':{'share':'1.5'}");
	ask_stages("a1", FIRM_FIRST);
	next(SCHED_BIND, "a1", NULL);
	ask_stages("a2", FIRM_FIRST);
	next(SCHED_BIND, "a2", NULL);
	ask_stages("a3", FIRM_FIRST);
	told("a3", "policy a: the namespace has 1 of 1 GPUs, 0.5 requested");
	run("a", "o1", OPPORTUNIST);
}

static void stages_of_a_pod_share_overcommitted_memory(void **state)
{
#define SWAP_STAGES(i, c) \
	SHARE("0.1") \
	",'divvy.gpu/memory-policy':'swap','i.divvy.gpu/memory-policy':'swap'," \
	"'i.divvy.gpu/request':'0.1','i.divvy.gpu/memory':'" i "','c.divvy.gpu/memory':'" c "'"
	add_node("n1", 1);
	policy("a", NS("a") ",'overcommit':{'memory':2}");
	/*
	 * The policy of namespace b has a larger overcommit factor, so the placement model permits
	 * more than a's factor does. The check of the device must still apply the factor of
	 * namespace a.
	 */
	policy("b", NS("b") ",'overcommit':{'memory':4}");
	ask_stages("a1", SWAP_STAGES("800000", "700000"));
	next(SCHED_BIND, "a1", NULL);
	ask_stages("a2", SWAP_STAGES("700000", "800000"));
	next(SCHED_BIND, "a2", NULL);
	ask_stages("a3", SWAP_STAGES("401000", "100000"));
	told("a3", "0/1 nodes: 1 no GPU with 391.6Ki free");
	ask_stages("a4", SWAP_STAGES("400000", "100000"));
	next(SCHED_BIND, "a4", NULL);
}

static void a_node_reports_its_memory_overcommit(void **state)
{
	add_node("n1", 1);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'n1'},'spec':{'overcommit':{'memory':'3'}},'status':{'owner':"
		"'divvy','slots':{'total':64},'devices':[{'uuid':'GPU-n1-0','index':0,'model':'A',"
		"'memoryBytes':1000000,'health':'Healthy'}]}}");
	run("a", "a1", SWAPS("1500000"));
	run("a", "a2", SWAPS("1500000"));
	ask("a", "a3", SWAPS("1000"));
	told("a3", "0/1 nodes: 1 no GPU with 1000 free");
}

static void a_label_space_joins_namespaces(void **state)
{
#define APART SHARE("0.3") ",'divvy.gpu/anti-affinity':'web/api'"
	add_node("n1", 1);
	/*
	 * The label web/api is separate in each namespace, until a policy lists `web` in
	 * labelSpaces.
	 */
	run("a", "a1", APART);
	run("b", "b1", APART);
	policy("web", "'namespaces':['a','c'],'labelSpaces':['web']");
	ask("c", "c1", APART);
	told("c1", "0/1 nodes: 1 kept away by affinity or exclusion labels");
	ask("d", "d1", APART);
	next(SCHED_BIND, "d1", NULL);
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "web"));
	gone("b", "b1");
	pass(20);
	space = "c";
	next(SCHED_BIND, "c1", NULL);
}

static void exclusions_that_change_are_still_counted(void **state)
{
#define ONLY SHARE("0.4") ",'divvy.gpu/exclusion':'web/api'"
	add_node("n1", 1);
	policy("web", "'namespaces':['a','b'],'labelSpaces':['web']");
	run("a", "a1", ONLY);
	run("b", "b1", ONLY);
	/* Now two tenants on one device have different exclusion labels, and both still count. */
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "web"));
	ask("a", "a2", ONLY);
	told("a2", "0/1 nodes: 1 no GPU with 0.4 free");
}

static void gangs_of_a_label_space_span_namespaces(void **state)
{
#define OF_GROUP SHARE("0.5") ",'divvy.gpu/group':'all/g','divvy.gpu/group-size':'2'"
	add_node("n1", 1);
	ask("a", "a1", OF_GROUP);
	ask("b", "b1", OF_GROUP);
	nothing();
	policy("all", "'labelSpaces':['all']");
	pass(20);
	space = "a";
	next(SCHED_BIND, "a1", NULL);
	next(SCHED_BIND, "b1", NULL);
}

/*
 * After the policies are removed, the gang's name belongs to one namespace and there are fewer
 * queues. The gang's old queue item must not stay.
 */
static void a_renamed_gang_leaves_no_queue_item(void **state)
{
	add_node("n1", 2);
	policy("a", NS("a") "," QUEUE("'guaranteedShare':1"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':0"));
	policy("z", NS("z") ",'labelSpaces':['all']," QUEUE("'guaranteedShare':0"));
	ask("z", "z1", OF_GROUP);
	nothing();
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "z"));
	assert_ok(sched_remove(sched, CLUSTER_POLICY, "", "b"));
	ask("a", "a1", SHARE("0.1"));
	pass(20);
	next(SCHED_BIND, "a1", NULL);
	ask("z", "z2", OF_GROUP);
	next(SCHED_BIND, "z1", NULL);
	next(SCHED_BIND, "z2", NULL);
}

/* ---- reports ---- */

static json_t *reported;

static json_t *status_of(const char *name)
{
	bool has_changed;

	json_decref(reported);
	/* The scheduler calls cluster_settle() before each decision, too. */
	assert_ok(cluster_settle(sched_cluster(sched), &has_changed));
	assert_ok(cluster_report(sched_cluster(sched), &reported));
	return json_object_get(reported, name);
}

static void reason_is(const char *name, const char *status, const char *reason, const char *message)
{
	json_t *valid = json_array_get(json_object_get(status_of(name), "conditions"), 0);
	const char *said = json_string_value(json_object_get(valid, "message"));

	assert_string_equal(json_string_value(json_object_get(valid, "status")), status);
	assert_string_equal(json_string_value(json_object_get(valid, "reason")), reason);
	assert_string_equal(said ? said : "", message);
}

static void policies_report_their_use(void **state)
{
	_cleanup_free_ char *text = NULL;
	json_t *status, *copy;

	add_node("n1", 2);
	set(OBJECT_NAMESPACE, "{'metadata':{'name':'a'}}");
	policy("p", "'namespaces':['a','b']," QUEUE("'guaranteedShare':1"));
	run("a", "a1", SHARE("0.5"));
	run("b", "b1", SHARE("0.7"));
	run("b", "b2", SHARE("0.5"));
	ask("b", "b3", SHARE("0.9"));
	nothing();
	status = status_of("p");
	copy = json_copy(status);
	json_object_del(copy, "conditions");
	text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text,
		"{\"namespaceCount\":1,\"namespaces\":["
		"{\"memoryBytes\":1200000,\"name\":\"b\",\"share\":1200,\"tenants\":2},"
		"{\"memoryBytes\":500000,\"name\":\"a\",\"share\":500,\"tenants\":1}],"
		"\"observedGeneration\":0,\"queues\":["
		"{\"borrowed\":0,\"guaranteed\":1000,\"name\":\"a\",\"used\":500,\"waiting\":0},"
		"{\"borrowed\":200,\"guaranteed\":1000,\"name\":\"b\",\"used\":1200,"
		"\"waiting\":1}]}");
	json_decref(copy);
	/* A status that the API has already is not reported again. */
	text = (free(text), json_dumps(status, 0));
	for (char *p = text; *p; p++)
		*p = *p == '"' ? '\'' : *p;
	set(CLUSTER_POLICY,
		"{'metadata':{'name':'p'},'spec':{'namespaces':['a','b']," QUEUE(
			"'guaranteedShare':1") "},'status':%s}",
		text);
	pass(5);
	assert_null(status_of("p"));
	gone("b", "b3");
	assert_non_null(status_of("p"));
	json_decref(TAKE_PTR(reported));
}

#define LIMITS_NOTHING \
	"the spec sets no limit; the API server drops unknown fields, " \
	"kubectl explain gpupolicy.spec lists the known ones"

static void policies_report_their_faults(void **state)
{
	policy("ok", NS("a") "," QUEUE("'guaranteedShare':1") ",'totalShare':1");
	reason_is("ok", "True", "Valid", "");
	policy("ok", NS("a") "," QUEUE("'guaranteedShare':2") ",'totalShare':1");
	reason_is("ok", "False", "GuaranteedAboveTotal",
		"queue.guaranteedShare 2 is above totalShare, 1");
	policy("limit", NS("b") "," QUEUE("'guaranteedShare':2,'limitShare':1"));
	reason_is("limit", "False", "QueueInvalid", "queue b: quota 2 is above the limit, 1");
	policy("q1", NS("c") "," QUEUE("'name':'q','guaranteedShare':2"));
	policy("q2", NS("d") "," QUEUE("'name':'q'"));
	reason_is("q2", "True", "Valid", "");
	policy("q2", NS("d") "," QUEUE("'name':'q','guaranteedShare':1"));
	reason_is("q2", "False", "QueueElsewhere",
		"queue q has other values in policy q1; give both policies the same");
	/* The API server drops a misspelt field, so the policy arrives empty. */
	policy("none", NS("e"));
	reason_is("none", "False", "Empty", LIMITS_NOTHING);
	policy("none", NS("e") ",'models':[],'overcommit':{}");
	reason_is("none", "False", "Empty", LIMITS_NOTHING);
	policy("none", NS("e") ",'remote':'denied'");
	reason_is("none", "True", "Valid", "");
	/* While the cluster has no device, a policy's models cause no remark. */
	policy("model", NS("e") ",'models':['=A','H100','!T4','=B']");
	reason_is("model", "True", "Valid", "");
	add_node("n1", 1);
	reason_is("model", "True", "ModelMissing", "no node has model 'H100', '=B'; there are A");
	policy("sel",
		"'namespaceSelector':{'matchExpressions':[{'key':'x','operator':'Sideways'}]}");
	assert_string_equal(
		json_string_value(json_object_get(
			json_array_get(json_object_get(status_of("sel"), "conditions"), 0),
			"reason")),
		"SelectorInvalid");
	json_decref(TAKE_PTR(reported));
}

/* ---- many jobs ---- */

#define JOBS 1000
#define NODES 5
#define GPUS (2 * NODES)
#define GRACE_S 30
#define ENDS_S 10 /* terminationGracePeriodSeconds */
#define SECOND_COMES_S 1000

enum job_state { TO_COME, WAITS, RUNS, LEAVES, DONE };

static struct job {
	enum job_state state;
	int of; /* namespace: 0: a, 1: b */
	uint32_t share;
	/* lasts_s: duration of the job; at_s: when its present state ends */
	uint64_t lasts_s, at_s;
} jobs[JOBS];

static uint64_t time_s(void)
{
	return (acts_now_ns - START_NS) / SECOND;
}

static const char *const spaces[] = {"a", "b"};

static void submit(int i)
{
	char name[16], annotations[64];

	snprintf(name, sizeof(name), "j%d", i);
	snprintf(annotations, sizeof(annotations), SHARE("0.%03u"), jobs[i].share);
	space = spaces[jobs[i].of];
	/* The pod requests no CPU, because a node has only 8 cores. */
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'%s','uid':'u-%s-%u'," TENANT
		"'annotations':{%s}},"
		"'spec':{'schedulerName':'divvy-scheduler','terminationGracePeriodSeconds':%d,"
		"'containers':[{'name':'c'}]}}",
		name, space, name, (unsigned int)time_s(), annotations, ENDS_S);
	jobs[i].state = WAITS;
}

static void started(const struct cpod *pod, int i)
{
	char annotations[64];

	snprintf(annotations, sizeof(annotations), SHARE("0.%03u"), jobs[i].share);
	space = spaces[jobs[i].of];
	confirm(pod, annotations);
	jobs[i].state = RUNS;
	jobs[i].at_s = time_s() + jobs[i].lasts_s;
}

/* Returns the number in a name such as "j17". */
static int number_of(const char *name)
{
	uint64_t n;

	assert_ok(parse_uint(str_from(name + 1), 0, JOBS - 1, &n, NULL));
	return (int)n;
}

static void act(uint32_t *n_evicted)
{
	struct sched_action a;
	int r;

	while ((r = sched_next(sched, &a, NULL)) > 0) {
		const int i = number_of(cpod_name(a.pod));

		if (a.act == SCHED_BIND) {
			started(a.pod, i);
		} else if (a.act == SCHED_EVICT && jobs[i].state == RUNS) {
			jobs[i].state = LEAVES;
			jobs[i].at_s = MIN(jobs[i].at_s, time_s() + ENDS_S);
			(*n_evicted)++;
		}
	}
	assert_int_equal(r, 0);
}

/* Removes jobs that have ended. Evicted jobs are submitted again. */
static void end_jobs(void)
{
	for (int i = 0; i < JOBS; i++) {
		const bool is_cut = jobs[i].state == LEAVES;
		char name[16];

		if ((jobs[i].state != RUNS && !is_cut) || jobs[i].at_s > time_s())
			continue;
		snprintf(name, sizeof(name), "j%d", i);
		gone(spaces[jobs[i].of], name);
		jobs[i].state = DONE;
		if (is_cut)
			submit(i);
	}
}

static uint64_t used_by(int of)
{
	uint64_t used = 0;

	for (int i = 0; i < JOBS; i++)
		if (jobs[i].of == of && (jobs[i].state == RUNS || jobs[i].state == LEAVES))
			used += jobs[i].share;
	return used;
}

static uint32_t least_waiting(int of)
{
	uint32_t least = UINT32_MAX;

	for (int i = 0; i < JOBS; i++)
		if (jobs[i].of == of && jobs[i].state == WAITS)
			least = MIN(least, jobs[i].share);
	return least;
}

static uint64_t next_event_s(void)
{
	uint64_t at_s = sched_deadline(sched) == CLOCK_NEVER
		? UINT64_MAX
		: (sched_deadline(sched) - START_NS + SECOND - 1) / SECOND;

	for (int i = 0; i < JOBS; i++)
		if (jobs[i].state == RUNS || jobs[i].state == LEAVES || jobs[i].state == TO_COME)
			at_s = MIN(at_s, jobs[i].at_s);
	return MAX(at_s, time_s() + 1);
}

static void renew_leases(void)
{
	char name[8], renewed[32];

	for (int i = 0; i < NODES; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		snprintf(renewed, sizeof(renewed), "2026-01-02T%02u:%02u:%02uZ",
			(unsigned int)(time_s() / 3600 % 24), (unsigned int)(time_s() / 60 % 60),
			(unsigned int)(time_s() % 60));
		add_lease(name, renewed);
	}
}

static void make_jobs(void)
{
	static const uint32_t shares[] = {100, 200, 250, 300, 500, 750};
	struct rand rand = rand_seeded(5);

	for (int i = 0; i < JOBS; i++)
		jobs[i] = (struct job){.of = i % 2,
			.share = shares[rand_below(&rand, ARRAY_SIZE(shares))],
			.lasts_s = 60 + rand_below(&rand, 600),
			.at_s = i % 2 ? 0 : SECOND_COMES_S};
}

/*
 * Namespaces a and b have guarantees of 60 % and 40 %. Namespace b uses all devices until the jobs
 * of a come.
 */
static void two_namespaces_share_by_their_guarantees(void **state)
{
	uint64_t seconds[2] = {0}, at_s = 0;
	uint32_t n_evicted = 0, n_at_grace = 0, n_done = 0;
	bool is_full = false, is_back = false;

	for (int i = 0; i < NODES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		add_node(name, 2);
	}
	policy("a", NS("a") "," QUEUE("'guaranteedShare':6,'weight':60,'graceSeconds':30"));
	policy("b", NS("b") "," QUEUE("'guaranteedShare':4,'weight':40,'graceSeconds':30"));
	make_jobs();
	for (;;) {
		uint64_t next_s;
		bool do_both_wait;

		end_jobs();
		for (int i = 0; i < JOBS; i++)
			if (jobs[i].state == TO_COME && jobs[i].at_s <= at_s)
				submit(i);
		act(&n_evicted);
		is_full |= at_s < SECOND_COMES_S && used_by(1) > 9000;
		/*
		 * At the end of the grace period namespace a has reclaimed what it needs of its
		 * guarantee.
		 */
		if (at_s >= SECOND_COMES_S + GRACE_S && !is_back) {
			assert_true(used_by(0) + least_waiting(0) > 6000 || used_by(1) <= 4000);
			assert_true(used_by(0) > 5500);
			n_at_grace = n_evicted;
			is_back = true;
		}
		do_both_wait = is_back && least_waiting(0) != UINT32_MAX &&
			least_waiting(1) != UINT32_MAX;
		if (is_back && !do_both_wait)
			break;
		next_s = MIN(next_event_s(), at_s + 20);
		if (at_s < SECOND_COMES_S + GRACE_S)
			next_s = MIN(next_s, at_s + 1);
		for (int of = 0; do_both_wait && of < 2; of++)
			seconds[of] += used_by(of) * (next_s - at_s);
		pass(next_s - at_s);
		renew_leases();
		at_s = next_s;
	}
	print_message("# a had %.1f %%, %u evicted when it came, %u later\n",
		100.0 * (double)seconds[0] / (double)(seconds[0] + seconds[1]), n_at_grace,
		n_evicted - n_at_grace);
	for (int i = 0; i < JOBS; i++)
		n_done += jobs[i].state == DONE;
	assert_true(n_done > JOBS / 2);
	assert_true(is_full);
	assert_true(n_at_grace > 0);
	assert_true(sched_counts(sched).n_reclaimed >= n_evicted);
	assert_in_range(seconds[0] * 1000 / (seconds[0] + seconds[1]), 580, 620);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, acts_begin, acts_end)
	const struct CMUnitTest tests[] = {
		TEST(idle_shares_are_borrowed_and_reclaimed),
		TEST(tenants_that_end_within_the_grace_period_are_not_evicted),
		TEST(without_a_grace_period_reclaim_is_immediate),
		TEST(many_pods_at_once_reclaim_one_each),
		TEST(reclaim_respects_disruption_budgets),
		TEST(a_gang_reclaims_as_a_whole),
		TEST(half_a_gang_reclaims_nothing),
		TEST(priorities_do_not_matter_between_queues),
		TEST(a_pod_in_no_queue_is_not_reclaimed),
		TEST(namespaces_share_a_queue),
		TEST(labels_choose_a_queue),
		TEST(models_have_quotas_of_their_own),
		TEST(queues_have_parents),
		TEST(a_guarantee_comes_before_a_limit_of_the_parent),
		TEST(priorities_matter_below_a_limit),
		TEST(a_policy_changes_while_pods_run),
		TEST(a_namespaces_label_changes_its_queue),
		TEST(opportunistic_pods_may_exceed_the_total),
		TEST(an_init_container_counts_by_its_own_class),
		TEST(memory_may_be_overcommitted),
		TEST(stages_of_a_pod_share_overcommitted_memory),
		TEST(a_node_reports_its_memory_overcommit),
		TEST(a_label_space_joins_namespaces),
		TEST(exclusions_that_change_are_still_counted),
		TEST(gangs_of_a_label_space_span_namespaces),
		TEST(a_renamed_gang_leaves_no_queue_item),
		TEST(policies_report_their_use),
		TEST(policies_report_their_faults),
		TEST(two_namespaces_share_by_their_guarantees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
