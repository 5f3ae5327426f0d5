/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sign_ask_read() reads the CertificateSigningRequest, and sign_decide() chooses one action from
 * the request and the facts. The usages must be exactly those of the name's kind, node or tenant.
 * -ENOENT from sign_check_request() means that a pod is not known yet or has no node yet. The
 * request then waits up to SIGN_PATIENCE_NS. All other faults refuse the request at once.
 */
#include "controller/sign.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "identity/identity.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "manifest/manifest-json.h"
#include "spec/assigned.h"

#define USAGES_MAX 16u
#define REASON "Divvy"

/* ---- reading ---- */

/*
 * Checks that the request has exactly the usages in `wanted`, in any order, so that the certificate
 * serves no other purpose. A tenant's certificate has no "server auth".
 */
static int check_usages(const json_t *spec, bool is_node, struct error *err)
{
	static const char *const wanted[] = {"digital signature", "client auth", "server auth"};
	const json_t *list = json_object_get(spec, "usages");
	const size_t n = is_node ? 3 : 2;
	unsigned int seen = 0;

	for (size_t i = 0; i < MIN(json_array_size(list), (size_t)USAGES_MAX); i++) {
		const char *usage = json_string_value(json_array_get(list, i));
		size_t k = 0;

		while (usage && k < n && strcmp(usage, wanted[k]))
			k++;
		if (!usage || k == n)
			return fail(err, EINVAL,
				"usage '%.40s': expected 'digital signature', 'client auth'%s",
				usage ? usage : "", is_node ? ", 'server auth'" : "");
		seen |= 1u << k;
	}
	if (seen != (1u << n) - 1 || json_array_size(list) != n)
		return fail(err, EINVAL,
			"usages: expected 'digital signature', 'client auth'%s, each once",
			is_node ? ", 'server auth'" : "");
	return 0;
}

static int sign_read_request(const json_t *spec, struct request *ret, struct error *err)
{
	_cleanup_buf_ struct buf pem = BUF_INIT(REQUEST_PEM_MAX);
	int r = base64_decode(str_from(kube_json_text(spec, "request")), &pem);

	if (r < 0)
		return fail(err, EINVAL, "spec.request: expected at most %u bytes in base64",
			REQUEST_PEM_MAX);
	r = request_read(buf_str(&pem), ret, err);
	return r < 0 ? r : check_usages(spec, ret->name.kind == IDENTITY_OF_NODE, err);
}

void sign_ask_read(const json_t *object, struct sign_ask *ret)
{
	const json_t *spec = json_object_get(object, "spec"),
		     *extra = json_object_get(spec, "extra");
	const char *created = kube_json_text_at(object, "metadata", "creationTimestamp", NULL);
	const char *certificate = kube_json_text_at(object, "status", "certificate", NULL);

	*ret = (struct sign_ask){.by = {.user = kube_json_text(spec, "username"),
					 .pod_name = own_extra(extra, OWN_POD_NAME),
					 .pod_uid = own_extra(extra, OWN_POD_UID),
					 .node_name = own_extra(extra, OWN_NODE_NAME)},
		.is_ours = !strcmp(kube_json_text(spec, "signerName"), IDENTITY_SIGNER),
		.is_approved = kube_json_condition(object, "Approved") != NULL,
		.is_answered = kube_json_condition(object, "Denied") ||
			kube_json_condition(object, "Failed") || (certificate && certificate[0])};
	if (created)
		kube_time_parse(str_from(created), &ret->created_ns);
	if (ret->is_ours && !ret->is_answered)
		sign_read_request(spec, &ret->request, &ret->wrong);
}

void sign_ask_done(struct sign_ask *ask)
{
	request_done(&ask->request);
}

/* ---- decisions ---- */

static int sign_check_tenant(
	const struct identity_name *name, const json_t *pod, const char *node, struct error *err)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_assigned_ struct assigned assigned = {0};
	const struct assigned_container *container;
	const char *uid, *its_node;
	int r;

	if (!pod)
		return fail(
			err, ENOENT, "no pod with UID %.60s requests a share of a GPU", name->uid);
	uid = kube_json_text_at(pod, "metadata", "uid", NULL);
	its_node = kube_json_text_at(pod, "spec", "nodeName", NULL);
	if (!uid || strcmp(uid, name->uid))
		return fail(err, EINVAL, "the pod's UID is not %.60s", name->uid);
	if (!its_node)
		return fail(err, ENOENT, "pod %.60s is on no node yet", name->uid);
	if (strcmp(its_node, node))
		return fail(err, EPERM,
			"pod %.60s is on node '%.60s', but divvyd of node '%.60s' requested the "
			"certificate",
			name->uid, its_node, node);
	if (kube_json_is_over(pod))
		return fail(err, EPERM, "pod %.60s has ended", name->uid);
	r = manifest_json_read(json_object_get(pod, "metadata"), NULL, STR(""), &manifest, err);
	r = r < 0 ? r : assigned_parse(manifest.pod.annotations, &assigned, err);
	if (r < 0)
		return r;
	container = assigned_find(&assigned, name->container);
	if (!container)
		return fail(err, EPERM, "pod %.60s: container '%.63s' has no assigned devices",
			name->uid, name->container);
	if (container->mode != SPEC_MODE_REMOTE)
		return fail(err, EPERM,
			"pod %.60s: container '%.63s' has its devices on its own node", name->uid,
			name->container);
	return 0;
}

/* -ENOENT: a pod is not known yet, or has no node yet */
static int sign_check_request(
	const struct sign_ask *ask, const struct sign_facts *facts, struct error *err)
{
	const struct identity_name *name = &ask->request.name;
	const char *node;
	int r;

	if (!own_is_account(facts->ns, ask->by.user, "divvyd"))
		return fail(err, EPERM,
			"requested by '%.100s': only divvyd's service account in namespace %.60s "
			"may request certificates",
			ask->by.user, facts->ns);
	if (ask->wrong.code)
		return fail(err, ask->wrong.code, "%s", ask->wrong.msg);
	r = own_node(&ask->by, &facts->asker, &node, err);
	if (r < 0)
		return facts->asker.node || !ask->by.pod_name[0] ? r : -ENOENT;
	if (name->kind == IDENTITY_OF_TENANT)
		return sign_check_tenant(name, facts->tenant, node, err);
	if (strcmp(name->node, node))
		return fail(err, EPERM,
			"it is for node '%.80s', but divvyd of node '%.80s' requested the "
			"certificate",
			name->node, node);
	return 0;
}

enum sign_act sign_decide(const struct sign_ask *ask, const struct sign_facts *facts,
	uint64_t *ret_again_ns, struct error *ret_why)
{
	const uint64_t age = clock_since_ns(facts->real_ns, ask->created_ns);
	int r;

	*ret_again_ns = 0;
	if (!ask->is_ours)
		return SIGN_NOTHING;
	if (ask->is_answered) {
		if (age >= SIGN_KEPT_NS)
			return SIGN_DELETE;
		*ret_again_ns = ask->created_ns + SIGN_KEPT_NS;
		return SIGN_NOTHING;
	}
	r = sign_check_request(ask, facts, ret_why);
	if (r == 0)
		return ask->is_approved ? SIGN_ISSUE : SIGN_APPROVE;
	if (r == -ENOENT && age < SIGN_PATIENCE_NS) {
		*ret_again_ns = facts->real_ns + NSEC_PER_SEC;
		return SIGN_NOTHING;
	}
	return ask->is_approved ? SIGN_FAIL : SIGN_DENY;
}

json_t *sign_condition(const json_t *object, const char *type, const char *message)
{
	const json_t *had = kube_json_at(object, "status", "conditions", NULL);
	json_t *all = json_is_array(had) ? json_copy((json_t *)had) : json_array();

	json_array_append_new(all,
		json_pack("{s:s, s:s, s:s, s:o}", "type", type, "status", "True", "reason", REASON,
			"message", kube_json_sentence(message)));
	return json_pack("{s:{s:s*}, s:{s:o}}", "metadata", "resourceVersion",
		kube_json_text_at(object, "metadata", "resourceVersion", NULL), "status",
		"conditions", all);
}
