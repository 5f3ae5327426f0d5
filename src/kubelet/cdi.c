/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats, writes and removes the CDI file of a slot, divvy.gpu-slot_<n>.json. cdi_check_slot()
 * validates the whole slot before any JSON is made, so no invalid edit reaches a runtime. jansson
 * returns NULL for text that is not UTF-8; format_edits() notices the missing entry by counting.
 * file_replace() renames a complete file into place, so a runtime never reads half a file.
 */
#include "kubelet/cdi.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define MOUNT_FLAGS "nosuid", "nodev", "bind"

void cdi_name(uint32_t slot, char ret_name[static CDI_NAME_SIZE])
{
	snprintf(ret_name, CDI_NAME_SIZE, CDI_KIND "=%u", slot);
}

static int cdi_file_path(const char *folder, uint32_t slot, char ret_path[static PATH_MAX])
{
	int n = snprintf(ret_path, PATH_MAX, "%s/divvy.gpu-slot_%u.json", folder, slot);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* ---- checks ---- */

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	return false;
}

static int check_path(const char *what, const char *path, struct error *err)
{
	if (!path || path[0] != '/' || strlen(path) >= PATH_MAX || has_control(path))
		return fail(err, EINVAL, "%s '%.100s': expected an absolute path", what,
			path ? path : "");
	return 0;
}

static int check_variable(const struct cdi_variable *v, struct error *err)
{
	if (!v->name[0] || v->name[strcspn(v->name, "=\r\n")])
		return fail(err, EINVAL, "variable '%.100s': expected a name without '='", v->name);
	if (v->value[strcspn(v->value, "\r\n")])
		return fail(err, EINVAL, "variable %.100s '%.100s': expected one line", v->name,
			v->value);
	return 0;
}

static int check_node(const struct cdi_node *node, struct error *err)
{
	int r = check_path("a node on the host", node->host_path, err);

	if (r == 0)
		r = check_path("a node in the container", node->container_path, err);
	if (r < 0)
		return r;
	if (!node->permissions || !*node->permissions ||
		node->permissions[strspn(node->permissions, "rwm")])
		return fail(err, EINVAL, "permissions '%.16s': expected some of r, w, m",
			node->permissions ? node->permissions : "");
	return 0;
}

static int cdi_check_slot(const struct cdi_slot *s, struct error *err)
{
	int r = 0;

	if (MAX(s->n_env, MAX(s->n_mounts, s->n_nodes)) > CDI_EDITS_MAX)
		return fail(err, E2BIG, "slot %u: more than %u mounts, variables or nodes", s->slot,
			CDI_EDITS_MAX);
	if (!s->n_env && !s->n_mounts && !s->n_nodes)
		return fail(err, EINVAL, "slot %u: expected at least one mount, variable or node",
			s->slot);
	for (size_t i = 0; r == 0 && i < s->n_env; i++)
		r = check_variable(&s->env[i], err);
	for (size_t i = 0; r == 0 && i < s->n_mounts; i++) {
		r = check_path("a mount's source", s->mounts[i].host_path, err);
		if (r == 0)
			r = check_path("a mount's place", s->mounts[i].container_path, err);
	}
	for (size_t i = 0; r == 0 && i < s->n_nodes; i++)
		r = check_node(&s->nodes[i], err);
	return r < 0 ? fail_within(err, r, "slot %u", s->slot) : 0;
}

/* ---- JSON; jansson's functions pass a NULL on, and the last one fails ---- */

static json_t *format_edits(const struct cdi_slot *s)
{
	json_t *edits = json_object(), *env = json_array(), *mounts = json_array(),
	       *nodes = json_array();

	for (size_t i = 0; i < s->n_env; i++)
		json_array_append_new(env, json_sprintf("%s=%s", s->env[i].name, s->env[i].value));
	for (size_t i = 0; i < s->n_mounts; i++)
		json_array_append_new(mounts,
			json_pack("{s:s, s:s, s:[s, s, s, s]}", "hostPath", s->mounts[i].host_path,
				"containerPath", s->mounts[i].container_path, "options",
				s->mounts[i].is_writable ? "rw" : "ro", MOUNT_FLAGS));
	for (size_t i = 0; i < s->n_nodes; i++)
		json_array_append_new(nodes,
			json_pack("{s:s, s:s, s:s, s:s}", "path", s->nodes[i].container_path,
				"hostPath", s->nodes[i].host_path, "type", "c", "permissions",
				s->nodes[i].permissions));
	if (json_array_size(env) != s->n_env || json_array_size(mounts) != s->n_mounts ||
		json_array_size(nodes) != s->n_nodes) {
		json_decref(edits);
		edits = NULL; /* out of memory, or not UTF-8 */
	}
	if (s->n_env)
		json_object_set(edits, "env", env);
	if (s->n_mounts)
		json_object_set(edits, "mounts", mounts);
	if (s->n_nodes)
		json_object_set(edits, "deviceNodes", nodes);
	json_decref(env);
	json_decref(mounts);
	json_decref(nodes);
	return edits;
}

static int add_text(const char *text, size_t n, void *data)
{
	return buf_add(data, (struct str){text, n}) < 0 ? -1 : 0;
}

int cdi_format(const struct cdi_slot *slot, struct buf *out, struct error *err)
{
	char name[16];
	json_t *root, *edits;
	int r = cdi_check_slot(slot, err);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%u", slot->slot);
	edits = format_edits(slot);
	if (!edits)
		return fail(err, EINVAL, "slot %u: a path or a variable is no UTF-8", slot->slot);
	root = json_pack("{s:s, s:s, s:[{s:s, s:o}]}", "cdiVersion", CDI_VERSION, "kind", CDI_KIND,
		"devices", "name", name, "containerEdits", edits);
	if (!root)
		return fail(err, ENOMEM, "out of memory");
	r = json_dump_callback(root, add_text, out, JSON_INDENT(2));
	json_decref(root);
	if (r < 0 || buf_add_byte(out, '\n') < 0)
		return fail(err, EMSGSIZE, "slot %u: its CDI file would be longer than %zu bytes",
			slot->slot, out->max);
	return 0;
}

int cdi_write(const char *folder, const struct cdi_slot *slot, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CDI_MAX);
	char path[PATH_MAX];
	int r = cdi_format(slot, &text, err);

	if (r < 0)
		return r;
	if (cdi_file_path(folder, slot->slot, path) < 0)
		return fail(err, ENAMETOOLONG, "folder '%.100s...': its name is too long", folder);
	r = folder_make(folder, 0755, err);
	/* Runtimes read only *.json and *.yaml, so they ignore file_replace()'s temporary file. */
	return r < 0 ? r : file_replace(path, buf_str(&text), 0644, err);
}

int cdi_remove(const char *folder, uint32_t slot, struct error *err)
{
	char path[PATH_MAX];

	if (cdi_file_path(folder, slot, path) < 0)
		return fail(err, ENAMETOOLONG, "folder '%.100s...': its name is too long", folder);
	if (unlink(path) < 0 && errno != ENOENT)
		return fail_errno(err, errno, "remove '%s'", path);
	return 0;
}
