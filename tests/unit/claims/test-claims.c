/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims of pods: which devices they get, assumed allocations, reasons and limits. Worlds of all
 * kinds are in tests/k8s/test-allocator.py, which compares the choice with Kubernetes' allocator.
 */
#include "unit.h"
#include "unit-json.h"

#include <errno.h>

#include "base/cleanup.h"
#include "claims/claims.h"

#define SLICE(name, node, devices) \
	"{'metadata':{'name':'" name "'},'spec':{'driver':'d','nodeName':'" node \
	"','pool':{'name':'" name "','generation':1,'resourceSliceCount':1},'devices':[" devices \
	"]}}"
#define CLASS "{'metadata':{'name':'any'},'spec':{}}"
#define REQUEST(more) "{'name':'r','exactly':{'deviceClassName':'any'" more "}}"
#define CLAIM_AT(name, version, requests, more) \
	"{'metadata':{'name':'" name "','namespace':'a','uid':'u-" name \
	"','resourceVersion':'" version "'},'spec':{'devices':{'requests':[" requests "]}}" more \
	"}"
#define CLAIM(name, requests) CLAIM_AT(name, "5", requests, "")
#define HAS(device) \
	",'status':{'allocation':{'devices':{'results':[{'request':'r','driver':'d','pool':" \
	"'s1','device':'" device "'}]}}}"

static const struct labels none;
static const struct claims_node n1 = {"n1", &none}, n2 = {"n2", &none};

static void set(struct claims *claims, enum claims_kind kind, const char *text)
{
	json_t *json = unit_json(text);

	assert_ok(claims_set(claims, kind, json, NULL));
	json_decref(json);
}

static void set_answer(struct claims *claims, const char *text)
{
	json_t *json = unit_json(text);

	assert_ok(claims_set_answer(claims, json, NULL));
	json_decref(json);
}

/* A class, node n1 with the devices x and y, and the claims a and b for one device each. */
static struct claims *world(void)
{
	struct claims *claims;

	assert_ok(claims_new(7, &claims, NULL));
	set(claims, CLAIMS_CLASS, CLASS);
	set(claims, CLAIMS_SLICE, SLICE("s1", "n1", "{'name':'x'},{'name':'y'}"));
	set(claims, CLAIMS_CLAIM, CLAIM("a", REQUEST("")));
	set(claims, CLAIMS_CLAIM, CLAIM("b", REQUEST("")));
	return claims;
}

static int search_for(
	struct claims *claims, const char *name, struct claims_search **ret, struct error *err)
{
	const struct claims_name names[] = {{name, "entry", false}};
	const struct claims_pod pod = {"a", "pod", "uid", names, 1};

	return claims_search_new(claims, &pod, ret, err);
}

/* Returns the device that the claim gets on node n1, "" for none, and assumes it. */
static const char *device_for(
	struct claims *claims, const char *name, struct claims_place **ret_place)
{
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
	struct claims_write write;
	json_t *results;
	int r;

	assert_ok(search_for(claims, name, &search, NULL));
	r = claims_assume(search, &n1, "2026-01-01T00:00:00Z", ret_place, NULL);
	if (r == -ENOSPC)
		return "";
	assert_ok(r);
	assert_int_equal(claims_place_count(*ret_place), 1);
	claims_place_get(*ret_place, 0, &write);
	results = json_object_get(json_object_get(write.allocation, "devices"), "results");
	return json_string_value(json_object_get(json_array_get(results, 0), "device"));
}

static void an_assumed_device_is_taken_until_it_is_released(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_place *a = NULL, *b = NULL, *c = NULL;

	set(claims, CLAIMS_CLAIM, CLAIM("c", REQUEST("")));
	assert_string_equal(device_for(claims, "a", &a), "x");
	assert_string_equal(device_for(claims, "b", &b), "y");
	assert_string_equal(device_for(claims, "c", &c), "");
	claims_release(claims, a);
	assert_string_equal(device_for(claims, "c", &c), "x");
	claims_release(claims, b);
	claims_release(claims, c);
}

static void the_api_takes_over_an_assumption(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_place *a = NULL, *b = NULL;

	assert_string_equal(device_for(claims, "a", &a), "x");
	/* A new version without an allocation changes nothing, nor does an older one later. */
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "10", REQUEST(""), ""));
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_release(claims, b);
	set_answer(claims, CLAIM_AT("a", "12", REQUEST(""), HAS("x")));
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "11", REQUEST(""), ""));
	claims_release(claims, a);
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_release(claims, b);
	/* The devices of a deleted claim are free. */
	assert_ok(claims_remove(claims, CLAIMS_CLAIM, "a", "a"));
	assert_string_equal(device_for(claims, "b", &b), "x");
	claims_release(claims, b);
}

/* A restored store has older versions of all claims, with lower numbers. */
static void a_restored_store_is_believed(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_place *b = NULL;

	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "90", REQUEST(""), HAS("x")));
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_release(claims, b);
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "9", REQUEST(""), ""));
	assert_string_equal(device_for(claims, "b", &b), "x");
	claims_release(claims, b);
	/* An answer is ahead of the watch, which then shows an older version. */
	set_answer(claims, CLAIM_AT("a", "30", REQUEST(""), HAS("x")));
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "20", REQUEST(""), ""));
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_release(claims, b);
}

static void a_write_of_unknown_result_keeps_the_device(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_place *a = NULL, *b = NULL;

	assert_string_equal(device_for(claims, "a", &a), "x");
	claims_begin_write(claims, "a", "a");
	claims_end_write(claims, "a", "a", true);
	claims_release(claims, a);
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_release(claims, b);
	/*
	 * A later pod of the claim gets the same device again, so that the write can be repeated.
	 */
	assert_string_equal(device_for(claims, "a", &a), "x");
	claims_release(claims, a);
	/* The watch shows the version that was known before the write, which says nothing. */
	set(claims, CLAIMS_CLAIM, CLAIM("a", REQUEST("")));
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_release(claims, b);
	/* The API shows that it does not have the allocation. */
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "6", REQUEST(""), ""));
	assert_string_equal(device_for(claims, "b", &b), "x");
	claims_release(claims, b);
}

/* A pod can be deleted while the allocation of its claim is written. */
static void a_device_stays_taken_during_the_write(void **state)
{
	static const bool are_unclear[] = {false, true};

	for (size_t i = 0; i < ARRAY_SIZE(are_unclear); i++) {
		_cleanup_(claims_free_p) struct claims *claims = world();
		struct claims_place *a = NULL, *b = NULL;

		assert_string_equal(device_for(claims, "a", &a), "x");
		claims_begin_write(claims, "a", "a");
		claims_release(claims, a);
		set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "6", REQUEST(""), ""));
		assert_string_equal(device_for(claims, "b", &b), "y");
		claims_release(claims, b);
		claims_end_write(claims, "a", "a", are_unclear[i]);
		assert_string_equal(device_for(claims, "b", &b), are_unclear[i] ? "y" : "x");
		claims_release(claims, b);
	}
}

static void an_allocation_restricts_the_nodes(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
	struct claims_place *a = NULL;
	const char *why = NULL;

	set(claims, CLAIMS_SLICE, SLICE("s2", "n2", "{'name':'z'}"));
	assert_string_equal(device_for(claims, "a", &a), "x");
	assert_ok(search_for(claims, "a", &search, NULL));
	assert_true(claims_search_fits(search, &n1, &why));
	assert_false(claims_search_fits(search, &n2, &why));
	assert_string_equal(why, "a ResourceClaim has devices of another node");
	claims_search_free(TAKE_PTR(search));
	assert_ok(search_for(claims, "b", &search, NULL));
	assert_true(claims_search_fits(search, &n2, &why));
	claims_release(claims, a);
}

static void a_pod_waits_for_its_claims(void **state)
{
	static const struct {
		const char *claim, *class;
		int r;
		const char *why;
	} cases[] = {
		{NULL, CLASS, -ENOENT, "ResourceClaim c does not exist"},
		{CLAIM("c", REQUEST("")), NULL, -ENOENT, "device class any does not exist"},
		{CLAIM("c", REQUEST(",'derivedAttributes':[]")), CLASS, -ENOTSUP,
			"request r: derivedAttributes"},
		{CLAIM("c", "{'name':'r','future':{}}"), CLASS, -ENOTSUP, "of no kind"},
		{CLAIM("c", REQUEST(",'selectors':[{'cel':{'expression':'f()'}}]")), CLASS,
			-ENOTSUP, "the function f() is not supported"},
		{CLAIM("c", REQUEST("")),
			"{'metadata':{'name':'any'},'spec':{'selectors':[{'cel':{'expression':"
			"'f()'}}]}}",
			-ENOTSUP, "device class any: selector 0: the function f()"},
		/* The message ends within the last character. */
		{CLAIM("c", REQUEST(",'selectors':[{'cel':{'expression':'1 €€€€€€€€'}}]")), CLASS,
			-EINVAL, "unexpected '€€€€€€?\?'"},
		{CLAIM("c", REQUEST(",'allocationMode':'Most'")), CLASS, -ENOTSUP, "'Most'"},
		{CLAIM("c", REQUEST(",'capacity':{'requests':{'m':'x'}}")), CLASS, -EINVAL,
			"no quantity"},
		{"{'metadata':{'name':'c','namespace':'a','deletionTimestamp':'x'}}", CLASS,
			-EAGAIN, "being deleted"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(claims_free_p) struct claims *claims = NULL;
		_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
		struct error err = {0};

		assert_ok(claims_new(7, &claims, NULL));
		if (cases[i].claim)
			set(claims, CLAIMS_CLAIM, cases[i].claim);
		if (cases[i].class)
			set(claims, CLAIMS_CLASS, cases[i].class);
		assert_int_equal(search_for(claims, "c", &search, &err), cases[i].r);
		assert_contains(err.msg, cases[i].why);
	}
}

static void a_claim_of_a_template_belongs_to_its_pod(void **state)
{
	static const struct claims_name unmade[] = {{NULL, "net", true}},
					other[] = {{"a", "net", true}};
	const struct claims_pod pods[] = {
		{"a", "p", "uid", unmade, 1}, {"a", "p", "uid", other, 1}};
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_search *search;
	struct error err;

	assert_int_equal(claims_search_new(claims, &pods[0], &search, &err), -EAGAIN);
	assert_contains(err.msg, "waits for Kubernetes to make the ResourceClaim for net");
	assert_int_equal(claims_search_new(claims, &pods[1], &search, &err), -EAGAIN);
	assert_contains(err.msg, "ResourceClaim a was not made for this pod");
}

/* 30 devices of one value each, of which no two are alike: the search tries all subsets. */
static void a_search_ends_after_a_number_of_steps(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = NULL;
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
	_cleanup_buf_ struct buf slice = BUF_INIT(1 << 16);
	const char *why = NULL;

	assert_ok(claims_new(7, &claims, NULL));
	set(claims, CLAIMS_CLASS, CLASS);
	buf_add_text(&slice,
		"{'metadata':{'name':'s'},'spec':{'driver':'d','nodeName':'n1','pool':"
		"{'name':'p','generation':1,'resourceSliceCount':1},'devices':[");
	for (int i = 0; i < 30; i++)
		buf_addf(&slice, "%s{'name':'d%d','attributes':{'v':{'int':%d}}}", i ? "," : "", i,
			i % 15);
	buf_add_text(&slice, "]}}");
	set(claims, CLAIMS_SLICE, buf_text(&slice));
	set(claims, CLAIMS_CLAIM,
		"{'metadata':{'name':'c','namespace':'a','uid':'u'},'spec':{'devices':{'requests':["
		"{'name':'r','exactly':{'deviceClassName':'any','count':16}}],'constraints':["
		"{'distinctAttribute':'d/v'}]}}}");
	assert_ok(search_for(claims, "c", &search, NULL));
	assert_false(claims_search_fits(search, &n1, &why));
	assert_contains(why, "too many steps");
}

static void searches_share_a_limit(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	_cleanup_(claims_search_free_p) struct claims_search *a = NULL, *b = NULL, *again = NULL;
	const char *why = NULL;
	uint64_t n_steps;

	assert_ok(search_for(claims, "a", &a, NULL));
	assert_ok(search_for(claims, "b", &b, NULL));
	assert_ok(search_for(claims, "b", &again, NULL));
	claims_limit_steps(claims, CLAIMS_TRY_STEPS + 10);
	assert_true(claims_search_fits(a, &n1, &why));
	n_steps = claims_n_steps(claims);
	assert_true(n_steps > CLAIMS_TRY_STEPS);
	assert_false(claims_search_fits(b, &n1, &why));
	assert_contains(why, "too many steps");
	claims_limit_steps(claims, UINT64_MAX);
	assert_true(claims_search_fits(again, &n1, &why));
	assert_true(claims_n_steps(claims) > n_steps + CLAIMS_TRY_STEPS);
}

#define SHARE(name, version, amount, status) \
	CLAIM_AT(name, version, REQUEST(",'capacity':{'requests':{'m':'" amount "'}}"), status)
#define HAS_SHARE(amount) \
	",'status':{'allocation':{'devices':{'results':[{'request':'r','driver':'d','pool':" \
	"'s1','device':'x','shareID':'i','consumedCapacity':{'m':'" amount "'}}]}}}"

static void shares_add_up(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = NULL;
	struct claims_place *a = NULL, *b = NULL;

	assert_ok(claims_new(7, &claims, NULL));
	set(claims, CLAIMS_CLASS, CLASS);
	set(claims, CLAIMS_SLICE,
		SLICE("s1", "n1",
			"{'name':'x','allowMultipleAllocations':true,'capacity':{'m':{'value':"
			"'10'}}}"));
	set(claims, CLAIMS_CLAIM, SHARE("a", "5", "6", ""));
	set(claims, CLAIMS_CLAIM, SHARE("b", "5", "6", ""));
	assert_string_equal(device_for(claims, "a", &a), "x");
	assert_string_equal(device_for(claims, "b", &b), "");
	claims_release(claims, TAKE_PTR(a));
	assert_string_equal(device_for(claims, "b", &b), "x");
	claims_release(claims, TAKE_PTR(b));
	assert_string_equal(device_for(claims, "a", &a), "x");
	set(claims, CLAIMS_CLAIM, SHARE("a", "6", "6", HAS_SHARE("6")));
	set(claims, CLAIMS_CLAIM, SHARE("a", "7", "6", HAS_SHARE("6")));
	claims_release(claims, TAKE_PTR(a));
	assert_string_equal(device_for(claims, "b", &b), "");
	set(claims, CLAIMS_CLAIM, SHARE("c", "5", "4", ""));
	assert_string_equal(device_for(claims, "c", &b), "x");
	claims_release(claims, TAKE_PTR(b));
	/* Kubernetes has freed the devices of a claim without pods. */
	set(claims, CLAIMS_CLAIM, SHARE("a", "8", "6", ""));
	assert_string_equal(device_for(claims, "b", &b), "x");
	assert_ok(claims_remove(claims, CLAIMS_CLAIM, "a", "b"));
	assert_string_equal(device_for(claims, "a", &a), "x");
	claims_release(claims, a);
	claims_release(claims, b);
}

/*
 * A selector that selects none of 2,000 devices takes 1,000,000 steps for each of them. Without a
 * limit of the search the test would run for a minute.
 */
static void a_search_ends_although_no_device_is_tried(void **state)
{
	static const char *const modes[] = {"", ",'allocationMode':'All'"};
	_cleanup_buf_ struct buf slice = BUF_INIT(1 << 20), claim = BUF_INIT(1 << 16);
	_cleanup_(claims_free_p) struct claims *claims = NULL;

	assert_ok(claims_new(7, &claims, NULL));
	set(claims, CLAIMS_CLASS, CLASS);
	buf_add_text(&slice,
		"{'metadata':{'name':'s'},'spec':{'driver':'d','nodeName':'n1','pool':"
		"{'name':'p','generation':1,'resourceSliceCount':1},'devices':[{'name':'d'}");
	for (int i = 0; i < 2000; i++)
		buf_addf(&slice, ",{'name':'d%d'}", i);
	buf_add_text(&slice, "]}}");
	set(claims, CLAIMS_SLICE, buf_text(&slice));
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
		const char *why = NULL;

		buf_clear(&claim);
		buf_addf(&claim,
			CLAIM_AT("c", "%zu",
				REQUEST("%s,'selectors':[{'cel':{"
					"'expression':'[1,2,3,4,5,6,7,8,9,0].map(x, [1,2,3,4,5,6,7,8,9,0]).all(a, "
					"a.all(b, a.all(c, a.all(d, a.all(e, b + c + d + e >= 0))))) && false'}}]"),
				""),
			i, modes[i]);
		set(claims, CLAIMS_CLAIM, buf_text(&claim));
		assert_ok(search_for(claims, "c", &search, NULL));
		assert_false(claims_search_fits(search, &n1, &why));
		assert_contains(why, "too many steps");
	}
}

/* A request with 8 selectors of 9 KiB, of which a claim takes 7. */
static void large_selectors_are_refused(void **state)
{
	static const int numbers[] = {7, 8};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		_cleanup_buf_ struct buf selectors = BUF_INIT(1 << 17), claim = BUF_INIT(1 << 17);
		_cleanup_(claims_free_p) struct claims *claims = world();
		_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
		struct error err = {0};
		const char *why;

		for (int k = 0; k < numbers[i]; k++)
			buf_addf(&selectors, "%s{'cel':{'expression':'true%9000s'}}", k ? "," : "",
				"");
		buf_addf(&claim, CLAIM("c", REQUEST(",'selectors':[%s]")), buf_text(&selectors));
		set(claims, CLAIMS_CLAIM, buf_text(&claim));
		if (numbers[i] == 7) {
			assert_ok(search_for(claims, "c", &search, &err));
			assert_true(claims_search_fits(search, &n1, &why));
		} else {
			assert_int_equal(search_for(claims, "c", &search, &err), -E2BIG);
			assert_contains(err.msg, "more than 65536 bytes");
		}
	}
}

static void objects_without_a_name_are_refused(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = NULL;
	json_t *json = unit_json("{'metadata':{}}");

	assert_ok(claims_new(7, &claims, NULL));
	for (int kind = 0; kind < CLAIMS_KINDS; kind++)
		assert_int_equal(claims_set(claims, (enum claims_kind)kind, json, NULL), -EINVAL);
	assert_int_equal(claims_remove(claims, CLAIMS_CLAIM, "a", "b"), -ENOENT);
	json_decref(json);
}

static char told[1024];

static void tell(void *data, const struct claims_reason *reason)
{
	const size_t n = strlen(told);

	snprintf(told + n, sizeof(told) - n, "%s%s: %s\n", reason->device,
		reason->has_free ? " (shared)" : "", reason->text);
}

/* Returns why node n1 cannot have the claim, a line for the node and for each device. */
static const char *why(struct claims *claims, const char *name)
{
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;

	told[0] = '\0';
	assert_ok(search_for(claims, name, &search, NULL));
	assert_ok(claims_search_explain(search, &n1, &(struct claims_teller){tell, NULL}, NULL));
	return told;
}

#define USED_BY(pod) ",'reservedFor':[{'name':'" pod "','uid':'" pod "'}]"
#define HAS_FOR(device, pod) \
	",'status':{'allocation':{'devices':{'results':[{'request':'r','driver':'d','pool':" \
	"'s1','device':'" device "'}]}}" USED_BY(pod) "}"

static void reasons_name_the_claims_that_have_a_device(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();

	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "6", REQUEST(""), HAS_FOR("x", "p")));
	set(claims, CLAIMS_CLAIM, CLAIM("c", REQUEST(",'count':2")));
	assert_string_equal(why(claims, "c"),
		": with devices of class any in use\nx: in use by claim a/a of pod p\ny: \n");
	set(claims, CLAIMS_CLAIM, CLAIM("f", REQUEST(",'count':3")));
	assert_contains(why(claims, "f"), ": with fewer than 3 devices of class any\n");
	set(claims, CLAIMS_CLAIM,
		CLAIM("e", REQUEST(",'selectors':[{'cel':{'expression':'false'}}]")));
	assert_string_equal(why(claims, "e"),
		": without a device of class any that request r selects\n"
		"x: the selectors of request r do not match\n"
		"y: the selectors of request r do not match\n");
}

static void devices_of_hidden_users_are_free(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_place *b = NULL, *c = NULL;

	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "6", REQUEST(""), HAS_FOR("x", "p")));
	claims_hide_user(claims, "a", "a", true);
	assert_string_equal(device_for(claims, "b", &b), "x");
	assert_true(claims_place_is_free(claims, b));
	/* The pod still runs: "b" has to wait for the device, and nobody else gets it. */
	claims_hide_user(claims, "a", "a", false);
	assert_false(claims_place_is_free(claims, b));
	set(claims, CLAIMS_CLAIM, CLAIM("c", REQUEST("")));
	assert_string_equal(device_for(claims, "c", &c), "y");
	claims_release(claims, c);
	/* The pod has ended, and Kubernetes will free its claim. */
	claims_note_ending(claims, "a", "a", "p");
	assert_true(claims_has_ending(claims));
	claims_hide_ending(claims, true);
	assert_true(claims_place_is_free(claims, b));
	claims_hide_ending(claims, false);
	assert_false(claims_place_is_free(claims, b));
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "7", REQUEST(""), ""));
	assert_false(claims_has_ending(claims));
	assert_true(claims_place_is_free(claims, b));
	claims_release(claims, b);
}

/* Kubernetes does not free a claim that another pod has begun to use. */
static void an_ending_claim_with_a_new_user_keeps_its_device(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	struct claims_place *b = NULL;

	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "6", REQUEST(""), HAS_FOR("x", "p")));
	claims_note_ending(claims, "a", "a", "p");
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "7", REQUEST(""), HAS_FOR("x", "p")));
	assert_true(claims_has_ending(claims));
	set(claims, CLAIMS_CLAIM, CLAIM_AT("a", "8", REQUEST(""), HAS_FOR("x", "q")));
	assert_false(claims_has_ending(claims));
	claims_hide_ending(claims, true);
	assert_string_equal(device_for(claims, "b", &b), "y");
	claims_hide_ending(claims, false);
	claims_release(claims, b);
}

/* Another scheduler may have allocated more devices than this API allows. */
static void a_claim_shows_a_limited_number_of_units(void **state)
{
	_cleanup_(claims_free_p) struct claims *claims = world();
	json_t *json = unit_json(CLAIM_AT("a", "6", REQUEST(""), HAS("x")));
	json_t *results = json_object_get(
		json_object_get(
			json_object_get(json_object_get(json, "status"), "allocation"), "devices"),
		"results");
	struct claims_held_units held;

	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(held.units); i++)
		assert_ok(json_array_append(results, json_array_get(results, 0)));
	claims_pack(claims, (struct claims_packing){"d", NULL});
	assert_ok(claims_watch(claims));
	while (claims_next_changed(claims, &held))
		assert_int_equal(held.n, 0);
	assert_ok(claims_set(claims, CLAIMS_CLAIM, json, NULL));
	json_decref(json);
	assert_true(claims_has_units(claims));
	assert_true(claims_next_changed(claims, &held));
	assert_int_equal(held.n, ARRAY_SIZE(held.units));
	assert_string_equal(held.key, "a/a");
}

UNIT_MAIN(UNIT(an_assumed_device_is_taken_until_it_is_released),
	UNIT(the_api_takes_over_an_assumption), UNIT(a_write_of_unknown_result_keeps_the_device),
	UNIT(a_device_stays_taken_during_the_write), UNIT(an_allocation_restricts_the_nodes),
	UNIT(a_pod_waits_for_its_claims), UNIT(a_claim_of_a_template_belongs_to_its_pod),
	UNIT(a_search_ends_after_a_number_of_steps), UNIT(searches_share_a_limit),
	UNIT(shares_add_up), UNIT(a_search_ends_although_no_device_is_tried),
	UNIT(large_selectors_are_refused), UNIT(objects_without_a_name_are_refused),
	UNIT(a_restored_store_is_believed), UNIT(reasons_name_the_claims_that_have_a_device),
	UNIT(devices_of_hidden_users_are_free),
	UNIT(an_ending_claim_with_a_new_user_keeps_its_device),
	UNIT(a_claim_shows_a_limited_number_of_units))
