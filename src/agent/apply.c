/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows resource-config.txt files of Gemini, another system that shares GPUs: see apply.h. The
 * code watches the folder instead of the file, because editors rename a new file over the old one.
 * A file that cannot be parsed as a whole, such as one half written, changes no tenant. All
 * functions run in the loop's thread.
 */
#include "agent/apply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/tenant.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "spec/gemini.h"

#define FILE_MAX (1u << 20)

struct followed {
	char path[PATH_MAX];
	int watch; /* inotify watch of the file's folder */
};

struct apply {
	struct agent *agent;
	int fd;
	struct loop_io io;
	struct followed files[APPLY_FILES_MAX];
	uint32_t n;
};

static void origin_of(const char *path, const char *id, char *ret, size_t size)
{
	/*
	 * Uses the end of a long path: the end is distinct enough, and fits into a line of the
	 * state file.
	 */
	size_t n = strlen(path);

	snprintf(ret, size, "%s %s", n > 120 ? path + n - 120 : path, id);
}

static void apply_note_action(
	json_t *list, const struct tenant *t, const char *id, const char *action, const char *error)
{
	json_t *json = json_pack("{s:s, s:s}", "name", id, "action", action);
	char secret[TENANT_SECRET_TEXT];

	if (t) {
		tenant_secret_format(t, secret);
		json_object_set_new(json, "id", json_integer(t->id));
		json_object_set_new(json, "secret", json_string(secret));
	}
	if (error)
		json_object_set_new(json, "error", json_string(error));
	json_array_append_new(list, json);
}

/* Compares the fields that a line can state. A request of 0 means class opportunistic. */
static bool apply_is_same_spec(const struct spec *a, const struct spec *b)
{
	return a->request == b->request && a->limit == b->limit &&
		a->memory_bytes == b->memory_bytes && a->memory_permille == b->memory_permille &&
		a->class == b->class && a->priority == b->priority;
}

static void apply_set_client(
	struct agent *agent, const char *path, const struct gemini_client *client, json_t *list)
{
	struct tenant_params params = {
		.uid = getuid(),
		.lifetime = TENANT_KEEP,
		.source = TENANT_APPLY,
		.name = client->name,
		.spec = client->spec,
	};
	char origin[256];
	struct error err;
	struct tenant *t;
	int r;

	origin_of(path, client->name, origin, sizeof(origin));
	params.origin = origin;
	t = tenant_by_origin(agent, TENANT_APPLY, origin);
	if (!t) {
		r = tenant_new(agent, &params, &t, &err);
		if (r < 0)
			log_warn("%s: %s: %s", path, client->name, err.msg);
		apply_note_action(list, r < 0 ? NULL : t, client->name,
			r < 0 ? "refused" : "created", r < 0 ? err.msg : NULL);
		return;
	}
	if (apply_is_same_spec(&t->spec, &client->spec)) {
		apply_note_action(list, t, client->name, "same", NULL);
		return;
	}
	r = tenant_change(t, &client->spec, &err);
	if (r < 0)
		log_warn("%s: %s: %s", path, client->name, err.msg);
	apply_note_action(
		list, t, client->name, r < 0 ? "refused" : "changed", r < 0 ? err.msg : NULL);
}

/*
 * Call before tenants of other clients are made or changed: removed tenants free capacity for
 * these.
 */
static void remove_missing(struct agent *agent, const char *path,
	const struct gemini_client *clients, size_t n, json_t *list)
{
	char prefix[256], origin[256];
	struct tenant *t;

	origin_of(path, "", prefix, sizeof(prefix));
	LIST_FOREACH(t, &agent->tenants, link) {
		bool is_there = false;

		if (t->is_ending || t->source != TENANT_APPLY ||
			strncmp(t->origin, prefix, strlen(prefix)))
			continue;
		for (size_t i = 0; i < n && !is_there; i++) {
			origin_of(path, clients[i].name, origin, sizeof(origin));
			is_there = !strcmp(origin, t->origin);
		}
		if (is_there)
			continue;
		apply_note_action(list, t, t->name, "removed", NULL);
		tenant_kill(t);
	}
}

static int read_and_apply(
	struct agent *agent, const char *path, json_t **ret_list, struct error *err)
{
	_cleanup_gemini_ struct gemini gemini = {0};
	_cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
	json_t *list;
	int r = file_read(path, &text, err);

	if (r < 0)
		return r;
	r = gemini_parse(buf_str(&text), &gemini, err);
	if (r < 0)
		return fail_within(err, r, "%s", path);
	list = json_array();
	remove_missing(agent, path, gemini.client, gemini.n, list);
	for (size_t i = 0; i < gemini.n; i++)
		apply_set_client(agent, path, &gemini.client[i], list);
	*ret_list = list;
	return 0;
}

static struct followed *apply_find_file(struct apply *apply, const char *path)
{
	for (uint32_t i = 0; i < apply->n; i++)
		if (!strcmp(apply->files[i].path, path))
			return &apply->files[i];
	return NULL;
}

static int apply_follow_file(struct apply *apply, const char *path, struct error *err)
{
	struct followed *f = apply_find_file(apply, path);
	char folder[PATH_MAX], *slash;

	if (f)
		return 0;
	if (apply->n == APPLY_FILES_MAX)
		return fail(err, EUSERS,
			"the daemon follows %u files already, the maximum; stop one with divvy "
			"apply --stop",
			APPLY_FILES_MAX);
	if (strlen(path) >= sizeof(f->path))
		return fail(err, ENAMETOOLONG, "'%.80s...': the path is too long", path);
	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	slash[slash == folder] = '\0';
	f = &apply->files[apply->n];
	f->watch = inotify_add_watch(apply->fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO);
	if (f->watch < 0)
		return fail_errno(err, errno, "follow '%s'", path);
	snprintf(f->path, sizeof(f->path), "%s", path);
	apply->n++;
	return 0;
}

static void apply_on_file_change(struct loop_io *io, uint32_t events)
{
	struct apply *apply = io->data;
	_Alignas(struct inotify_event) char buffer[8192];
	ssize_t n = read(apply->fd, buffer, sizeof(buffer));

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *e = (const struct inotify_event *)(buffer + at);

		at += (ssize_t)(sizeof(*e) + e->len);
		for (uint32_t i = 0; i < apply->n; i++) {
			const char *path = apply->files[i].path, *base = strrchr(path, '/') + 1;
			json_t *list = NULL;
			struct error err;

			if (apply->files[i].watch != e->wd || !e->len || strcmp(e->name, base))
				continue;
			if (read_and_apply(apply->agent, path, &list, &err) < 0)
				log_warn("%s; the file's tenants stay as they are", err.msg);
			json_decref(list);
		}
	}
}

int apply_file(struct agent *agent, const char *path, bool does_follow, json_t **ret_tenants,
	struct error *err)
{
	const bool is_new = does_follow && !apply_find_file(agent->apply, path);
	int r = is_new ? apply_follow_file(agent->apply, path, err) : 0;

	if (r < 0)
		return r;
	r = read_and_apply(agent, path, ret_tenants, err);
	if (r < 0 && is_new)
		agent->apply->n--; /* the caller gets an error: follow no new file */
	return r;
}

int apply_stop(struct agent *agent, const char *path, json_t **ret_tenants, struct error *err)
{
	struct followed *f = apply_find_file(agent->apply, path);
	json_t *removed = json_array();

	if (f)
		*f = agent->apply->files[--agent->apply->n];
	/* Also removes tenants of a file that was read once, or that an earlier daemon followed. */
	remove_missing(agent, path, NULL, 0, removed);
	if (!f && !json_array_size(removed)) {
		json_decref(removed);
		return fail(err, ENOENT, "the daemon does not follow '%s' and has no tenant of it",
			path);
	}
	*ret_tenants = removed;
	return 0;
}

int apply_new(struct agent *agent, struct error *err)
{
	struct apply *apply = calloc(1, sizeof(*apply));
	int r;

	if (!apply)
		return fail(err, ENOMEM, "out of memory");
	agent->apply = apply;
	apply->agent = agent;
	apply->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (apply->fd < 0)
		return fail_errno(err, errno, "create an inotify instance");
	apply->io.data = apply;
	r = loop_add_io(agent->loop, &apply->io, apply->fd, EPOLLIN, apply_on_file_change);
	return r < 0 ? fail_errno(err, -r, "watch the inotify instance") : 0;
}

void apply_free(struct agent *agent)
{
	if (!agent->apply)
		return;
	loop_remove_io(&agent->apply->io);
	fd_close(agent->apply->fd);
	free(agent->apply);
	agent->apply = NULL;
}
