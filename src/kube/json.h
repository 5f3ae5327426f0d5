/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is needed around jansson. Text from a server becomes objects here and nowhere else. Paths
 * are keys one by one, up to a NULL: kube_json_at(pod, "metadata", "labels", NULL). Any thread.
 */
#ifndef KUBE_JSON_H
#define KUBE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

#define KUBE_JSON_DIGITS_MAX 18 /* more are read as a real number, as the server itself does */

/*
 * -EBADMSG when it is no JSON; -EOVERFLOW when it is JSON, but of a kind that cannot be held here
 * (nested deeper than 2,048, a key with a NUL). Integers too large become real numbers.
 */
int kube_json_parse(struct str text, json_t **ret_json, struct error *err);

/*
 * The raw text of a top-level member of an object; STR_NONE when there is none. For text that
 * kube_json_parse() says -EOVERFLOW of.
 */
struct str kube_json_member(struct str object, const char *key);

/* Borrowed; NULL when any of the keys is missing or what has it is no object. */
json_t *kube_json_at(const json_t *root, ...) __attribute__((sentinel));

/* NULL when it is missing, no string, or has a NUL within. */
const char *kube_json_text_at(const json_t *root, ...) __attribute__((sentinel));

/* Is that text in the list? What is no list has none. */
bool kube_json_list_has(const json_t *list, const char *text);

/* Compact text on the heap, the caller's; NULL when out of memory. */
char *kube_json_format(const json_t *json);

/* The member of status.conditions of that type, borrowed; NULL: none. */
const json_t *kube_json_condition(const json_t *object, const char *type);

/*
 * A sentence as a string, also one that quotes what is no UTF-8 (once it is cut): then with '?' in
 * its place, and at most what a struct error holds. NULL when out of memory.
 */
json_t *kube_json_sentence(const char *text);

static inline void kube_json_free(json_t *json)
{
	json_decref(json);
}
DEFINE_CLEANUP(json_t *, kube_json_free)
#define _cleanup_json_ _cleanup_(kube_json_free_p)

#endif
