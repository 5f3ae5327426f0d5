/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rules between pods: affinity, anti-affinity in both directions, topology spread. */
#include "base/cleanup.h"
#include "rules.h"
#include "unit.h"

/* Two zones with two hosts each, and a host without a zone. */
#define ZONES \
	NODE("a1", "'zone':'a','host':'a1'", "") \
	NODE("a2", "'zone':'a','host':'a2'", "") \
	NODE("b1", "'zone':'b','host':'b1'", "") \
	NODE("b2", "'zone':'b','host':'b2'", "") NODE("x1", "'host':'x1'", "")
#define REQUIRED "'requiredDuringSchedulingIgnoredDuringExecution'"
#define APP(app) "'labelSelector':{'matchLabels':{'app':'" app "'}}"
#define TERM(what, key) "{" what ",'topologyKey':'" key "'}"
#define NEAR(terms) "'affinity':{'podAffinity':{" REQUIRED ":[" terms "]}}," EMPTY
#define AWAY(terms) "'affinity':{'podAntiAffinity':{" REQUIRED ":[" terms "]}}," EMPTY
#define DB(node) POD("db", "'app':'db','v':'1'", ON(node) EMPTY)

static void affinity_chooses_the_other_pods_domain(void **state)
{
	static const struct rule_case cases[] = {
		{"in the same zone", ZONES DB("a1") Q(NEAR(TERM(APP("db"), "zone"))), "a1 a2",
			"3 no pod of the required affinity in zone"},
		{"on the same host", ZONES DB("a1") Q(NEAR(TERM(APP("db"), "host"))), "a1", NULL},
		{"pods of another namespace do not match",
			ZONES POD_IN("b", "db", "'app':'db'", ON("a1") EMPTY)
				Q(NEAR(TERM(APP("db"), "zone"))),
			"", NULL},
		{"... unless it is named",
			ZONES POD_IN("b", "db", "'app':'db'", ON("a1") EMPTY)
				Q(NEAR(TERM(APP("db") ",'namespaces':['b']", "zone"))),
			"a1 a2", NULL},
		{"... or selected",
			ZONES "namespace {'metadata':{'name':'b','labels':{'team':'x'}}}\n" POD_IN(
				"b", "db", "'app':'db'", ON("a1") EMPTY)
				Q(NEAR(TERM(APP("db") ",'namespaceSelector':{'matchLabels':"
						      "{'team':'x'}}",
					"zone"))),
			"a1 a2", NULL},
		{"every namespace",
			ZONES POD_IN("b", "db", "'app':'db'", ON("a1") EMPTY)
				Q(NEAR(TERM(APP("db") ",'namespaceSelector':{}", "zone"))),
			"a1 a2", NULL},
		{"a namespace selector does not include the pod's own namespace",
			ZONES DB("a1") Q(NEAR(TERM(APP("db") ",'namespaceSelector':{'matchLabels':"
							     "{'team':'x'}}",
				"zone"))),
			"", NULL},
		{"all terms at once, by one pod",
			ZONES DB("a1")
				Q(NEAR(TERM(APP("db"), "zone") "," TERM(APP("web"), "zone"))),
			"", NULL},
		{"all terms at once, of different keys",
			ZONES DB("a1") Q(NEAR(TERM(APP("db"), "zone") "," TERM(APP("db"), "host"))),
			"a1", NULL},
		{"the first pod of a group fits any node with the label",
			ZONES Q(NEAR(TERM(APP("q"), "zone"))), "a1 a2 b1 b2", NULL},
		{"... the second does not",
			ZONES POD("p", "'app':'q'", ON("b1") EMPTY) Q(NEAR(TERM(APP("q"), "zone"))),
			"b1 b2", NULL},
		{"the first of another group goes nowhere", ZONES Q(NEAR(TERM(APP("db"), "zone"))),
			"", NULL},
		{"a missing selector matches no pod",
			ZONES DB("a1") Q(NEAR("{'topologyKey':'zone'}")), "", NULL},
		{"an empty selector matches every pod",
			ZONES DB("a1") Q(NEAR(TERM("'labelSelector':{}", "zone"))), "a1 a2", NULL},
		{"expressions",
			ZONES DB("a1")
				Q(NEAR(TERM("'labelSelector':{'matchExpressions':[{'key':'v',"
					    "'operator':'NotIn','values':['2','3']},{'key':'app',"
					    "'operator':'Exists'}]}",
					"zone"))),
			"a1 a2", NULL},
		{"a pod on an unknown node does not count",
			ZONES DB("gone") Q(NEAR(TERM(APP("db"), "zone"))), "", NULL},
		{"the pod's own labels as a selector",
			ZONES POD("p", "'app':'q','hash':'1'", ON("a1") EMPTY) POD(
				"r", "'app':'q','hash':'2'", ON("b1") EMPTY) POD("q",
				"'app':'q','hash':'2'",
				NEAR(TERM(APP("q") ",'matchLabelKeys':['hash','none']", "zone"))),
			"b1 b2", NULL, 33},
		{"... and what must differ",
			ZONES POD("p", "'app':'q','hash':'1'", ON("a1") EMPTY) POD(
				"r", "'app':'q','hash':'2'", ON("b1") EMPTY) POD("q",
				"'app':'q','hash':'2'",
				NEAR(TERM(APP("q") ",'mismatchLabelKeys':['hash']", "zone"))),
			"a1 a2", NULL, 33},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

static void anti_affinity_holds_in_both_directions(void **state)
{
	static const struct rule_case cases[] = {
		{"not in the same zone", ZONES DB("a1") Q(AWAY(TERM(APP("db"), "zone"))),
			"b1 b2 x1", "2 pods of the required anti-affinity in zone"},
		{"one matching anti-affinity term is enough",
			ZONES DB("a1")
				Q(AWAY(TERM(APP("web"), "zone") "," TERM(APP("db"), "host"))),
			"a2 b1 b2 x1", NULL},
		{"anti-affinity of existing pods counts",
			ZONES POD("db", "'app':'db'", ON("a1") AWAY(TERM(APP("q"), "zone")))
				Q(EMPTY),
			"b1 b2 x1", "2 pods whose anti-affinity rejects this pod in zone"},
		{"... of their own namespace",
			ZONES POD_IN("b", "db", "", ON("a1") AWAY(TERM(APP("q"), "zone"))) Q(EMPTY),
			"a1 a2 b1 b2 x1", NULL},
		{"... unless they name ours",
			ZONES POD_IN("b", "db", "",
				ON("a1") AWAY(TERM(APP("q") ",'namespaces':['a']", "zone")))
				Q(EMPTY),
			"b1 b2 x1", NULL},
		{"... or select it",
			ZONES "namespace {'metadata':{'name':'a','labels':{'team':'x'}}}\n" POD_IN(
				"b", "db", "",
				ON("a1") AWAY(TERM(APP("q") ",'namespaceSelector':{'matchLabels':"
							    "{'team':'x'}}",
					"zone"))) Q(EMPTY),
			"b1 b2 x1", NULL},
		{"an unclear anti-affinity of a pod keeps others off its node",
			ZONES POD("db", "", ON("a1") AWAY("{'topologyKey':'zone','new':1}"))
				Q(EMPTY),
			"a2 b1 b2 x1", "1 pod db with an unsupported anti-affinity"},
		{"anti-affinity of ended pods does not count",
			ZONES "pod {'metadata':{'name':'db','namespace':'a'},'status':{'phase':"
			      "'Succeeded'},'spec':{" ON("a1")
				      AWAY(TERM(APP("q"), "zone")) "}}\n" Q(EMPTY),
			"a1 a2 b1 b2 x1", NULL},
		{"a bad operator",
			ZONES Q(AWAY(TERM("'labelSelector':{'matchExpressions':[{'key':'v',"
					  "'operator':'Gt','values':['2']}]}",
				"zone"))),
			"", "only nodes are selected by Gt and Lt"},
		{"without a key", ZONES Q(AWAY("{" APP("db") "}")), "", "topologyKey: is empty"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

#define SPREAD(skew, key, more) \
	"'topologySpreadConstraints':[{'maxSkew':" skew ",'topologyKey':'" key \
	"','whenUnsatisfiable':'DoNotSchedule','labelSelector':{'matchLabels':{'app':'q'}}" more \
	"}]"
#define P(name, node) POD(name, "'app':'q'", ON(node) EMPTY)
#define IN_ZONE_A "'nodeSelector':{'zone':'a'},"

static void spreading_keeps_domains_level(void **state)
{
	static const struct rule_case cases[] = {
		{"a zone with one pod more than another is full",
			ZONES P("p", "a1") Q(SPREAD("1", "zone", "") "," EMPTY), "b1 b2",
			"2 maxSkew of the spread constraint on zone exceeded, 1 without the label "
			"zone of a spread constraint"},
		{"two more are allowed", ZONES P("p", "a1") Q(SPREAD("2", "zone", "") "," EMPTY),
			"a1 a2 b1 b2", NULL},
		{"a pod that does not match itself does not count",
			ZONES P("p", "a1")
				POD("q", "'app':'other'", SPREAD("1", "zone", "") "," EMPTY),
			"a1 a2 b1 b2", NULL},
		{"terminating pods do not count",
			ZONES "pod {'metadata':{'name':'p','namespace':'a','labels':{'app':'q'},"
			      "'deletionTimestamp':'2020-01-01T00:00:00Z'},'spec':{" ON("a1") EMPTY
			"}}\n" Q(SPREAD("1", "zone", "") "," EMPTY),
			"a1 a2 b1 b2", NULL},
		{"pods of other namespaces do not count",
			ZONES POD_IN("b", "p", "'app':'q'", ON("a1") EMPTY)
				Q(SPREAD("1", "zone", "") "," EMPTY),
			"a1 a2 b1 b2", NULL},
		{"zones that the pod cannot use do not count",
			ZONES P("p", "a1") Q(IN_ZONE_A SPREAD("1", "zone", "") "," EMPTY), "a1 a2",
			NULL},
		{"... unless the policy says so",
			ZONES P("p", "a1") Q(IN_ZONE_A SPREAD(
				"1", "zone", ",'nodeAffinityPolicy':'Ignore'") "," EMPTY),
			"", NULL, 26},
		{"tainted zones count",
			NODE("a1", "'zone':'a'", "") NODE(
				"b1", "'zone':'b'", "'taints':[{'key':'k','effect':'NoSchedule'}]")
				P("p", "a1") Q(SPREAD("1", "zone", "") "," EMPTY),
			"", "1 maxSkew of the spread constraint on zone exceeded", 26},
		{"... unless the policy says not",
			NODE("a1", "'zone':'a'", "") NODE("b1", "'zone':'b'",
				"'taints':[{'key':'k','effect':'NoSchedule'}]") P("p", "a1")
				Q(SPREAD("1", "zone", ",'nodeTaintsPolicy':'Honor'") "," EMPTY),
			"a1", NULL, 26},
		{"with fewer domains than minDomains the smallest count is 0",
			ZONES P("p", "a1") P("r", "b1")
				Q(SPREAD("1", "zone", ",'minDomains':3") "," EMPTY),
			"", NULL, 30},
		{"... enough of them do not",
			ZONES P("p", "a1") P("r", "b1")
				Q(SPREAD("1", "zone", ",'minDomains':2") "," EMPTY),
			"a1 a2 b1 b2", NULL, 30},
		{"pods on nodes of the domain that the pod cannot use: counted before",
			ZONES P("p", "a1") Q(
				"'nodeSelector':{'host':'a2'}," SPREAD("1", "zone", "") "," EMPTY),
			"a2", NULL, 20},
		{"they were, where there is another domain",
			ZONES P("p", "a1") Q(
				"'affinity':{'nodeAffinity':{" REQUIRED ":{'nodeSelectorTerms':[{"
				"'matchExpressions':[{'key':'host','operator':'In','values':['a2',"
				"'b1']}]}]}}}," SPREAD("1", "zone", "") "," EMPTY),
			"b1", NULL, 23},
		{"... and not since",
			ZONES P("p", "a1") Q(
				"'affinity':{'nodeAffinity':{" REQUIRED ":{'nodeSelectorTerms':[{"
				"'matchExpressions':[{'key':'host','operator':'In','values':['a2',"
				"'b1']}]}]}}}," SPREAD("1", "zone", "") "," EMPTY),
			"a2 b1", NULL, 24},
		{"a node without the label counted where the label has no value",
			NODE("n1", "'zone':''", "") NODE("n2", "'zone':'b'", "") NODE("n3", "", "")
				P("p", "n3") Q(SPREAD("1", "zone", "") "," EMPTY),
			"n2", NULL, 20},
		{"... and does not since",
			NODE("n1", "'zone':''", "") NODE("n2", "'zone':'b'", "") NODE("n3", "", "")
				P("p", "n3") Q(SPREAD("1", "zone", "") "," EMPTY),
			"n1 n2", NULL, 24},
		{"an empty selector matches no pod since 1.24",
			ZONES P("p", "a1") Q(
				"'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'zone',"
				"'whenUnsatisfiable':'DoNotSchedule','labelSelector':{}}]," EMPTY),
			"a1 a2 b1 b2", NULL, 25},
		{"ScheduleAnyway does not filter",
			ZONES P("p", "a1") Q(
				"'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'zone',"
				"'whenUnsatisfiable':'ScheduleAnyway','labelSelector':{}}]," EMPTY),
			"a1 a2 b1 b2 x1", NULL},
		{"a node needs the labels of all constraints",
			ZONES Q("'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'zone',"
				"'whenUnsatisfiable':'DoNotSchedule'},{'maxSkew':1,'topologyKey':'"
				"none',"
				"'whenUnsatisfiable':'DoNotSchedule'}]," EMPTY),
			"", "without the label none"},
		{"the labels of this revision only",
			ZONES POD("p", "'app':'q','hash':'1'", ON("a1") EMPTY) POD("q",
				"'app':'q','hash':'2'",
				SPREAD("1", "zone", ",'matchLabelKeys':['hash']") "," EMPTY),
			"a1 a2 b1 b2", NULL, 27},
		{"maxSkew 0 is refused", ZONES Q(SPREAD("0", "zone", "") "," EMPTY), "",
			"topologySpreadConstraints: 0: maxSkew: must be 1"},
		{"an unknown node inclusion policy",
			ZONES Q(SPREAD("1", "zone", ",'nodeTaintsPolicy':'Maybe'") "," EMPTY), "",
			"'Maybe' is not known"},
		{"an unknown field", ZONES Q(SPREAD("1", "zone", ",'weight':1") "," EMPTY), "",
			"topologySpreadConstraints: 0: weight: this scheduler does not know"},
	};

	rules_check(cases, ARRAY_SIZE(cases));
}

UNIT_MAIN(UNIT(affinity_chooses_the_other_pods_domain),
	UNIT(anti_affinity_holds_in_both_directions), UNIT(spreading_keeps_domains_level))
