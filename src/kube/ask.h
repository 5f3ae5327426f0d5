/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question after the other, waited for: for command lines, which have nothing else to do
 * meanwhile. Runs the client's loop; never from a callback. One thread.
 */
#ifndef KUBE_ASK_H
#define KUBE_ASK_H

#include "kube/write.h"

/* What a call has come to: kube_ask_done is its `done`, this its data. */
struct kube_ask {
	bool is_done;
	int result;   /* as kube_answer */
	json_t *json; /* the object of the answer; NULL: none */
	struct error error;
	bool is_right_missing; /* refused for want of a right, not by a quota or a webhook */
};

void kube_ask_done(void *data, const struct kube_answer *answer);
/* Until it is done: its result, with the sentence. ret_json may be NULL. */
int kube_ask_wait(
	struct kube_client *client, struct kube_ask *ask, json_t **ret_json, struct error *err);

/* timeout_ns: 0 is KUBE_TIMEOUT_DEFAULT_NS; query and ret_ask, which says more, may be NULL. */
struct kube_question {
	const char *query;
	uint64_t timeout_ns;
};
/* One object, or one page. */
int kube_ask_get(struct kube_client *client, const char *path, const struct kube_question *question,
	struct kube_ask *ret_ask);
/* All items of all pages, as ret_ask->json. target->name is NULL. */
int kube_ask_list(struct kube_client *client, const struct kube_target *target,
	const struct kube_question *question, struct kube_ask *ret_ask);

#endif
