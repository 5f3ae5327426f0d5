/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the parts of the filter. fit_*_prepare() counts for a pod once, into struct fit;
 * fit_check_*() then checks one node.
 */
#ifndef KUBERULES_FIT_INTERNAL_H
#define KUBERULES_FIT_INTERNAL_H

#include <stdbool.h>

#include "kuberules/fit.h"
#include "kuberules/releases.h"
#include "kuberules/view-internal.h"

/* A node under test. extra: nominated pods that count in addition to the node's own pods. */
struct fit_candidate {
	const struct view_node *node;
	const struct pod **extra;
	uint32_t n_extra;
};

static inline uint32_t candidate_n_pods(const struct fit_candidate *candidate)
{
	return candidate->node->pods.n + candidate->n_extra;
}

static inline const struct pod *candidate_pod(const struct fit_candidate *candidate, uint32_t i)
{
	return i < candidate->node->pods.n ? candidate->node->pods.v[i]
					   : candidate->extra[i - candidate->node->pods.n];
}

/* n: number of matching pods in each domain of one topology. */
struct fit_counts {
	const struct topology *topology;
	uint32_t *n;
};

struct fit_counts_list {
	struct fit_counts *v;
	uint32_t n, room;
};

struct fit_spread {
	const struct spread *spread;
	const struct topology *topology;
	uint32_t *n;      /* pods in each domain */
	bool *is_present; /* whether a domain has eligible nodes, so that it counts */
	uint32_t n_present;
	/* least: fewest pods of a present domain; second: next fewest */
	uint32_t least, least_domain, second;
	bool is_self_matching;
};

/* A volume that counts against its driver's limit. */
struct fit_attachment {
	const char *driver, *id;
	/* namespace of the claim if `id` is a claim's name; "": `id` identifies the volume */
	const char *claim_ns;
	bool is_in_tree; /* the volume's driver was once part of Kubernetes */
};

struct fit_attachments {
	struct fit_attachment *v;
	uint32_t n, room;
};

struct fit_claim {
	const struct claim *claim;
	const struct storage_class *class;
	const struct volume **volumes; /* candidates for binding, smallest first */
	uint32_t n_volumes;
	const struct volume *own; /* volume whose claimRef names this claim; NULL: none */
};

struct fit {
	struct view *view;
	const struct pod *pod;
	struct arena arena;
	const struct labels *ns_labels; /* labels of the pod's namespace */
	struct pod_list extra;
	void *devices;              /* search of view_claims; NULL: the pod has no ResourceClaims */
	const char *const *skipped; /* resources that fit_node_without() skips, then NULL */

	/* fit-affinity.c */
	struct fit_counts_list near, away, repelling;
	bool is_any_near, is_self_near;

	/* fit-spread.c */
	struct fit_spread *spreads;

	/* fit-volumes.c */
	const struct volume **bound;
	uint32_t n_bound;
	struct fit_claim *claims;
	uint32_t n_claims;

	/* fit-attach.c */
	struct fit_attachments wanted, attached;
};

#define FIT_YES ((struct fit_answer){FIT_OK, NULL})
#define FIT_NO(name, what) ((struct fit_answer){FIT_##name, (what)})

/* Returns the first taint of the node that the pod does not tolerate, or NULL. */
const struct taint *fit_untolerated(const struct fit *fit, const struct node *node);

struct fit_answer fit_check_node(struct fit *fit, const struct fit_candidate *candidate);
struct fit_answer fit_check_ports(struct fit *fit, const struct fit_candidate *candidate);
struct fit_answer fit_check_resources(struct fit *fit, const struct fit_candidate *candidate);

int fit_affinity_prepare(struct fit *fit);
struct fit_answer fit_check_affinity(struct fit *fit, const struct fit_candidate *candidate);

int fit_spread_prepare(struct fit *fit);
struct fit_answer fit_check_spread(struct fit *fit, const struct fit_candidate *candidate);

int fit_volumes_prepare(struct fit *fit, struct error *err);
struct fit_answer fit_check_disks(struct fit *fit, const struct fit_candidate *candidate);
struct fit_answer fit_check_volumes(struct fit *fit, const struct fit_candidate *candidate);
struct fit_answer fit_check_zones(struct fit *fit, const struct fit_candidate *candidate);

int fit_attach_prepare(struct fit *fit);
struct fit_answer fit_check_attach(struct fit *fit, const struct fit_candidate *candidate);

#endif
