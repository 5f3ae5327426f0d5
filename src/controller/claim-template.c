/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates of claims, by name: claim-template.h. A template with another content under such a name
 * is its namespace's own, since users of the namespace may write claims with any content anyway.
 */
#include "controller/claim-template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "kube/kube-json.h"
#include "manifest/claim-config.h"

#define MIB (UINT64_C(1) << 20)
#define BLOCK_MIB (SPEC_MEMORY_BLOCK / MIB)
#define MEMORY_MIB_MAX (INT64_MAX / (int64_t)MIB)
#define BETWEEN "-memory-"
#define SUFFIX "mi"
#define REQUEST "gpu"
#define WHOLE_PREFIX "divvy-gpu-"

int claim_share_read(
	const struct manifest *pod, uint32_t container, struct claim_share *ret, struct error *err)
{
	const struct str name = pod->container[container].name;
	uint64_t share = 0, memory = 0;
	int has_share = manifest_resource(pod, container, POD_TRANSLATE_SHARE, &share, err),
	    has_memory = has_share < 0
		? 0
		: manifest_resource(pod, container, POD_TRANSLATE_MEMORY, &memory, err);

	if (has_share < 0 || has_memory < 0)
		return -EINVAL;
	if (!share && !memory)
		return 0;
	if (!share || !memory)
		return fail(err, EINVAL,
			"container %.*s: resource %s without %s; state both, such as "
			"divvy.gpu/share: 500 and divvy.gpu/memory: 8Gi",
			(int)MIN(name.n, (size_t)63), name.p,
			share ? POD_TRANSLATE_SHARE : POD_TRANSLATE_MEMORY,
			share ? POD_TRANSLATE_MEMORY : POD_TRANSLATE_SHARE);
	if (share > SPEC_SHARE_ONE)
		return fail(err, EINVAL,
			"container %.*s: resource " POD_TRANSLATE_SHARE
			" '%llu': expected 1 to 1000, in thousandths of a device; for whole "
			"devices use " POD_TRANSLATE_WHOLE,
			(int)MIN(name.n, (size_t)63), name.p, (unsigned long long)share);
	ret->n_devices = 0;
	ret->share_permille = (uint32_t)share;
	ret->memory_mib = (memory + SPEC_MEMORY_BLOCK - 1) / SPEC_MEMORY_BLOCK * BLOCK_MIB;
	return 1;
}

int claim_devices_read(
	const struct manifest *pod, uint32_t container, struct claim_share *ret, struct error *err)
{
	const struct str name = pod->container[container].name;
	uint64_t n = 0;

	if (manifest_resource(pod, container, POD_TRANSLATE_WHOLE, &n, err) < 0)
		return -EINVAL;
	if (!n)
		return 0;
	if (n > SPEC_DEVICES_MAX)
		return fail(err, EINVAL,
			"container %.*s: resource " POD_TRANSLATE_WHOLE
			" '%llu': expected 1 to %u whole devices",
			(int)MIN(name.n, (size_t)63), name.p, (unsigned long long)n,
			SPEC_DEVICES_MAX);
	*ret = (struct claim_share){.n_devices = (uint32_t)n};
	return 1;
}

const char *claim_template_name(
	const struct claim_share *share, char ret[static CLAIM_TEMPLATE_NAME])
{
	if (share->n_devices) {
		snprintf(ret, CLAIM_TEMPLATE_NAME, WHOLE_PREFIX "%u", share->n_devices);
		return ret;
	}
	snprintf(ret, CLAIM_TEMPLATE_NAME, CLAIM_TEMPLATE_PREFIX "%u" BETWEEN "%llu" SUFFIX,
		share->share_permille, (unsigned long long)share->memory_mib);
	return ret;
}

static bool claim_template_parse(const char *name, struct claim_share *ret)
{
	struct str rest = str_from(name), share;
	const char *between = strstr(name, BETWEEN);
	char again[CLAIM_TEMPLATE_NAME];
	uint64_t permille, mib, n;

	if (str_skip_prefix(&rest, STR(WHOLE_PREFIX))) {
		if (parse_uint(rest, 1, SPEC_DEVICES_MAX, &n, NULL) < 0)
			return false;
		*ret = (struct claim_share){.n_devices = (uint32_t)n};
		return !strcmp(claim_template_name(ret, again), name);
	}
	if (!between || !str_skip_prefix(&rest, STR(CLAIM_TEMPLATE_PREFIX)) ||
		!str_skip_suffix(&rest, STR(SUFFIX)) || between < rest.p)
		return false;
	share = (struct str){rest.p, (size_t)(between - rest.p)};
	rest.p += share.n + strlen(BETWEEN);
	if (rest.n < share.n + strlen(BETWEEN))
		return false;
	rest.n -= share.n + strlen(BETWEEN);
	if (parse_uint(share, 1, SPEC_SHARE_ONE, &permille, NULL) < 0 ||
		parse_uint(rest, BLOCK_MIB, MEMORY_MIB_MAX, &mib, NULL) < 0)
		return false;
	*ret = (struct claim_share){0, (uint32_t)permille, mib};
	/* one name for each amount: no leading zeros */
	return !strcmp(claim_template_name(ret, again), name);
}

static json_t *claim_template_wrap(const char *name, json_t *request)
{
	return json_pack("{s:s, s:s, s:{s:s, s:{s:s}}, s:{s:{s:{s:[{s:s, s:o}]}}}}", "apiVersion",
		CLAIM_TEMPLATE_API, "kind", "ResourceClaimTemplate", "metadata", "name", name,
		"labels", CLAIM_TEMPLATE_LABEL, CLAIM_TEMPLATE_MAKER, "spec", "spec", "devices",
		"requests", "name", REQUEST, "exactly", request);
}

json_t *claim_template_make(const char *name)
{
	struct claim_share share;
	char permille[16], memory[32];

	if (!claim_template_parse(name, &share))
		return NULL;
	if (share.n_devices)
		return claim_template_wrap(name,
			json_pack("{s:s, s:i}", "deviceClassName", CLAIM_WHOLE_CLASS, "count",
				(int)share.n_devices));
	snprintf(permille, sizeof(permille), "%u", share.share_permille);
	snprintf(memory, sizeof(memory), "%lluMi", (unsigned long long)share.memory_mib);
	return claim_template_wrap(name,
		json_pack("{s:s, s:{s:{s:s, s:s}}}", "deviceClassName", CLAIM_SHARE_CLASS,
			"capacity", "requests", CLAIM_CAPACITY_SHARE, permille,
			CLAIM_CAPACITY_MEMORY, memory));
}

const char *claim_template_next(const json_t *pod, size_t *at)
{
	const json_t *claims = kube_json_at(pod, "spec", "resourceClaims", NULL),
		     *made = kube_json_at(pod, "status", "resourceClaimStatuses", NULL);
	const size_t n = MIN(json_array_size(claims), (size_t)CLAIM_ENTRIES_SEEN);

	while (*at < n) {
		const json_t *claim = json_array_get(claims, (*at)++);
		const char *name = kube_json_text(claim, "resourceClaimTemplateName");
		struct claim_share share;

		if (claim_template_parse(name, &share) &&
			!kube_json_find(made, "name", kube_json_text(claim, "name")))
			return name;
	}
	return NULL;
}
