/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the strict parsers of src/base on any text. A refusal has a message and does not set the
 * result. An accepted value is in range, and is the same after it is printed and read again.
 */
#include <string.h>

#include "base/format.h"
#include "base/parse.h"
#include "base/process.h"
#include "fuzz.h"

#define UNTOUCHED 0xdeadbeefu

static void check_refusal(int r, const struct error *err)
{
	FUZZ_CHECK(r == 0 || (r < 0 && err->code == -r && err->msg[0]));
	FUZZ_CHECK(memchr(err->msg, 0, sizeof(err->msg)));
}

static void check_share(struct str text)
{
	struct error err = {0};
	uint32_t share = UNTOUCHED, again = 0;
	int r = parse_share(text, &share, &err);

	check_refusal(r, &err);
	if (r < 0) {
		FUZZ_CHECK(share == UNTOUCHED);
		return;
	}
	FUZZ_CHECK(share <= SHARE_MAX);
	FUZZ_CHECK(parse_share(str_from(format_share(share).s), &again, NULL) == 0);
	FUZZ_CHECK(again == share);
}

static void check_bytes(struct str text)
{
	struct error err = {0};
	uint64_t bytes = UNTOUCHED, again = 0;
	int r = parse_bytes(text, &bytes, &err);

	check_refusal(r, &err);
	if (r < 0) {
		FUZZ_CHECK(bytes == UNTOUCHED);
		return;
	}
	FUZZ_CHECK(bytes <= INT64_MAX);
	FUZZ_CHECK(parse_bytes(str_from(format_bytes_exact(bytes).s), &again, NULL) == 0);
	FUZZ_CHECK(again == bytes);
	FUZZ_CHECK(format_bytes(bytes).s[0]);
}

static void check_duration(struct str text)
{
	struct error err = {0};
	uint64_t ns = UNTOUCHED;
	int r = parse_duration(text, &ns, &err);

	check_refusal(r, &err);
	FUZZ_CHECK(r == 0 ? ns <= INT64_MAX : ns == UNTOUCHED);
	FUZZ_CHECK(format_duration(ns).s[0]);
}

static void check_rest(struct str text)
{
	struct error err = {0};
	struct process_stat stat;
	uint64_t value;
	uint32_t permille = 0;
	uint8_t bytes[16];
	bool flag;

	check_refusal(parse_uint(text, 3, 300, &value, &err), &err);
	check_refusal(parse_percent(text, &permille, &err), &err);
	FUZZ_CHECK(permille <= 1000);
	check_refusal(parse_bool(text, &flag, &err), &err);
	check_refusal(parse_hex(text, bytes, sizeof(bytes), &err), &err);
	if (process_parse_stat(text, &stat) == 0)
		FUZZ_CHECK(memchr(stat.name, 0, sizeof(stat.name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str text = {(const char *)data, n};

	check_share(text);
	check_bytes(text);
	check_duration(text);
	check_rest(text);
	return 0;
}
