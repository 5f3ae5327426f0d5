/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label selectors as Kubernetes has them: the object LabelSelector (matchLabels, matchExpressions),
 * and the text of a request's labelSelector, which becomes such an object. Pure; any thread.
 */
#ifndef MANIFEST_LABEL_SELECTOR_H
#define MANIFEST_LABEL_SELECTOR_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/json.h"

#define LABEL_SELECTOR_TEXT_MAX 4096u
#define LABEL_SELECTOR_TERMS_MAX 64u
#define LABEL_KEY_MAX 317u
#define LABEL_VALUE_MAX 63u

/* Does it take who has these labels? An empty one takes all, an unknown operator none. */
bool label_selector_fits(const json_t *selector, const json_t *labels);

/*
 * "app=web,tier in (a,b),zone notin (c),!old,x": all of them have to hold. The object is the
 * caller's. -EINVAL names the term, and what would be right; -E2BIG; -ENOMEM.
 */
int label_selector_parse(struct str text, json_t **ret_selector, struct error *err);

#endif
