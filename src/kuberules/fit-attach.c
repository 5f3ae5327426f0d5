/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks how many volumes of each driver a node can have attached, and whether the node has the
 * driver. A pod adds only the volumes that no other pod on the node uses yet.
 *
 * A volume that no pod on the node uses any more counts while a VolumeAttachment names it: the
 * volume takes up one of the node's places until the driver has detached it. kube-scheduler counts
 * attachments in newer releases only. The filter counts them in each release, because otherwise a
 * pod could be bound to a node that cannot attach the pod's volume yet.
 */
#include "kuberules/fit-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/str.h"

/* Drivers that were once part of Kubernetes. `most` is the limit if the node does not give one. */
static const struct in_tree {
	enum disk_kind disk;
	const char *provisioner; /* driver name before the migration to CSI */
	const char *csi;         /* name of the CSI driver that replaced it */
	const char *limit;       /* resource name in the node's allocatable resources */
	int64_t most;
} in_tree[] = {
	{DISK_EBS, "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "attachable-volumes-aws-ebs", 39},
	{DISK_GCE, "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "attachable-volumes-gce-pd",
		16},
	{DISK_AZURE, "kubernetes.io/azure-disk", "disk.csi.azure.com",
		"attachable-volumes-azure-disk", 16},
	/* -1: no limit before the migration */
	{DISK_CINDER, "kubernetes.io/cinder", "cinder.csi.openstack.org",
		"attachable-volumes-cinder", -1},
};

#define EBS_MOST_NITRO 25

static bool is_migrated(const struct fit *fit)
{
	return fit->view->minor >= RULES_CSI_MIGRATION;
}

static const char *driver_of_disk(const struct fit *fit, const struct disk *disk)
{
	if (disk->kind == DISK_CSI)
		return disk->driver;
	for (size_t i = 0; i < ARRAY_SIZE(in_tree); i++)
		if (in_tree[i].disk == disk->kind)
			return is_migrated(fit) ? in_tree[i].csi : in_tree[i].provisioner;
	return NULL;
}

/* Returns the driver of the claim's storage class, for a claim that has no volume yet. */
static const char *driver_of_class(
	const struct fit *fit, const struct claim *claim, bool *ret_is_in_tree)
{
	const struct storage_class *class = (const struct storage_class *)view_find(
		fit->view, OBJECT_CLASS, "", claim->class);

	for (size_t i = 0; class && i < ARRAY_SIZE(in_tree); i++)
		if (!strcmp(in_tree[i].provisioner, class->provisioner)) {
			*ret_is_in_tree = true;
			return is_migrated(fit) ? in_tree[i].csi : in_tree[i].provisioner;
		}
	*ret_is_in_tree = false;
	return class && *class->provisioner ? class->provisioner : NULL;
}

static int fit_attach_add(struct fit_attachments *list, struct fit_attachment attachment)
{
	int r = array_grow(&list->v, &list->room, list->n + 1, sizeof(*list->v));

	if (r == 0)
		list->v[list->n++] = attachment;
	return r;
}

static int add_volume(const struct fit *fit, const struct pod *pod, const struct pod_volume *volume,
	struct fit_attachments *list)
{
	const struct disk *disk = &volume->disk;
	const struct volume *bound = NULL;
	const struct claim *claim;
	const char *driver;
	bool is_in_tree;

	if (volume->claim) {
		claim = (const struct claim *)view_find(
			fit->view, OBJECT_CLAIM, pod->object.ns, volume->claim);
		if (!claim)
			return 0;
		if (*claim->volume)
			bound = (const struct volume *)view_find(
				fit->view, OBJECT_VOLUME, "", claim->volume);
		if (!bound) {
			driver = driver_of_class(fit, claim, &is_in_tree);
			return driver ? fit_attach_add(list,
						(struct fit_attachment){driver, claim->object.name,
							claim->object.ns, is_in_tree})
				      : 0;
		}
		disk = &bound->disk;
	} else if (disk->kind == DISK_CSI) {
		/*
		 * An inline CSI volume of the pod: the kubelet makes it on the node, so nothing is
		 * attached.
		 */
		return 0;
	}
	driver = driver_of_disk(fit, disk);
	return driver && *disk->id
		? fit_attach_add(list,
			  (struct fit_attachment){driver, disk->id, "", disk->kind != DISK_CSI})
		: 0;
}

static int fit_attach_add_pod(
	const struct fit *fit, const struct pod *pod, struct fit_attachments *list)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < pod->volumes.n; i++)
		r = add_volume(fit, pod, &pod->volumes.v[i], list);
	return r;
}

/* Adds the volumes of CSI drivers that are attached to the node, whether or not a pod uses them. */
static int fit_attach_add_attached(
	const struct fit *fit, const struct view_node *node, struct fit_attachments *list)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < node->attachments.n; i++) {
		const struct attachment *attachment = node->attachments.v[i];
		const struct volume *volume = (const struct volume *)view_find(
			fit->view, OBJECT_VOLUME, "", attachment->volume);

		if (volume && volume->disk.kind == DISK_CSI && *volume->disk.id)
			r = fit_attach_add(list,
				(struct fit_attachment){
					attachment->driver, volume->disk.id, "", false});
	}
	return r;
}

static int fit_attach_compare(const void *a, const void *b)
{
	const struct fit_attachment *x = a, *y = b;
	int order = strcmp(x->driver, y->driver);

	if (!order)
		order = strcmp(x->claim_ns, y->claim_ns);
	return order ? order : strcmp(x->id, y->id);
}

/* Sorts the list and removes duplicates. */
static void fit_attach_sort_unique(struct fit_attachments *list)
{
	uint32_t n = 0;

	if (list->n)
		qsort(list->v, list->n, sizeof(*list->v), fit_attach_compare);
	for (uint32_t i = 0; i < list->n; i++)
		if (!n || fit_attach_compare(&list->v[n - 1], &list->v[i]) != 0)
			list->v[n++] = list->v[i];
	list->n = n;
}

int fit_attach_prepare(struct fit *fit)
{
	int r = fit_attach_add_pod(fit, fit->pod, &fit->wanted);

	fit_attach_sort_unique(&fit->wanted);
	return r;
}

/*
 * Nodes of some AWS instance families attach fewer EBS volumes; their type is a label of the node.
 */
static int64_t ebs_most(const struct node *node, int64_t most)
{
	static const char *const labels[] = {
		"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"};

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		const char *type = labels_get(&node->object.labels, labels[i]);

		if (type &&
			((strchr("cmr", type[0]) && type[0] && type[1] == '5') ||
				strstr(type, "t3") || strstr(type, "z1d")))
			return EBS_MOST_NITRO;
	}
	return most;
}

static const int64_t *find_allocatable(
	const struct node *node, const char *prefix, const char *name)
{
	size_t n = strlen(prefix);

	for (uint32_t i = 0; i < node->allocatable.n_others; i++) {
		const struct resource *other = &node->allocatable.others[i];

		if (!strncmp(other->name, prefix, n) && !strcmp(other->name + n, name))
			return &other->n;
	}
	return NULL;
}

/* Returns the driver's limit on the node; -1: no limit. */
static int64_t find_limit(const struct fit *fit, const struct node *node, const char *driver)
{
	const struct csi_node *csi = (const struct csi_node *)view_find(
		fit->view, OBJECT_CSI_NODE, "", node->object.name);
	const int64_t *allocatable;

	for (size_t i = 0; !is_migrated(fit) && i < ARRAY_SIZE(in_tree); i++) {
		if (strcmp(in_tree[i].provisioner, driver) != 0)
			continue;
		allocatable = find_allocatable(node, in_tree[i].limit, "");
		if (in_tree[i].most < 0)
			return -1;
		if (allocatable)
			return *allocatable;
		return in_tree[i].disk == DISK_EBS ? ebs_most(node, in_tree[i].most)
						   : in_tree[i].most;
	}
	for (uint32_t i = 0; csi && i < csi->drivers.n; i++)
		if (!strcmp(csi->drivers.v[i].driver, driver) && csi->drivers.v[i].count >= 0)
			return csi->drivers.v[i].count;
	/*
	 * Without a limit in the CSINode, an old kubelet wrote the limit into the node's
	 * allocatable resources.
	 */
	allocatable = is_migrated(fit) ? NULL
				       : find_allocatable(node, "attachable-volumes-csi-", driver);
	return allocatable ? *allocatable : -1;
}

/*
 * Returns whether all volumes of the pod count, even if they are attached already. In-tree drivers
 * counted this way before the migration to CSI, so a node above its limit refused also a pod that
 * added no volume.
 */
static bool counts_all(const struct fit *fit, const char *driver)
{
	for (size_t i = 0; !is_migrated(fit) && i < ARRAY_SIZE(in_tree); i++)
		if (!strcmp(in_tree[i].provisioner, driver))
			return true;
	return false;
}

/*
 * Returns the driver of a wanted volume that must be on the node and is not, or NULL. On a node
 * without a CSINode object the volumes of in-tree drivers do not count.
 */
static const char *find_missing_driver(const struct fit *fit, const struct node *node)
{
	const struct csi_node *csi = (const struct csi_node *)view_find(
		fit->view, OBJECT_CSI_NODE, "", node->object.name);

	for (uint32_t i = 0; fit->view->minor >= RULES_MISSING_DRIVERS && i < fit->wanted.n; i++) {
		const struct fit_attachment *wanted = &fit->wanted.v[i];
		const struct csi_driver *driver = (const struct csi_driver *)view_find(
			fit->view, OBJECT_CSI_DRIVER, "", wanted->driver);
		bool is_there = !driver || !driver->is_mandatory || (!csi && wanted->is_in_tree);

		for (uint32_t k = 0; csi && !is_there && k < csi->drivers.n; k++)
			is_there = !strcmp(csi->drivers.v[k].driver, wanted->driver);
		if (!is_there)
			return wanted->driver;
	}
	return NULL;
}

static bool is_attached(const struct fit *fit, const struct fit_attachment *attachment)
{
	return fit->attached.n &&
		bsearch(attachment, fit->attached.v, fit->attached.n, sizeof(*fit->attached.v),
			fit_attach_compare);
}

struct fit_answer fit_check_attach(struct fit *fit, const struct fit_candidate *candidate)
{
	const char *missing = find_missing_driver(fit, candidate->node->node);

	if (missing)
		return FIT_NO(VOLUME_DRIVER, missing);
	fit->attached.n = 0;
	for (uint32_t p = 0; fit->wanted.n && p < candidate_n_pods(candidate); p++)
		if (fit_attach_add_pod(fit, candidate_pod(candidate, p), &fit->attached) < 0)
			return FIT_NO(NODE_UNCLEAR, "out of memory");
	if (fit->wanted.n && fit_attach_add_attached(fit, candidate->node, &fit->attached) < 0)
		return FIT_NO(NODE_UNCLEAR, "out of memory");
	fit_attach_sort_unique(&fit->attached);
	for (uint32_t i = 0, next; i < fit->wanted.n; i = next) {
		const char *driver = fit->wanted.v[i].driver;
		int64_t limit = find_limit(fit, candidate->node->node, driver), n = 0;
		bool is_new = counts_all(fit, driver);

		for (next = i; next < fit->wanted.n && !strcmp(fit->wanted.v[next].driver, driver);
			next++)
			if (!is_attached(fit, &fit->wanted.v[next])) {
				n++;
				is_new = true;
			}
		for (uint32_t k = 0; k < fit->attached.n; k++)
			n += !strcmp(fit->attached.v[k].driver, driver);
		if (is_new && limit >= 0 && n > limit)
			return FIT_NO(VOLUME_COUNT, driver);
	}
	return FIT_YES;
}
