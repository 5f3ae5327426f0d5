/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file holds divvy-controller's option table, which makes the parser, --help and
 * divvy-controller(8). Rows that divvy-scheduler has too come from access/access-options.h.
 */
#include "controller/controller-options.h"

#include <stddef.h>

#include "access/access-options.h"
#include "base/cleanup.h"
#include "controller/controller-text.h"
#include "http/listen.h"

#define AT(field) offsetof(struct controller_options, field)

static const struct option_row table[] = {
	ACCESS_OPTION_KUBECONFIG(AT(kubeconfig)),
	ACCESS_OPTION_LEADER_ELECT("reconciles; all answer the webhook", AT(is_elected)),
	{"scheduler-name", "NAME",
		"spec.schedulerName for pods with a share; default divvy-scheduler",
		AT(scheduler_name), .preset = "divvy-scheduler"},
	ACCESS_OPTION_NAMESPACE(AT(ns)),
	ACCESS_OPTION_LEASE_NAMESPACE(AT(lease_ns)),
	{"webhook-listen", "ADDRESS", TEXT_CONTROLLER_WEBHOOK_LISTEN, AT(webhook_listen),
		.preset = ":9443", .check = http_address_check},
	{"webhook-configuration", "NAME",
		"webhook configurations that get the certificate authority; default divvy",
		AT(webhook_configuration), .preset = "divvy"},
	{"webhook-service", "NAME", TEXT_CONTROLLER_WEBHOOK_SERVICE, AT(webhook_service),
		.preset = "divvy-controller"},
	{"tls-secret", "NAME",
		"Secret with authority, certificate and keys; default divvy-controller-tls",
		AT(tls_secret), .preset = "divvy-controller-tls"},
	{"listen", "ADDRESS",
		"HTTPS address of the dashboard, /metrics and /healthz; default :9446", AT(listen),
		.preset = ":9446", .check = http_address_check},
	ACCESS_OPTION_HEALTH_LISTEN(":9448", AT(health_listen)),
	{"claims", NULL,
		"replace the resource divvy.gpu/share of pods by claims, for DRA (Kubernetes 1.36 and "
		"later)",
		AT(has_claims)},
	{"placeholder-image", "IMAGE", TEXT_CONTROLLER_PLACEHOLDER_IMAGE, AT(placeholder_image)},
	{"placeholder", NULL, "run as a placeholder pod: hold its device until no tenant is left",
		AT(is_placeholder)},
	{0},
};

static const char *const signals[][2] = {
	{"SIGTERM, SIGINT", "release the Lease and exit; running pods go on"},
};

static const char *const environment[][2] = {ACCESS_ENVIRONMENT};

static const struct program_section sections[] = {
	{"SIGNALS", NULL, signals, ARRAY_SIZE(signals)},
	ACCESS_EXIT_STATUS,
	{"ENVIRONMENT", NULL, environment, ARRAY_SIZE(environment)},
};

const struct program options_program = {
	.name = "divvy-controller",
	.summary = "the webhook, SharePods and nodes of divvy in a Kubernetes cluster",
	.sentence = "The webhook, SharePods and nodes of divvy in a Kubernetes cluster.",
	.text = TEXT_CONTROLLER_TEXT,
	.see_also = "divvyd(8) divvy(1)",
	.options = table,
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
};
