/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file evaluates the fields of a GPUPolicy that decide its namespaces, dialects and memory
 * overcommit. A policy with neither `namespaces` nor `namespaceSelector` selects every namespace.
 * With both fields, either of them selects a namespace. policy_check_selector() enforces a rule
 * that the schema cannot express. The operators In and NotIn require values, and the other
 * operators forbid them.
 */
#include "manifest/policy.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "manifest/label-selector.h"

bool policy_selects(const json_t *spec, const char *ns, const json_t *ns_labels)
{
	const json_t *names = json_object_get(spec, "namespaces"),
		     *selector = json_object_get(spec, "namespaceSelector");

	if (!names && !selector)
		return true;
	if (kube_json_list_has(names, ns))
		return true;
	return selector && policy_check_selector(spec, NULL) == 0 &&
		label_selector_fits(selector, ns_labels);
}

int policy_check_selector(const json_t *spec, struct error *err)
{
	const json_t *list = kube_json_at(spec, "namespaceSelector", "matchExpressions", NULL);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *e = json_array_get(list, i);
		const char *operator= kube_json_text(e, "operator");
		const bool has_values = json_array_size(json_object_get(e, "values")) > 0;
		const bool wants = !strcmp(operator, "In") || !strcmp(operator, "NotIn");

		if (wants != has_values)
			return fail(err, EINVAL,
				"namespaceSelector.matchExpressions[%zu]: %.20s goes %s values",
				i, operator, wants ? "with" : "without");
	}
	return 0;
}

uint32_t policy_overcommit_memory(const json_t *spec)
{
	const json_t *value = kube_json_at(spec, "overcommit", "memory", NULL);
	const double times = json_number_value(value);
	uint32_t milli;

	if (json_is_number(value))
		milli = (uint32_t)(MIN(MAX(times, 0.0), 16.0) * 1000 + 0.5);
	else if (!json_is_string(value) ||
		parse_share(str_from(json_string_value(value)), &milli, NULL) < 0)
		return 0;
	return MIN(MAX(milli, POLICY_OVERCOMMIT_ONCE), POLICY_OVERCOMMIT_MAX);
}

void policy_add_dialects(const json_t *spec, struct buf *list)
{
	const json_t *dialects = json_object_get(spec, "dialects");

	for (size_t i = 0; i < json_array_size(dialects); i++) {
		const char *name = json_string_value(json_array_get(dialects, i));

		if (name)
			buf_addf(list, "%s%s", list->n ? "," : "", name);
	}
}
