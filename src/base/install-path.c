/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file finds files relative to /proc/self/exe, so neither PATH nor the working directory
 * changes the result. The search skips a folder whose path is too long, as it skips a folder
 * without the file. The folder in the result is free of symbolic links.
 * install_path_find_program() searches the folders of a build before those of an installation.
 */
#include "base/install-path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

/* The folder of the running program, with a final '/'. */
static int own_folder(char ret[static PATH_MAX])
{
	const ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return -ENOENT;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (!slash)
		return -ENOENT;
	slash[1] = '\0';
	return 0;
}

int install_path_find(
	const char *const *folders, const char *name, int mode, char *ret_path, size_t size)
{
	char own[PATH_MAX], path[2 * PATH_MAX];

	if (own_folder(own) < 0)
		return -ENOENT;
	for (; *folders; folders++) {
		_cleanup_free_ char *folder = NULL;
		int n = snprintf(path, sizeof(path), "%s%s", own, *folders);

		if ((size_t)n >= sizeof(path))
			continue;
		folder = realpath(path, NULL);
		if (!folder)
			continue;
		n = snprintf(path, sizeof(path), "%s/%s", folder, name);
		if ((size_t)n < sizeof(path) && access(path, mode) == 0)
			return str_copy(ret_path, size, str_from(path));
	}
	return -ENOENT;
}

int install_path_find_program(const char *name, char *ret_path, size_t size, struct error *err)
{
	/* The first two are folders of a build, the third of an installation. */
	static const char *const folders[] = {"../remote", "../link", "../libexec/divvy", NULL};
	const int r = install_path_find(folders, name, X_OK, ret_path, size);

	if (r == -ENOENT)
		return fail(err, ENOENT, "%s is not in divvy's install path" INSTALL_PATH_PACKAGE,
			name);
	return r < 0 ? fail_errno(err, -r, "%s", name) : r;
}
