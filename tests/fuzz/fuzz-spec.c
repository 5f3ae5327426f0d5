/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes specs from lines "field=value". A refusal has a message and changes nothing. A finished
 * spec is valid, does not change when it is finished again, and its shares are the same after
 * formatting and parsing.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "spec/spec.h"
#include "fuzz.h"

static void check_finished(const struct spec *spec)
{
	struct spec again = *spec;
	char text[8], network[SPEC_NETWORK];

	FUZZ_CHECK(spec->request >= 1 && spec->request <= spec->limit);
	FUZZ_CHECK(spec->limit <= SPEC_SHARE_ONE);
	FUZZ_CHECK(spec->count >= 1 && spec->count <= SPEC_DEVICES_MAX);
	FUZZ_CHECK(!spec->exclusive || spec->request == SPEC_SHARE_ONE);
	FUZZ_CHECK(spec->priority <= 100);
	FUZZ_CHECK(spec->priority > 0 || spec->class == SPEC_OPPORTUNISTIC);
	FUZZ_CHECK(!spec->memory_bytes || !spec->memory_permille);
	FUZZ_CHECK(spec_memory_on(spec, 1000000) <= 1000000 || spec->memory_bytes);
	FUZZ_CHECK(memchr(spec->model, 0, sizeof(spec->model)));
	FUZZ_CHECK(memchr(spec->device, 0, sizeof(spec->device)));
	FUZZ_CHECK(memchr(spec->affinity, 0, sizeof(spec->affinity)));
	FUZZ_CHECK(memchr(spec->group, 0, sizeof(spec->group)));
	FUZZ_CHECK(!spec->group[0] == !spec->group_threshold);
	FUZZ_CHECK(spec_group_least(spec) >= 1 && spec_group_least(spec) <= SPEC_GROUP_SIZE_MAX);
	FUZZ_CHECK(spec_devices_named(spec) <= SPEC_PATTERN);
	spec_model_fits(spec, "NVIDIA H200");
	if (spec_network_format(spec, network)[0])
		FUZZ_CHECK(spec_set_cluster(&again, "network", network, NULL) == 0);
	FUZZ_CHECK(spec_is_same(&again, spec));
	FUZZ_CHECK(spec_finish(&again, NULL) == 0);
	FUZZ_CHECK(!memcmp(&again, spec, sizeof(again)));
	FUZZ_CHECK(spec_set(&again, "limit", spec_share_format(spec->limit, text), NULL) == 0);
	FUZZ_CHECK(spec_finish(&again, NULL) == 0);
	FUZZ_CHECK(!memcmp(&again, spec, sizeof(again)));
}

static void set_line(struct spec *spec, struct str line)
{
	struct spec before = *spec;
	struct error err = {0};
	char field[64], value[512];
	size_t at = str_find(line, '=');
	int r;

	if (at == line.n || str_copy(field, sizeof(field), (struct str){line.p, at}) < 0 ||
		str_copy(value, sizeof(value), (struct str){line.p + at + 1, line.n - at - 1}) < 0)
		return;
	r = spec_set_cluster(spec, field, value, &err);
	FUZZ_CHECK(r == 0 || r == -EINVAL || r == -ENOENT);
	if (r < 0) {
		FUZZ_CHECK(err.msg[0]);
		FUZZ_CHECK(!memcmp(&before, spec, sizeof(before)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str text = {(const char *)data, n}, line;
	struct error err = {0};
	struct spec spec;
	struct spec before;

	spec_init(&spec);
	while (str_split(&text, '\n', &line))
		set_line(&spec, line);
	before = spec;
	if (spec_finish(&spec, &err) == 0) {
		check_finished(&spec);
	} else {
		FUZZ_CHECK(err.msg[0]);
		FUZZ_CHECK(!memcmp(&before, &spec, sizeof(before)));
	}
	return 0;
}
