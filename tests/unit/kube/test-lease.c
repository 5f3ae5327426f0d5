/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates in virtual time. The Lease object behaves as the API server's: a write with an old
 * version is refused. Each candidate has its own clock, which may jump, as after a suspend of the
 * machine or a stop of the process.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/rand.h"
#include "kube/lease.h"

#define S NSEC_PER_SEC

static struct lease_rules rules_of(const char *identity)
{
	struct lease_rules rules = {.duration_ns = 15 * S, .renew_ns = 10 * S, .retry_ns = 2 * S};

	str_copy(rules.identity, sizeof(rules.identity), str_from(identity));
	return rules;
}

/* The Lease object of the API server. */
static struct lease_record object;
static unsigned int object_version;

static bool write_as(struct lease *lease, enum lease_action action)
{
	if (action == LEASE_DO_CREATE ? object.exists
				      : strcmp(object.version, lease->seen.version) != 0)
		return false;
	if (action == LEASE_DO_CREATE || action == LEASE_DO_TAKE) {
		object.transitions = lease_transitions(lease);
		str_copy(object.holder, sizeof(object.holder), str_from(lease->rules.identity));
		object.duration_ns = lease->rules.duration_ns;
	} else if (action == LEASE_DO_GIVE_UP) {
		object.holder[0] = '\0';
	}
	object.exists = true;
	snprintf(object.version, sizeof(object.version), "%u", ++object_version);
	return true;
}

static enum lease_action step(struct lease *lease, enum lease_event event, uint64_t now)
{
	const struct lease_input input = {.event = event, .record = &object, .sent_boot_ns = now};
	uint64_t wait;
	enum lease_action action = lease_step(lease, &input, now, &wait);

	assert_true(wait <= lease->rules.retry_ns);
	return action;
}

/* Steps until nothing is left to do now; requests take no time. */
static void settle(struct lease *lease, enum lease_event event, uint64_t now)
{
	enum lease_action action = step(lease, event, now);

	for (int i = 0; action != LEASE_DO_NOTHING; i++) {
		assert_true(i < 5);
		if (action == LEASE_DO_READ)
			action = step(lease, LEASE_READ, now);
		else
			action = step(lease,
				write_as(lease, action) ? LEASE_WRITTEN : LEASE_REFUSED, now);
	}
}

static void begin(struct lease *lease, const char *identity)
{
	const struct lease_rules rules = rules_of(identity);

	lease_init(lease, &rules);
}

static void reset_object(void)
{
	object = (struct lease_record){0};
}

static void leads_when_no_other_leads(void **state)
{
	struct lease a;

	reset_object();
	begin(&a, "a");
	assert_false(lease_may_write(&a, 100 * S));
	settle(&a, LEASE_TIMER, 100 * S);
	assert_int_equal(a.state, LEASE_LEADING);
	assert_true(lease_may_write(&a, 100 * S));
	assert_true(lease_may_write(&a, 110 * S - 1));
	assert_false(lease_may_write(&a, 110 * S));
	assert_int_equal(a.epoch, 0);
}

/* The Lease object was lost with its epoch, and other components have seen a later epoch. */
static void continues_from_the_latest_epoch_seen(void **state)
{
	struct lease a;

	reset_object();
	begin(&a, "a");
	settle(&a, LEASE_TIMER, 100 * S);
	assert_int_equal(a.epoch, 0);
	lease_raise(&a, 7);
	assert_false(lease_may_write(&a, 100 * S));
	settle(&a, LEASE_TIMER, 101 * S);
	assert_int_equal(a.state, LEASE_LEADING);
	assert_int_equal(a.epoch, 8);
	/*
	 * An epoch that is not newer changes nothing, and lease_raise() ignores impossible epochs.
	 */
	lease_raise(&a, 7);
	lease_raise(&a, 9 + LEASE_JUMP_MAX);
	lease_raise(&a, UINT64_MAX);
	assert_true(lease_may_write(&a, 101 * S));
	settle(&a, LEASE_TIMER, 103 * S);
	assert_int_equal(a.epoch, 8);
}

static void waits_until_another_has_been_silent(void **state)
{
	struct lease a, b;

	reset_object();
	begin(&a, "a");
	begin(&b, "b");
	settle(&a, LEASE_TIMER, 0);
	settle(&b, LEASE_TIMER, 1 * S);
	assert_int_equal(b.state, LEASE_WAITING);
	settle(&b, LEASE_TIMER, 16 * S - 1);
	assert_int_equal(b.state, LEASE_WAITING);
	settle(&b, LEASE_TIMER, 16 * S);
	assert_int_equal(b.state, LEASE_LEADING);
	assert_int_equal(b.epoch, 1);
	assert_false(lease_may_write(&a, 16 * S));
	/* The old leader runs again, sees that it is too late, and waits. */
	settle(&a, LEASE_TIMER, 17 * S);
	assert_int_equal(a.state, LEASE_WAITING);
}

static void stays_while_it_renews(void **state)
{
	struct lease a, b;

	reset_object();
	begin(&a, "a");
	begin(&b, "b");
	for (uint64_t t = 0; t < 100 * S; t += 2 * S) {
		settle(&a, LEASE_TIMER, t);
		settle(&b, LEASE_TIMER, t + S);
		assert_int_equal(a.state, LEASE_LEADING);
		assert_int_equal(b.state, LEASE_WAITING);
	}
	assert_int_equal(a.epoch, 0);
}

static void a_renewal_counts_from_its_sending(void **state)
{
	struct lease a;
	struct lease_input input = {.event = LEASE_WRITTEN, .record = &object};
	uint64_t wait;

	reset_object();
	begin(&a, "a");
	settle(&a, LEASE_TIMER, 0);
	assert_int_equal(step(&a, LEASE_TIMER, 2 * S), LEASE_DO_RENEW);
	write_as(&a, LEASE_DO_RENEW);
	input.sent_boot_ns = 2 * S;
	lease_step(&a, &input, 9 * S, &wait);
	assert_true(lease_may_write(&a, 12 * S - 1));
	assert_false(lease_may_write(&a, 12 * S));
	/*
	 * The answer to the renewal comes only after the renewal's own deadline, so the candidate
	 * reads the Lease again.
	 */
	assert_int_equal(step(&a, LEASE_TIMER, 11 * S), LEASE_DO_RENEW);
	write_as(&a, LEASE_DO_RENEW);
	input.sent_boot_ns = 11 * S;
	assert_int_equal(lease_step(&a, &input, 21 * S, &wait), LEASE_DO_READ);
	assert_int_equal(a.state, LEASE_WAITING);
}

static void gives_up_the_lease_for_the_next_leader(void **state)
{
	struct lease a, b;

	reset_object();
	begin(&a, "a");
	begin(&b, "b");
	settle(&a, LEASE_TIMER, 0);
	settle(&b, LEASE_TIMER, 1 * S);
	settle(&a, LEASE_RELEASE, 2 * S);
	assert_false(lease_may_write(&a, 2 * S));
	settle(&b, LEASE_TIMER, 3 * S);
	assert_int_equal(b.state, LEASE_LEADING);
	assert_int_equal(b.epoch, 1);
	settle(&a, LEASE_TIMER, 100 * S);
	assert_int_equal(a.state, LEASE_WAITING);
}

static void retakes_its_own_lease_in_the_same_epoch(void **state)
{
	struct lease a;

	reset_object();
	begin(&a, "a");
	settle(&a, LEASE_TIMER, 0);
	/* The leader was stopped for an hour, and there is no other candidate. */
	assert_int_equal(step(&a, LEASE_TIMER, 3600 * S), LEASE_DO_READ);
	assert_false(lease_may_write(&a, 3600 * S));
	settle(&a, LEASE_READ, 3600 * S);
	assert_true(lease_may_write(&a, 3600 * S));
	assert_int_equal(a.epoch, 0);
}

/*
 * At no time may two candidates write, whatever is lost, delayed or stopped. Each new leader has a
 * larger epoch.
 */
static void never_lets_two_write(void **state)
{
	struct rand rand = rand_seeded(11);

	for (int round = 0; round < 200; round++) {
		struct lease c[3];
		uint64_t frozen_until[3] = {0}, last_epoch = 0;
		int last_leader = -1;

		reset_object();
		for (int i = 0; i < 3; i++)
			begin(&c[i], (const char *[]){"a", "b", "c"}[i]);
		for (uint64_t t = S; t < 300 * S; t += S / 2) {
			int n = 0;

			for (int i = 0; i < 3; i++) {
				if (rand_below(&rand, 60) == 0)
					frozen_until[i] = t + rand_below(&rand, 40 * S);
				if (t >= frozen_until[i] && rand_below(&rand, 3) == 0)
					settle(&c[i], LEASE_TIMER, t);
				if (!lease_may_write(&c[i], t))
					continue;
				n++;
				assert_true(c[i].epoch >= last_epoch);
				assert_true(i == last_leader || last_leader < 0 ||
					c[i].epoch > last_epoch);
				last_leader = i;
				last_epoch = c[i].epoch;
			}
			assert_true(n <= 1);
		}
		assert_true(last_leader >= 0);
	}
}

static void reads_a_lease(void **state)
{
	_cleanup_json_ json_t *json = NULL, *none = json_object();
	struct lease_record record;

	assert_ok(kube_json_parse(
		STR("{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":\"x\","
		    "\"leaseDurationSeconds\":15,\"leaseTransitions\":3,\"acquireTime\":\"2026-01-"
		    "01T"
		    "00:00:00.000000Z\"}}"),
		&json, NULL));
	assert_ok(lease_record_parse(json, &record));
	assert_true(record.exists);
	assert_string_equal(record.holder, "x");
	assert_int_equal(record.duration_ns, 15 * S);
	assert_int_equal(record.transitions, 3);
	json_object_set_new(
		json_object_get(json, "spec"), "leaseDurationSeconds", json_integer(1000000000000));
	assert_ok(lease_record_parse(json, &record));
	assert_int_equal(record.duration_ns, 86400 * S);
	json_object_clear(json_object_get(json, "spec"));
	assert_ok(lease_record_parse(json, &record));
	assert_string_equal(record.holder, "");
	assert_int_equal(lease_record_parse(none, &record), -EBADMSG);
}

UNIT_MAIN(UNIT(continues_from_the_latest_epoch_seen), UNIT(leads_when_no_other_leads),
	UNIT(waits_until_another_has_been_silent), UNIT(stays_while_it_renews),
	UNIT(a_renewal_counts_from_its_sending), UNIT(gives_up_the_lease_for_the_next_leader),
	UNIT(retakes_its_own_lease_in_the_same_epoch), UNIT(never_lets_two_write),
	UNIT(reads_a_lease))
