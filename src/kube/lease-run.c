/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the actions of lease_step(): one request at a time, without retries, because the next
 * step repeats the request anyway. After a conflict it reads the record before any other action.
 * Timers are jittered by up to a tenth. One thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/lease.h"
#include "kube/time.h"
#include "kube/write.h"

#define LEASES "coordination.k8s.io/v1"

struct kube_lease {
	struct kube_client *client;
	struct lease lease;
	struct kube_call *call;
	struct loop_timer timer;
	uint64_t sent_boot_ns;
	bool is_write; /* the call in flight is a write */
	bool must_read;
	bool was_leading;
	char *namespace_name, *name;
	kube_lease_fn *changed;
	void *data;
};

static void do_action(struct kube_lease *l, enum lease_action action);

static struct kube_target target_of(const struct kube_lease *l, bool has_name)
{
	return (struct kube_target){.group_version = LEASES,
		.resource = "leases",
		.namespace_name = l->namespace_name,
		.name = has_name ? l->name : NULL};
}

static void lease_run_report(struct kube_lease *l)
{
	const bool is_leading = l->lease.state == LEASE_LEADING;

	if (is_leading == l->was_leading)
		return;
	l->was_leading = is_leading;
	if (l->changed)
		l->changed(l->data, is_leading, l->lease.epoch);
}

static void lease_run_step(struct kube_lease *l, const struct lease_input *input)
{
	const uint64_t boot_ns = clock_boot_ns();
	uint64_t wait_ns = 0, deadline_ns;
	const enum lease_action action = lease_step(&l->lease, input, boot_ns, &wait_ns);

	if (l->lease.state == LEASE_LEADING) {
		deadline_ns = l->lease.renewed_boot_ns + l->lease.rules.renew_ns;
		wait_ns = MIN(wait_ns, clock_since_ns(deadline_ns, boot_ns));
	}
	/* Jitter, so that the candidates do not act at the same time. */
	wait_ns += rand_below(kube_client_rand(l->client), wait_ns / 10 + 1);
	loop_set_timer(&l->timer, clock_now_ns() + wait_ns);
	do_action(l, action);
	lease_run_report(l);
}

static void lease_run_on_answer(void *data, const struct kube_answer *answer)
{
	struct kube_lease *l = data;
	_cleanup_json_ json_t *json = NULL;
	struct lease_record record = {.exists = false};
	struct lease_input input = {.event = l->is_write ? LEASE_WRITTEN : LEASE_READ,
		.record = &record,
		.sent_boot_ns = l->sent_boot_ns};
	int r = answer->result;

	l->call = NULL;
	if (r == 0)
		r = kube_json_parse(answer->body, &json, NULL);
	if (r == 0)
		r = lease_record_parse(json, &record);
	if (r == -ENOENT && !l->is_write)
		r = 0;
	if (r < 0)
		input.event = LEASE_REFUSED;
	l->must_read = r == -EBUSY || r == -EEXIST || r == -ENOENT;
	lease_run_step(l, &input);
	if (l->must_read && !l->call)
		loop_set_timer(&l->timer, clock_now_ns() + l->lease.rules.retry_ns / 10);
}

static struct kube_write lease_run_write(struct kube_lease *l, bool has_name)
{
	return (struct kube_write){.target = target_of(l, has_name),
		.timeout_ns = l->lease.rules.renew_ns - l->lease.rules.retry_ns,
		.is_tried_once = true,
		.done = lease_run_on_answer,
		.data = l,
		.ret_call = &l->call};
}

static json_t *spec_of(const struct kube_lease *l, enum lease_action action)
{
	const struct lease *lease = &l->lease;
	const struct kube_time now = kube_time_format_micro(clock_real_ns());
	const bool is_same = !strcmp(lease->seen.holder, lease->rules.identity);
	const json_int_t seconds = (json_int_t)(lease->rules.duration_ns / NSEC_PER_SEC);
	json_t *spec = json_pack("{s:s}", "renewTime", now.s);

	if (action == LEASE_DO_RENEW)
		return spec;
	if (action == LEASE_DO_GIVE_UP) {
		json_object_set_new(spec, "holderIdentity", json_null());
		json_object_set_new(spec, "leaseDurationSeconds", json_integer(1));
		return spec;
	}
	json_object_set_new(spec, "holderIdentity", json_string(lease->rules.identity));
	json_object_set_new(spec, "leaseDurationSeconds", json_integer(seconds));
	if (!is_same || !lease->seen.acquired[0])
		json_object_set_new(spec, "acquireTime", json_string(now.s));
	json_object_set_new(
		spec, "leaseTransitions", json_integer((json_int_t)lease_transitions(lease)));
	return spec;
}

static int write_lease(struct kube_lease *l, enum lease_action action)
{
	const bool is_new = action == LEASE_DO_CREATE;
	struct kube_write write = lease_run_write(l, !is_new);
	_cleanup_json_ json_t *body = NULL;

	l->is_write = true;
	l->sent_boot_ns = clock_boot_ns();
	if (is_new) {
		body = json_pack("{ss, ss, s:{ss, ss}, s:o}", "apiVersion", LEASES, "kind", "Lease",
			"metadata", "name", l->name, "namespace", l->namespace_name, "spec",
			spec_of(l, action));
		return kube_create(l->client, &write, body, NULL);
	}
	body = json_pack("{s:{ss}, s:o}", "metadata", "resourceVersion", l->lease.seen.version,
		"spec", spec_of(l, action));
	return kube_patch(l->client, &write, KUBE_PATCH_MERGE, body, NULL);
}

static void do_action(struct kube_lease *l, enum lease_action action)
{
	struct kube_write read;

	if (action == LEASE_DO_NOTHING)
		return;
	kube_call_cancel(l->call);
	l->call = NULL;
	if (action != LEASE_DO_READ) {
		write_lease(l, action);
		return;
	}
	read = lease_run_write(l, true);
	l->is_write = false;
	kube_read(l->client, &read, NULL);
}

static void lease_run_on_timer(struct loop_timer *timer, uint64_t now_ns)
{
	struct kube_lease *l = timer->data;
	const struct lease_input input = {.event = LEASE_TIMER};

	/*
	 * One request at a time, but a leader's deadline takes effect without waiting for an
	 * answer.
	 */
	if (l->call &&
		(l->lease.state != LEASE_LEADING || lease_may_write(&l->lease, clock_boot_ns()))) {
		loop_set_timer(timer, now_ns + l->lease.rules.retry_ns / 4);
		return;
	}
	if (l->must_read) {
		l->must_read = false;
		if (lease_may_write(&l->lease, clock_boot_ns()) ||
			l->lease.state != LEASE_LEADING) {
			loop_set_timer(timer, now_ns + l->lease.rules.retry_ns);
			do_action(l, LEASE_DO_READ);
			return;
		}
	}
	lease_run_step(l, &input);
}

static uint64_t or_default(uint64_t ns, uint64_t default_ns)
{
	return ns ? ns : default_ns;
}

int kube_lease_start(struct kube_client *client, const struct kube_lease_options *options,
	struct kube_lease **ret_lease, struct error *err)
{
	struct lease_rules rules = {
		.duration_ns = or_default(options->duration_ns, LEASE_DURATION_NS),
		.renew_ns = or_default(options->renew_ns, LEASE_RENEW_NS),
		.retry_ns = or_default(options->retry_ns, LEASE_RETRY_NS),
	};
	struct kube_lease *l;

	if (rules.duration_ns <= rules.renew_ns || rules.renew_ns <= rules.retry_ns ||
		rules.duration_ns % NSEC_PER_SEC)
		return fail(
			err, EINVAL, "a lease's times: duration > renew > retry, whole seconds");
	if (!options->identity[0] ||
		str_copy(rules.identity, sizeof(rules.identity), str_from(options->identity)) < 0)
		return fail(err, EINVAL, "'%s': an identity of 1 to %u bytes", options->identity,
			LEASE_NAME_SIZE - 1);
	l = calloc(1, sizeof(*l));
	if (!l)
		return fail(err, ENOMEM, "out of memory for a lease");
	*l = (struct kube_lease){.client = client,
		.changed = options->changed,
		.data = options->data,
		.timer.data = l,
		.namespace_name = str_dup(str_from(options->namespace_name)),
		.name = str_dup(str_from(options->name))};
	lease_init(&l->lease, &rules);
	if (!l->namespace_name || !l->name ||
		loop_add_timer(kube_client_loop(client), &l->timer, lease_run_on_timer) < 0) {
		kube_lease_stop(l);
		return fail(err, ENOMEM, "out of memory for a lease");
	}
	loop_set_timer(&l->timer, 0);
	*ret_lease = l;
	return 0;
}

bool kube_lease_may_write(const struct kube_lease *l)
{
	return lease_may_write(&l->lease, clock_boot_ns());
}

const char *kube_lease_holder(const struct kube_lease *l)
{
	return l->lease.seen.holder;
}

void kube_lease_raise(struct kube_lease *l, uint64_t seen_epoch)
{
	lease_raise(&l->lease, seen_epoch);
	if (l->was_leading && l->lease.state != LEASE_LEADING)
		lease_run_step(l, &(struct lease_input){.event = LEASE_TIMER});
}

void kube_lease_release(struct kube_lease *l)
{
	lease_run_step(l, &(struct lease_input){.event = LEASE_RELEASE});
}

void kube_lease_stop(struct kube_lease *l)
{
	if (!l)
		return;
	kube_call_cancel(l->call);
	loop_remove_timer(&l->timer);
	free(l->namespace_name);
	free(l->name);
	free(l);
}
