/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses Gemini's file: any text is refused with a message, or gives clients with valid specs.
 */
#include <errno.h>
#include <string.h>

#include "spec/gemini.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct gemini gemini = {NULL, 0};
	struct error err = {0};
	int r = gemini_parse((struct str){(const char *)data, n}, &gemini, &err);

	FUZZ_CHECK(r == 0 || r == -EINVAL);
	FUZZ_CHECK(r == 0 || (err.msg[0] && !gemini.client));
	FUZZ_CHECK(gemini.n <= GEMINI_CLIENTS);
	for (size_t i = 0; i < gemini.n; i++) {
		const struct spec *spec = &gemini.client[i].spec;
		struct spec again = *spec;

		FUZZ_CHECK(gemini.client[i].name[0]);
		FUZZ_CHECK(memchr(gemini.client[i].name, 0, GEMINI_NAME));
		FUZZ_CHECK(spec->request >= 1 && spec->request <= spec->limit);
		FUZZ_CHECK(spec->limit <= SPEC_SHARE_ONE && spec->count == 1);
		FUZZ_CHECK(spec->memory_bytes);
		if (spec->request < SPEC_SHARE_ONE) {
			FUZZ_CHECK(spec_finish(&again, NULL) == 0);
			FUZZ_CHECK(!memcmp(&again, spec, sizeof(again)));
		}
	}
	gemini_done(&gemini);
	return 0;
}
