/* SPDX-License-Identifier: Apache-2.0 */
#include "acts.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-policy.h"
#include "rules.h"
#include "unit-json.h"

struct sched *sched;
uint64_t acts_now_ns;
const char *space = "s", *spec_of_all = "", *requests_of_all = "";

void pass(uint64_t seconds)
{
	acts_now_ns += seconds * SECOND;
	sched_set_time(sched, acts_now_ns, REAL_NS + acts_now_ns - START_NS);
}

void acts_use(const struct place_policy *policy)
{
	const struct sched_config config = {
		.cluster = {"divvy-scheduler", 30, policy, NULL}, .seed = 1};

	sched_free(sched);
	assert_ok(sched_new(&config, &sched, NULL));
	acts_now_ns = START_NS;
	pass(0);
}

int acts_begin(void **state)
{
	space = "s";
	spec_of_all = requests_of_all = "";
	acts_use(&place_best_fit);
	return 0;
}

int acts_end(void **state)
{
	sched_free(sched);
	sched = NULL;
	return 0;
}

void set(int kind, const char *fmt, ...)
{
	struct error err = {0};
	json_t *json;
	va_list ap;

	va_start(ap, fmt);
	json = rules_jsonv(fmt, ap);
	va_end(ap);
	if (sched_set(sched, kind, json, &err) < 0)
		fail_msg("%s", err.msg);
	json_decref(json);
}

void add_lease(const char *name, const char *renewed)
{
	set(CLUSTER_LEASE,
		"{'metadata':{'name':'%s'},'spec':{'renewTime':'%s','leaseDurationSeconds':40}}",
		name, renewed);
}

void add_gpus(const char *name, int n, const char *tenants)
{
	_cleanup_buf_ struct buf devices = BUF_INIT(8192);

	for (int i = 0; i < n; i++)
		buf_addf(&devices,
			"%s{'uuid':'GPU-%s-%d','index':%d,'model':'A','memoryBytes':1000000,'"
			"health'"
			":'Healthy'}",
			i ? "," : "", name, i, i);
	set(CLUSTER_GPU_NODE,
		"{'metadata':{'name':'%s'},'status':{'owner':'divvy','slots':{'total':64},'devices'"
		":"
		"[%s],'tenants':[%s]}}",
		name, buf_text(&devices), tenants);
}

void add_node(const char *name, int n)
{
	set(OBJECT_NODE,
		"{'metadata':{'name':'%s'},'status':{'allocatable':{'cpu':'8','memory':'16Gi','"
		"pods'"
		":'110'}}}",
		name);
	if (!n)
		return;
	add_lease(name, "2026-01-02T03:04:05Z");
	add_gpus(name, n, "");
}

void add_pod(const char *name, const char *annotations, const char *more)
{
	set(OBJECT_POD,
		"{'metadata':{'name':'%s','namespace':'%s','uid':'u-%s','creationTimestamp':'2026-"
		"01-"
		"02T03:04:05Z'," TENANT
		"'annotations':{%s}},'spec':{'schedulerName':'divvy-scheduler',"
		"'containers':[{'name':'c','resources':{'requests':{'cpu':'1'%s}}}]%s%s}}",
		name, space, name, annotations, requests_of_all, more, spec_of_all);
}

void confirm(const struct cpod *pod, const char *annotations)
{
	_cleanup_buf_ struct buf given = BUF_INIT(8192);
	json_t *json, *value;
	const char *key;
	char more[256], name[256];

	snprintf(name, sizeof(name), "%s", cpod_name(pod));
	assert_ok(decide_annotations(sched_cluster(sched), pod, 7, &json));
	json_object_foreach(json, key, value)
		buf_addf(&given, ",'%s':'%s'", key, json_string_value(value));
	json_decref(json);
	snprintf(more, sizeof(more), ",'nodeName':'%s'", cpod_node(pod));
	buf_add_text(&given, "");
	sched_bound(sched, space, name, cpod_uid(pod), true);
	{
		_cleanup_buf_ struct buf all = BUF_INIT(16384);

		buf_addf(&all, "%s%s", annotations, buf_text(&given));
		add_pod(name, buf_text(&all), more);
	}
}

/* Returns the action's content as a text that is valid until the next call. */
static const char *text_of(const struct sched_action *a)
{
	static struct buf text = {.max = 8192};

	buf_clear(&text);
	if (a->act == SCHED_CLAIM) {
		buf_add_text(&text, a->claims->node);
		for (uint32_t i = 0; i < a->claims->n; i++)
			buf_addf(&text, " %s", a->claims->name[i]);
	} else if (a->act != SCHED_EVICT) {
		buf_add_text(&text, a->sentence);
	} else if (a->preemptor) {
		sched_preemptor_format(a->preemptor, &text);
	}
	return buf_text(&text);
}

const struct cpod *next(enum sched_act act, const char *name, const char *text)
{
	static struct sched_action a;
	struct error err = {0};

	for (;;) {
		int r = sched_next(sched, &a, &err);

		if (r <= 0)
			fail_msg("nothing to do for %s (%d %s)", name, r, err.msg);
		if (a.act != act) {
			if (a.act == SCHED_CONDITION || a.act == SCHED_EVENT)
				continue;
			fail_msg("%s: action %d instead of %d: %s", cpod_name(a.pod), (int)a.act,
				(int)act, text_of(&a));
		}
		assert_string_equal(cpod_name(a.pod), name);
		if (text)
			assert_string_equal(text_of(&a), text);
		return a.pod;
	}
}

void nothing(void)
{
	struct sched_action a;

	while (sched_next(sched, &a, NULL) > 0)
		if (a.act != SCHED_CONDITION && a.act != SCHED_EVENT)
			fail_msg("%s: action %d: %s", cpod_name(a.pod), (int)a.act, text_of(&a));
}

const char *device_of(const struct cpod *pod)
{
	assert_true(cpod_assigned(pod)->n > 0);
	return cpod_assigned(pod)->v[0].device[0];
}

void told(const char *name, const char *sentence)
{
	next(SCHED_CONDITION, name, sentence);
}
