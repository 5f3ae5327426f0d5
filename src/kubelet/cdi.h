/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the Container Device Interface: what a runtime adds to a container that has a slot. Each
 * slot is a device "<n>" of the kind divvy.gpu/slot, in a file of its own, replaced and removed in
 * one step. The text is pure; the files may be slow as files are. Any thread.
 */
#ifndef KUBELET_CDI_H
#define KUBELET_CDI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define CDI_KIND "divvy.gpu/slot"
#define CDI_FOLDER "/var/run/cdi" /* what runtimes read for what does not outlive a boot */
/* The first in which a name may begin with a digit and a node may stand elsewhere on the host. */
#define CDI_VERSION "0.5.0"
#define CDI_MAX (256u << 10) /* bytes of a file */
#define CDI_EDITS_MAX 256u   /* of each kind */

struct cdi_variable {
	const char *name, *value;
};
struct cdi_mount {
	const char *host_path, *container_path; /* absolute */
	bool is_writable;
};
struct cdi_node {
	const char *host_path, *container_path; /* absolute; of a character device */
	const char *permissions;                /* of r, w, m */
};
struct cdi_slot {
	uint32_t slot;
	const struct cdi_variable *env;
	const struct cdi_mount *mounts;
	const struct cdi_node *nodes;
	size_t n_env, n_mounts, n_nodes;
};

/* "divvy.gpu/slot=3": what a plugin answers to Allocate. */
#define CDI_NAME_SIZE 40
void cdi_name(uint32_t slot, char ret_name[static CDI_NAME_SIZE]);

/* The file's text; -EINVAL with a sentence when a path, a variable or a permission is none. */
int cdi_format(const struct cdi_slot *slot, struct buf *out, struct error *err);

/* The folder is made if it is missing. Removing what is not there is fine. */
int cdi_write(const char *folder, const struct cdi_slot *slot, struct error *err);
int cdi_remove(const char *folder, uint32_t slot, struct error *err);

#endif
