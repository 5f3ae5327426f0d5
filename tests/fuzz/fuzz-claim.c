/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of claims. The input has two lines: what an allocation gave (request, devices, share,
 * memory), and JSON with the lists `config` and `requests`. A spec that follows has the request and
 * the memory of the allocation, whatever the parameters say. A refusal has a message.
 */
#include <stdlib.h>

#include "base/parse.h"
#include "fuzz.h"
#include "kube/kube-json.h"
#include "manifest/claim-config.h"

static uint64_t number(struct str *rest, uint64_t most)
{
	struct str word;
	uint64_t value;

	return str_word(rest, &word) && parse_uint(word, 0, most, &value, NULL) == 0 ? value : 0;
}

static int look(void *data, const struct claim_request *request, struct error *err)
{
	FUZZ_CHECK(request->spec.request && request->spec.request <= request->spec.limit);
	FUZZ_CHECK(request->spec.memory_bytes == request->capacity.memory_bytes ||
		!request->capacity.memory_bytes);
	++*(size_t *)data;
	return 0;
}

static void check_spec(const struct claim_grant *grant, const struct spec *spec)
{
	FUZZ_CHECK(spec->count == grant->count);
	FUZZ_CHECK(spec->request ==
		(grant->is_whole ? SPEC_SHARE_ONE : grant->capacity.share_permille));
	FUZZ_CHECK(spec->request <= spec->limit && spec->limit <= SPEC_SHARE_ONE);
	FUZZ_CHECK(grant->is_whole || spec->memory_bytes == grant->capacity.memory_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str rest = {(const char *)data, n}, line, word;
	_cleanup_json_ json_t *devices = NULL;
	_cleanup_free_ char *request = NULL;
	struct claim_grant grant = {0};
	struct claim_capacity capacity;
	struct error err = {0};
	struct spec spec;
	size_t n_requests = 0;
	int r;

	if (n > 1 << 16 || !str_split(&rest, '\n', &line) || !rest.p || !str_word(&line, &word) ||
		kube_json_parse(rest, &devices, NULL) < 0)
		return 0;
	request = str_dup(word);
	grant.request = request;
	grant.count = (uint32_t)number(&line, SPEC_DEVICES_MAX);
	grant.capacity.share_permille = (uint32_t)number(&line, SPEC_SHARE_ONE);
	grant.capacity.memory_bytes = number(&line, INT64_MAX);
	grant.is_whole = !grant.capacity.share_permille;
	r = claim_config_read(json_object_get(devices, "config"),
		json_object_get(devices, "annotations"), &grant, &spec, &err);
	FUZZ_CHECK(r == 0 || err.msg[0]);
	if (r == 0)
		check_spec(&grant, &spec);
	err.msg[0] = '\0';
	r = claim_config_check_claim(
		devices, json_object_get(devices, "annotations"), look, &n_requests, &err);
	FUZZ_CHECK(r == 0 || err.msg[0]);
	claim_config_check_class(devices, NULL);
	if (claim_capacity_read(json_object_get(devices, "capacity"), &capacity, NULL) == 0)
		FUZZ_CHECK(capacity.share_permille <= SPEC_SHARE_ONE);
	return 0;
}
