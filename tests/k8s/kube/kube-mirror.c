/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a cache of the server's objects at PATH: kube-mirror [OPTION...] PATH. It reads commands
 * from stdin, one on a line. `dump` prints each object's raw JSON on a line, then an empty line;
 * `counts` prints one line; `end` ends the program. It prints "synced" when the first list is
 * complete. It exits with 1 if the handlers' calls do not add up to the cache's objects.
 *
 *   --limit N  --idle SECONDS  --watch SECONDS  --seed N  --http1  --labels SELECTOR
 *   --pause MILLISECONDS: the longest pause after a failure
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "kube/cache.h"

struct mirror {
	struct loop *loop;
	struct kube_cache *cache;
	struct loop_io in;
	struct buf line;
	size_t n_told; /* objects added minus objects deleted, by the handlers' calls */
	uint64_t n_updates, n_troubles;
	struct error last;
};

static int project(void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	*ret_own = calloc(1, 1);
	return *ret_own ? 0 : -ENOMEM;
}

static void added(void *data, const struct kube_entry *entry)
{
	((struct mirror *)data)->n_told++;
}

static void updated(void *data, const struct kube_entry *entry, void *old)
{
	((struct mirror *)data)->n_updates++;
}

static void deleted(void *data, const struct kube_entry *entry)
{
	((struct mirror *)data)->n_told--;
}

static void synced(void *data)
{
	printf("synced\n");
	fflush(stdout);
}

static void trouble(void *data, const struct error *err)
{
	struct mirror *mirror = data;

	mirror->n_troubles++;
	mirror->last = *err;
	fprintf(stderr, "kube-mirror: %s\n", err->msg);
}

static void dump(const struct mirror *mirror)
{
	const struct kube_entry *e = NULL;
	size_t n = 0;

	while ((e = kube_cache_next(mirror->cache, e))) {
		printf("%.*s\n", (int)e->raw.n, e->raw.p);
		if (kube_cache_find(mirror->cache, e->namespace_name, e->name) != e ||
			kube_cache_find_uid(mirror->cache, e->uid) != e)
			exit(1);
		n++;
	}
	printf("\n");
	if (n != mirror->n_told || n != kube_cache_count(mirror->cache))
		exit(1);
}

static void show_counts(const struct mirror *mirror)
{
	const struct kube_reflect_counts c = kube_cache_counts(mirror->cache);

	printf("{\"objects\": %zu, \"lists\": %ju, \"pages\": %ju, \"watches\": %ju, "
	       "\"frames\": %ju, \"expired\": %ju, \"garbled\": %ju, \"lost\": %ju, "
	       "\"refused\": %ju, \"updates\": %ju, \"troubles\": %ju, \"synced\": %s}\n",
		kube_cache_count(mirror->cache), (uintmax_t)c.n_lists, (uintmax_t)c.n_pages,
		(uintmax_t)c.n_watches, (uintmax_t)c.n_frames, (uintmax_t)c.n_expired,
		(uintmax_t)c.n_garbled, (uintmax_t)c.n_lost, (uintmax_t)c.n_refused,
		(uintmax_t)mirror->n_updates, (uintmax_t)mirror->n_troubles,
		kube_cache_is_synced(mirror->cache) ? "true" : "false");
}

static void obey(struct mirror *mirror, struct str line)
{
	if (str_is(line, "dump"))
		dump(mirror);
	else if (str_is(line, "counts"))
		show_counts(mirror);
	else
		loop_stop(mirror->loop, 0);
	fflush(stdout);
}

static void on_input(struct loop_io *io, uint32_t events)
{
	struct mirror *mirror = io->data;
	char bytes[256];
	const ssize_t n = read(io->fd, bytes, sizeof(bytes));
	size_t end;

	if (n <= 0) {
		loop_stop(mirror->loop, 0);
		return;
	}
	buf_add(&mirror->line, (struct str){bytes, (size_t)n});
	while ((end = str_find(buf_str(&mirror->line), '\n')) < mirror->line.n) {
		obey(mirror, (struct str){mirror->line.p, end});
		buf_consume(&mirror->line, end + 1);
	}
}

static void read_options(int argc, char **argv, struct kube_reflect_options *options,
	struct kube_client_options *client)
{
	static const struct option names[] = {{"limit", required_argument, NULL, 'l'},
		{"idle", required_argument, NULL, 'i'}, {"watch", required_argument, NULL, 'w'},
		{"seed", required_argument, NULL, 's'}, {"http1", no_argument, NULL, '1'},
		{"labels", required_argument, NULL, 'L'}, {"pause", required_argument, NULL, 'p'},
		{0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		switch (c) {
		case 'l': options->limit = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'i': options->idle_ns = strtoull(optarg, NULL, 10) * NSEC_PER_SEC; break;
		case 'w': options->watch_min_s = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 's': client->seed = strtoull(optarg, NULL, 10); break;
		case '1': client->is_http1 = true; break;
		case 'p': options->max_pause_ns = strtoull(optarg, NULL, 10) * NSEC_PER_MSEC; break;
		case 'L': options->label_selector = optarg; break;
		default: exit(2);
		}
	}
	if (optind + 1 != argc)
		exit(2);
	options->path = argv[optind];
}

int main(int argc, char **argv)
{
	struct kube_reflect_options options = {0};
	struct kube_client_options client_options = {0};
	_cleanup_loop_ struct loop *loop = NULL;
	_cleanup_kube_config_ struct kube_config *config = NULL;
	_cleanup_kube_client_ struct kube_client *client = NULL;
	_cleanup_kube_cache_ struct kube_cache *cache = NULL;
	struct mirror mirror = {.line = BUF_INIT(4096), .in.data = &mirror};
	const struct kube_cache_handler handler = {.project = project,
		.release = free,
		.added = added,
		.updated = updated,
		.deleted = deleted,
		.synced = synced,
		.trouble = trouble,
		.data = &mirror,
		.keeps_raw = true};
	struct error err = {0};
	int r;

	read_options(argc, argv, &options, &client_options);
	r = loop_new(&loop);
	if (r >= 0)
		r = kube_config_load(NULL, &config, &err);
	if (r >= 0)
		r = kube_client_new(loop, config, &client_options, &client, &err);
	if (r >= 0)
		r = kube_cache_new(client, &options, &handler, &cache, &err);
	mirror.loop = loop;
	mirror.cache = cache;
	if (r >= 0)
		r = loop_add_io(loop, &mirror.in, STDIN_FILENO, EPOLLIN, on_input);
	if (r >= 0)
		r = loop_run(loop);
	if (r < 0)
		fprintf(stderr, "kube-mirror: %s\n", err.msg);
	buf_done(&mirror.line);
	return r < 0;
}
