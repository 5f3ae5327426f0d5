/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of this node for pods of other nodes: node-serve.c. Between the files node*.c; the loop's
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

/* Listens, if it is to; the network is answered once there is an identity. */
int serve_new(struct node *node, struct error *err);
void serve_free(struct node *node);
void serve_tick(struct node *node, uint64_t now);

/*
 * "ADDRESS:PORT", an address of IPv6 with or without brackets, which other nodes can reach: no
 * scope, and not all of this node's. -EINVAL with a sentence.
 */
int serve_address_parse(const char *text, struct address *ret_address, struct error *err);

#define SERVE_LEFT_NS (UINT64_C(30) * 1000000000)

/*
 * A pod of another node that should have been gone for SERVE_LEFT_NS, and of which nothing is
 * connected: its node does not say so, and may be none any more. pod: as the API server has it, or
 * NULL; real_ns: now, since 1970.
 */
bool serve_is_left_behind(const json_t *pod, uint32_t n_processes, uint64_t real_ns);

/* The node's certificate and key, as identity_to_fd() gives them: taken over. */
void serve_identity(struct node *node, int fd);

/* Where it is served now, "ADDRESS:PORT", with brackets of IPv6; NULL: nowhere. */
const char *serve_address(const struct node *node);

/* What helpers have in their environment to ask us, and workers of theirs the driver. */
struct serve_env {
	char text[7][2 * PATH_MAX + 64];
	const char *list[8];
};
void serve_env_fill(const struct node *node, struct serve_env *ret_env);

/* User and group of the worker processes of a slot. */
uint32_t serve_user(const struct node *node, uint32_t slot);

/* A served pod, as the API server has it; NULL: it is not there, or not known. */
const json_t *serve_pod(const struct node *node, const char *uid);
/* -EAGAIN: not known yet; -EACCES: there is none of that name and UID. */
int serve_find_pod(struct node *node, const struct tenant_pod *pod,
	const struct kube_entry **ret_entry, struct error *err);

/* Who has asked for that container is answered: with its tenant, or (NULL) with why not. */
void serve_answer_all(struct node *node, const struct tenant_pod *pod, const struct tenant *tenant,
	const struct error *why);

/* Its links are ended, and by that its workers. */
void serve_tenant_ends(struct node *node, const struct tenant *tenant);

#endif
