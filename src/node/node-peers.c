/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the network to other nodes (peers.h decides which and when). A separate process
 * (src/link/node-link-probe.c) measures one node after another, with this node's certificate. Once
 * a round this node asks the API server for the table of GPUNodes, which names the nodes that
 * serve. A watch of all GPUNodes on every node would cost a cluster more than all other requests.
 */
#include "node/node-peers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "node/helper.h"
#include "node/node-identity.h"
#include "node/node-internal.h"
#include "node/node-serve.h"
#include "node/peers.h"
#include "wire/serve.h"

#define PATH "/apis/divvy.gpu/v1/gpunodes"
/* The API server may answer from its cache, which costs it less. */
#define QUERY "includeObject=None&resourceVersion=0"
#define TRANSFER_EVERY_NS (10 * NSEC_PER_SEC)

struct node_peers {
	struct node *node;
	struct peers peers;
	struct kube_call *call;
	struct helper *helper;
	struct peer *under_way; /* the peer that the helper measures */
	bool has_answer;
	/* NULL: nothing published since the start, so earlier results still hold */
	json_t *reported;
	bool is_transfer; /* another node is filling the network */
	uint64_t next_transfer_ns;
};

/* ---- nodes that serve ---- */

static int find_column(const json_t *table, const char *name)
{
	const json_t *columns = json_object_get(table, "columnDefinitions"), *one;
	size_t i;

	json_array_foreach(columns, i, one) {
		const char *its = json_string_value(json_object_get(one, "name"));

		if (its && !strcmp(its, name))
			return (int)i;
	}
	return -1;
}

static const char *node_peers_row_cell(const json_t *row, int column)
{
	const json_t *cells = json_object_get(row, "cells");
	const char *text = column < 0 ? NULL
				      : json_string_value(json_array_get(cells, (size_t)column));

	return text ? text : "";
}

static void read_table(struct node_peers *p, const json_t *table)
{
	const int name = find_column(table, "Name"), address = find_column(table, "Remote");
	const json_t *rows = json_object_get(table, "rows"), *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		struct address at;

		if (node_peers_row_cell(row, address)[0] &&
			serve_address_parse(node_peers_row_cell(row, address), &at, NULL) == 0)
			peers_offer(&p->peers, node_peers_row_cell(row, name), &at);
	}
}

static void on_table(void *data, const struct kube_answer *answer)
{
	struct node_peers *p = data;
	_cleanup_json_ json_t *table = NULL;
	struct error err;
	int r = answer->result;

	p->call = NULL;
	if (r < 0)
		err = answer->error;
	else
		r = kube_json_parse(answer->body, &table, &err);
	if (r < 0) {
		log_warn("list the nodes that serve devices: %s", err.msg);
		peers_give_up(&p->peers, clock_now_ns());
		return;
	}
	read_table(p, table);
	peers_begin(&p->peers);
}

static void list_peers(struct node_peers *p)
{
	const struct kube_request request = {.path = PATH,
		.query = QUERY,
		.retry = RETRY_IDEMPOTENT,
		.is_table = true,
		.done = on_table,
		.data = p};
	struct error err;

	if (kube_call_start(p->node->client, &request, &p->call, &err) == 0)
		return;
	log_warn("list the nodes that serve devices: %s", err.msg);
	peers_give_up(&p->peers, clock_now_ns());
}

/* ---- measuring ---- */

/*
 * Whether programs use the network: programs of this node, or of other nodes with devices here.
 * Then no bandwidth measurement starts.
 */
static bool is_network_used(struct node *node)
{
	for (uint32_t i = 0; i < node->n_slots; i++)
		if (node->slots[i].remote ||
			(i >= node->n_offered && node_tenant(node, &node->slots[i])))
			return true;
	return false;
}

static void node_peers_on_packet(void *data, const void *packet, size_t n)
{
	struct node_peers *p = data;
	const struct serve_probe *said = packet;
	struct peer *peer = p->under_way;

	if (n != sizeof(*said) || said->magic != SERVE_MAGIC || p->has_answer ||
		!memchr(said->text, '\0', sizeof(said->text)))
		return;
	p->has_answer = true;
	if (said->status == 0 && said->round_trip_ns) {
		peers_measured(&p->peers, peer, said->round_trip_ns, said->bits_per_second,
			clock_now_ns(), clock_real_ns());
		return;
	}
	/* Debug only, because the next round may succeed. */
	log_debug("measuring to node %s: %s", peer->name, said->text);
	peers_failed(peer);
}

/* node_peers_tick() frees the helper. */
static void node_peers_on_ended(void *data)
{
	struct node_peers *p = data;

	if (!p->has_answer)
		peers_failed(p->under_way);
	p->under_way = NULL;
}

static int start_probe(struct node_peers *p, struct peer *peer, int identity_fd, struct error *err)
{
	const struct node *node = p->node;
	char ms[16];
	const char *const argv[] = {"probe", peer->at.host, peer->at.port, peer->name, ms, NULL};
	const struct helper_options options = {
		.name = "divvy-remote-far",
		.argv = argv,
		.fds = {STDERR_FILENO, -1, identity_fd}, /* no listening socket */
		.n_fds = 3,
		.control_at = 1,
		.said = node_peers_on_packet,
		.ended = node_peers_on_ended,
		.data = p,
	};
	const bool fills = peers_wants_transfer(peer, clock_now_ns()) &&
		!is_network_used(p->node) && !p->is_transfer;

	snprintf(ms, sizeof(ms), "%u", fills ? node->options.probe_transfer_ms : 0);
	p->has_answer = false;
	p->under_way = peer;
	return helper_start(node->agent->loop, &options, &p->helper, err);
}

/* Measures the next peer with the present certificate, or waits until there is one. */
static void node_peers_measure(struct node_peers *p, struct peer *peer)
{
	const struct identity *identity = p->node->identity ? held_identity_get(p->node->identity)
							    : NULL;
	_cleanup_close_ int fd = identity ? identity_to_fd(identity) : -1;
	struct error err;

	if (fd < 0)
		return;
	if (start_probe(p, peer, fd, &err) < 0) {
		log_warn("measuring to node %s: %s", peer->name, err.msg);
		p->under_way = NULL;
		peers_failed(peer);
	}
}

/* ---- results ---- */

static void node_peers_report(struct node_peers *p)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < p->peers.n; i++) {
		const struct peer *peer = &p->peers.v[i];
		json_t *one;

		if (!peer->reported.round_trip_us)
			continue;
		one = json_pack("{s:s, s:I, s:s}", "name", peer->name, "roundTripMicroseconds",
			(json_int_t)peer->reported.round_trip_us, "measuredAt",
			kube_time_format(peer->reported.real_ns).s);
		if (peer->reported.bits_per_second)
			json_object_set_new(one, "bitsPerSecond",
				json_integer((json_int_t)peer->reported.bits_per_second));
		json_array_append_new(all, one);
	}
	json_decref(p->reported);
	p->reported = all;
	node_status_touch(p->node);
}

json_t *node_peers_json(const struct node *node)
{
	const struct node_peers *p = node->peers;
	json_t *before = p ? kube_json_at(node->status_seen, "network", "peers", NULL) : NULL;

	if (p && p->reported)
		return json_incref(p->reported);
	return before ? json_incref(before) : json_array();
}

void node_peers_tick(struct node *node, uint64_t now)
{
	struct node_peers *p = node->peers;
	struct peer *peer;
	struct error err;

	if (!p || p->call || p->under_way)
		return;
	helper_free(TAKE_PTR(p->helper));
	if (peers_is_due(&p->peers, now)) {
		list_peers(p);
		return;
	}
	peer = peers_next(&p->peers);
	if (!peer) {
		if (peers_end(&p->peers, now))
			node_peers_report(p);
		return;
	}
	/* A node without peers needs no certificate. */
	if (!node->identity && node_need_own_identity(node, &err) < 0)
		log_warn("%s", err.msg);
	node_peers_measure(p, peer);
}

/* ---- measurements by another node ---- */

int node_peers_transfer_begins(struct node *node, struct error *err)
{
	struct node_peers *p = node->peers;
	const uint64_t now = clock_now_ns();

	if (!p || !node->options.probe_transfer_ms)
		return fail(err, EPERM, "bandwidth is not measured on this node");
	if (is_network_used(node))
		return fail(err, EBUSY, "programs use the network");
	if (p->is_transfer || p->under_way || now < p->next_transfer_ns)
		return fail(err, EAGAIN, "another node measures");
	p->is_transfer = true;
	p->next_transfer_ns = now + TRANSFER_EVERY_NS;
	return 0;
}

void node_peers_transfer_ends(struct node *node)
{
	if (node->peers)
		node->peers->is_transfer = false;
}

/* ---- start and end ---- */

int node_peers_new(struct node *node, struct error *err)
{
	struct node_peers *p;

	if (!node->options.probe_peers)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(err, ENOMEM, "no memory");
	p->node = node;
	peers_init(&p->peers, node->options.name, node->options.probe_peers,
		kube_client_rand(node->client));
	node->peers = p;
	return 0;
}

void node_peers_free(struct node *node)
{
	struct node_peers *p = TAKE_PTR(node->peers);

	if (!p)
		return;
	kube_call_cancel(p->call);
	helper_free(p->helper);
	json_decref(p->reported);
	free(p);
}
