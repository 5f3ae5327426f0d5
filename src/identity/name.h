/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who somebody is between nodes, as the certificate says it, in the one URI that is its subject's
 * alternative name:
 *   divvy://node/NAME                     the daemon of that node
 *   divvy://tenant/POD-UID/CONTAINER      a container of that pod
 * There is one way to write each: nothing is escaped, nothing may follow. Pure; any thread.
 */
#ifndef IDENTITY_NAME_H
#define IDENTITY_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define IDENTITY_NODE 254u     /* of a node's name, and the byte behind it */
#define IDENTITY_UID 64u       /* of a pod's UID, likewise */
#define IDENTITY_CONTAINER 64u /* of a container's name, likewise */
#define IDENTITY_URI 320u      /* of the whole, likewise */

enum identity_kind { IDENTITY_NOBODY, IDENTITY_OF_NODE, IDENTITY_OF_TENANT };

struct identity_name {
	enum identity_kind kind;
	char node[IDENTITY_NODE];           /* OF_NODE */
	char uid[IDENTITY_UID];             /* OF_TENANT */
	char container[IDENTITY_CONTAINER]; /* OF_TENANT */
};

/* -EINVAL with a sentence: also for names that no node, pod or container can have. */
int identity_name_parse(struct str uri, struct identity_name *ret_name, struct error *err);

/* -EINVAL for what identity_name_parse() would not take back. */
int identity_name_format(const struct identity_name *name, char ret_uri[IDENTITY_URI]);

bool identity_name_is_same(const struct identity_name *a, const struct identity_name *b);

#endif
