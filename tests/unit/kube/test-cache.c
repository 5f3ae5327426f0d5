/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "kube/cache.h"

struct fixture {
	struct kube_cache *cache;
	struct kube_reflect_handler feed;
	struct buf log;
};

static int project(void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	const char *value = kube_json_text_at(object->json, "value", NULL);

	if (!value)
		return fail(err, EINVAL, "no value");
	if (!strcmp(value, "hidden"))
		return -ENOENT;
	*ret_own = str_dup(str_from(value));
	return 0;
}

static void added(void *data, const struct kube_entry *e)
{
	struct fixture *f = data;

	assert_ptr_equal(kube_cache_find(f->cache, e->namespace_name, e->name), e);
	assert_ptr_equal(kube_cache_find_uid(f->cache, e->uid), e);
	buf_addf(&f->log, "+%s/%s=%s ", e->namespace_name, e->name, (char *)e->object);
}

static void updated(void *data, const struct kube_entry *e, void *old)
{
	buf_addf(&((struct fixture *)data)->log, "%s:%s>%s ", e->name, (char *)old,
		(char *)e->object);
}

static void deleted(void *data, const struct kube_entry *e)
{
	struct fixture *f = data;

	assert_null(kube_cache_find_uid(f->cache, e->uid));
	buf_addf(&f->log, "-%s/%s=%s ", e->namespace_name, e->name, (char *)e->object);
}

static void synced(void *data)
{
	buf_add_text(&((struct fixture *)data)->log, "synced ");
}

static void trouble(void *data, const struct error *err)
{
	buf_addf(&((struct fixture *)data)->log, "!%s ", err->msg);
}

/* Initialises in place, since the handlers keep the fixture's address. */
static void begin_fixture(struct fixture *f, bool keeps_raw)
{
	const struct kube_cache_handler handler = {
		project, free, added, updated, deleted, synced, trouble, f, keeps_raw};

	*f = (struct fixture){.log = BUF_INIT(1 << 20)};
	assert_ok(kube_cache_new_unfed(&handler, &f->cache));
	f->feed = kube_cache_feed(f->cache);
}

static void end_fixture(struct fixture *f)
{
	kube_cache_free(f->cache);
	buf_done(&f->log);
}

static int tell(struct fixture *f, enum kube_change change, const char *text)
{
	struct kube_object object = {.raw = str_from(text)};
	int r;

	assert_ok(kube_json_parse(object.raw, &object.json, NULL));
	r = f->feed.object(f->feed.data, change, &object);
	json_decref(object.json);
	return r;
}

/* Feeds one object: "ns/name uid version value". */
static void give(struct fixture *f, enum kube_change change, const char *words)
{
	char space[32], name[32], uid[32], version[64], value[32], text[512];

	assert_int_equal(
		sscanf(words, "%31[^/]/%31s %31s %63s %31s", space, name, uid, version, value), 5);
	snprintf(text, sizeof(text),
		"{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\","
		"\"resourceVersion\":\"%s\"},\"value\":\"%s\"}",
		space, name, uid, version, value);
	assert_ok(tell(f, change, text));
}

static void expect(struct fixture *f, const char *want)
{
	assert_string_equal(buf_text(&f->log), want);
	buf_clear(&f->log);
}

static void reports_changes_from_list_and_watch(void **state)
{
	struct fixture f;

	begin_fixture(&f, false);
	f.feed.begin(f.feed.data, false);
	give(&f, KUBE_LISTED, "a/x u1 1 one");
	give(&f, KUBE_LISTED, "b/x u2 2 two");
	assert_false(kube_cache_is_synced(f.cache));
	f.feed.end(f.feed.data);
	assert_true(kube_cache_is_synced(f.cache));
	expect(&f, "+a/x=one +b/x=two synced ");
	give(&f, KUBE_MODIFIED, "a/x u1 3 three");
	give(&f, KUBE_ADDED, "a/y u3 4 four");
	give(&f, KUBE_DELETED, "b/x u2 5 two");
	expect(&f, "x:one>three +a/y=four -b/x=two ");
	assert_int_equal(kube_cache_count(f.cache), 2);
	assert_string_equal(kube_cache_find(f.cache, "a", "x")->version, "3");
	assert_null(kube_cache_find(f.cache, "b", "x"));
	end_fixture(&f);
}

static void reports_changes_from_a_list_after_a_gap(void **state)
{
	struct fixture f;

	begin_fixture(&f, false);
	f.feed.begin(f.feed.data, false);
	give(&f, KUBE_LISTED, "a/x u1 1 one");
	give(&f, KUBE_LISTED, "a/y u2 2 two");
	give(&f, KUBE_LISTED, "a/z u3 3 three");
	f.feed.end(f.feed.data);
	give(&f, KUBE_ADDED, "a/w u5 4 five");
	buf_clear(&f.log);
	f.feed.begin(f.feed.data, false);
	give(&f, KUBE_LISTED, "a/x u1 1 one");
	give(&f, KUBE_LISTED, "a/y u2 9 zwei");
	/* The list broke off: the cache deletes no object. */
	f.feed.begin(f.feed.data, false);
	give(&f, KUBE_LISTED, "a/x u1 1 one");
	give(&f, KUBE_LISTED, "a/y u2 9 zwei");
	give(&f, KUBE_LISTED, "a/z u4 10 drei");
	f.feed.end(f.feed.data);
	expect(&f, "y:two>zwei -a/z=three +a/z=drei -a/w=five ");
	end_fixture(&f);
}

static void replaces_all_objects_on_request(void **state)
{
	struct fixture f;

	begin_fixture(&f, false);
	f.feed.begin(f.feed.data, false);
	give(&f, KUBE_LISTED, "a/x u1 1 wrong");
	f.feed.end(f.feed.data);
	f.feed.begin(f.feed.data, true);
	give(&f, KUBE_LISTED, "a/x u1 1 right");
	f.feed.end(f.feed.data);
	give(&f, KUBE_MODIFIED, "a/x u1 1 same");
	expect(&f, "+a/x=wrong synced x:wrong>right ");
	end_fixture(&f);
}

static void does_not_delete_a_successor(void **state)
{
	struct fixture f;

	begin_fixture(&f, false);
	give(&f, KUBE_ADDED, "a/x u1 1 one");
	give(&f, KUBE_ADDED, "a/x u2 2 two");
	give(&f, KUBE_DELETED, "a/x u1 3 one");
	expect(&f, "+a/x=one -a/x=one +a/x=two ");
	end_fixture(&f);
}

static void forgets_objects_without_a_projection(void **state)
{
	struct fixture f;

	begin_fixture(&f, false);
	give(&f, KUBE_ADDED, "a/x u1 1 one");
	give(&f, KUBE_MODIFIED, "a/x u1 2 hidden");
	give(&f, KUBE_ADDED, "a/y u2 2 hidden");
	give(&f, KUBE_DELETED, "a/y u2 2 hidden");
	expect(&f, "+a/x=one -a/x=one ");
	assert_ok(tell(&f, KUBE_ADDED,
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}"));
	expect(&f, "!/n: no value ");
	end_fixture(&f);
}

static void takes_objects_without_a_namespace_and_any_version(void **state)
{
	struct fixture f;
	const char *text = "{\"metadata\":{\"name\":\"node\",\"uid\":\"u\",\"resourceVersion\":"
			   "\"12345678901234567890123456789012345\"},\"value\":\"v\"}";

	begin_fixture(&f, true);
	assert_ok(tell(&f, KUBE_LISTED, text));
	assert_ok(tell(&f, KUBE_LISTED, text));
	expect(&f, "+/node=v node:v>v ");
	assert_true(str_is(kube_cache_find(f.cache, NULL, "node")->raw, text));
	assert_true(kube_cache_next(f.cache, NULL) == kube_cache_find(f.cache, "", "node"));
	assert_null(kube_cache_next(f.cache, kube_cache_next(f.cache, NULL)));
	end_fixture(&f);
}

static void refuses_objects_without_an_identity(void **state)
{
	static const char *const bad[] = {"{}", "{\"metadata\":{}}",
		"{\"metadata\":{\"name\":\"\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}",
		"{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"1\"}}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"}}"};
	_cleanup_buf_ struct buf text = BUF_INIT(10000);
	struct fixture f;

	begin_fixture(&f, false);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(tell(&f, KUBE_LISTED, bad[i]), -EBADMSG);
	buf_add_text(&text, "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\",\"name\":\"");
	for (int i = 0; i < 1024; i++)
		buf_add_byte(&text, 'n');
	buf_add_text(&text, "\"}}");
	assert_int_equal(tell(&f, KUBE_LISTED, buf_text(&text)), -EBADMSG);
	end_fixture(&f);
}

UNIT_MAIN(UNIT(reports_changes_from_list_and_watch), UNIT(reports_changes_from_a_list_after_a_gap),
	UNIT(replaces_all_objects_on_request), UNIT(does_not_delete_a_successor),
	UNIT(forgets_objects_without_a_projection),
	UNIT(takes_objects_without_a_namespace_and_any_version),
	UNIT(refuses_objects_without_an_identity))
