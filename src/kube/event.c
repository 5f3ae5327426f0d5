/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues and writes Events. For each Event, at most one request is in flight and one item waits,
 * with the newest count. A failed write is forgotten, so that the next such Event is created anew.
 * One thread.
 */
#include "kube/event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "kube/time.h"
#include "kube/write.h"

/* An Event to be written. */
struct item {
	struct kube_recorder *recorder;
	struct item *prev, *next;
	struct event_decision decision;
	json_t *object; /* the Event object, complete for a creation */
	char *namespace_name;
	struct kube_call *call;
	bool is_again; /* patch the existing Event */
};

struct kube_recorder {
	struct kube_client *client;
	char *component, *instance;
	struct event_memory *memory;
	struct item *waiting, *running;
	struct kube_recorder_counts counts;
	uint32_t n_running;
};

static void kube_recorder_send_next(struct kube_recorder *recorder);

static void kube_recorder_item_free(struct item *item)
{
	kube_call_cancel(item->call);
	json_decref(item->object);
	free(item->namespace_name);
	free(item);
}

static struct kube_write kube_recorder_write(struct item *item, kube_done_fn *done)
{
	return (struct kube_write){
		.target = {.group_version = "v1",
			.resource = "events",
			.namespace_name = item->namespace_name,
			.name = item->is_again ? item->decision.name : NULL},
		.field_manager = item->recorder->component,
		.done = done,
		.data = item,
		.ret_call = &item->call,
	};
}

static void kube_recorder_on_done(void *data, const struct kube_answer *answer);

static int send_item(struct item *item)
{
	struct kube_client *client = item->recorder->client;
	const struct kube_write write = kube_recorder_write(item, kube_recorder_on_done);
	_cleanup_json_ json_t *patch = NULL;

	if (!item->is_again)
		return kube_create(client, &write, item->object, NULL);
	patch = json_pack("{s:O, s:O, s:O}", "count", json_object_get(item->object, "count"),
		"lastTimestamp", json_object_get(item->object, "lastTimestamp"), "message",
		json_object_get(item->object, "message"));
	return kube_patch(client, &write, KUBE_PATCH_MERGE, patch, NULL);
}

static void end_item(struct item *item, bool is_written)
{
	struct kube_recorder *recorder = item->recorder;

	if (is_written) {
		recorder->counts.n_written++;
	} else {
		recorder->counts.n_failed++;
		event_forget(recorder->memory, item->decision.name);
	}
	DL_DELETE(recorder->running, item);
	recorder->n_running--;
	kube_recorder_item_free(item);
	kube_recorder_send_next(recorder);
}

static void kube_recorder_on_done(void *data, const struct kube_answer *answer)
{
	struct item *item = data;

	item->call = NULL;
	/* The Event has expired on the server, or is not created yet. */
	if (answer->result == -ENOENT && item->is_again) {
		item->is_again = false;
		if (send_item(item) == 0)
			return;
	}
	end_item(item, answer->result == 0 || answer->result == -EEXIST);
}

static struct item *kube_recorder_find_item(struct item *list, const char *name)
{
	struct item *item;

	DL_FOREACH(list, item)
		if (!strcmp(item->decision.name, name))
			return item;
	return NULL;
}

/* The first item whose Event has no request in flight. */
static struct item *kube_recorder_next_item(struct kube_recorder *recorder)
{
	struct item *item;

	DL_FOREACH(recorder->waiting, item)
		if (!kube_recorder_find_item(recorder->running, item->decision.name))
			return item;
	return NULL;
}

static void kube_recorder_send_next(struct kube_recorder *recorder)
{
	struct item *item;

	while (recorder->n_running < EVENT_IN_FLIGHT &&
		(item = kube_recorder_next_item(recorder))) {
		DL_DELETE(recorder->waiting, item);
		DL_APPEND(recorder->running, item);
		recorder->counts.n_waiting--;
		recorder->n_running++;
		if (send_item(item) < 0)
			end_item(item, false);
	}
}

/* Shortens the message until it is valid UTF-8. */
static json_t *message_of(const struct kube_event *event, bool is_combined)
{
	const char *before = is_combined ? "(combined from similar events): " : "";
	char text[EVENT_MESSAGE_MAX];
	size_t n;

	snprintf(text, sizeof(text), "%s%s", before, event->message);
	n = strlen(text);
	while (n) {
		json_t *json = json_stringn(text, n);

		if (json)
			return json;
		n--;
	}
	return json_string("");
}

static json_t *object_of(const struct kube_recorder *recorder, const struct kube_event *event,
	const struct event_decision *decision, uint64_t real_ns)
{
	const struct kube_time first = kube_time_format(decision->first_real_ns);
	const struct kube_time last = kube_time_format(real_ns);
	const char *space = event->object.namespace_name;

	return json_pack(
		"{ss, ss, s:{ss, ss}, s:{s:s*, s:s*, s:s*, s:s*, s:s*}, ss, ss, s:o, s:{ss, "
		"ss}, ss, ss, si, ss, ss}",
		"apiVersion", "v1", "kind", "Event", "metadata", "name", decision->name,
		"namespace", space && space[0] ? space : "default", "involvedObject", "apiVersion",
		event->object.api_version, "kind", event->object.kind, "namespace",
		space && space[0] ? space : NULL, "name", event->object.name, "uid",
		event->object.uid, "type", event->type, "reason", event->reason, "message",
		message_of(event, decision->is_combined), "source", "component",
		recorder->component, "host", recorder->instance, "firstTimestamp", first.s,
		"lastTimestamp", last.s, "count", (int)decision->count, "reportingComponent",
		recorder->component, "reportingInstance", recorder->instance);
}

/* Appends the item; if an item of the same Event waits already, replaces that older item. */
static void kube_recorder_enqueue_item(struct kube_recorder *recorder, struct item *item)
{
	struct item *older = kube_recorder_find_item(recorder->waiting, item->decision.name);

	if (older) {
		recorder->counts.n_merged++;
		item->is_again = older->is_again;
		DL_REPLACE_ELEM(recorder->waiting, older, item);
		kube_recorder_item_free(older);
		return;
	}
	DL_APPEND(recorder->waiting, item);
	recorder->counts.n_waiting++;
}

void kube_record(struct kube_recorder *recorder, const struct kube_event *event)
{
	const uint64_t real_ns = clock_real_ns();
	struct event_decision decision;
	struct item *item;

	if (recorder->counts.n_waiting >= EVENT_QUEUE_MAX) {
		recorder->counts.n_dropped++;
		return;
	}
	event_decide(recorder->memory, event, clock_now_ns(), real_ns, &decision);
	item = decision.verdict == EVENT_DROPPED ? NULL : calloc(1, sizeof(*item));
	if (!item) {
		recorder->counts.n_dropped++;
		return;
	}
	*item = (struct item){.recorder = recorder,
		.decision = decision,
		.is_again = decision.verdict == EVENT_AGAIN,
		.object = object_of(recorder, event, &decision, real_ns)};
	item->namespace_name = str_dup(
		str_from(kube_json_text_at(item->object, "metadata", "namespace", NULL)));
	if (!item->object || !item->namespace_name) {
		recorder->counts.n_dropped++;
		event_forget(recorder->memory, decision.name);
		kube_recorder_item_free(item);
		return;
	}
	kube_recorder_enqueue_item(recorder, item);
	kube_recorder_send_next(recorder);
}

int kube_recorder_new(struct kube_client *client, const char *component, const char *instance,
	struct kube_recorder **ret_recorder, struct error *err)
{
	_cleanup_(kube_recorder_free_p) struct kube_recorder *recorder = calloc(
		1, sizeof(*recorder));

	if (!recorder)
		return fail(err, ENOMEM, "out of memory for events");
	recorder->client = client;
	recorder->component = str_dup(str_from(component));
	recorder->instance = str_dup(str_from(instance));
	if (!recorder->component || !recorder->instance || event_memory_new(&recorder->memory) < 0)
		return fail(err, ENOMEM, "out of memory for events");
	*ret_recorder = TAKE_PTR(recorder);
	return 0;
}

void kube_recorder_free(struct kube_recorder *recorder)
{
	struct item *item, *next;

	if (!recorder)
		return;
	DL_FOREACH_SAFE(recorder->waiting, item, next)
		kube_recorder_item_free(item);
	DL_FOREACH_SAFE(recorder->running, item, next)
		kube_recorder_item_free(item);
	event_memory_free(recorder->memory);
	free(recorder->component);
	free(recorder->instance);
	free(recorder);
}

struct kube_recorder_counts kube_recorder_counts(const struct kube_recorder *recorder)
{
	return recorder->counts;
}
