/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is measured to other nodes: node-peers.c. Between the files node*.c; the loop's thread.
 */
#ifndef NODE_NODE_PEERS_H
#define NODE_NODE_PEERS_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

struct node;

/* After the client; nothing is measured where the options say so. -ENOMEM. */
int node_peers_new(struct node *node, struct error *err);
void node_peers_free(struct node *node);
void node_peers_tick(struct node *node, uint64_t now);

/* GPUNode.status.network.peers; the caller's. */
json_t *node_peers_json(const struct node *node);

/*
 * Another node wants to fill the network for a moment. 0: it may, until node_peers_transfer_ends();
 * -EBUSY, -EAGAIN with a sentence.
 */
int node_peers_transfer_begins(struct node *node, struct error *err);
void node_peers_transfer_ends(struct node *node);

#endif
