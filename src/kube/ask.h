/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking requests for command lines, one at a time. Runs the client's loop; do not call from a
 * callback. One thread.
 */
#ifndef KUBE_ASK_H
#define KUBE_ASK_H

#include "kube/write.h"

/* The result of a call, which passes kube_ask_done as `done` and this struct as its data. */
struct kube_ask {
	bool is_done;
	int result;   /* as in kube_answer */
	json_t *json; /* the object of the answer; NULL: none */
	struct error error;
	bool is_right_missing; /* refused because of a missing right, not by a quota or a webhook */
};

void kube_ask_done(void *data, const struct kube_answer *answer);
/* Waits for the call and returns its result; a failure also sets err. ret_json may be NULL. */
int kube_ask_wait(
	struct kube_client *client, struct kube_ask *ask, json_t **ret_json, struct error *err);

/* query may be NULL. timeout_ns 0 means KUBE_TIMEOUT_DEFAULT_NS. */
struct kube_question {
	const char *query;
	uint64_t timeout_ns;
};
/* Reads one object or one page. Returns the result, which *ret_ask holds with its error. */
int kube_ask_get(struct kube_client *client, const char *path, const struct kube_question *question,
	struct kube_ask *ret_ask);
/* Reads all items of all pages into ret_ask->json. target->name must be NULL. */
int kube_ask_list(struct kube_client *client, const struct kube_target *target,
	const struct kube_question *question, struct kube_ask *ret_ask);

#endif
