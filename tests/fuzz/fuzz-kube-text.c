/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads or refuses a text from a peer or a file, of a kind that no other target reads. The first
 * byte chooses the kind: a kubeconfig, a credential plugin's answer, a Status, a list of resources,
 * a Lease, base64 and times, or objects for the cache.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/base64.h"
#include "fuzz-yaml.h"
#include "fuzz.h"
#include "kube/cache.h"
#include "kube/kube-config.h"
#include "kube/discovery.h"
#include "kube/exec.h"
#include "kube/lease.h"
#include "kube/time.h"

static void read_config(struct str text)
{
	const struct kube_config_text one = {"/nonexistent/file", text};
	const struct kube_config_source source = {.is_insecure_allowed = true};
	struct kube_config *config = NULL;
	struct error err = {0};
	const int r = kube_config_parse(&one, 1, &source, &config, &err);

	FUZZ_CHECK(r == 0 ? config && config->server && config->namespace_name : err.msg[0]);
	FUZZ_CHECK(r < 0 || !config->cert_pem == !config->key_pem);
	kube_config_free(config);
}

static void read_plugin(struct str text)
{
	struct exec_result result = {0};
	const int r = exec_parse(text, "client.authentication.k8s.io/v1", &result, NULL);

	FUZZ_CHECK(r < 0 || result.token || result.cert_pem);
	exec_result_done(&result);
}

static void read_status(struct str text)
{
	struct kube_status status;

	kube_status_parse(500, text, &status);
	FUZZ_CHECK(status.http == 500 && kube_status_errno(&status) == -EIO);
}

static void read_resources(struct str text)
{
	struct kube_served served = {0};
	_cleanup_json_ json_t *json = NULL;

	if (kube_json_parse(text, &json, NULL) < 0)
		return;
	kube_served_add(&served, "v1", json);
	kube_served_set_version(&served, json);
	FUZZ_CHECK(served.minor >= 0);
}

static void read_lease(struct str text)
{
	struct lease_record record;
	_cleanup_json_ json_t *json = NULL;

	if (kube_json_parse(text, &json, NULL) == 0 && lease_record_parse(json, &record) == 0)
		FUZZ_CHECK(record.exists && record.version[sizeof(record.version) - 1] == '\0');
}

static void read_small(struct str text)
{
	_cleanup_buf_ struct buf bytes = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20),
				 back = BUF_INIT(1 << 20);
	uint64_t ns, same;

	if (base64_decode(text, &bytes) == 0) {
		FUZZ_CHECK(base64_encode(buf_str(&bytes), &again) == 0);
		FUZZ_CHECK(base64_decode(buf_str(&again), &back) == 0);
		FUZZ_CHECK(str_eq(buf_str(&bytes), buf_str(&back)));
	}
	if (kube_time_parse(text, &ns) == 0) {
		FUZZ_CHECK(kube_time_parse(str_from(kube_time_format_micro(ns).s), &same) == 0);
		FUZZ_CHECK(same / 1000 == ns / 1000);
	}
}

static int project(void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	*ret_own = malloc(1);
	return 0;
}

/* Feeds each line to the cache twice, as a JSON object. */
static void feed_cache(struct str text)
{
	const struct kube_cache_handler handler = {
		.project = project, .release = free, .keeps_raw = true};
	struct kube_reflect_handler feed;
	struct kube_cache *cache;
	struct str line;
	int change = 0;

	FUZZ_CHECK(kube_cache_new_unfed(&handler, &cache) == 0);
	feed = kube_cache_feed(cache);
	while (str_split(&text, '\n', &line)) {
		struct kube_object object = {.raw = line};

		if (kube_json_parse(line, &object.json, NULL) < 0) {
			feed.begin(feed.data, change & 1);
			feed.end(feed.data);
			continue;
		}
		feed.object(feed.data, KUBE_LISTED, &object);
		feed.object(feed.data, (enum kube_change)(change++ % 4), &object);
		json_decref(object.json);
	}
	for (const struct kube_entry *e = kube_cache_next(cache, NULL); e;
		e = kube_cache_next(cache, e))
		FUZZ_CHECK(kube_cache_find(cache, e->namespace_name, e->name) == e);
	kube_cache_free(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const readers[])(struct str) = {read_config, read_plugin, read_status,
		read_resources, read_lease, read_small, feed_cache};

	if (n)
		readers[data[0] % ARRAY_SIZE(readers)]((struct str){(const char *)data + 1, n - 1});
	return 0;
}
