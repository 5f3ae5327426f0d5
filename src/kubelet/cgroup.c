/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pod and the container in the paths of a /proc/PID/cgroup. Each parse function accepts
 * one layout: cgroupfs, systemd slices, or a kubelet and a runtime with different drivers. The
 * functions read a path from its beginning and ignore what follows the container's component.
 * parse_beside() reads the paths that begin with "/..", of a process outside of our cgroup
 * namespace. All lines in a pod must name the same pod, and the same container if they name one.
 */
#include "kubelet/cgroup.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"

#define UUID_DIGITS 32u
#define CONTAINER_DIGITS 64u

/* The default roots of kubelets. */
static const char *const usual_roots[] = {"", "/kubelet", "/kubelet.slice"};

/* containerd's cgroupfs driver puts the kubelet's slices below this service. */
#define RUNTIME_SERVICE "/system.slice/containerd.service"

/* The prefix and suffix of a container's id in its cgroup's name. */
static const struct {
	const char *before, *after;
} container_names[] = {
	{"cri-containerd-", ".scope"},
	{"crio-", ".scope"},
	{"docker-", ".scope"},
	{"crio-", ""},
	{"", ""},
};

static const char *const classes[] = {"burstable", "besteffort"};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/*
 * Parses the part after "pod". A systemd slice has '_' instead of '-', because '-' in a slice's
 * name separates levels.
 */
static bool parse_uid(struct str text, char dash, char ret_uid[static 37])
{
	const bool has_dashes = text.n == UUID_DIGITS + 4;

	if (text.n != UUID_DIGITS && !has_dashes)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		bool is_dash = has_dashes && (i == 8 || i == 13 || i == 18 || i == 23);

		if (is_dash ? text.p[i] != dash : !is_hex(text.p[i]))
			return false;
		ret_uid[i] = is_dash ? '-' : text.p[i];
	}
	ret_uid[text.n] = '\0';
	return true;
}

static bool parse_id(struct str text, char ret_id[static 65])
{
	if (text.n != CONTAINER_DIGITS)
		return false;
	for (size_t i = 0; i < text.n; i++)
		if (!is_hex(text.p[i]))
			return false;
	return str_copy(ret_id, 65, text) == 0;
}

static void parse_container(struct str name, struct cgroup_pod *pod)
{
	for (size_t i = 0; i < ARRAY_SIZE(container_names); i++) {
		struct str id = name;

		if (str_skip_prefix(&id, str_from(container_names[i].before)) &&
			str_skip_suffix(&id, str_from(container_names[i].after)) &&
			parse_id(id, pod->container))
			return;
	}
	pod->container[0] = '\0';
}

/* The next component of "/a/b"; false at the end. */
static bool cgroup_next_name(struct str *path, struct str *ret_name)
{
	if (!str_skip_prefix(path, STR("/")))
		return false;
	ret_name->p = path->p;
	ret_name->n = str_find(*path, '/');
	path->p += ret_name->n;
	path->n -= ret_name->n;
	return ret_name->n > 0;
}

/* Parses /kubepods[/CLASS]/podUID[/CONTAINER]. */
static bool parse_plain(struct str path, struct cgroup_pod *pod)
{
	struct str name;

	if (!cgroup_next_name(&path, &name) || !str_is(name, "kubepods") ||
		!cgroup_next_name(&path, &name))
		return false;
	if ((str_is(name, classes[0]) || str_is(name, classes[1])) &&
		!cgroup_next_name(&path, &name))
		return false;
	if (!str_skip_prefix(&name, STR("pod")) || !parse_uid(name, '-', pod->uid))
		return false;
	parse_container(cgroup_next_name(&path, &name) ? name : STR(""), pod);
	return true;
}

/*
 * A slice's name begins with the names of all slices above it: below "/kubelet.slice" each name
 * begins with "kubelet-". Removes this prefix. A root that is no slice adds no prefix.
 */
static bool skip_above(struct str root, struct str *name)
{
	struct str last = root;

	for (size_t at = str_find(last, '/'); at < last.n; at = str_find(last, '/'))
		last = (struct str){last.p + at + 1, last.n - at - 1};
	if (!str_skip_suffix(&last, STR(".slice")))
		return true;
	return str_skip_prefix(name, last) && str_skip_prefix(name, STR("-"));
}

/*
 * Parses kubepods[-CLASS]-podUID.slice after skip_above(). *ret_class: index of the class, or -1.
 */
static bool parse_slice(struct str name, int *ret_class, struct cgroup_pod *pod)
{
	*ret_class = -1;
	if (!str_skip_prefix(&name, STR("kubepods-")) || !str_skip_suffix(&name, STR(".slice")))
		return false;
	for (int i = 0; i < (int)ARRAY_SIZE(classes); i++) {
		struct str rest = name;

		if (str_skip_prefix(&rest, str_from(classes[i])) &&
			str_skip_prefix(&rest, STR("-"))) {
			*ret_class = i;
			name = rest;
		}
	}
	return str_skip_prefix(&name, STR("pod")) && parse_uid(name, '_', pod->uid);
}

/* Parses [/kubepods-CLASS.slice]/kubepods[-CLASS]-podUID.slice[/CONTAINER]. */
static bool parse_slices(struct str path, struct str root, bool has_top, struct cgroup_pod *pod)
{
	struct str name, rest;
	int class = -1, named;

	if (!cgroup_next_name(&path, &name) || !skip_above(root, &name))
		return false;
	rest = name;
	if (str_skip_prefix(&rest, STR("kubepods-")) && str_skip_suffix(&rest, STR(".slice"))) {
		for (int i = 0; i < (int)ARRAY_SIZE(classes); i++)
			if (str_is(rest, classes[i]))
				class = i;
		if (class >= 0 && (!cgroup_next_name(&path, &name) || !skip_above(root, &name)))
			return false;
	}
	/* If the path lacks the slices above, only this slice's name has the pod's QoS class. */
	if (!parse_slice(name, &named, pod) || (named != class && (has_top || class >= 0)))
		return false;
	parse_container(cgroup_next_name(&path, &name) ? name : STR(""), pod);
	return true;
}

/* Parses /kubepods.slice, followed by a path that parse_slices() accepts. */
static bool parse_systemd(struct str path, struct str root, struct cgroup_pod *pod)
{
	struct str name;

	return cgroup_next_name(&path, &name) && skip_above(root, &name) &&
		str_is(name, "kubepods.slice") && parse_slices(path, root, true, pod);
}

/*
 * Parses /kubepods[-CLASS]-podUID.slice:cri-containerd:ID, where kubelet and runtime have different
 * drivers.
 */
static bool parse_colons(struct str path, struct str root, struct cgroup_pod *pod)
{
	struct str name, slice, runtime;
	int class;

	if (!cgroup_next_name(&path, &name) || !skip_above(root, &name) ||
		!str_split(&name, ':', &slice) || !str_split(&name, ':', &runtime))
		return false;
	return str_is(runtime, "cri-containerd") && parse_slice(slice, &class, pod) &&
		parse_id(name, pod->container);
}

static bool parse_below(struct str path, struct str root, struct cgroup_pod *pod)
{
	struct str rest = path;

	if (str_skip_prefix(&rest, root) &&
		(parse_plain(rest, pod) || parse_systemd(rest, root, pod) ||
			parse_colons(rest, root, pod)))
		return true;
	return str_skip_prefix(&path, STR(RUNTIME_SERVICE)) && parse_colons(path, root, pod);
}

/*
 * Parses a path as a cgroup namespace shows other processes: "/.." for each ancestor of our cgroup
 * up to the nearest common ancestor. The rest is below that ancestor, which may be at any level
 * above a pod's cgroup. The first named component is a neighbour of our cgroup or of a cgroup that
 * contains us, and tenants cannot create these. (Only processes inside a pod see cgroups below the
 * pod's cgroup.)
 */
static bool parse_beside(struct str path, struct str root, struct cgroup_pod *pod)
{
	struct str name, rest;

	while (str_skip_prefix(&path, STR("/..")))
		;
	if (parse_below(path, root, pod) || parse_below(path, STR(""), pod))
		return true;
	rest = path;
	if (!cgroup_next_name(&rest, &name))
		return false;
	/* The path is CLASS/podUID/CONTAINER or podUID/CONTAINER. */
	if ((str_is(name, classes[0]) || str_is(name, classes[1])) &&
		!cgroup_next_name(&rest, &name))
		return false;
	if (str_skip_prefix(&name, STR("pod")) && parse_uid(name, '-', pod->uid)) {
		parse_container(cgroup_next_name(&rest, &name) ? name : STR(""), pod);
		return true;
	}
	return parse_slices(path, root, false, pod) || parse_colons(path, root, pod);
}

static bool cgroup_is_sibling(struct str path)
{
	return str_is(path, "/..") || str_has_prefix(path, STR("/../"));
}

static bool parse_path(struct str path, const char *root, struct cgroup_pod *pod)
{
	if (root)
		return parse_below(path, str_from(root), pod) ||
			(cgroup_is_sibling(path) && parse_beside(path, str_from(root), pod));
	for (size_t i = 0; i < ARRAY_SIZE(usual_roots); i++)
		if (parse_below(path, str_from(usual_roots[i]), pod) ||
			(cgroup_is_sibling(path) &&
				parse_beside(path, str_from(usual_roots[i]), pod)))
			return true;
	return false;
}

/*
 * Takes the path of the next line, "5:memory:/path" or "0::/path". The kernel appends " (deleted)"
 * to the path of a removed cgroup.
 */
static bool next_path(struct str *text, struct str *ret_path)
{
	struct str line, field;

	while (str_split(text, '\n', &line)) {
		if (!str_split(&line, ':', &field) || !str_split(&line, ':', &field) || !line.n)
			continue;
		str_skip_suffix(&line, STR(" (deleted)"));
		*ret_path = line;
		return true;
	}
	return false;
}

int cgroup_parse_pod(struct str text, const char *root, struct cgroup_pod *ret_pod)
{
	struct cgroup_pod found = {0}, pod;
	bool is_outside = false;
	struct str path;

	while (next_path(&text, &path)) {
		pod = (struct cgroup_pod){0};
		is_outside |= cgroup_is_sibling(path);
		if (!parse_path(path, root, &pod))
			continue;
		if (found.uid[0] && strcmp(found.uid, pod.uid))
			return -EBADMSG;
		if (found.container[0] && pod.container[0] &&
			strcmp(found.container, pod.container))
			return -EBADMSG;
		/*
		 * In some v1 hierarchies a process may be in the pod's cgroup itself, so a later
		 * line may still name the container.
		 */
		if (!found.container[0])
			found = pod;
	}
	if (!found.uid[0])
		return is_outside ? -EXDEV : -ENOENT;
	*ret_pod = found;
	return 0;
}

int cgroup_read_pod(pid_t pid, const char *root, struct cgroup_pod *ret_pod, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CGROUP_FILE_MAX);
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	r = file_read(path, &text, err);
	if (r == -ENOENT || r == -ESRCH)
		return fail(err, ESRCH, "process %d has ended", (int)pid);
	if (r < 0)
		return r;
	r = cgroup_parse_pod(buf_str(&text), root, ret_pod);
	if (r == -ENOENT)
		return fail(err, ENOENT, "process %d is in no pod's cgroup", (int)pid);
	if (r == -EBADMSG)
		return fail(err, EBADMSG, "process %d is in cgroups of different pods", (int)pid);
	if (r == -EXDEV)
		return fail(err, EXDEV,
			"process %d is outside of our cgroup namespace, in nothing that looks "
			"like a pod's cgroup",
			(int)pid);
	return 0;
}

int cgroup_parse_root(struct str text, char ret_root[static CGROUP_ROOT_SIZE])
{
	char root[CGROUP_ROOT_SIZE];
	struct cgroup_pod pod;
	struct str path;

	while (next_path(&text, &path))
		for (size_t i = 0; i < path.n && i < sizeof(root); i++) {
			if (path.p[i] != '/' ||
				str_copy(root, sizeof(root), (struct str){path.p, i}) < 0 ||
				!parse_below(path, str_from(root), &pod))
				continue;
			return str_copy(ret_root, CGROUP_ROOT_SIZE, str_from(root));
		}
	return -ENOENT;
}
