/* SPDX-License-Identifier: Apache-2.0 */
/* Names the rules that differ between releases of Kubernetes. */
#ifndef KUBERULES_RELEASES_H
#define KUBERULES_RELEASES_H

/*
 * The minor version of Kubernetes that introduced the new form of each changed rule.
 * tests/k8s/test-fit.py compares the rules of the oldest and of the newest release with their
 * kube-scheduler. The rules between the two follow Kubernetes' documentation and source.
 */
enum release_rules {
	RULES_VOLUME_CAPACITY = 21, /* CSIStorageCapacity objects count */
	/*
	 * topology spread: only pods on eligible nodes count; nodeAffinityPolicy, nodeTaintsPolicy
	 * and minDomains are obeyed
	 */
	RULES_SPREAD_ELIGIBLE = 24,
	RULES_CSI_MIGRATION = 25, /* volumes of in-tree drivers count as those of CSI drivers */
	/* A node fits even if it is overcommitted in a resource that the pod does not request. */
	RULES_ONLY_WANTED = 27,
	RULES_ZONE_TRANSLATION = 28, /* a volume's beta zone labels match a node's stable ones */
	RULES_POD_LEVEL_STATUS =
		36, /* the pod's own status.resources and allocatedResources count */
	/*
	 * The largest of the sums of requested, allocated and actuated amounts counts, and no
	 * longer the sum of each container's largest amount. The statuses of all init containers
	 * count.
	 */
	RULES_STATUS_SUMS = 37,
	/* preventPodSchedulingIfMissing: volumes of the driver need a node that has the driver */
	RULES_MISSING_DRIVERS = 37,
};

#endif
