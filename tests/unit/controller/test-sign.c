/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/clock.h"
#include "controller/sign.h"
#include "identity/identity.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "unit-json.h"

#define NOW (UINT64_C(1700000000) * NSEC_PER_SEC)
#define UID "5f0c8c1e-7d0e-4a55-9a53-0c4f2e1b6d10"
#define DIVVYD "system:serviceaccount:divvy-system:divvyd"

/* Fields of a CertificateSigningRequest; for NULL and 0 make() uses the usual value. */
struct made {
	const char *uri, *user, *extra, *signer, *usages, *conditions, *certificate;
	uint64_t age_ns;
};

#define TOKEN(more) \
	"{'authentication.kubernetes.io/pod-name':['divvyd-x'],'authentication.kubernetes.io/" \
	"pod-uid':['uid-x']" more "}"

static json_t *make(const struct made *made)
{
	struct identity_name name = {0};
	_cleanup_free_ char *pem = NULL, *key = NULL;
	_cleanup_buf_ struct buf request = BUF_INIT(1 << 16);
	const bool is_node = identity_name_parse(str_from(made->uri), &name, NULL) == 0 &&
		name.kind == IDENTITY_OF_NODE;
	const char *usages = made->usages ? made->usages
		: is_node                 ? "['digital signature','server auth','client auth']"
					  : "['digital signature','client auth']";
	json_t *object, *spec;

	assert_ok(request_make(&name, &pem, &key, NULL));
	assert_ok(base64_encode(str_from(pem), &request));
	spec = json_pack("{s:s, s:s, s:s, s:o, s:o}", "request", buf_text(&request), "signerName",
		made->signer ? made->signer : IDENTITY_SIGNER, "username",
		made->user ? made->user : DIVVYD, "extra",
		unit_json(made->extra ? made->extra : TOKEN("")), "usages", unit_json(usages));
	object = json_pack("{s:{s:s, s:s, s:s}, s:o, s:{s:o*, s:s*}}", "metadata", "name", "r",
		"resourceVersion", "7", "creationTimestamp", kube_time_format(NOW - made->age_ns).s,
		"spec", spec, "status", "conditions",
		made->conditions ? unit_json(made->conditions) : NULL, "certificate",
		made->certificate);
	assert_non_null(object);
	return object;
}

static json_t *pod(const char *node, const char *mode)
{
	char text[1024];

	snprintf(text, sizeof(text),
		"{'metadata':{'uid':'" UID "','annotations':{'divvy.gpu/devices':'main=GPU-1 "
		"side=GPU-1','divvy.gpu/granted-request':'main=0.3 side=0.3',"
		"'divvy.gpu/granted-limit':'main=1 side=1',"
		"'divvy.gpu/granted-memory':'main=1073741824 side=1073741824',"
		"'divvy.gpu/granted-mode':'main=%s side=local','divvy.gpu/remote-node':'%s',"
		"'divvy.gpu/epoch':'1'}},'spec':{'nodeName':'%s'},'status':{'phase':'Running'}}",
		mode, strcmp(mode, "remote") ? "" : "main=gpu7", node);
	return unit_json(text);
}

static const struct own_pod asker = {"uid-x", "n1"};

/* Returns the decision for a request. Takes over `its`, the tenant's pod. */
static enum sign_act decide(const struct made *made, const struct own_pod *by, json_t *its,
	uint64_t *ret_again, struct error *err)
{
	_cleanup_json_ json_t *object = make(made);
	_cleanup_sign_ask_ struct sign_ask ask = {0};
	const struct sign_facts facts = {
		.ns = "divvy-system", .asker = *by, .tenant = its, .real_ns = NOW};
	enum sign_act act;

	sign_ask_read(object, &ask);
	err->msg[0] = '\0';
	act = sign_decide(&ask, &facts, ret_again, err);
	json_decref(its);
	return act;
}

#define APPROVED "[{'type':'Approved','status':'True'}]"

static void a_node_gets_its_own_certificate(void **state)
{
	struct made made = {.uri = "divvy://node/n1"};
	struct error err;
	uint64_t again;

	assert_int_equal(decide(&made, &asker, NULL, &again, &err), SIGN_APPROVE);
	made.conditions = APPROVED;
	assert_int_equal(decide(&made, &asker, NULL, &again, &err), SIGN_ISSUE);
	made.extra = TOKEN(",'authentication.kubernetes.io/node-name':['n1']");
	assert_int_equal(decide(&made, &asker, NULL, &again, &err), SIGN_ISSUE);
}

static void a_remote_container_gets_its_own_certificate(void **state)
{
	struct made made = {.uri = "divvy://tenant/" UID "/main"};
	struct error err;
	uint64_t again;

	assert_int_equal(decide(&made, &asker, pod("n1", "remote"), &again, &err), SIGN_APPROVE);
	made.conditions = APPROVED;
	assert_int_equal(decide(&made, &asker, pod("n1", "remote"), &again, &err), SIGN_ISSUE);
}

static void other_requesters_are_denied(void **state)
{
	static const char node[] = "divvy://node/n1", tenant[] = "divvy://tenant/" UID "/main",
			  side[] = "divvy://tenant/" UID "/side",
			  third[] = "divvy://tenant/" UID "/third";
	static const struct own_pod elsewhere = {"uid-x", "n2"}, another = {"uid-y", "n1"};
	const struct {
		struct made made;
		const struct own_pod *by;
		const char *pod_node, *mode, *says;
	} cases[] = {
		{{.uri = "divvy://node/n2"}, &asker, NULL, NULL, "divvyd of node 'n1' requested"},
		{{.uri = node}, &elsewhere, NULL, NULL, "divvyd of node 'n2' requested"},
		{{.uri = node}, &another, NULL, NULL, "an earlier pod"},
		{{.uri = node, .user = "admin"}, &asker, NULL, NULL, "requested by 'admin'"},
		{{.uri = node, .user = "system:serviceaccount:default:divvyd"}, &asker, NULL, NULL,
			"service account"},
		{{.uri = node, .user = "system:serviceaccount:divvy-system:divvy-scheduler"},
			&asker, NULL, NULL, "service account"},
		{{.uri = node, .extra = "{}"}, &asker, NULL, NULL, "names no pod"},
		{{.uri = node, .extra = TOKEN(",'authentication.kubernetes.io/node-name':['n2']")},
			&asker, NULL, NULL, "belongs to node 'n2'"},
		{{.uri = node, .usages = "['digital signature','client auth']"}, &asker, NULL, NULL,
			"each once"},
		{{.uri = node, .usages = "[]"}, &asker, NULL, NULL, "each once"},
		{{.uri = tenant, .usages = "['digital signature','client auth','server auth']"},
			&asker, "n1", "remote", "usage 'server auth'"},
		{{.uri = tenant, .usages = "['client auth','client auth']"}, &asker, "n1", "remote",
			"each once"},
		{{.uri = tenant, .usages = "['cert sign','client auth']"}, &asker, "n1", "remote",
			"usage 'cert sign'"},
		{{.uri = tenant}, &asker, "n2", "remote", "is on node 'n2'"},
		{{.uri = tenant}, &asker, "n1", "local", "on its own node"},
		{{.uri = side}, &asker, "n1", "remote", "on its own node"},
		{{.uri = third}, &asker, "n1", "remote", "has no assigned devices"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (int is_approved = 0; is_approved < 2; is_approved++) {
			struct made made = cases[i].made;
			struct error err;
			uint64_t again;
			enum sign_act act;

			made.conditions = is_approved ? APPROVED : NULL;
			act = decide(&made, cases[i].by,
				cases[i].mode ? pod(cases[i].pod_node, cases[i].mode) : NULL,
				&again, &err);
			/* An approval does not make the request valid. */
			assert_int_equal(act, is_approved ? SIGN_FAIL : SIGN_DENY);
			assert_contains(err.msg, cases[i].says);
		}
}

static void an_ended_pod_gets_no_certificate(void **state)
{
	const struct made made = {.uri = "divvy://tenant/" UID "/main"};
	json_t *its = pod("n1", "remote");
	struct error err;
	uint64_t again;

	json_object_set_new(its, "status", unit_json("{'phase':'Failed'}"));
	assert_int_equal(decide(&made, &asker, its, &again, &err), SIGN_DENY);
	assert_contains(err.msg, "has ended");
}

/*
 * The watches of pods and requests are separate, so an unknown pod may arrive within
 * SIGN_PATIENCE_NS.
 */
static void a_request_waits_for_unknown_objects(void **state)
{
	static const struct own_pod nobody = {NULL, NULL}, unbound = {"uid-x", NULL};
	struct made made = {.uri = "divvy://tenant/" UID "/main"};
	struct error err;
	uint64_t again;

	for (int i = 0; i < 3; i++) {
		const struct own_pod *by = i == 0 ? &asker : i == 1 ? &nobody : &unbound;

		made.age_ns = SIGN_PATIENCE_NS - NSEC_PER_SEC;
		assert_int_equal(decide(&made, by, NULL, &again, &err), SIGN_NOTHING);
		assert_in_range(again, NOW + 1, NOW + 5 * NSEC_PER_SEC);
		made.age_ns = SIGN_PATIENCE_NS + NSEC_PER_SEC;
		assert_int_equal(decide(&made, by, NULL, &again, &err), SIGN_DENY);
	}
}

static void answered_requests_are_kept_and_later_deleted(void **state)
{
	static const struct made answered[] = {
		{.conditions = APPROVED, .certificate = "LS0t"},
		{.conditions = "[{'type':'Denied','status':'True'}]"},
		{.conditions = "[{'type':'Approved'},{'type':'Failed'}]"},
	};
	struct error err;
	uint64_t again;

	for (size_t i = 0; i < ARRAY_SIZE(answered); i++) {
		struct made made = answered[i];

		made.uri = "divvy://node/n1";
		assert_int_equal(decide(&made, &asker, NULL, &again, &err), SIGN_NOTHING);
		assert_int_equal(again, NOW + SIGN_KEPT_NS);
		made.age_ns = SIGN_KEPT_NS;
		assert_int_equal(decide(&made, &asker, NULL, &again, &err), SIGN_DELETE);
	}
}

static void other_signers_requests_are_ignored(void **state)
{
	const struct made made = {.uri = "divvy://node/n1",
		.signer = "kubernetes.io/kube-apiserver-client",
		.age_ns = SIGN_KEPT_NS,
		.conditions = "[{'type':'Denied','status':'True'}]"};
	struct error err;
	uint64_t again;

	assert_int_equal(decide(&made, &asker, NULL, &again, &err), SIGN_NOTHING);
	assert_int_equal(again, 0);
}

static void a_malformed_request_is_denied(void **state)
{
	_cleanup_json_ json_t *object = make(&(struct made){.uri = "divvy://node/n1"});
	const struct sign_facts facts = {.ns = "divvy-system", .asker = asker, .real_ns = NOW};
	static const char *const bad[] = {"", "!", "YQ=="};
	struct error err;
	uint64_t again;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_sign_ask_ struct sign_ask ask = {0};

		json_object_set_new(
			json_object_get(object, "spec"), "request", json_string(bad[i]));
		sign_ask_read(object, &ask);
		assert_int_equal(sign_decide(&ask, &facts, &again, &err), SIGN_DENY);
	}
}

static void a_condition_is_added_to_existing_ones(void **state)
{
	_cleanup_json_ json_t *object = make(&(struct made){
				      .uri = "divvy://node/n1", .conditions = APPROVED}),
			      *patch = sign_condition(object, "Failed", "because \xc3");
	const json_t *all = kube_json_at(patch, "status", "conditions", NULL);

	assert_int_equal(json_array_size(all), 2);
	assert_string_equal(kube_json_text_at(patch, "metadata", "resourceVersion", NULL), "7");
	assert_string_equal(
		kube_json_text_at(json_array_get(all, 1), "message", NULL), "because ?");
	/* sign_condition() has not changed the object. */
	assert_int_equal(json_array_size(kube_json_at(object, "status", "conditions", NULL)), 1);
}

UNIT_MAIN(UNIT(a_node_gets_its_own_certificate), UNIT(a_remote_container_gets_its_own_certificate),
	UNIT(other_requesters_are_denied), UNIT(an_ended_pod_gets_no_certificate),
	UNIT(a_request_waits_for_unknown_objects),
	UNIT(answered_requests_are_kept_and_later_deleted),
	UNIT(other_signers_requests_are_ignored), UNIT(a_malformed_request_is_denied),
	UNIT(a_condition_is_added_to_existing_ones))
