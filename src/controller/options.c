/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/options.h"

#include <stddef.h>

#include "access/options.h"
#include "base/cleanup.h"
#include "http/listen.h"

#define AT(field) offsetof(struct controller_options, field)

static const struct option_row table[] = {
	ACCESS_OPTION_KUBECONFIG(AT(kubeconfig)),
	ACCESS_OPTION_LEADER_ELECT("reconciles; all answer the webhook", AT(is_elected)),
	{"scheduler-name", "NAME",
		"what pods with a share are given as spec.schedulerName; default divvy-scheduler",
		AT(scheduler_name), .preset = "divvy-scheduler"},
	ACCESS_OPTION_NAMESPACE(AT(ns)),
	ACCESS_OPTION_LEASE_NAMESPACE(AT(lease_ns)),
	{"webhook-listen", "ADDRESS",
		"where API servers ask, for the webhook and for external metrics, HTTPS; default "
		":9443",
		AT(webhook_listen), .preset = ":9443", .check = http_address_check},
	{"webhook-configuration", "NAME",
		"the configurations that are told whom to trust; default divvy",
		AT(webhook_configuration), .preset = "divvy"},
	{"webhook-service", "NAME",
		"the Service that leads here, whose name the certificate is for; default "
		"divvy-controller",
		AT(webhook_service), .preset = "divvy-controller"},
	{"tls-secret", "NAME",
		"where authority, certificate and keys are kept; default divvy-controller-tls",
		AT(tls_secret), .preset = "divvy-controller-tls"},
	{"listen", "ADDRESS",
		"/metrics, for who may get it, and /healthz for all, HTTPS; default :9446",
		AT(listen), .preset = ":9446", .check = http_address_check},
	ACCESS_OPTION_HEALTH_LISTEN(":9448", AT(health_listen)),
	{"placeholder-image", "IMAGE",
		"image of the pods that take whole devices from another device plugin; default "
		"the one that this controller's own pod runs from",
		AT(placeholder_image)},
	{"placeholder", NULL,
		"be such a pod's program: hold its device until no tenant is left there",
		AT(is_placeholder)},
	{0},
};

static const char *const signals[][2] = {
	{"SIGTERM, SIGINT", "give the Lease back and end; what runs in the cluster goes on"},
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
	.text = "divvy-controller looks at pods and their templates before a cluster stores them: "
		"what they ask of GPUs, in divvy's words or another system's, has to be possible, "
		"and what the scheduler and the kubelet count is put in. It makes the pods of "
		"SharePods and keeps their status, makes a GPUNode for each node that is labelled "
		"divvy.gpu/owner, and keeps those nodes' capacity. Autoscalers read of it how much "
		"of the GPUs pods use.\n\n"
		"It comes with the manifests in deploy/, which give it the rights it needs; "
		"docs/cluster-objects.md is the contract. Its certificate is its own: made, stored "
		"in a Secret and replaced in time, with the old and the new authority trusted "
		"while they change.",
	.see_also = "divvyd(8) divvy(1)",
	.options = table,
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
};
