/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
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

const char *places_socket_named(void)
{
	const char *set = getenv("DIVVY_SOCKET");

	return set && set[0] ? set : NULL;
}

bool places_socket(size_t i, char *ret_path, size_t size)
{
	const char *set = places_socket_named();
	size_t n;

	if (set)
		return i == 0 && snprintf(ret_path, size, "%s", set) < (int)size;
	if (!runtime_folder(i, ret_path, size))
		return false;
	n = strlen(ret_path);
	return snprintf(ret_path + n, size - n, "/divvyd.sock") < (int)(size - n);
}

int places_runtime(char *ret_path, size_t size, struct error *err)
{
	const char *set = getenv("DIVVY_RUNTIME_DIR");
	const size_t mine = (set && set[0]) || geteuid() == 0 ? 0 : 1;

	if (!runtime_folder(mine, ret_path, size))
		return fail(err, ENAMETOOLONG, "the runtime folder's name is too long");
	if (ret_path[0] != '/')
		return fail(
			err, EINVAL, "runtime folder '%s': expected an absolute path", ret_path);
	return 0;
}

/* Joins the folder of this program with `relative`; "" when that file is not there. */
static bool beside(const char *relative, char *ret_path, size_t size)
{
	char self[PLACES_PATH], joined[PLACES_PATH + 256];
	const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash, *real;

	if (n <= 0)
		return false;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	snprintf(joined, sizeof(joined), "%s/%s", self, relative);
	if (access(joined, R_OK) < 0)
		return false;
	real = realpath(joined, NULL);
	if (!real)
		return false;
	n < (ssize_t)size ? snprintf(ret_path, size, "%s", real) : 0;
	free(real);
	return n < (ssize_t)size;
}

int places_daemon(char *ret_path, size_t size, struct error *err)
{
	static const char *const relative[] = {
		"../agent/divvyd", "divvyd", "../sbin/divvyd", "../libexec/divvy/divvyd"};
	const char *set = getenv("DIVVYD");

	if (set && set[0]) {
		if (access(set, X_OK) < 0)
			return fail_errno(err, errno, "DIVVYD '%s'", set);
		return str_copy(ret_path, size, str_from(set));
	}
	for (size_t i = 0; i < ARRAY_SIZE(relative); i++)
		if (beside(relative[i], ret_path, size))
			return 0;
	return fail(err, ENOENT, "divvyd is not beside divvy; DIVVYD may name it");
}

int places_hook(const char *library, char *ret_path, size_t size, struct error *err)
{
	static const char *const folder[] = {
		"../hook", "../remote", "../lib/divvy", "../" DIVVY_LIBDIR "/divvy"};
	const char *set = getenv("DIVVY_HOOKS");
	char path[PLACES_PATH];

	if (set && set[0]) {
		snprintf(ret_path, size, "%s/%s", set, library);
		if (access(ret_path, R_OK) < 0)
			return fail_errno(err, errno, "'%s' (DIVVY_HOOKS)", ret_path);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(folder); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder[i], library);
		if (beside(path, ret_path, size))
			return 0;
	}
	return fail(err, ENOENT,
		"%s is not where divvy is installed; DIVVY_HOOKS may name its folder", library);
}

int places_helper(const char *program, char *ret_path, size_t size, struct error *err)
{
	static const char *const folder[] = {"../remote", "../libexec/divvy"};
	char path[PLACES_PATH];

	for (size_t i = 0; i < ARRAY_SIZE(folder); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder[i], program);
		if (beside(path, ret_path, size))
			return 0;
	}
	return fail(err, ENOENT, "%s is not where divvy is installed", program);
}
