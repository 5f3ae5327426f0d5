/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/install-path.h"
#include "base/fd.h"

#define ROOT "../../../../../../../../../../../../../../../.."

static char made[] = "/tmp/divvy-beside-XXXXXX", *real;

/* "/a/first" and "/a/second", relative to this program's folder. */
static char first[PATH_MAX], second[PATH_MAX];
static const char *const folders[] = {"no/such/folder", first, second, NULL};

static void put(const char *folder, const char *name, mode_t mode)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", real, folder);
	assert_ok(folder_make(path, 0700, NULL));
	snprintf(path, sizeof(path), "%s/%s/%s", real, folder, name);
	assert_ok(file_replace(path, STR("x"), mode, NULL));
}

static int set_up(void **state)
{
	if (!mkdtemp(made))
		return -1;
	real = realpath(made, NULL);
	snprintf(first, sizeof(first), ROOT "%s/first", real);
	snprintf(second, sizeof(second), ROOT "%s/second", real);
	put("first", "both", 0700);
	put("second", "both", 0700);
	put("first", "one", 0600);
	put("second", "one", 0700);
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"first/both", "second/both", "first/one", "second/one",
		"second/link", "first", "second", "."};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", real, names[i]);
		if (unlink(path) < 0)
			rmdir(path);
	}
	rmdir(real);
	free(real);
	return 0;
}

static void assert_found(const char *name, int mode, const char *where)
{
	char path[PATH_MAX], expected[PATH_MAX];

	snprintf(expected, sizeof(expected), "%s/%s", real, where);
	assert_ok(install_path_find(folders, name, mode, path, sizeof(path)));
	assert_string_equal(path, expected);
}

static void the_first_folder_with_the_file_counts(void **state)
{
	assert_found("both", R_OK, "first/both");
}

static void a_file_without_permission_does_not_count(void **state)
{
	assert_found("one", X_OK, "second/one");
	assert_found("one", R_OK, "first/one");
}

/* An upgrade may replace what the link points to. */
static void a_link_stays_a_link(void **state)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/second/link", real);
	assert_int_equal(symlink("../first/both", path), 0);
	assert_found("link", X_OK, "second/link");
}

static void folders_are_relative_to_this_program(void **state)
{
	static const char *const here[] = {".", NULL};
	char path[PATH_MAX], own[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	assert_true(n > 0);
	own[n] = '\0';
	assert_ok(install_path_find(here, strrchr(own, '/') + 1, X_OK, path, sizeof(path)));
	assert_string_equal(path, own);
}

static void missing_files_and_long_paths_are_refused(void **state)
{
	char path[PATH_MAX], name[2 * PATH_MAX];
	struct error err;

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(install_path_find(folders, "none", R_OK, path, sizeof(path)), -ENOENT);
	assert_int_equal(install_path_find(folders, name, R_OK, path, sizeof(path)), -ENOENT);
	assert_int_equal(
		install_path_find(folders, "both", R_OK, path, strlen(real)), -ENAMETOOLONG);
	assert_int_equal(install_path_find_program("no-such", path, sizeof(path), &err), -ENOENT);
	assert_string_equal(err.msg, "no-such is not in divvy's install path");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_folder_with_the_file_counts),
		cmocka_unit_test(a_file_without_permission_does_not_count),
		cmocka_unit_test(a_link_stays_a_link),
		cmocka_unit_test(folders_are_relative_to_this_program),
		cmocka_unit_test(missing_files_and_long_paths_are_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
