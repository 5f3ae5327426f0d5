/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "kube/event.h"

#define MINUTE (60 * NSEC_PER_SEC)

static struct event_decision say(
	struct event_memory *memory, const char *name, const char *message, uint64_t at_ns)
{
	const struct kube_event event = {.type = "Warning",
		.reason = "FailedScheduling",
		.message = message,
		.object = {"v1", "Pod", "ns", name, "uid"}};
	struct event_decision decision;

	event_decide(memory, &event, at_ns, 1000 + at_ns, &decision);
	return decision;
}

static void counts_a_repeated_event(void **state)
{
	struct event_memory *memory;
	struct event_decision first, again, other;

	assert_ok(event_memory_new(&memory));
	first = say(memory, "a", "no room", 0);
	assert_int_equal(first.verdict, EVENT_NEW);
	assert_int_equal(first.count, 1);
	assert_int_equal(strncmp(first.name, "a.", 2), 0);
	again = say(memory, "a", "no room", MINUTE);
	assert_int_equal(again.verdict, EVENT_AGAIN);
	assert_string_equal(again.name, first.name);
	assert_int_equal(again.count, 2);
	assert_int_equal(again.first_real_ns, 1000);
	other = say(memory, "b", "no room", MINUTE);
	assert_int_equal(other.verdict, EVENT_NEW);
	assert_string_not_equal(other.name, first.name);
	event_forget(memory, first.name);
	assert_int_equal(say(memory, "a", "no room", MINUTE).verdict, EVENT_NEW);
	event_memory_free(memory);
}

static void combines_many_similar_events(void **state)
{
	struct event_memory *memory;
	struct event_decision d;
	char message[32];

	assert_ok(event_memory_new(&memory));
	for (unsigned int i = 0; i < EVENT_SIMILAR_MAX; i++) {
		snprintf(message, sizeof(message), "message %u", i);
		d = say(memory, "a", message, 0);
		assert_false(d.is_combined);
	}
	d = say(memory, "a", "one more", 0);
	assert_true(d.is_combined);
	assert_int_equal(d.verdict, EVENT_NEW);
	d = say(memory, "a", "and another", 0);
	assert_true(d.is_combined);
	assert_int_equal(d.verdict, EVENT_AGAIN);
	/* A message that was new before the limit was reached is still not combined. */
	assert_false(say(memory, "a", "message 3", 0).is_combined);
	assert_false(say(memory, "a", "later", EVENT_SIMILAR_NS + 1).is_combined);
	event_memory_free(memory);
}

static void bounds_the_events_of_one_object(void **state)
{
	struct event_memory *memory;

	assert_ok(event_memory_new(&memory));
	for (unsigned int i = 0; i < EVENT_BURST; i++)
		assert_int_not_equal(say(memory, "a", "x", 0).verdict, EVENT_DROPPED);
	assert_int_equal(say(memory, "a", "x", 0).verdict, EVENT_DROPPED);
	assert_int_equal(say(memory, "b", "x", 0).verdict, EVENT_NEW);
	assert_int_equal(say(memory, "a", "x", EVENT_REFILL_NS - 1).verdict, EVENT_DROPPED);
	assert_int_equal(say(memory, "a", "x", EVENT_REFILL_NS).verdict, EVENT_AGAIN);
	assert_int_equal(say(memory, "a", "x", EVENT_REFILL_NS).verdict, EVENT_DROPPED);
	event_memory_free(memory);
}

static void remembers_a_bounded_number_of_events(void **state)
{
	struct event_memory *memory;
	char name[32];

	assert_ok(event_memory_new(&memory));
	for (unsigned int i = 0; i < EVENT_KNOWN_MAX; i++) {
		snprintf(name, sizeof(name), "pod-%u", i);
		assert_int_equal(say(memory, name, "x", 0).verdict, EVENT_NEW);
	}
	/*
	 * "pod-0" is used again and stays in memory. So "pod-1" is the oldest, and "one-more"
	 * replaces it.
	 */
	assert_int_equal(say(memory, "pod-0", "x", 0).verdict, EVENT_AGAIN);
	assert_int_equal(say(memory, "one-more", "x", 0).verdict, EVENT_NEW);
	assert_int_equal(say(memory, "pod-0", "x", 0).verdict, EVENT_AGAIN);
	assert_int_equal(say(memory, "pod-1", "x", 0).verdict, EVENT_NEW);
	event_memory_free(memory);
}

UNIT_MAIN(UNIT(counts_a_repeated_event), UNIT(combines_many_similar_events),
	UNIT(bounds_the_events_of_one_object), UNIT(remembers_a_bounded_number_of_events))
