/* SPDX-License-Identifier: Apache-2.0 */
/* What a container with a slot gets: nothing that it could write, and nothing of the host's own. */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/node-slot.h"
#include "base/cleanup.h"
#include "base/fd.h"

#define SLOT "/run/divvy/slots/7"
#define LIBRARY "/var/lib/divvy/lib/1"
#define SIM "/run/divvy/sim"

static const struct plugin_mount *find(const struct slot_edits *e, const char *place)
{
	for (size_t i = 0; i < e->edits.n_mounts; i++)
		if (!strcmp(e->edits.mounts[i].container_path, place))
			return &e->edits.mounts[i];
	return NULL;
}

static void all_is_read_only_and_its_own(void **state)
{
	static const char *const below[] = {SLOT, LIBRARY, LIBRARY "/ld.so.preload", SIM};
	const struct slot_plan plan[] = {{SLOT, LIBRARY, NULL}, {SLOT, LIBRARY, SIM}};

	for (size_t k = 0; k < ARRAY_SIZE(plan); k++) {
		struct slot_edits e;

		slot_edits_fill(&plan[k], &e);
		assert_int_equal(e.edits.n_mounts, 3 + k);
		for (size_t i = 0; i < e.edits.n_mounts; i++) {
			assert_true(e.edits.mounts[i].is_read_only);
			assert_string_equal(e.edits.mounts[i].host_path,
				below[i]); /* never a folder above, which has everybody's */
		}
		/* No device, no annotation: a pod of the restricted profile may have these. */
		assert_int_equal(e.edits.n_nodes, 0);
		assert_int_equal(e.edits.n_annotations, 0);
		assert_int_equal(e.edits.n_cdi, 0);
		assert_string_equal(find(&e, "/run/divvy")->host_path, SLOT);
		assert_string_equal(
			find(&e, "/etc/ld.so.preload")->host_path, LIBRARY "/ld.so.preload");
		assert_string_equal(find(&e, "/opt/divvy")->host_path, LIBRARY);
	}
}

static void the_environment_has_no_secret(void **state)
{
	struct slot_edits e;

	slot_edits_fill(&(struct slot_plan){SLOT, LIBRARY, NULL}, &e);
	assert_int_equal(e.edits.n_env, 1);
	assert_string_equal(e.edits.env[0].name, "DIVVY_ABSENT");
	assert_string_equal(e.edits.env[0].value, "closed");
}

/* ---- libraries ---- */

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

static void an_upgrade_leaves_the_files_of_before(void **state)
{
	char top[] = "/tmp/divvy-slot-XXXXXX", hooks[64], first[PATH_MAX], again[PATH_MAX],
	     second[PATH_MAX], preload[PATH_MAX + 16];
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	struct error err = {0};
	ino_t before;

	assert_non_null(mkdtemp(top));
	snprintf(hooks, sizeof(hooks), "%s/hooks", top);
	assert_int_equal(folder_make(hooks, 0755, NULL), 0);
	setenv("DIVVY_HOOKS", hooks, 1);
	assert_int_equal(library_install(top, NULL, first, &err), -ENOENT);
	write_file(hooks, "libdivvy-cuda.so", "one");
	write_file(hooks, "libdivvy-nvml.so", "nvml");
	assert_int_equal(library_install(top, NULL, first, &err), 0);
	before = inode_of(first, "libdivvy-cuda.so");
	assert_int_equal(library_install(top, NULL, again, &err), 0);
	assert_string_equal(first, again);
	assert_int_equal(inode_of(first, "libdivvy-cuda.so"), before);
	write_file(hooks, "libdivvy-cuda.so", "two");
	assert_int_equal(library_install(top, NULL, second, &err), 0);
	assert_string_not_equal(first, second);
	assert_int_equal(inode_of(first, "libdivvy-cuda.so"), before);
	snprintf(preload, sizeof(preload), "%s/" SLOT_PRELOAD, second);
	assert_int_equal(file_read(preload, &list, &err), 0);
	assert_string_equal(
		buf_text(&list), "/opt/divvy/libdivvy-cuda.so\n/opt/divvy/libdivvy-nvml.so\n");
	remove_all(top);
}

UNIT_MAIN(UNIT(all_is_read_only_and_its_own), UNIT(the_environment_has_no_secret),
	UNIT(an_upgrade_leaves_the_files_of_before))
