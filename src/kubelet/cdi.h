/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the Container Device Interface: what a container runtime adds to a container with a
 * slot. Each slot is a device "<n>" of the kind divvy.gpu/slot, with a file of its own that is
 * replaced and removed atomically. cdi_format() is pure; the other functions block on the file
 * system. Any thread.
 */
#ifndef KUBELET_CDI_H
#define KUBELET_CDI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define CDI_KIND "divvy.gpu/slot"
#define CDI_FOLDER "/var/run/cdi" /* where runtimes look for files; emptied at a reboot */
/*
 * The first version in which a name may begin with a digit and a device node may have another path
 * on the host.
 */
#define CDI_VERSION "0.5.0"
#define CDI_MAX (256u << 10) /* bytes of a file */
#define CDI_EDITS_MAX 256u   /* variables, mounts or nodes of a slot, each */

struct cdi_variable {
	const char *name, *value;
};
struct cdi_mount {
	const char *host_path, *container_path; /* absolute */
	bool is_writable;
};
struct cdi_node {
	const char *host_path, *container_path; /* a character device; absolute paths */
	const char *permissions;                /* some of r, w, m */
};
struct cdi_slot {
	uint32_t slot;
	const struct cdi_variable *env;
	const struct cdi_mount *mounts;
	const struct cdi_node *nodes;
	size_t n_env, n_mounts, n_nodes;
};

/* "divvy.gpu/slot=3": the name that a plugin returns from Allocate. */
#define CDI_NAME_SIZE 40
void cdi_name(uint32_t slot, char ret_name[static CDI_NAME_SIZE]);

/*
 * Appends the file's text. Returns 0; -EINVAL, with a faulty path, variable or permission in the
 * message; -E2BIG; -EMSGSIZE; -ENOMEM.
 */
int cdi_format(const struct cdi_slot *slot, struct buf *out, struct error *err);

/*
 * cdi_write() makes the folder if it is missing. cdi_remove() ignores a missing file. Return 0 or
 * -errno.
 */
int cdi_write(const char *folder, const struct cdi_slot *slot, struct error *err);
int cdi_remove(const char *folder, uint32_t slot, struct error *err);

#endif
