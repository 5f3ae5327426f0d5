/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of this node for pods of other nodes (node-serve.c). For the files node*.c. The loop's
 * thread.
 */
#ifndef NODE_NODE_SERVE_H
#define NODE_NODE_SERVE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/error.h"
#include "kube/cache.h"

struct node;
struct tenant;
struct tenant_pod;

/*
 * Starts to listen if the options say so. Other nodes get answers once this node has an identity.
 */
int serve_new(struct node *node, struct error *err);
void serve_free(struct node *node);
void serve_tick(struct node *node, uint64_t now);

/*
 * Parses "ADDRESS:PORT", with or without brackets around an IPv6 address. The address must be one
 * that other nodes can reach: without scope, and not the wildcard. -EINVAL with a message.
 */
int serve_address_parse(const char *text, struct address *ret_address, struct error *err);

#define SERVE_LEFT_NS (UINT64_C(30) * 1000000000)

/*
 * Whether a pod of another node is overdue: its deletion should have ended SERVE_LEFT_NS ago, and
 * none of its processes is connected. The pod's node has not reported the end, and may no longer
 * exist. pod: the API server's object, or NULL. real_ns: the present time since 1970.
 */
bool serve_is_left_behind(const json_t *pod, uint32_t n_processes, uint64_t real_ns);

/* Takes over the memfd with the node's certificate and key (identity_to_fd()). */
void serve_identity(struct node *node, int fd);

/* The address of the server, "ADDRESS:PORT", with brackets around IPv6; NULL: none. */
const char *serve_address(const struct node *node);

/* Environment with which helpers reach this daemon and their workers find the driver. */
struct serve_env {
	char text[7][2 * PATH_MAX + 64];
	const char *list[8];
};
void serve_env_fill(const struct node *node, struct serve_env *ret_env);

/* User id and group id of the worker processes of a slot. */
uint32_t serve_user(const struct node *node, uint32_t slot);

/* The API server's object of a served pod; NULL: absent or not known. */
const json_t *serve_pod(const struct node *node, const char *uid);
/*
 * Finds the pod's object. Returns 0; -EAGAIN: it is not known yet; -EACCES: no pod has that name
 * and UID.
 */
int serve_find_pod(struct node *node, const struct tenant_pod *pod,
	const struct kube_entry **ret_entry, struct error *err);

/*
 * Answers all links that asked for the container: with its tenant, or with `why` if tenant is NULL.
 */
void serve_answer_all(struct node *node, const struct tenant_pod *pod, const struct tenant *tenant,
	const struct error *why);

/* Ends the tenant's links and thereby its workers. */
void serve_tenant_ends(struct node *node, const struct tenant *tenant);

#endif
