/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the command line of divvy-scheduler in one table for the parser, --help and the man
 * page. scheduler_options_finish() checks combinations of options, which the check of a single
 * option cannot see.
 */
#include "scheduler/scheduler-options.h"

#include <errno.h>
#include <stddef.h>

#include "access/access-options.h"
#include "base/cleanup.h"
#include "http/listen.h"
#include "scheduler/cluster.h"
#include "scheduler/scheduler-text.h"

#define AT(field) offsetof(struct options, field)

static const struct option_row table[] = {
	ACCESS_OPTION_KUBECONFIG(AT(kubeconfig)),
	ACCESS_OPTION_LEADER_ELECT("decides", AT(is_elected)),
	{"scheduler-name", "NAME", "schedulerName of the pods to place; default divvy-scheduler",
		AT(scheduler_name), .preset = "divvy-scheduler"},
	ACCESS_OPTION_NAMESPACE(AT(space)),
	ACCESS_OPTION_LEASE_NAMESPACE(AT(lease_space)),
	{"rack-label", "KEY", TEXT_SCHEDULER_RACK_LABEL, AT(rack_label),
		.preset = CLUSTER_RACK_LABEL},
	{"listen", "ADDRESS", TEXT_SCHEDULER_LISTEN, AT(listen), .check = http_address_check},
	ACCESS_OPTION_HEALTH_LISTEN(":9449", AT(health_listen)),
	{"tls-cert", "FILE", "server certificate; by default made at the start", AT(tls_cert)},
	{"tls-key", "FILE", "private key of --tls-cert", AT(tls_key)},
	{"client-ca", "FILE", "authority whose certificates may use the extender; default none",
		AT(client_ca)},
	{0},
};

static const char *const signals[][2] = {{"SIGTERM, SIGINT", "release the Lease and exit"}};

static const char *const environment[][2] = {ACCESS_ENVIRONMENT};

static const struct program_section sections[] = {
	{"SIGNALS", NULL, signals, ARRAY_SIZE(signals)},
	ACCESS_EXIT_STATUS,
	{"ENVIRONMENT", NULL, environment, ARRAY_SIZE(environment)},
};

static int scheduler_options_finish(void *data, struct error *err)
{
	const struct options *o = data;

	if (o->health_listen && !o->listen)
		return fail(err, EINVAL, "--health-listen needs --listen");
	return !o->tls_cert == !o->tls_key
		? 0
		: fail(err, EINVAL, "--tls-cert and --tls-key: give both or none");
}

const struct program options_program = {
	.name = "divvy-scheduler",
	.summary = "place pods on GPUs and parts of them",
	.sentence = "Places pods on GPUs and parts of them.",
	.text = TEXT_SCHEDULER_TEXT,
	.see_also = "divvyd(8) divvy(1)",
	.options = table,
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
	.finish = scheduler_options_finish,
};
