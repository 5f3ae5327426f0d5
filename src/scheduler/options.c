/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/options.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "http/listen.h"
#include "scheduler/cluster.h"

static const struct program_option table[] = {
	{"kubeconfig", "FILE",
		"how to reach the API server; default $KUBECONFIG, or what a pod finds in itself",
		offsetof(struct options, kubeconfig)},
	{"leader-elect", NULL, "of several only the one that holds the Lease decides",
		offsetof(struct options, is_elected)},
	{"scheduler-name", "NAME",
		"whose pods are placed, by schedulerName; default divvy-scheduler",
		offsetof(struct options, scheduler_name), .preset = "divvy-scheduler"},
	{"namespace", "NAMESPACE", "of the Lease for leader election; default divvy-system",
		offsetof(struct options, space), .preset = "divvy-system"},
	{"lease-namespace", "NAMESPACE",
		"of the Leases by which daemons of nodes show that they live; default "
		"divvy-node-lease",
		offsetof(struct options, lease_space), .preset = "divvy-node-lease"},
	{"rack-label", "KEY",
		"label of nodes that says which rack they stand in, to which groups keep; default "
		CLUSTER_RACK_LABEL,
		offsetof(struct options, rack_label), .preset = CLUSTER_RACK_LABEL},
	{"listen", "ADDRESS",
		"serve /metrics, /healthz and the extender, such as :9444; default nothing",
		offsetof(struct options, listen), .check = http_address_check},
	{"tls-cert", "FILE", "certificate of what is served; default one made at the start",
		offsetof(struct options, tls_cert)},
	{"tls-key", "FILE", "its key", offsetof(struct options, tls_key)},
	{"client-ca", "FILE", "whose certificates may use the extender; default nobody's",
		offsetof(struct options, client_ca)},
};

static const char *const signals[][2] = {{"SIGTERM, SIGINT", "gives the Lease up and ends"}};

static const char *const environment[][2] = {
	{"KUBECONFIG", "how to reach the API server, where --kubeconfig names no file"},
	{"POD_NAME", "who it is in Events and in the Lease; default the host's name"},
	{"DIVVY_LOG", "error, warn, info or debug, where --log says nothing"},
};

static const struct program_section sections[] = {
	{"SIGNALS", NULL, signals, ARRAY_SIZE(signals)},
	{"EXIT STATUS",
		"0 when it was told to end, 1 on failure, 2 when an option or its value is not "
		"right."},
	{"ENVIRONMENT", NULL, environment, ARRAY_SIZE(environment)},
};

static int finish(void *data, struct error *err)
{
	const struct options *o = data;

	return !o->tls_cert == !o->tls_key
		? 0
		: fail(err, EINVAL, "--tls-cert and --tls-key are needed together");
}

const struct program options_program = {
	.name = "divvy-scheduler",
	.summary = "place pods on GPUs and parts of them",
	.sentence = "Places pods on GPUs and parts of them.",
	.text = "divvy-scheduler gives pods of a Kubernetes cluster a node and devices on it. It "
		"takes those whose schedulerName is its own, keeps every rule of the cluster's "
		"scheduler for them, and writes what it has granted into the Binding's "
		"annotations.\n\n"
		"It keeps nothing of its own: all that it knows it reads from the API server. Of "
		"several that run, with --leader-elect one decides.",
	.see_also = "divvyd(8) divvy(1)",
	.options = table,
	.n_options = ARRAY_SIZE(table),
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
	.finish = finish,
};
