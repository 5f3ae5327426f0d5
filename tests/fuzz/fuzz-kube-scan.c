/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans the body of a list or a watch: any bytes, in any pieces. The result does not depend on the
 * pieces. In the result, an object that is valid JSON has no managedFields in its metadata.
 */
#include <stdlib.h>

#include "base/rand.h"
#include "fuzz.h"
#include "kube/kube-json.h"
#include "kube/scan.h"

struct seen {
	uint64_t hash, n;
};

static void mix(struct seen *seen, struct str text)
{
	seen->hash = (seen->hash ^ str_hash(text)) * UINT64_C(0x9e3779b97f4a7c15);
	seen->n++;
}

static int on_meta(void *data, struct str text)
{
	mix(data, text);
	return 0;
}

static int on_item(void *data, struct str type, struct str text)
{
	json_t *json = NULL;

	mix(data, type);
	mix(data, text);
	FUZZ_CHECK(text.n >= 2 && text.p[0] == '{' && text.p[text.n - 1] == '}');
	FUZZ_CHECK(text.n <= SCAN_ITEM_MAX && type.n <= SCAN_TYPE_MAX);
	if (kube_json_parse(text, &json, NULL) < 0) {
		kube_json_member(text, "metadata");
		return 0;
	}
	FUZZ_CHECK(json_is_object(json));
	json_decref(json);
	return 0;
}

static int scan_in_pieces(
	enum scan_kind kind, struct str text, struct rand *rand, struct seen *seen)
{
	static struct scan scan;
	const struct scan_handler handler = {on_meta, on_item, seen};
	int r = 0;

	scan_init(&scan, kind, &handler);
	for (size_t i = 0; r == 0 && i < text.n;) {
		const size_t n = rand ? 1 + rand_below(rand, text.n - i) : text.n;

		r = scan_feed(&scan, (struct str){text.p + i, n}, NULL);
		i += n;
	}
	if (r == 0)
		r = scan_end(&scan, NULL);
	else
		FUZZ_CHECK(scan_feed(&scan, STR("{}"), NULL) == r);
	scan_done(&scan);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str text = {(const char *)data, n};

	for (int kind = SCAN_LIST; kind <= SCAN_WATCH; kind++) {
		struct seen whole = {0}, pieces = {0};
		struct rand rand = rand_seeded(n);
		const int r = scan_in_pieces((enum scan_kind)kind, text, NULL, &whole);

		/*
		 * A text may be too long and also malformed. The pieces decide which error comes
		 * first, so only failure is compared.
		 */
		FUZZ_CHECK((scan_in_pieces((enum scan_kind)kind, text, &rand, &pieces) < 0) ==
			(r < 0));
		FUZZ_CHECK(whole.n == pieces.n && whole.hash == pieces.hash);
	}
	return 0;
}
