/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the scheduler in steps, and carries out the actions of sched while it may write. The API
 * server's version comes first, because it selects Kubernetes' rules; discovery and the Lease
 * follow. on_pump() takes actions from sched while it may write and fewer than SERVICE_BINDS_MAX
 * Bindings are in flight. sched_lead() runs once for each term of the Lease, before any action of
 * that term. service_wake() arms the pump, and service_on_tick() does so each second. All callbacks
 * run on one loop in one thread.
 */
#include "scheduler/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "scheduler/service-internal.h"

#define TICK_NS (UINT64_C(1) * 1000000000)
/* Longest time for decisions in a row, unless one takes longer: the Lease must be renewed. */
#define PUMP_NS (TICK_NS / 10)
#define RAISE_NS (UINT64_C(60) * 1000000000) /* shortest time between two raises of the epoch */
#define REPORT_NS (UINT64_C(10) * 1000000000)
#define REFRESH_NS (UINT64_C(10) * 1000000000) /* interval of the search for missing object types */
#define FOLLOW_NS (UINT64_C(300) * 1000000000) /* interval of the search for another release */

static void service_carry_out(struct service *s, const struct sched_action *a)
{
	switch (a->act) {
	case SCHED_BIND: service_bind(s, a->pod, NULL); break;
	case SCHED_CONDITION: service_write_condition(s, a->pod, a->reason, a->sentence); break;
	case SCHED_GRANT: service_grant(s, a->pod, true, a->sentence); break;
	case SCHED_RUNS: service_running(s, a->pod); break;
	case SCHED_REFRESH_EPOCH: service_refresh_epoch(s, a->pod); break;
	case SCHED_DENY: service_grant(s, a->pod, false, a->sentence); break;
	case SCHED_FREE_CLAIMS: service_free_claims(s, a->pod); break;
	case SCHED_CLAIM: service_claim(s, a->pod, a->claims); break;
	case SCHED_NOMINATE: service_nominate(s, a->pod, a->sentence); break;
	case SCHED_EVICT: service_evict(s, a->pod, a->reason, a->preemptor); break;
	case SCHED_EVICT_TAINTED:
		service_evict(s, a->pod, a->reason, NULL);
		if (a->sentence[0])
			service_event(s, a->pod, a->reason, a->sentence);
		break;
	case SCHED_EVENT: service_event(s, a->pod, a->reason, a->sentence); break;
	case SCHED_NEEDS_DEVICE: service_write_need(s, a->pod); break;
	}
}

/*
 * If divvy was installed anew, the Lease starts again at a low epoch, but nodes may have seen later
 * epochs. Nodes refuse decisions with an earlier epoch than they have seen. If nodes have seen a
 * later epoch than the Lease has, raises the epoch. Returns true if the service may not write until
 * that is done.
 */
static bool must_raise_epoch(struct service *s)
{
	const uint64_t seen = cluster_epoch(sched_cluster(s->sched)), now_ns = clock_now_ns();

	if (!s->lease || seen <= s->epoch || (s->raised_ns && now_ns < s->raised_ns + RAISE_NS))
		return false;
	log_info("nodes have seen epoch %" PRIu64 ": raising the Lease's epoch, %" PRIu64, seen,
		s->epoch);
	s->raised_ns = now_ns;
	kube_lease_raise(s->lease, seen);
	return !service_may_write(s);
}

static void on_pump(struct loop_timer *timer, uint64_t now_ns)
{
	struct service *s = timer->data;
	const uint64_t yield_ns = clock_now_ns() + PUMP_NS;
	struct sched_action action;
	struct error err;
	int r = 1;

	if (!s->sched || !service_may_write(s) || !service_is_synced(s) || must_raise_epoch(s))
		return;
	if (!s->has_led) {
		s->has_led = true;
		sched_lead(s->sched, s->epoch);
	}
	sched_set_time(s->sched, clock_now_ns(), clock_real_ns());
	while (r > 0 && s->n_binds < SERVICE_BINDS_MAX && clock_now_ns() < yield_ns) {
		const uint64_t began_ns = clock_now_ns();

		r = sched_next(s->sched, &action, &err);
		if (r != 0)
			prom_observe(&s->decide_time, clock_since_ns(clock_now_ns(), began_ns));
		if (r > 0)
			service_carry_out(s, &action);
		else if (r < 0)
			log_warn("%s", err.msg);
	}
	if (s->n_binds < SERVICE_BINDS_MAX)
		loop_set_timer(&s->pump,
			r > 0 ? clock_now_ns() : MAX(sched_deadline(s->sched), clock_now_ns()));
}

void service_wake(struct service *s)
{
	loop_set_timer(&s->pump, clock_now_ns());
}

static void service_on_tick(struct loop_timer *timer, uint64_t now_ns)
{
	struct service *s = timer->data;

	if (s->sched)
		sched_set_time(s->sched, clock_now_ns(), clock_real_ns());
	if (s->sched && service_is_synced(s) && clock_now_ns() >= s->report_at_ns) {
		service_report(s);
		s->report_at_ns = clock_now_ns() + REPORT_NS;
	}
	if (s->discovery &&
		now_ns >
			s->refreshed_ns + (service_lacks_definitions(s) ? REFRESH_NS : FOLLOW_NS)) {
		s->refreshed_ns = now_ns;
		kube_discovery_refresh(s->discovery);
	}
	service_ask_again(s);
	if (s->sched)
		service_condition_later(s);
	service_wake(s);
	loop_set_timer(timer, clock_now_ns() + TICK_NS);
}

static void on_lease(void *data, bool is_leading, uint64_t epoch)
{
	struct service *s = data;

	log_info(is_leading ? "leading, epoch %" PRIu64 : "lost the lead, epoch %" PRIu64, epoch);
	s->is_leading = is_leading;
	s->epoch = epoch;
	s->has_led = false;
	if (!is_leading && s->sched)
		sched_stand_down(s->sched);
	service_wake(s);
}

static int start_lease(struct service *s, struct error *err)
{
	const struct kube_lease_options options = {.namespace_name = s->options->space,
		.name = "divvy-scheduler",
		.identity = s->instance,
		.changed = on_lease,
		.data = s};

	if (s->options->is_elected)
		return kube_lease_start(s->client, &options, &s->lease, err);
	s->is_leading = true;
	return 0;
}

/*
 * Applies the rules of a later release after an upgrade of the API server, at the next discovery
 * and so within FOLLOW_NS. While several API servers are upgraded, the answers alternate, so the
 * rules never go back.
 */
static void follow_release(struct service *s)
{
	const int minor = kube_discovery_minor(s->discovery);

	if (minor <= (int)s->minor)
		return;
	log_info("the API server is of Kubernetes 1.%d now: its rules apply", minor);
	s->minor = (unsigned)minor;
	cluster_set_minor(sched_cluster(s->sched), s->minor);
	service_wake(s);
}

static void service_on_discovered(void *data, int r, const struct error *err)
{
	struct service *s = data;

	if (r < 0) {
		log_warn("%s", err->msg);
		kube_discovery_refresh(s->discovery);
		return;
	}
	follow_release(s);
	service_watch(s);
}

/*
 * Asks the API server for its version, which selects the rules of that release. service_begin()
 * follows.
 */
static void ask_version(struct service *s);

static void service_begin(struct service *s, unsigned minor)
{
	const struct sched_config config = {
		.cluster = {.scheduler_name = s->options->scheduler_name,
			.minor = minor,
			.policy = &place_scarcity,
			.rack_label = s->options->rack_label},
		.seed = rand_u64(kube_client_rand(s->client))};
	struct error err;
	int r = sched_new(&config, &s->sched, &err);

	s->minor = minor;

	r = r < 0 ? r
		  : kube_discovery_new(s->client, service_on_discovered, s, &s->discovery, &err);
	r = r < 0 ? r : start_lease(s, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		loop_stop(s->loop, r);
	}
}

static void on_version(void *data, const struct kube_answer *answer)
{
	struct service *s = data;
	_cleanup_json_ json_t *json = NULL;
	const char *minor;
	char digits[8] = "";
	uint64_t n;

	if (answer->result < 0 || kube_json_parse(answer->body, &json, NULL) < 0) {
		log_warn("%s", answer->error.msg);
		ask_version(s);
		return;
	}
	minor = kube_json_text_at(json, "minor", NULL);
	for (size_t i = 0; minor && i < 7 && minor[i] >= '0' && minor[i] <= '9'; i++)
		digits[i] = minor[i];
	if (parse_uint(str_from(digits), 1, 10000, &n, NULL) < 0) {
		log_error("cannot read the server's version: minor '%s'", minor ? minor : "");
		loop_stop(s->loop, -EPROTO);
		return;
	}
	service_begin(s, (unsigned)n);
}

static void ask_version(struct service *s)
{
	const struct kube_request request = {.path = "/version",
		.retry = RETRY_IDEMPOTENT,
		.timeout_ns = UINT64_C(600) * 1000000000,
		.done = on_version,
		.data = s};
	struct error err;

	if (kube_call_start(s->client, &request, NULL, &err) < 0) {
		log_error("%s", err.msg);
		loop_stop(s->loop, -ENOMEM);
	}
}

/*
 * Names this instance for the Lease. Two instances with the same name would both act as its holder.
 */
static void name_instance(struct service *s)
{
	const char *pod = getenv("POD_NAME");
	char host[128] = "scheduler";
	struct rand *rand = kube_client_rand(s->client);

	gethostname(host, sizeof(host) - 1);
	snprintf(s->instance, sizeof(s->instance), "%.200s_%08" PRIx64, pod ? pod : host,
		rand_u64(rand) >> 32);
}

static void on_leave(struct loop_timer *timer, uint64_t now_ns)
{
	struct service *s = timer->data;

	loop_stop(s->loop, 0);
}

int service_new(
	struct loop *loop, const struct options *options, struct service **ret, struct error *err)
{
	const struct kube_config_source source = {.files = options->kubeconfig};
	const struct kube_client_options client = {.max_in_flight = 128};
	struct service *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail(err, ENOMEM, "out of memory");
	s->loop = loop;
	s->options = options;
	s->pump.data = s->tick.data = s->leave.data = s;
	r = kube_config_load(&source, &s->config, err);
	r = r < 0 ? r : kube_client_new(loop, s->config, &client, &s->client, err);
	if (r == 0) {
		name_instance(s);
		r = kube_recorder_new(s->client, "divvy-scheduler", s->instance, &s->recorder, err);
	}
	if (r == 0 &&
		(loop_add_timer(loop, &s->pump, on_pump) < 0 ||
			loop_add_timer(loop, &s->tick, service_on_tick) < 0 ||
			loop_add_timer(loop, &s->leave, on_leave) < 0))
		r = fail(err, ENOMEM, "out of memory");
	r = r < 0 ? r : serve_new(s, &s->page, err);
	if (r < 0) {
		service_free(s);
		return r;
	}
	loop_set_timer(&s->tick, clock_now_ns() + TICK_NS);
	ask_version(s);
	*ret = s;
	return 0;
}

void service_leave(struct service *s)
{
	/* Calls in flight and the release of the Lease get half a second to end. */
	s->is_leading = false;
	if (s->lease)
		kube_lease_release(s->lease);
	loop_set_timer(&s->leave, clock_now_ns() + (s->lease ? TICK_NS / 2 : 0));
}

void service_free(struct service *s)
{
	if (!s)
		return;
	service_answer_all(s);
	service_land_all(s);
	service_condition_end(s);
	page_free(s->page);
	service_unwatch(s);
	kube_lease_stop(s->lease);
	kube_recorder_free(s->recorder);
	kube_discovery_free(s->discovery);
	loop_remove_timer(&s->pump);
	loop_remove_timer(&s->tick);
	loop_remove_timer(&s->leave);
	kube_client_free(s->client);
	kube_config_free(s->config);
	sched_free(s->sched);
	free(s);
}
