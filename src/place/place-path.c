/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements between nodes. The other node of a measurement is kept by name, as nodes can be
 * added and removed. See place-mode.h.
 */
#include "place/place-path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "place/place-mode.h"

static void place_path_release_end(struct place_paths *paths, struct path_end *end)
{
	if (--end->n_uses)
		return;
	HASH_DEL(paths->ends, end);
	free(end);
}

static struct path_end *place_path_get_end(const struct place *place, const char *name)
{
	const size_t size = strlen(name) + 1;
	struct place_paths *paths = place->paths;
	struct path_end *end;

	HASH_FIND_STR(paths->ends, name, end);
	if (end) {
		end->n_uses++;
		return end;
	}
	end = calloc(1, sizeof(*end) + size);
	if (!end)
		return NULL;
	memcpy(end->text, name, size);
	end->n_uses = 1;
	end->node = place_node_find(place, name);
	HASH_ADD_STR(paths->ends, text, end);
	if (end->hh.tbl)
		return end;
	free(end);
	return NULL;
}

static void list_done(struct place_paths *paths, struct path_list *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		place_path_release_end(paths, list->v[i].to);
	free(list->v);
	*list = (struct path_list){.v = NULL};
}

void place_paths_free(struct place_paths *paths)
{
	for (uint32_t i = 0; paths && i < paths->n_of; i++)
		list_done(paths, &paths->of[i]);
	if (paths)
		free(paths->of);
	free(paths);
}

static void set_end(const struct place *place, uint32_t node, uint32_t to)
{
	struct path_end *end;

	HASH_FIND_STR(place->paths->ends, place->nodes[node].name->text, end);
	if (end)
		end->node = to;
}

void place_paths_enter(struct place *place, uint32_t node)
{
	if (place->paths)
		set_end(place, node, node);
}

void place_paths_drop(struct place *place, uint32_t node)
{
	if (!place->paths)
		return;
	set_end(place, node, PLACE_NONE);
	if (node < place->paths->n_of)
		list_done(place->paths, &place->paths->of[node]);
}

static int place_path_reserve_node(struct place *place, uint32_t node)
{
	struct path_list *grown;

	if (!place->paths)
		place->paths = calloc(1, sizeof(*place->paths));
	if (!place->paths)
		return -ENOMEM;
	if (node < place->paths->n_of)
		return 0;
	grown = reallocarray(place->paths->of, place->n_nodes, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(&grown[place->paths->n_of], 0,
		(place->n_nodes - place->paths->n_of) * sizeof(*grown));
	place->paths->of = grown;
	place->paths->n_of = place->n_nodes;
	return 0;
}

static int place_path_check_paths(const struct place *place, uint32_t node,
	const struct place_path *paths, uint32_t n, struct error *err)
{
	if (node >= place->n_nodes || !place->nodes[node].is_used)
		return fail(err, EINVAL, "there is no node %u", node);
	if (n > PLACE_PATHS_MAX)
		return fail(err, EINVAL, "%u measurements of a node: up to %u are possible", n,
			PLACE_PATHS_MAX);
	for (uint32_t i = 0; i < n; i++)
		if (paths[i].latency_us > PLACE_LATENCY_MAX)
			return fail(err, EINVAL, "latency %u: up to %u us are possible",
				paths[i].latency_us, PLACE_LATENCY_MAX);
		else if (paths[i].mbit > PLACE_MBIT_MAX)
			return fail(err, EINVAL, "bandwidth %u: up to %u Mbit/s are possible",
				paths[i].mbit, PLACE_MBIT_MAX);
	return 0;
}

int place_paths_set(struct place *place, uint32_t node, const struct place_path *paths, uint32_t n,
	struct error *err)
{
	struct path_list fresh = {.v = NULL};
	int r = place_path_check_paths(place, node, paths, n, err);

	if (r < 0)
		return r;
	r = place_path_reserve_node(place, node);
	fresh.v = calloc(n + 1ull, sizeof(*fresh.v));
	r = fresh.v ? r : -ENOMEM;
	while (r == 0 && fresh.n < n) {
		struct path *path = &fresh.v[fresh.n];

		path->to = place_path_get_end(place, paths[fresh.n].node);
		path->latency_us = paths[fresh.n].latency_us;
		path->mbit = paths[fresh.n].mbit;
		if (path->to)
			fresh.n++;
		else
			r = -ENOMEM;
	}
	if (r < 0) {
		if (place->paths)
			list_done(place->paths, &fresh);
		else
			free(fresh.v);
		return fail(err, ENOMEM, "out of memory for what a node has measured");
	}
	list_done(place->paths, &place->paths->of[node]);
	place->paths->of[node] = fresh;
	return 0;
}

/* ---- look-up ---- */

struct path_list paths_of(const struct place *place, uint32_t node)
{
	return place->paths && node < place->paths->n_of ? place->paths->of[node]
							 : (struct path_list){.v = NULL};
}

static const struct path *place_path_find(const struct place *place, uint32_t from, uint32_t to)
{
	const struct path_list list = paths_of(place, from);
	const struct path *path = list.v;

	for (uint32_t i = 0; i < list.n; i++, path++)
		if (path->to->node == to)
			return path;
	return NULL;
}

const struct path *path_between(const struct place *place, uint32_t client, uint32_t server)
{
	const struct path *path = place_path_find(place, client, server);

	return path ? path : place_path_find(place, server, client);
}

bool place_path_get(
	const struct place *place, uint32_t client, uint32_t server, struct place_path *ret_path)
{
	const struct path *path = path_between(place, client, server);

	if (!path)
		return false;
	*ret_path = (struct place_path){.latency_us = path->latency_us, .mbit = path->mbit};
	return true;
}
