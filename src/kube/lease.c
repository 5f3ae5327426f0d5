/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the state machine of the leader election, without I/O or a clock; lease-run.c sends the
 * requests. Only a successful write of our own makes this process the leader, and its
 * leaseTransitions become the epoch. `seen_boot_ns` restarts when the object's version changes;
 * nothing compares the times in the record. `transitions` never decreases, so the count continues
 * after the Lease was deleted and created again. After LEASE_RELEASE no event makes this process
 * the leader again.
 */
#include "kube/lease.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

#define SECONDS_MAX 86400

void lease_init(struct lease *lease, const struct lease_rules *rules)
{
	*lease = (struct lease){.rules = *rules};
}

bool lease_may_write(const struct lease *lease, uint64_t boot_ns)
{
	return lease->state == LEASE_LEADING &&
		boot_ns < clock_add_ns(lease->renewed_boot_ns, lease->rules.renew_ns);
}

static bool lease_is_ours(const struct lease *lease)
{
	return !strcmp(lease->seen.holder, lease->rules.identity);
}

static void lease_see_record(
	struct lease *lease, const struct lease_record *record, uint64_t boot_ns)
{
	/* Every write changes the version, so the writer's clock does not matter. */
	if (record->exists != lease->seen.exists ||
		strcmp(record->version, lease->seen.version) != 0)
		lease->seen_boot_ns = boot_ns;
	lease->seen = *record;
	lease->transitions = MAX(lease->transitions, record->transitions);
}

static void stop_leading(struct lease *lease)
{
	lease->state = LEASE_WAITING;
	lease->epoch = 0;
}

uint64_t lease_transitions(const struct lease *lease)
{
	const bool is_new = lease->seen.exists ? !lease_is_ours(lease) : lease->transitions > 0;

	return MAX(lease->transitions + is_new, lease->least);
}

void lease_raise(struct lease *lease, uint64_t seen_epoch)
{
	const uint64_t known = MAX(lease->transitions, lease->least);

	if (seen_epoch < lease->least || seen_epoch > known + LEASE_JUMP_MAX)
		return;
	lease->least = seen_epoch + 1;
	if (lease->state == LEASE_LEADING && lease->epoch < lease->least)
		stop_leading(lease);
}

/* The record is known: takes the Lease if possible. */
static enum lease_action try_to_take(struct lease *lease, uint64_t boot_ns, uint64_t *ret_wait_ns)
{
	const uint64_t over_ns = clock_add_ns(lease->seen_boot_ns, lease->seen.duration_ns);

	if (lease->is_released)
		return LEASE_DO_NOTHING;
	if (!lease->seen.exists)
		return LEASE_DO_CREATE;
	/* A record with our identity may be from an earlier process: we may renew it. */
	if (!lease->seen.holder[0] || lease_is_ours(lease) || boot_ns >= over_ns)
		return LEASE_DO_TAKE;
	*ret_wait_ns = MIN(lease->rules.retry_ns, over_ns - boot_ns);
	return LEASE_DO_NOTHING;
}

static enum lease_action lease_on_written(
	struct lease *lease, const struct lease_input *input, uint64_t boot_ns)
{
	lease_see_record(lease, input->record, boot_ns);
	if (!lease_is_ours(lease) || lease->is_released) {
		stop_leading(lease);
		return LEASE_DO_NOTHING;
	}
	lease->renewed_boot_ns = input->sent_boot_ns;
	/* The write took longer than renew_ns, so nothing may rely on it: reads the Lease again. */
	if (boot_ns >= clock_add_ns(input->sent_boot_ns, lease->rules.renew_ns)) {
		stop_leading(lease);
		return LEASE_DO_READ;
	}
	lease->state = LEASE_LEADING;
	lease->epoch = lease->seen.transitions;
	return LEASE_DO_NOTHING;
}

static enum lease_action lease_on_timer(struct lease *lease, uint64_t boot_ns)
{
	if (lease->is_released)
		return LEASE_DO_NOTHING;
	if (lease->state != LEASE_LEADING)
		return LEASE_DO_READ;
	if (!lease_may_write(lease, boot_ns)) {
		stop_leading(lease);
		return LEASE_DO_READ;
	}
	return LEASE_DO_RENEW;
}

enum lease_action lease_step(struct lease *lease, const struct lease_input *input, uint64_t boot_ns,
	uint64_t *ret_wait_ns)
{
	const bool was_leading = lease->state == LEASE_LEADING;

	*ret_wait_ns = lease->rules.retry_ns;
	switch (input->event) {
	case LEASE_READ:
		lease_see_record(lease, input->record, boot_ns);
		/* While leading, a read follows only a conflict: another process has written. */
		if (was_leading && !lease_is_ours(lease))
			stop_leading(lease);
		if (lease->state == LEASE_LEADING)
			return lease_may_write(lease, boot_ns) ? LEASE_DO_RENEW
							       : lease_on_timer(lease, boot_ns);
		return try_to_take(lease, boot_ns, ret_wait_ns);
	case LEASE_WRITTEN: return lease_on_written(lease, input, boot_ns);
	case LEASE_REFUSED:
		if (was_leading && !lease_may_write(lease, boot_ns))
			stop_leading(lease);
		return LEASE_DO_NOTHING;
	case LEASE_TIMER: return lease_on_timer(lease, boot_ns);
	case LEASE_RELEASE:
		lease->is_released = true;
		stop_leading(lease);
		return was_leading && lease_is_ours(lease) ? LEASE_DO_GIVE_UP : LEASE_DO_NOTHING;
	}
	return LEASE_DO_NOTHING;
}

int lease_record_parse(const json_t *json, struct lease_record *ret_record)
{
	const json_t *spec = json_object_get(json, "spec");
	const char *version = kube_json_text_at(json, "metadata", "resourceVersion", NULL);
	const json_int_t seconds = json_integer_value(
		json_object_get(spec, "leaseDurationSeconds"));
	const json_int_t transitions = json_integer_value(
		json_object_get(spec, "leaseTransitions"));
	struct lease_record record = {.exists = true};

	if (!version || strlen(version) >= sizeof(record.version))
		return -EBADMSG;
	snprintf(record.version, sizeof(record.version), "%s", version);
	snprintf(
		record.holder, sizeof(record.holder), "%s", kube_json_text(spec, "holderIdentity"));
	snprintf(record.acquired, sizeof(record.acquired), "%s",
		kube_json_text(spec, "acquireTime"));
	snprintf(record.renewed, sizeof(record.renewed), "%s", kube_json_text(spec, "renewTime"));
	record.duration_ns = (uint64_t)MIN(MAX(seconds, 0), SECONDS_MAX) * NSEC_PER_SEC;
	record.transitions = (uint64_t)MAX(transitions, 0);
	*ret_record = record;
	return 0;
}
