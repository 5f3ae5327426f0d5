/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists every kind of object that the scheduler reads, with its API and whether decisions wait for
 * that kind. The list is constant, so any thread may read it.
 */
#include "scheduler/source.h"

#include "scheduler/cluster.h"

const struct cluster_source cluster_sources[CLUSTER_SOURCES] = {
	{OBJECT_NODE, KUBE_NODES, false, true},
	{OBJECT_NAMESPACE, KUBE_NAMESPACES, false, true},
	{CLUSTER_LEASE, KUBE_LEASES, true, true},
	{CLUSTER_GPU_NODE, KUBE_GPU_NODES, false, false},
	{CLUSTER_POLICY, KUBE_GPU_POLICIES, false, false},
	{CLUSTER_BUDGET, KUBE_BUDGETS, false, false},
	{CLUSTER_GROUP, KUBE_POD_GROUPS, false, false},
	{CLUSTER_SIGS_GROUP, KUBE_SIGS_POD_GROUPS, false, false},
	{CLUSTER_VOLCANO_GROUP, KUBE_VOLCANO_POD_GROUPS, false, false},
	{CLUSTER_KUBE_GROUP, KUBE_KUBE_POD_GROUPS, false, false},
	{CLUSTER_JOB_SET, KUBE_JOB_SETS, false, false},
	{CLUSTER_RAY_CLUSTER, KUBE_RAY_CLUSTERS, false, false},
	{OBJECT_VOLUME, KUBE_VOLUMES, false, true},
	{OBJECT_CLAIM, KUBE_VOLUME_CLAIMS, false, true},
	{OBJECT_CLASS, KUBE_STORAGE_CLASSES, false, true},
	{OBJECT_CSI_NODE, KUBE_CSI_NODES, false, true},
	{OBJECT_CSI_DRIVER, KUBE_CSI_DRIVERS, false, true},
	{OBJECT_CSI_CAPACITY, KUBE_CSI_CAPACITIES, false, false},
	{OBJECT_ATTACHMENT, KUBE_VOLUME_ATTACHMENTS, false, true},
	{CLUSTER_SLICE, KUBE_RESOURCE_SLICES, false, false},
	{CLUSTER_DEVICE_CLASS, KUBE_DEVICE_CLASSES, false, false},
	{CLUSTER_RESOURCE_CLAIM, KUBE_RESOURCE_CLAIMS, false, false},
	{CLUSTER_TAINT_RULE, KUBE_DEVICE_TAINT_RULES, false, false},
	{OBJECT_POD, KUBE_PODS, false, true},
};
