/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a node or tenant in its certificate: the only URI of the subject's alternative name.
 *
 *   divvy://node/NAME                     the daemon of that node
 *   divvy://tenant/POD-UID/CONTAINER      a container of that pod
 *
 * Each name has exactly one spelling, without escapes or trailing text. Pure; any thread.
 */
#ifndef IDENTITY_NAME_H
#define IDENTITY_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define IDENTITY_NODE 254u     /* bytes of a node's name with its final 0 */
#define IDENTITY_UID 64u       /* bytes of a pod's UID with its final 0 */
#define IDENTITY_CONTAINER 64u /* bytes of a container's name with its final 0 */
#define IDENTITY_URI 320u      /* bytes of the URI with its final 0 */

enum identity_kind { IDENTITY_NOBODY, IDENTITY_OF_NODE, IDENTITY_OF_TENANT };

struct identity_name {
	enum identity_kind kind;
	char node[IDENTITY_NODE];           /* set if kind is IDENTITY_OF_NODE */
	char uid[IDENTITY_UID];             /* set if kind is IDENTITY_OF_TENANT */
	char container[IDENTITY_CONTAINER]; /* set if kind is IDENTITY_OF_TENANT */
};

/* Returns 0 or -EINVAL, also for names that no node, pod or container can have. */
int identity_name_parse(struct str uri, struct identity_name *ret_name, struct error *err);

/* Returns 0, or -EINVAL for a name that identity_name_parse() would refuse. */
int identity_name_format(const struct identity_name *name, char ret_uri[IDENTITY_URI]);

bool identity_name_is_same(const struct identity_name *a, const struct identity_name *b);

#endif
