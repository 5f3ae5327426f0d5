/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for jansson. Only this file parses JSON text from a server. A path is a sequence of keys
 * that ends with NULL: kube_json_at(pod, "metadata", "labels", NULL). Any thread.
 */
#ifndef KUBE_KUBE_JSON_H
#define KUBE_KUBE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

#define KUBE_JSON_DIGITS_MAX 18 /* longer integers become real numbers, as in the API server */

/*
 * Returns 0; -EBADMSG if the text is not JSON; -EOVERFLOW if it is JSON that jansson cannot hold
 * (nested deeper than 2,048, or a key with a NUL); -ENOMEM.
 */
int kube_json_parse(struct str text, json_t **ret_json, struct error *err);

/*
 * The raw text of a top-level member of an object; STR_NONE if absent. Works on text for which
 * kube_json_parse() returns -EOVERFLOW.
 */
struct str kube_json_member(struct str object, const char *key);

/* Borrowed; NULL if a key is missing or its parent is not an object. */
json_t *kube_json_at(const json_t *root, ...) __attribute__((sentinel));

/* NULL if it is missing, not a string, or contains a NUL. */
const char *kube_json_text_at(const json_t *root, ...) __attribute__((sentinel));

/* The member's text; "" if kube_json_text_at() would return NULL. */
const char *kube_json_text(const json_t *object, const char *key);

/* Whether the array has that text; false if `list` is no array. */
bool kube_json_list_has(const json_t *list, const char *text);

/* Sets the member to that text, unless it is NULL or empty. */
int kube_json_set_text(json_t *object, const char *key, const char *text);

/*
 * Sets a renamed member under both its names, for one release, and takes over `value`. NULL: sets
 * nothing.
 */
void kube_json_set_renamed(json_t *object, const char *key, const char *old_key, json_t *value);

/* Compact text on the heap, which the caller frees; NULL when out of memory. */
char *kube_json_format(const json_t *json);

/* The first item whose member `key` is that text, borrowed; NULL if there is none. */
const json_t *kube_json_find(const json_t *list, const char *key, const char *text);

/* Whether status.phase is Succeeded or Failed. */
bool kube_json_is_over(const json_t *pod);

/* The owner reference of the controller, borrowed; NULL if there is none. */
const json_t *kube_json_controller(const json_t *object);

/* The condition of that type in status.conditions, borrowed; NULL if there is none. */
const json_t *kube_json_condition(const json_t *object, const char *type);

/*
 * A message as a JSON string. If the text is not UTF-8, for example after truncation, bytes that
 * are not ASCII become '?'. The text is then cut to the size of an error message. NULL when out of
 * memory.
 */
json_t *kube_json_sentence(const char *text);

static inline void kube_json_free(json_t *json)
{
	json_decref(json);
}
DEFINE_CLEANUP(json_t *, kube_json_free)
#define _cleanup_json_ _cleanup_(kube_json_free_p)

#endif
