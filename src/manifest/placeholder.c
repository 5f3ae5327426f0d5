/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file recognises a placeholder by its namespace and by the value of its name label.
 */
#include "manifest/placeholder.h"

#include <string.h>

bool placeholder_is_one(const json_t *pod, const char *ns)
{
	const char *its = kube_json_text_at(pod, "metadata", "namespace", NULL),
		   *label = kube_json_text_at(pod, "metadata", "labels", PLACEHOLDER_LABEL, NULL);

	return its && label && !strcmp(its, ns) && !strcmp(label, PLACEHOLDER_NAME);
}
