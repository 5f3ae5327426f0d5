/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the filter: each prepares what it counts in struct fit, then checks a node. */
#ifndef KUBERULES_FIT_INTERNAL_H
#define KUBERULES_FIT_INTERNAL_H

#include <stdbool.h>

#include "kuberules/fit.h"
#include "kuberules/view-internal.h"

/*
 * Where rules changed, the first release with the new ones. Those of 1.20 are compared with its
 * scheduler (tests/k8s/test-fit.py); the others are as Kubernetes documents them.
 */
enum fit_rules {
	RULES_VOLUME_CAPACITY = 21,  /* CSIStorageCapacity is looked at */
	RULES_SPREAD_ELIGIBLE = 24,  /* pods count on eligible nodes alone; policies, minDomains */
	RULES_CSI_MIGRATION = 25,    /* volumes of in-tree drivers count as those of CSI drivers */
	RULES_ONLY_WANTED = 27,      /* what the pod does not ask for may be overcommitted */
	RULES_ZONE_TRANSLATION = 28, /* a volume's beta zone labels match a node's stable ones */
};

/* A node with the pods that count there beside those on it. */
struct fit_site {
	const struct view_node *node;
	const struct pod **extra;
	uint32_t n_extra;
};

static inline uint32_t site_n_pods(const struct fit_site *site)
{
	return site->node->pods.n + site->n_extra;
}

static inline const struct pod *site_pod(const struct fit_site *site, uint32_t i)
{
	return i < site->node->pods.n ? site->node->pods.v[i] : site->extra[i - site->node->pods.n];
}

/* Pods counted by the domains of one topology. */
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
	bool *is_present; /* whether a domain counts */
	uint32_t n_present;
	uint32_t least, least_domain, second; /* of the domains present */
	bool is_self_matching;
};

/* A volume that counts against the limit of its driver. */
struct fit_attachment {
	const char *driver, *id;
	const char *claim_ns; /* the id is that of a claim here; "" for a volume's own */
};

struct fit_attachments {
	struct fit_attachment *v;
	uint32_t n, room;
};

struct fit_claim {
	const struct claim *claim;
	const struct storage_class *class;
	const struct volume **volumes; /* that may be bound, the smallest first */
	uint32_t n_volumes;
	const struct volume *own; /* one that is for this claim alone */
};

struct fit {
	struct view *view;
	const struct pod *pod;
	struct arena arena;
	const struct labels *ns_labels; /* of the pod's namespace */
	struct pod_list extra;
	const char *const *spared; /* resources, until NULL; NULL: none */

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

/* Whether a taint there keeps the pod off; names it, or NULL. */
const struct taint *fit_untolerated(const struct fit *fit, const struct node *node);

struct fit_answer fit_check_node(struct fit *fit, const struct fit_site *site);
struct fit_answer fit_check_ports(struct fit *fit, const struct fit_site *site);
struct fit_answer fit_check_resources(struct fit *fit, const struct fit_site *site);

int fit_affinity_prepare(struct fit *fit);
struct fit_answer fit_check_affinity(struct fit *fit, const struct fit_site *site);

int fit_spread_prepare(struct fit *fit);
struct fit_answer fit_check_spread(struct fit *fit, const struct fit_site *site);

int fit_volumes_prepare(struct fit *fit, struct error *err);
struct fit_answer fit_check_disks(struct fit *fit, const struct fit_site *site);
struct fit_answer fit_check_volumes(struct fit *fit, const struct fit_site *site);
struct fit_answer fit_check_zones(struct fit *fit, const struct fit_site *site);

int fit_attach_prepare(struct fit *fit);
struct fit_answer fit_check_attach(struct fit *fit, const struct fit_site *site);

#endif
