/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file finds programs and libraries first by divvy's own variables and then beside the running
 * program. The file finds sockets first by divvy's variables and then in the usual runtime folders.
 * A set variable of divvy's own ends the search, even if its file does not exist. runtime_folder()
 * numbers the possible folders without gaps, so callers count up until it returns false.
 * cli_path_preload() drops the interception libraries of an outer `divvy run`, so a program never
 * loads two versions of one library. No thread may change the environment meanwhile.
 */
#include "cli/cli-path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/install-path.h"
#include "base/str.h"

/* Runtime folders in the order in which clients look; NULL where the environment has none. */
static bool runtime_folder(size_t i, char *ret_path, size_t size)
{
	const char *set = getenv("DIVVY_RUNTIME_DIR"), *user = getenv("XDG_RUNTIME_DIR");

	if (set && set[0])
		return i == 0 && snprintf(ret_path, size, "%s", set) < (int)size;
	if (i == 1 && !(user && user[0]))
		i = 2;
	else if (i >= 2 && !(user && user[0]))
		i++;
	switch (i) {
	case 0: return snprintf(ret_path, size, "/run/divvy") < (int)size;
	case 1: return snprintf(ret_path, size, "%s/divvy", user) < (int)size;
	case 2:
		return snprintf(ret_path, size, "/tmp/divvy-%u", (unsigned int)getuid()) <
			(int)size;
	default: return false;
	}
}

const char *cli_path_socket_named(void)
{
	const char *set = getenv("DIVVY_SOCKET");

	return set && set[0] ? set : NULL;
}

bool cli_path_socket(size_t i, char *ret_path, size_t size)
{
	const char *set = cli_path_socket_named();
	size_t n;

	if (set)
		return i == 0 && snprintf(ret_path, size, "%s", set) < (int)size;
	if (!runtime_folder(i, ret_path, size))
		return false;
	n = strlen(ret_path);
	return snprintf(ret_path + n, size - n, "/divvyd.sock") < (int)(size - n);
}

int cli_path_runtime(char *ret_path, size_t size, struct error *err)
{
	const char *set = getenv("DIVVY_RUNTIME_DIR");
	const size_t mine = (set && set[0]) || geteuid() == 0 ? 0 : 1;

	if (!runtime_folder(mine, ret_path, size))
		return fail(err, ENAMETOOLONG,
			"the path of the runtime folder is too long; set DIVVY_RUNTIME_DIR to "
			"a shorter one");
	if (ret_path[0] != '/')
		return fail(
			err, EINVAL, "runtime folder '%s': expected an absolute path", ret_path);
	return 0;
}

int cli_path_daemon(char *ret_path, size_t size, struct error *err)
{
	static const char *const folders[] = {
		"../divvyd", ".", "../sbin", "../libexec/divvy", NULL};
	const char *set = getenv("DIVVYD");

	if (set && set[0]) {
		if (access(set, X_OK) < 0)
			return fail_errno(err, errno, "DIVVYD '%s'", set);
		return str_copy(ret_path, size, str_from(set));
	}
	if (install_path_find(folders, "divvyd", R_OK, ret_path, size) >= 0)
		return 0;
	return fail(err, ENOENT,
		"divvyd is not in divvy's install path; set DIVVYD to its path" INSTALL_PATH_PACKAGE);
}

int cli_path_hook(const char *library, char *ret_path, size_t size, struct error *err)
{
	static const char *const folders[] = {"../hook", "../remote", "../cudart", "../lib/divvy",
		"../" DIVVY_LIBDIR "/divvy", NULL};
	const char *set = getenv("DIVVY_HOOKS");

	if (set && set[0]) {
		snprintf(ret_path, size, "%s/%s", set, library);
		if (access(ret_path, R_OK) < 0)
			return fail_errno(err, errno, "'%s' (DIVVY_HOOKS)", ret_path);
		return 0;
	}
	if (install_path_find(folders, library, R_OK, ret_path, size) >= 0)
		return 0;
	return fail(err, ENOENT,
		"%s is not in divvy's install path; set DIVVY_HOOKS to its folder" INSTALL_PATH_PACKAGE,
		library);
}

static const char *const runtime_file[CLI_PATH_RUNTIMES] = {
	"libdivvy-cudart-12.so", "libdivvy-cudart-13.so"};

bool cli_path_has_runtime(const char *soname)
{
	return !strcmp(soname, "libcudart.so.12") || !strcmp(soname, "libcudart.so.13");
}

void cli_path_runtimes(struct cli_path_runtimes *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < CLI_PATH_RUNTIMES; i++)
		if (cli_path_hook(runtime_file[i], ret->path[ret->n], PLACES_PATH, NULL) >= 0)
			ret->n++;
}

int cli_path_check_runtimes(const struct cli_path_runtimes *runtimes, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < runtimes->n && r >= 0; i++)
		r = cli_path_check_preload(runtimes->path[i], err);
	return r;
}

#define NAMES_LOCAL "divvy-names"
#define NAMES_REMOTE "divvy-remote-names"

static bool is_hook(struct str path)
{
	static const char *const ours[] = {"libdivvy-cuda.so", "libdivvy-nvml.so",
		"libdivvy-remote.so", "libdivvy-remote-nvml.so", "libdivvy-cudart-12.so",
		"libdivvy-cudart-13.so"};
	struct str rest = path, name = path;

	while (str_split(&rest, '/', &name))
		;
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (str_is(name, ours[i]))
			return true;
	return false;
}

/* ld.so splits LD_PRELOAD at colons and spaces, and LD_PRELOAD has no quoting for either. */
int cli_path_check_preload(const char *path, struct error *err)
{
	const char *cut = strpbrk(path, " :");

	if (!cut)
		return 0;
	return fail(err, EINVAL,
		"LD_PRELOAD cannot name a path with a %s; link its folder (ln -s) and set "
		"DIVVY_HOOKS=/the/link: '%s'",
		*cut == ' ' ? "space" : "colon", path);
}

void cli_path_preload(const char *cuda, const char *nvml, const struct cli_path_runtimes *runtimes,
	struct buf *out)
{
	const char *before = getenv("LD_PRELOAD");
	struct str rest = str_from(before ? before : ""), part, path;

	buf_addf(out, "%s:%s", cuda, nvml);
	for (size_t i = 0; runtimes && i < runtimes->n; i++)
		buf_addf(out, ":%s", runtimes->path[i]);
	while (str_split(&rest, ':', &part))
		while (str_split(&part, ' ', &path))
			if (path.n && !is_hook(path)) {
				buf_add_byte(out, ':');
				buf_add(out, path);
			}
}

/* The folders of this and other versions have these names. */
static bool is_names_folder(struct str path)
{
	struct str rest = path, name = path, part;

	while (str_split(&rest, '/', &part))
		if (part.n)
			name = part;
	return str_is(name, NAMES_LOCAL) || str_is(name, NAMES_REMOTE);
}

bool cli_path_library_path(const char *cuda, struct buf *out)
{
	const char *before = getenv("LD_LIBRARY_PATH"), *slash = strrchr(cuda, '/');
	struct str rest = str_from(before ? before : ""), part;
	char folder[PLACES_PATH];

	if (!slash)
		return false;
	snprintf(folder, sizeof(folder), "%.*s/%s", (int)(slash - cuda), cuda,
		strcmp(slash, "/libdivvy-cuda.so") == 0 ? NAMES_LOCAL : NAMES_REMOTE);
	if (access(folder, X_OK) < 0)
		return false;
	buf_addf(out, "%s", folder);
	/* An empty piece is the working folder, which is nobody's wish in an empty list. */
	while (before && before[0] && str_split(&rest, ':', &part))
		if (!is_names_folder(part)) {
			buf_add_byte(out, ':');
			buf_add(out, part);
		}
	return true;
}
