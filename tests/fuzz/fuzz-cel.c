/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and evaluates an expression that selects devices: any text is refused with a message, or
 * has a result or an error, within the limit of steps.
 */
#include "claims/cel.h"
#include "claims/slice.h"
#include "fuzz.h"

static struct slice *slice_with_device(void)
{
	json_t *json = json_pack("{s:{ss}, s:{ss, s:{ss}, s:[{ss, s:{s:{si}, s:{ss}, s:{ss}},"
				 "s:{s:{ss}}}]}}",
		"metadata", "name", "s", "spec", "driver", "d", "pool", "name", "p", "devices",
		"name", "x", "attributes", "n", "int", 5, "s", "string", "A100", "v", "version",
		"1.2.3-rc.1", "capacity", "memory", "value", "10Gi");
	struct slice *slice = NULL;

	FUZZ_CHECK(slice_new(json, &slice, NULL) == 0 && !slice->is_unclear);
	json_decref(json);
	return slice;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	_cleanup_(slice_free_p) struct slice *slice = slice_with_device();
	_cleanup_(cel_free_p) struct cel *cel = NULL;
	uint64_t steps = 2ull * CEL_STEPS_MAX;
	struct error err = {0};
	bool matches;
	int r = cel_parse((struct str){(const char *)data, n}, &cel, &err);

	if (r == 0)
		r = cel_match(cel, &slice->devices[0].cel, &steps, &matches, &err);
	FUZZ_CHECK(r == 0 || err.msg[0]);
	FUZZ_CHECK(steps + CEL_STEPS_MAX + 1 >= 2ull * CEL_STEPS_MAX);
	return 0;
}
