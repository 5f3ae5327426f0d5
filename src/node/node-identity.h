/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of this node, and of each of its tenants with devices on other nodes.
 * divvy-controller signs them (src/controller/sign.h) on CertificateSigningRequests. This module
 * requests a certificate while someone holds the identity, and renews it before it expires. Key
 * pairs are made here and stay in this process's memory, except for the memfd that identity_to_fd()
 * makes for a link. When the trusted authorities change, certificates that they did not sign are
 * requested again. One thread, the loop's; nothing blocks.
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
 *   identities_new(client, "divvy-system", &identities, &err);
 *   identity_hold(identities, &(struct identity_name){.kind = IDENTITY_OF_TENANT, ...},
 *   	on_change, data, &held, &err);
 */
#ifndef NODE_NODE_IDENTITY_H
#define NODE_NODE_IDENTITY_H

#include "base/error.h"
#include "identity/identity.h"
#include "kube/kube-client.h"

struct identities;
struct held_identity;

/*
 * Borrows client, and watches the ConfigMap with the authorities. space: divvy's own namespace.
 * Returns 0, -ENOMEM or -EINVAL.
 */
int identities_new(struct kube_client *client, const char *space, struct identities **ret_all,
	struct error *err);
/*
 * Releases all held identities without a callback. Call before the client is freed. Accepts NULL.
 */
void identities_free(struct identities *all);

/*
 * Called by the loop, never within identity_hold(), after a change: there is a new certificate,
 * there is none any more, or the reason for having none has changed. May hold and release any
 * identity.
 */
typedef void held_identity_fn(void *data, struct held_identity *held);

/*
 * Copies the name. The name is this node's, or that of a container with granted mode remote in a
 * pod of this node. The controller refuses other names. After a refusal the request is repeated at
 * growing intervals, because the controller may not know the pod yet. -EINVAL: impossible name;
 * -ENOMEM.
 */
int identity_hold(struct identities *all, const struct identity_name *name,
	held_identity_fn *changed, void *data, struct held_identity **ret_held, struct error *err);
/* Accepts NULL. */
void identity_release(struct held_identity *held);

/* The certificate that is valid now, borrowed until the loop continues. NULL: none (yet). */
const struct identity *held_identity_get(const struct held_identity *held);
/*
 * Returns the reason why there is no certificate, or no newer one, as a message. The text is
 * borrowed until the loop continues. "": no problem.
 */
const char *held_identity_why(const struct held_identity *held);
const struct identity_name *held_identity_name(const struct held_identity *held);

#endif
