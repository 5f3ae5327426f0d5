/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of claims: a table of lists and the specs or messages that follow. A list is that
 * of an allocation, with ' in place of ".
 */
#include "unit-json.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "manifest/claim-config.h"
#include "manifest/requested-json.h"

#define GI (UINT64_C(1) << 30)
#define SHARE "'apiVersion':'divvy.gpu/v1','kind':'ShareConfig'"
#define ENTRY(source, more, fields) \
	"{'source':'" source "'" more \
	",'opaque':{'driver':'divvy.gpu','parameters':{" SHARE fields "}}}"
#define CLASS(fields) ENTRY("FromClass", "", fields)
#define CLAIM(fields) ENTRY("FromClaim", "", fields)
#define OF(requests, fields) ENTRY("FromClaim", ",'requests':[" requests "]", fields)

static const struct claim_grant a_share = {"gpu", 1, false, {300, 2 * GI}};

static int claim_read(
	const char *list, const struct claim_grant *grant, struct spec *ret_spec, struct error *err)
{
	_cleanup_json_ json_t *configs = unit_json(list);

	return claim_config_read(configs, NULL, grant, ret_spec, err);
}

static struct spec claim_good(const char *list, const struct claim_grant *grant)
{
	struct spec spec;
	struct error err;

	if (claim_read(list, grant, &spec, &err) < 0)
		fail_msg("%s: %s", list, err.msg);
	return spec;
}

static void the_capacity_is_request_and_memory(void **state)
{
	struct spec spec;
	struct error err;

	assert_ok(claim_config_read(NULL, NULL, &a_share, &spec, &err));
	assert_int_equal(spec.request, 300);
	assert_int_equal(spec.limit, 1000);
	assert_int_equal(spec.count, 1);
	assert_int_equal(spec.memory_bytes, 2 * GI);
	assert_int_equal(spec.class, SPEC_STANDARD);
	assert_int_equal(spec.priority, 50);
	assert_false(spec.exclusive);
}

static void parameters_set_the_rest(void **state)
{
	const struct spec spec = claim_good(
		"[" CLAIM(",'limit':0.6,'memoryPolicy':'wait','class':'latency','priority':'80',"
			  "'request':0.3,'memory':'2Gi'") "]",
		&a_share);

	assert_int_equal(spec.request, 300);
	assert_int_equal(spec.limit, 600);
	assert_int_equal(spec.memory_bytes, 2 * GI);
	assert_int_equal(spec.memory_policy, SPEC_MEMORY_WAIT);
	assert_int_equal(spec.class, SPEC_LATENCY);
	assert_int_equal(spec.priority, 80);
}

static void several_devices_are_one_spec(void **state)
{
	const struct claim_grant shares = {"gpu", 2, false, {500, GI}},
				 whole = {"gpu", 2, true, {0}}, all = {"gpu", 1, false, {1000, GI}};
	struct spec spec = claim_good("[]", &shares);

	assert_int_equal(spec.count, 2);
	assert_int_equal(spec.request, 500);
	spec = claim_good("[" CLAIM(",'request':2") "]", &whole);
	assert_true(spec.exclusive);
	assert_int_equal(spec.count, 2);
	assert_int_equal(spec.memory_bytes, 0);
	spec = claim_good("[]", &all);
	assert_true(spec.exclusive);
	assert_int_equal(spec.memory_bytes, GI);
}

/* The list's order, and which entries apply. */
static const struct {
	const char *list, *request;
	uint32_t limit, priority;
} merged[] = {
	{"[" CLAIM(",'limit':0.4") "," CLASS(",'limit':0.8,'priority':60") "]", "gpu", 400, 60},
	{"[" CLASS(",'limit':0.8") "," CLASS(",'limit':0.7") "]", "gpu", 700, 50},
	{"[" CLAIM(",'limit':0.4,'priority':60") "," CLAIM(",'limit':0.5") "]", "gpu", 500, 60},
	{"[" CLAIM(",'limit':null") "]", "gpu", 1000, 50},
	{"[" OF("'other'", ",'limit':0.4") "]", "gpu", 1000, 50},
	{"[" OF("'other','gpu'", ",'limit':0.4") "]", "gpu", 400, 50},
	{"[" OF("'gpu'", ",'limit':0.4") "]", "gpu/half", 400, 50},
	{"[" OF("'gpu/half'", ",'limit':0.4") "]", "gpu/half", 400, 50},
	{"[" OF("'gpu/whole'", ",'limit':0.4") "]", "gpu/half", 1000, 50},
	{"[" OF("'gpu/half'", ",'limit':0.4") "]", "gpu", 1000, 50},
	{"[" OF("'gp'", ",'limit':0.4") "]", "gpu", 1000, 50},
	{"[{'source':'FromClaim','opaque':{'driver':'nic.example.com','parameters':{'x':1}}}]",
		"gpu", 1000, 50},
	{"[{'source':'FromClaim'}, 7]", "gpu", 1000, 50},
};

static void entries_apply_in_order(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(merged); i++) {
		struct claim_grant grant = a_share;
		struct spec spec;

		grant.request = merged[i].request;
		spec = claim_good(merged[i].list, &grant);
		if (spec.limit != merged[i].limit || spec.priority != merged[i].priority)
			fail_msg("%s: limit %u, priority %u", merged[i].list, spec.limit,
				spec.priority);
	}
}

static const struct {
	const char *list, *message;
} refused[] = {
	/* nobody gains by parameters */
	{"[" CLAIM(",'request':0.7") "]",
		"request 0.7: the claim's capacity share is 0.3; leave request out, and state the "
		"capacity share: 700"},
	{"[" CLASS(",'request':0.7") "]", "request 0.7: the claim's capacity share is 0.3"},
	{"[" CLAIM(",'request':2") "]", "request 2: the claim's capacity share is 0.3"},
	{"[" CLAIM(",'memory':'4Gi'") "]", "memory 4Gi: the claim's capacity memory is 2Gi"},
	{"[" CLAIM(",'memory':'25%'") "]", "memory '25%': the capacity of a claim is in bytes"},
	{"[" CLASS(",'limit':0.5") "," CLAIM(",'limit':0.6") "]",
		"limit 0.6: the claim's device class allows at most 0.5"},
	{"[" CLAIM(",'limit':0.6") "," CLASS(",'limit':0.5") "]", "allows at most 0.5"},
	{"[" CLASS(",'priority':40") "," CLAIM(",'priority':41") "]",
		"priority 41: the claim's device class allows 0 to 40"},
	{"[" CLASS(",'class':'standard'") "," CLAIM(",'class':'latency'") "]",
		"class latency: the claim's device class allows standard or opportunistic"},
	{"[" CLASS(",'class':'opportunistic'") "," CLAIM(",'class':'standard'") "]",
		"class standard: the claim's device class allows opportunistic"},
	{"[" CLASS(",'limit':0.2") "]", "limit 0.2: below request 0.3"},
	/* the sentences of annotations, with the entry */
	{"[{}," CLAIM(",'limit':'2x'") "]",
		"config[1].opaque.parameters: limit '2x': expected 0.001 to 1"},
	{"[" CLAIM(",'memoryPolicy':'fial'") "]",
		"memoryPolicy 'fial': expected fail, wait or swap"},
	{"[" CLAIM(",'class':'fast'") "]", "class 'fast': expected latency, standard or"},
	{"[" CLAIM(",'priority':101") "]", "priority '101': expected 0 (opportunistic) to 100"},
	{"[" CLAIM(",'limit':[1]") "]", "limit: has to be text or a number"},
	{"[" CLAIM(",'limit':'0.5\\u0000'") "]", "limit: has to be text or a number"},
	{"[" CLAIM(",'memory-policy':'wait'") "]", "did you mean memoryPolicy?"},
	{"[" CLAIM(",'limits':1") "]", "'limits': unknown field; did you mean limit?"},
	{"[" CLAIM(",'colour':1") "]", "'colour': unknown field; expected limit, memoryPolicy"},
	{"[" CLAIM(",'count':2") "]",
		"count: not a parameter of a claim; set count of the claim's"},
	{"[" CLAIM(",'model':'T4'") "]", "model: not a parameter of a claim; use a selector"},
	{"[" CLAIM(",'antiAffinity':'a'") "]", "use matchAttribute or distinctAttribute"},
	{"[" CLAIM(",'group':'a'") "]", "group: not a parameter of a claim; a group is a"},
	{"[{'opaque':{'driver':'divvy.gpu','parameters':{'kind':'ShareConfig'}}}]",
		"apiVersion '': expected divvy.gpu/v1"},
	{"[{'opaque':{'driver':'divvy.gpu','parameters':{'apiVersion':'divvy.gpu/v1','kind':'X'}}}]",
		"kind 'X': expected ShareConfig"},
	{"[{'opaque':{'driver':'divvy.gpu'}}]", "apiVersion '': expected divvy.gpu/v1"},
};

static void wrong_parameters_are_named(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct spec spec;
		struct error err = {0};
		const int r = claim_read(refused[i].list, &a_share, &spec, &err);

		if (r != -EINVAL || !strstr(err.msg, refused[i].message))
			fail_msg("%s: %d '%s'", refused[i].list, r, err.msg);
		if (strlen(err.msg) + 4 >= sizeof(err.msg))
			fail_msg("message was cut: %s", err.msg);
	}
}

static void a_grant_without_capacity_is_refused(void **state)
{
	const struct claim_grant wrong[] = {{"gpu", 1, false, {0, GI}}, {"gpu", 1, false, {300, 0}},
		{"gpu", 0, false, {300, GI}}, {"gpu", SPEC_DEVICES_MAX + 1, false, {300, GI}}};
	struct spec spec;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(claim_config_read(NULL, NULL, &wrong[i], &spec, NULL), -EINVAL);
}

static const struct {
	const char *capacity;
	struct claim_capacity want;
	const char *message;
} capacities[] = {
	{"{'share':'300','memory':'2Gi'}", {300, 2 * GI}, NULL},
	{"{'share':1000,'memory':2147483648}", {1000, 2 * GI}, NULL},
	{"{'share':'1k'}", {1000, 0}, NULL},
	{"{}", {0, 0}, NULL},
	{"{'share':'1001'}", {0}, "capacity share '1001': expected 1 to 1000, in thousandths"},
	{"{'share':'0'}", {0}, "for several devices set count"},
	{"{'share':'300m'}", {0}, "capacity share '300m'"},
	{"{'share':[]}", {0}, "capacity share ''"},
	{"{'memory':'25%'}", {0}, "capacity memory '25%': expected bytes or a quantity"},
	{"{'memory':'0'}", {0}, "capacity memory '0'"},
	{"{'shares':'1'}", {0}, "capacity 'shares': unknown; expected share or memory"},
};

/* ---- annotations ---- */

static void annotations_come_last(void **state)
{
	_cleanup_json_ json_t *configs = unit_json("[" CLASS(
		",'limit':0.8,'priority':60") "," CLAIM(",'limit':0.4,'class':'latency'") "]");
	static const struct {
		const char *annotations, *sentence;
		uint32_t limit, priority;
		enum spec_class class;
	} cases[] = {
		{"{}", NULL, 400, 60, SPEC_LATENCY},
		{"{'other.example/limit':'x'}", NULL, 400, 60, SPEC_LATENCY},
		{"{'divvy.gpu/limit':'0.7'}", NULL, 700, 60, SPEC_LATENCY},
		{"{'divvy.gpu/class':'standard','divvy.gpu/priority':'10'}", NULL, 400, 10,
			SPEC_STANDARD},
		{"{'divvy.gpu/limit':'0.9'}", "allows at most 0.8", 0, 0, 0},
		{"{'divvy.gpu/priority':'61'}", "allows 0 to 60", 0, 0, 0},
		{"{'divvy.gpu/limit':'0.2'}", "limit", 0, 0, 0}, /* below the request */
		{"{'divvy.gpu/limit':'x'}", "annotation divvy.gpu/limit 'x'", 0, 0, 0},
		{"{'divvy.gpu/memory':'1Gi'}", "divvy.gpu/memory: stays as long", 0, 0, 0},
		{"{'divvy.gpu/request':'0.3'}", "divvy.gpu/request: stays as long", 0, 0, 0},
		{"{'divvy.gpu/limits':'1'}", "'divvy.gpu/limits': unknown on a claim", 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *annotations = unit_json(cases[i].annotations);
		struct spec spec;
		struct error err = {0};
		int r = claim_config_read(configs, annotations, &a_share, &spec, &err);

		if (cases[i].sentence) {
			assert_int_equal(r, -EINVAL);
			assert_contains(err.msg, cases[i].sentence);
			continue;
		}
		if (r < 0)
			fail_msg("%s: %s", cases[i].annotations, err.msg);
		assert_int_equal(spec.limit, cases[i].limit);
		assert_int_equal(spec.priority, cases[i].priority);
		assert_int_equal(spec.class, cases[i].class);
		assert_int_equal(spec.request, 300);
	}
}

static void capacity_is_read(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(capacities); i++) {
		_cleanup_json_ json_t *json = unit_json(capacities[i].capacity);
		struct claim_capacity got = {0};
		struct error err = {0};
		const int r = claim_capacity_read(json, &got, &err);

		if (r != (capacities[i].message ? -EINVAL : 0) ||
			!strstr(err.msg, capacities[i].message ? capacities[i].message : "") ||
			got.share_permille != capacities[i].want.share_permille ||
			got.memory_bytes != capacities[i].want.memory_bytes)
			fail_msg("%s: %d '%s'", capacities[i].capacity, r, err.msg);
	}
}

/* The requests that claim_config_check_claim() has found, as "gpu 300 400;". */
static int note(void *data, const struct claim_request *request, struct error *err)
{
	return buf_addf(data, "%s%s%s %u %u%s;", request->name, request->subrequest[0] ? "/" : "",
		request->subrequest, request->capacity.share_permille, request->spec.limit,
		request->is_ours ? "" : " theirs");
}

#define EXACT(name, class, share) \
	"{'name':'" name \
	"','exactly':{'deviceClassName':'" class "','capacity':{'requests':{'share':'" share \
						 "'}}}}"
#define CONFIG(fields) \
	"'config':[{'opaque':{'driver':'divvy.gpu','parameters':{" SHARE fields "}}}]"

static const struct {
	const char *devices;
	const char *found, *message;
} claims[] = {
	{"{'requests':[" EXACT("gpu", "share.divvy.gpu", "300") "]}", "gpu 300 1000;", NULL},
	{"{'requests':[" EXACT("gpu", "share.divvy.gpu", "300") "]," CONFIG(",'limit':0.4") "}",
		"gpu 300 400;", NULL},
	/* v1beta1 */
	{"{'requests':[{'name':'gpu','deviceClassName':'share.divvy.gpu'}]}", "gpu 0 1000;", NULL},
	{"{'requests':[{'name':'gpu','firstAvailable':[{'name':'half','deviceClassName':"
	 "'share.divvy.gpu','capacity':{'requests':{'share':'500'}}},{'name':'whole',"
	 "'deviceClassName':'gpu.divvy.gpu'}]}]}",
		"gpu/half 500 1000;gpu/whole 0 1000;", NULL},
	/* other drivers' requests, and classes of any name */
	{"{'requests':[" EXACT("nic", "nic.example.com", "3Gi") "]}", "", NULL},
	{"{'requests':[" EXACT("a", "team-a", "3Gi") "]," CONFIG(",'limit':0.4") "}",
		"a 0 400 theirs;", NULL},
	{"{'requests':[{'name':'gpu','exactly':{'deviceClassName':'gpu.divvy.gpu','count':2}}]," CONFIG(
		 ",'limit':2,'request':2") "}",
		"gpu 0 1000;", NULL},
	{"{'requests':[" EXACT("gpu", "share.divvy.gpu", "1500") "]}", "",
		"request 'gpu': capacity share '1500': expected 1 to 1000"},
	{"{'requests':[" EXACT("gpu", "share.divvy.gpu", "300") "]," CONFIG(",'request':0.4") "}",
		"", "request 'gpu': request 0.4: the claim's capacity share is 0.3"},
	{"{'requests':[" EXACT("gpu", "share.divvy.gpu", "300") "]," CONFIG(",'limit':0.2") "}", "",
		"request 'gpu': limit 0.2: below request 0.3"},
	{"{'requests':[{'name':'all','exactly':{'deviceClassName':'gpu.divvy.gpu',"
	 "'adminAccess':true}}]}",
		"", "request 'all': adminAccess: divvy's driver gives no access"},
	{"{'requests':[{'name':'gpus','exactly':{'deviceClassName':'share.divvy.gpu','count':17}}]}",
		"", "request 'gpus': count 17: a request is one tenant, which gets at most 16"},
	/* without a share it is the whole device */
	{"{'requests':[{'name':'gpu','exactly':{'deviceClassName':'gpu.divvy.gpu'}}]," CONFIG(
		 ",'limit':0.5") "}",
		"", "request 'gpu': limit 0.5: with request 1 the limit is 1"},
	{"{'requests':[]," CONFIG(",'limit':'x'") "}", "",
		"config[0].opaque.parameters: limit 'x'"},
};

static void claims_are_checked(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		_cleanup_json_ json_t *devices = unit_json(claims[i].devices);
		_cleanup_buf_ struct buf found = BUF_INIT(1024);
		struct error err = {0};
		const int r = claim_config_check_claim(devices, NULL, note, &found, &err);

		if (r != (claims[i].message ? -EINVAL : 0) ||
			!strstr(err.msg, claims[i].message ? claims[i].message : "") ||
			strcmp(buf_text(&found), claims[i].found))
			fail_msg("%s: %d '%s' %s", claims[i].devices, r, err.msg, buf_text(&found));
	}
}

/* A new field of the spec has to be a parameter, or its message says where a claim states it. */
static void each_field_of_a_spec_has_a_place(void **state)
{
	char name[SPEC_FIELD], field[SPEC_FIELD];

	for (size_t i = 0; spec_field_name(i, name); i++) {
		_cleanup_json_ json_t *parameters = json_pack("{s:s, s:s}", "apiVersion",
					      CLAIM_API_VERSION, "kind", CLAIM_KIND),
				      *spec = json_pack("{s:[{s:{s:s, s:O}}]}", "config", "opaque",
					      "driver", CLAIM_DRIVER, "parameters", parameters);
		struct error err = {0};

		requested_json_field(name, field);
		json_object_set_new(parameters, field, json_string(""));
		claim_config_check_class(spec, &err);
		if (strstr(err.msg, "unknown field"))
			fail_msg("%s", err.msg);
	}
}

static void classes_are_checked(void **state)
{
	_cleanup_json_ json_t *good = unit_json("{" CONFIG(",'limit':0.4") "}"),
			      *wrong = unit_json("{" CONFIG(",'limit':0") "}");
	struct error err;

	assert_ok(claim_config_check_class(good, &err));
	assert_ok(claim_config_check_class(NULL, &err));
	assert_int_equal(claim_config_check_class(wrong, &err), -EINVAL);
	assert_contains(err.msg, "config[0].opaque.parameters: limit '0'");
}

UNIT_MAIN(UNIT(the_capacity_is_request_and_memory), UNIT(parameters_set_the_rest),
	UNIT(several_devices_are_one_spec), UNIT(entries_apply_in_order),
	UNIT(wrong_parameters_are_named), UNIT(a_grant_without_capacity_is_refused),
	UNIT(annotations_come_last), UNIT(capacity_is_read), UNIT(claims_are_checked),
	UNIT(each_field_of_a_spec_has_a_place), UNIT(classes_are_checked))
