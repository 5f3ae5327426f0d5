/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search of one pod: checks that its claims can get devices, and answers which nodes can have
 * them. The answer about a node is kept until the search is freed. Pure; one thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claims/claims-internal.h"

/* The answer about one node. */
struct claims_answer {
	const char *node;
	bool fits;
	const char *why;
	struct claims_score score;
	struct claims_sum sum;
	UT_hash_handle hh;
};

void claims_search_free(struct claims_search *search)
{
	if (!search)
		return;
	for (uint32_t i = 0; i < search->wanted.n; i++)
		resource_claim_forget(search->wanted.v[i]);
	HASH_CLEAR(hh, search->answers);
	arena_done(&search->arena);
	free(search);
}

static int claims_check_classes(
	struct claims *claims, const struct resource_claim *claim, struct error *err)
{
	for (uint32_t i = 0; i < claim->n_requests; i++)
		for (uint32_t k = 0; k < claim->requests[i].n; k++) {
			const struct request *request = &claim->requests[i].choices[k];
			const struct claims_entry *class = claims_find(
				claims, CLAIMS_CLASS, request->class_name);

			if (!class)
				return fail(err, ENOENT,
					"claim %.64s: device class %.64s does not exist",
					claim->name, request->class_name);
			if (class->class->refusal.code) {
				*err = class->class->refusal;
				return fail_within(
					err, -err->code, "device class %.64s", request->class_name);
			}
		}
	return 0;
}

static int claims_check(struct claims *claims, const struct claims_pod *pod,
	const struct claims_name *name, struct claims_entry **ret, struct error *err)
{
	char key[CLAIMS_KEY_MAX];
	struct claims_entry *entry;
	const struct resource_claim *claim;

	if (!name->name)
		return fail(err, EAGAIN, "waits for Kubernetes to make the ResourceClaim for %.64s",
			name->entry);
	entry = claims_find(
		claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, pod->ns, name->name, key));
	if (!entry)
		return fail(err, ENOENT, "ResourceClaim %.64s does not exist", name->name);
	claim = entry->claim;
	if (claim->is_deleting)
		return fail(err, EAGAIN, "ResourceClaim %.64s is being deleted", name->name);
	if (name->is_owned && strcmp(claim->owner_uid, pod->uid) != 0)
		return fail(
			err, EAGAIN, "ResourceClaim %.64s was not made for this pod", name->name);
	*ret = entry;
	if (claim->allocation.json) {
		const char *device, *condition;
		const enum claim_binding binding = resource_claim_binding(
			claim, pod->ready_after, &device, &condition);

		if (binding != CLAIM_READY)
			return fail(err, EAGAIN,
				binding == CLAIM_FAILED
					? "ResourceClaim %.64s: device %.64s is not ready: %.64s"
					: "ResourceClaim %.64s waits until device %.64s is ready: "
					  "%.64s",
				name->name, device, condition);
	}
	if (claims_entry_allocation(entry))
		return 0;
	if (claim->refusal.code) {
		*err = claim->refusal;
		return fail_within(err, -err->code, "ResourceClaim %.64s", name->name);
	}
	return claims_check_classes(claims, claim, err);
}

bool claims_have_failed(struct claims *claims, const struct claims_pod *pod)
{
	const char *device, *condition;
	char key[CLAIMS_KEY_MAX];

	for (uint32_t i = 0; i < pod->n; i++) {
		const struct claims_entry *entry = pod->v[i].name
			? claims_find(claims, CLAIMS_CLAIM,
				  claims_key(CLAIMS_CLAIM, pod->ns, pod->v[i].name, key))
			: NULL;

		if (entry &&
			resource_claim_binding(entry->claim, pod->ready_after, &device,
				&condition) == CLAIM_FAILED)
			return true;
	}
	return false;
}

bool claims_next_unused(struct claims *claims, const struct claims_pod *pod, uint32_t *at,
	struct claims_unused *ret)
{
	for (; *at < pod->n; ++*at) {
		const struct claims_name *name = &pod->v[*at];
		const struct claims_entry *entry;
		const struct resource_claim *claim;
		char key[CLAIMS_KEY_MAX];

		if (!name->name)
			continue;
		entry = claims_find(
			claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, pod->ns, name->name, key));
		claim = entry ? entry->claim : NULL;
		if (!claim || !claim->allocation.json || !claim->allocation.nodes.n ||
			claim->is_deleting ||
			(name->is_owned && strcmp(claim->owner_uid, pod->uid) != 0) ||
			resource_claim_is_used_by_others(claim, pod->uid))
			continue;
		*ret = (struct claims_unused){claim->name, claim->uid, claim->version};
		++*at;
		return true;
	}
	return false;
}

/* Adds the claim unless another entry of the pod names the same claim. */
static void claims_search_add(struct claims_search *search, struct claims_entry *entry)
{
	for (uint32_t i = 0; i < search->n; i++)
		if (search->entries[i] == entry)
			return;
	if (!claims_entry_allocation(entry)) {
		search->wanted.v[search->wanted.n] = entry->claim;
		search->wanted_at[search->wanted.n++] = search->n;
	}
	search->entries[search->n++] = entry;
}

/*
 * Replaces what is no UTF-8, since the API server takes no such message: a message can end within a
 * character of a selector.
 */
static void claims_mend_message(struct error *err)
{
	struct str rest = str_from(err->msg);

	while (rest.n) {
		const size_t size = str_utf8(rest);

		if (!size)
			err->msg[rest.p - err->msg] = '?';
		rest = (struct str){rest.p + MAX(size, 1ul), rest.n - MAX(size, 1ul)};
	}
}

int claims_search_new(struct claims *claims, const struct claims_pod *pod,
	struct claims_search **ret, struct error *err)
{
	_cleanup_(claims_search_free_p) struct claims_search *search = calloc(1, sizeof(*search));
	struct error own = {.code = 0};

	err = err ? err : &own;
	if (!search || claims_refresh(claims) < 0)
		return fail(err, ENOMEM, "out of memory");
	search->claims = claims;
	search->uid = pod->uid;
	search->name = pod->name;
	search->entries = arena_take_array(
		&search->arena, pod->n + 1ul, sizeof(struct claims_entry *));
	search->wanted.steps = CLAIMS_STEPS_MAX;
	search->wanted.v = arena_take_array(
		&search->arena, pod->n + 1ul, sizeof(struct resource_claim *));
	search->wanted_at = arena_take_array(&search->arena, pod->n + 1ul, sizeof(uint32_t));
	if (!search->entries || !search->wanted.v || !search->wanted_at)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < pod->n; i++) {
		struct claims_entry *entry = NULL;
		int r = claims_check(claims, pod, &pod->v[i], &entry, err);

		if (r < 0) {
			claims_mend_message(err);
			return r;
		}
		claims_search_add(search, entry);
	}
	if (search->wanted.n > CLAIMS_POD_MAX)
		return fail(err, ENOTSUP, "the pod has more than %u ResourceClaims without devices",
			CLAIMS_POD_MAX);
	*ret = TAKE_PTR(search);
	return 0;
}

bool claims_search_reaches(
	struct claims_search *search, const struct claims_node *node, const char **ret_why)
{
	for (uint32_t i = 0; i < search->n; i++) {
		const struct allocation *allocation = claims_entry_allocation(search->entries[i]);

		if (!allocation || node_terms_match(&allocation->nodes, node->labels, node->name))
			continue;
		*ret_why = "a ResourceClaim has devices of another node";
		return false;
	}
	return true;
}

/* allocate() within the limit of all searches. */
static int claims_search_allocate(struct claims_search *search, const struct claims_node *node,
	struct arena *arena, struct claims_choice *ret_choice, struct error *err)
{
	struct claims *claims = search->claims;
	struct claims_wanted wanted = search->wanted;
	uint64_t taken;
	int r;

	wanted.steps = MIN(wanted.steps, claims->most_steps - claims->n_steps);
	taken = wanted.steps;
	r = allocate(arena, claims, node, &wanted, ret_choice, err);
	taken -= wanted.steps;
	search->wanted.steps -= taken;
	claims->n_steps += taken;
	return r;
}

static struct claims_answer *claims_search_ask(
	struct claims_search *search, const struct claims_node *node)
{
	struct claims_answer *answer = arena_take(&search->arena, sizeof(*answer));
	struct arena arena = {.total = 0};
	struct claims_choice choice;
	struct error err = {.code = 0};
	int r = 0;

	if (!answer)
		return NULL;
	answer->node = arena_dup(&search->arena, str_from(node->name));
	if (!answer->node)
		return NULL;
	answer->fits = claims_search_reaches(search, node, &answer->why);
	if (answer->fits && search->wanted.n) {
		r = claims_search_allocate(search, node, &arena, &choice, &err);
		answer->fits = r == 0;
		claims_mend_message(&err);
		answer->why = r == 0 ? NULL : arena_dup(&search->arena, str_from(err.msg));
		if (r == 0) {
			answer->score = choice.score;
			answer->sum = claims_sum_chosen(search->claims, choice.v, search->wanted.n);
		}
	}
	arena_done(&arena);
	HASH_ADD_KEYPTR(hh, search->answers, answer->node, strlen(answer->node), answer);
	return answer;
}

bool claims_search_fits(
	struct claims_search *search, const struct claims_node *node, const char **ret_why)
{
	struct claims_answer *answer = NULL;

	HASH_FIND(hh, search->answers, node->name, strlen(node->name), answer);
	if (!answer)
		answer = claims_search_ask(search, node);
	if (answer && answer->fits)
		return true;
	*ret_why = answer && answer->why ? answer->why : "out of memory";
	return false;
}

struct claims_score claims_search_score(
	const struct claims_search *search, const struct claims_node *node)
{
	const struct claims_answer *answer = NULL;

	HASH_FIND(hh, search->answers, node->name, strlen(node->name), answer);
	return answer ? answer->score : (struct claims_score){.is_packed = false};
}

struct claims_sum claims_search_sum(
	const struct claims_search *search, const struct claims_node *node)
{
	const struct claims_answer *answer = NULL;

	HASH_FIND(hh, search->answers, node->name, strlen(node->name), answer);
	return answer ? answer->sum : (struct claims_sum){.ns = NULL};
}

int claims_search_explain(struct claims_search *search, const struct claims_node *node,
	const struct claims_teller *teller, struct error *err)
{
	struct claims_reason reason = {.device = "", .model = ""};
	struct arena arena = {.total = 0};
	struct claims_wanted wanted = search->wanted;
	struct error own = {0};
	int r = 0;

	if (!claims_search_reaches(search, node, &reason.text))
		teller->tell(teller->data, &reason);
	else if (wanted.n)
		r = allocate_explain(
			&arena, search->claims, node, &wanted, teller, err ? err : &own);
	arena_done(&arena);
	return r;
}
