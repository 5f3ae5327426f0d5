/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries by version: an upgrade replaces no file, and a version stays while a container uses it.
 */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "node/node-library.h"

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(file_replace(path, str_from(text), 0644, NULL), 0);
}

static ino_t inode_of(const char *folder, const char *name)
{
	char path[PATH_MAX + 64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_all(const char *folder)
{
	assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void an_upgrade_leaves_the_older_files(void **state)
{
	char top[] = "/tmp/divvy-slot-XXXXXX", hooks[64], first[PATH_MAX], again[PATH_MAX],
	     second[PATH_MAX];
	struct error err = {0};
	ino_t before;

	assert_non_null(mkdtemp(top));
	snprintf(hooks, sizeof(hooks), "%s/hooks", top);
	assert_int_equal(folder_make(hooks, 0755, NULL), 0);
	setenv("DIVVY_HOOKS", hooks, 1);
	assert_int_equal(library_install(top, NULL, first, &err), -ENOENT);
	write_file(hooks, "libdivvy-cuda.so", "one");
	write_file(hooks, "libdivvy-nvml.so", "nvml");
	write_file(hooks, "libdivvy-remote.so", "far");
	write_file(hooks, "libdivvy-remote-nvml.so", "far nvml");
	write_file(hooks, "libdivvy-cudart-12.so", "runtime 12");
	write_file(hooks, "libdivvy-cudart-13.so", "runtime 13");
	assert_int_equal(library_install(top, NULL, first, &err), 0);
	before = inode_of(first, "libdivvy-cuda.so");
	assert_int_equal(library_install(top, NULL, again, &err), 0);
	assert_string_equal(first, again);
	assert_int_equal(inode_of(first, "libdivvy-cuda.so"), before);
	write_file(hooks, "libdivvy-cuda.so", "two");
	assert_int_equal(library_install(top, NULL, second, &err), 0);
	assert_string_not_equal(first, second);
	assert_int_equal(inode_of(first, "libdivvy-cuda.so"), before);
	remove_all(top);
}

struct machine {
	char top[32];
	char version[3][PATH_MAX];
};

static void make_versions(struct machine *m)
{
	char hooks[64], text[16];
	struct error err = {0};

	snprintf(m->top, sizeof(m->top), "/tmp/divvy-slot-XXXXXX");
	assert_non_null(mkdtemp(m->top));
	snprintf(hooks, sizeof(hooks), "%s/hooks", m->top);
	assert_ok(folder_make(hooks, 0755, NULL));
	setenv("DIVVY_HOOKS", hooks, 1);
	write_file(hooks, "libdivvy-nvml.so", "nvml");
	write_file(hooks, "libdivvy-remote.so", "far");
	write_file(hooks, "libdivvy-remote-nvml.so", "far nvml");
	write_file(hooks, "libdivvy-cudart-12.so", "runtime 12");
	write_file(hooks, "libdivvy-cudart-13.so", "runtime 13");
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "version %d", i);
		write_file(hooks, "libdivvy-cuda.so", text);
		assert_ok(library_install(m->top, NULL, m->version[i], &err));
	}
}

static bool is_there(const char *folder)
{
	return access(folder, F_OK) == 0;
}

/* data: the held slots, as "7 9 " */
static bool is_held(void *data, const char *slot)
{
	char word[16];

	snprintf(word, sizeof(word), "%s ", slot);
	return strstr(data, word) != NULL;
}

static void a_version_is_removed_after_its_last_container(void **state)
{
	char both[] = "7 9 ", one[] = "9 ", none[] = "";
	struct error err = {0};
	struct machine m;

	make_versions(&m);
	assert_false(library_is_noted(m.top, "7"));
	assert_ok(library_note(m.top, "7", m.version[0], &err));
	assert_ok(library_note(m.top, "9", m.version[0], &err));
	assert_ok(library_note(m.top, "11", m.version[2], &err));
	assert_true(library_is_noted(m.top, "7"));
	/* No container uses the middle version. */
	assert_int_equal(library_sweep(m.top, m.version[2], is_held, both, &err), 1);
	assert_true(is_there(m.version[0]));
	assert_false(is_there(m.version[1]));
	assert_int_equal(library_sweep(m.top, m.version[2], is_held, one, &err), 1);
	assert_false(library_is_noted(m.top, "7"));
	assert_true(is_there(m.version[0]));
	/* The next container of slot 9 uses the newest version. */
	assert_ok(library_note(m.top, "9", m.version[2], &err));
	assert_int_equal(library_sweep(m.top, m.version[2], is_held, one, &err), 0);
	assert_false(is_there(m.version[0]));
	assert_int_equal(library_sweep(m.top, m.version[2], is_held, none, &err), 0);
	assert_true(is_there(m.version[2]));
	remove_all(m.top);
}

static void an_empty_record_does_not_count(void **state)
{
	char folder[64];
	struct error err = {0};
	struct machine m;

	make_versions(&m);
	assert_ok(library_note(m.top, "7", m.version[0], &err));
	snprintf(folder, sizeof(folder), "%s/" LIBRARY_RECORDS, m.top);
	write_file(folder, "7", "");
	assert_false(library_is_noted(m.top, "7"));
	remove_all(m.top);
}

/*
 * The kubelet starts no other pod while divvyd writes a record, so an unchanged record is not
 * written.
 */
static void an_unchanged_record_is_not_rewritten(void **state)
{
	char folder[64];
	struct error err = {0};
	struct machine m;
	ino_t before;

	make_versions(&m);
	snprintf(folder, sizeof(folder), "%s/" LIBRARY_RECORDS, m.top);
	assert_ok(library_note(m.top, "7", m.version[0], &err));
	before = inode_of(folder, "7");
	assert_ok(library_note(m.top, "7", m.version[0], &err));
	assert_true(inode_of(folder, "7") == before);
	assert_ok(library_note(m.top, "7", m.version[2], &err));
	assert_true(inode_of(folder, "7") != before);
	remove_all(m.top);
}

static void a_version_that_a_live_process_installs_stays(void **state)
{
	char mine[PATH_MAX + 16], dead[PATH_MAX + 16], none[] = "";
	struct error err = {0};
	struct machine m;

	make_versions(&m);
	snprintf(mine, sizeof(mine), "%s.%d", m.version[1], (int)getpid());
	/* The suffix is a pid above the largest possible one. */
	snprintf(dead, sizeof(dead), "%s.%d", m.version[1], 4194305);
	assert_ok(folder_make(mine, 0755, &err));
	assert_ok(folder_make(dead, 0755, &err));
	assert_int_equal(library_sweep(m.top, m.version[2], is_held, none, &err), 0);
	assert_true(is_there(mine));
	assert_false(is_there(dead));
	remove_all(m.top);
}

static void sweeping_a_missing_folder_succeeds(void **state)
{
	char none[] = "", folder[64];
	struct error err = {0};

	snprintf(folder, sizeof(folder), "/nonexistent/lib/1-0");
	assert_int_equal(library_sweep("/nonexistent", folder, is_held, none, &err), 0);
}

UNIT_MAIN(UNIT(an_upgrade_leaves_the_older_files),
	UNIT(a_version_is_removed_after_its_last_container), UNIT(an_empty_record_does_not_count),
	UNIT(an_unchanged_record_is_not_rewritten),
	UNIT(a_version_that_a_live_process_installs_stays),
	UNIT(sweeping_a_missing_folder_succeeds))
