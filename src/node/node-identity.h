/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this node, and each of its tenants with devices elsewhere, shows another node: certificates
 * that divvy-controller signs (src/controller/sign.h), asked for by CertificateSigningRequests,
 * held as long as somebody wants them, and renewed before they end. Key pairs are made here and
 * stay in this process's memory, but for what identity_to_fd() gives a link. When the authorities
 * change, what they do not vouch for is asked for anew.
 * One thread, the loop's; nothing blocks.
 *
 *   static void on_change(void *data, struct held_identity *held)
 *   {
 *   	const struct identity *identity = held_identity_get(held);
 *
 *   	if (identity)
 *   		fd = identity_to_fd(identity);          (for divvy-remote-link)
 *   	else
 *   		log_info("%s", held_identity_why(held));
 *   }
 *   identities_new(client, node_name, "divvy-system", &identities, &err);
 *   identity_hold(identities, &(struct identity_name){.kind = IDENTITY_OF_TENANT, ...},
 *   	on_change, data, &held, &err);
 */
#ifndef NODE_NODE_IDENTITY_H
#define NODE_NODE_IDENTITY_H

#include "base/error.h"
#include "identity/identity.h"
#include "kube/client.h"

struct identities;
struct held_identity;

/*
 * client is borrowed; space: divvy's own namespace. The ConfigMap with the authorities is watched
 * from now on. -ENOMEM, -EINVAL.
 */
int identities_new(struct kube_client *client, const char *space, struct identities **ret_all,
	struct error *err);
/* What is still held is released, and nobody is told. Before the client. NULL is fine. */
void identities_free(struct identities *all);

/*
 * There is another one, or there is none any more, or why there is none has changed. From the
 * loop, never from within identity_hold(). May hold and release any.
 */
typedef void held_identity_fn(void *data, struct held_identity *held);

/*
 * The name is copied: of this node, or of a container of one of its pods whose granted mode is
 * remote; the controller refuses others. What it refuses is asked for again, ever more seldom: a
 * pod may not be known there yet. -EINVAL: no such name is possible; -ENOMEM.
 */
int identity_hold(struct identities *all, const struct identity_name *name,
	held_identity_fn *changed, void *data, struct held_identity **ret_held, struct error *err);
/* NULL is fine. */
void identity_release(struct held_identity *held);

/* Good at this moment; borrowed until the loop goes on. NULL: there is none (yet). */
const struct identity *held_identity_get(const struct held_identity *held);
/* Why there is none, or no newer one: a sentence; "" when all is well. Borrowed likewise. */
const char *held_identity_why(const struct held_identity *held);
const struct identity_name *held_identity_name(const struct held_identity *held);

#endif
