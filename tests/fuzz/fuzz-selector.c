/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a request's labelSelector: any text is refused with a message, or gives a selector that
 * label_selector_fits() accepts.
 */
#include "fuzz.h"
#include "manifest/label-selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct str text = {(const char *)data, n};
	_cleanup_json_ json_t *selector = NULL,
			      *labels = json_pack("{s:s, s:s}", "a", "b", "c", "");
	struct error err = {0};
	const int r = label_selector_parse(text, &selector, &err);

	FUZZ_CHECK(r == 0 ? json_is_object(selector) : !selector && err.msg[0]);
	FUZZ_CHECK(memchr(err.msg, 0, sizeof(err.msg)));
	if (r == 0) {
		const json_t *terms = json_object_get(selector, "matchExpressions");

		FUZZ_CHECK(json_array_size(terms) <= LABEL_SELECTOR_TERMS_MAX);
		FUZZ_CHECK(json_array_size(terms) || label_selector_fits(selector, labels));
		label_selector_fits(selector, labels);
	}
	return 0;
}
