/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes label selectors: the object LabelSelector (matchLabels, matchExpressions), and the
 * text of a request's labelSelector, which the parser turns into a LabelSelector. Pure; any thread.
 */
#ifndef MANIFEST_LABEL_SELECTOR_H
#define MANIFEST_LABEL_SELECTOR_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/kube-json.h"

#define LABEL_SELECTOR_TEXT_MAX 4096u
#define LABEL_SELECTOR_TERMS_MAX 64u
#define LABEL_KEY_MAX 317u
#define LABEL_VALUE_MAX 63u

/*
 * Whether the selector matches the labels. An empty selector matches all labels, an unknown
 * operator none.
 */
bool label_selector_fits(const json_t *selector, const json_t *labels);

/*
 * Parses "app=web,tier in (a,b),zone notin (c),!old,x"; all terms have to hold. The caller owns the
 * object. Returns 0; -EINVAL, with the term and the expected forms in the message; -E2BIG; -ENOMEM.
 */
int label_selector_parse(struct str text, json_t **ret_selector, struct error *err);

#endif
