/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements of the network to other nodes (node-peers.c), for the files node*.c. The loop's
 * thread.
 */
#ifndef NODE_NODE_PEERS_H
#define NODE_NODE_PEERS_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

struct node;

/*
 * Call after the client exists. Does nothing if the options turn measuring off. Returns 0 or
 * -ENOMEM.
 */
int node_peers_new(struct node *node, struct error *err);
void node_peers_free(struct node *node);
void node_peers_tick(struct node *node, uint64_t now);

/* GPUNode.status.network.peers; the caller owns it. */
json_t *node_peers_json(const struct node *node);

/*
 * Asks whether another node may now fill the network for a bandwidth measurement. 0: it may, until
 * node_peers_transfer_ends(). With a message, -EBUSY or -EAGAIN: not now; -EPERM: never.
 */
int node_peers_transfer_begins(struct node *node, struct error *err);
void node_peers_transfer_ends(struct node *node);

#endif
