/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Installs libraries into a folder that is named after divvy's version and a hash of their
 * contents. write_all() fills a temporary folder with the pid as suffix and renames it, so a folder
 * is complete or absent. A record is a file with the name of one slot's folder. library_sweep()
 * first deletes the records of slots that no container has, and reads the other records. Then it
 * removes the folders that no record names, except the current one. is_being_made() spares the
 * temporary folder of a live process.
 */
#include "node/node-library.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/install-path.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define LIBRARY_MAX (64u << 20)
#define HOOKS 6u /* the interception and remote libraries, and the CUDA runtimes */

/* ---- installing ---- */

struct library {
	const char *name; /* path below the folder */
	struct buf text;
	const char *elsewhere; /* the build makes it in this folder, beside the other libraries' */
};

/* Reads from the build or install folder, or from DIVVY_HOOKS. */
static int read_hook(struct library *library, struct error *err)
{
	static const char *const folders[] = {"../hook", "../remote", "../cudart", "../lib/divvy",
		"../" DIVVY_LIBDIR "/divvy", "../../lib/divvy", NULL};
	const char *set = getenv("DIVVY_HOOKS");
	char path[PATH_MAX + 256];

	if (set && *set) {
		snprintf(path, sizeof(path), "%s/%s", set, library->name);
		if (library->elsewhere && access(path, R_OK) < 0)
			snprintf(path, sizeof(path), "%s/../%s/%s", set, library->elsewhere,
				library->name);
		if (!library->elsewhere || access(path, R_OK) == 0)
			return file_read(path, &library->text, err);
	}
	if (install_path_find(folders, library->name, R_OK, path, sizeof(path)) >= 0)
		return file_read(path, &library->text, err);
	return fail(err, ENOENT,
		"%s is not where divvy is installed; DIVVY_HOOKS may name its folder",
		library->name);
}

static int read_driver(const char *driver, struct library *library, struct error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", driver, strrchr(library->name, '/') + 1);
	return file_read(path, &library->text, err);
}

/* Writes all files or none: first into a folder of another name. */
static int write_all(const char *folder, const struct library *library, size_t n, bool has_driver,
	struct error *err)
{
	char path[PATH_MAX + 64], making[PATH_MAX];
	int r;

	if ((size_t)snprintf(making, sizeof(making), "%s.%d", folder, (int)getpid()) >=
		sizeof(making))
		return fail(err, ENAMETOOLONG, "'%s' is too long", folder);
	r = folder_make(making, 0755, err);
	if (r >= 0 && has_driver) {
		snprintf(path, sizeof(path), "%s/driver", making);
		r = folder_make(path, 0755, err);
	}
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!library[i].text.n)
			continue;
		snprintf(path, sizeof(path), "%s/%s", making, library[i].name);
		r = file_replace(path, buf_str(&library[i].text), 0755, err);
	}
	if (r >= 0 && rename(making, folder) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		r = fail_errno(err, errno, "rename '%s'", making);
	return r;
}

int library_install(const char *state_dir, const char *driver, char ret_folder[static PATH_MAX],
	struct error *err)
{
	struct library library[] = {
		{"libdivvy-cuda.so", BUF_INIT(LIBRARY_MAX), NULL},
		{"libdivvy-nvml.so", BUF_INIT(LIBRARY_MAX), NULL},
		{"libdivvy-remote.so", BUF_INIT(LIBRARY_MAX), "remote"},
		{"libdivvy-remote-nvml.so", BUF_INIT(LIBRARY_MAX), "remote"},
		{"libdivvy-cudart-12.so", BUF_INIT(LIBRARY_MAX), "cudart"},
		{"libdivvy-cudart-13.so", BUF_INIT(LIBRARY_MAX), "cudart"},
		{"driver/libcuda.so.1", BUF_INIT(LIBRARY_MAX), NULL},
		{"driver/libnvidia-ml.so.1", BUF_INIT(LIBRARY_MAX), NULL},
	};
	char parent[PATH_MAX], folder[PATH_MAX];
	uint64_t hash = 0;
	struct stat st;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(library); i++) {
		if (i >= HOOKS && !driver)
			continue;
		r = i < HOOKS ? read_hook(&library[i], err) : read_driver(driver, &library[i], err);
		hash = hash * 31 + str_hash(buf_str(&library[i].text));
	}
	if (r >= 0 &&
		((size_t)snprintf(parent, sizeof(parent), "%s/lib", state_dir) >= sizeof(parent) ||
			(size_t)snprintf(folder, sizeof(folder), "%s/" DIVVY_VERSION "-%016llx",
				parent, (unsigned long long)hash) >= sizeof(folder)))
		r = fail(err, ENAMETOOLONG, "state folder '%s' is too long", state_dir);
	r = r < 0 ? r : folder_make(state_dir, 0755, err);
	r = r < 0 ? r : folder_make(parent, 0755, err);
	if (r >= 0 && stat(folder, &st) < 0)
		r = write_all(folder, library, ARRAY_SIZE(library), driver, err);
	for (size_t i = 0; i < ARRAY_SIZE(library); i++)
		buf_done(&library[i].text);
	if (r < 0)
		return fail_within(err, r, "libraries for tenants");
	memcpy(ret_folder, folder, sizeof(folder));
	return 0;
}

/* ---- records ---- */

static const char *library_folder_name(const char *folder)
{
	const char *slash = strrchr(folder, '/');

	return slash ? slash + 1 : folder;
}

static int record_path(
	const char *state_dir, const char *slot, char ret[static PATH_MAX], struct error *err)
{
	const int n = snprintf(ret, PATH_MAX, "%s/" LIBRARY_RECORDS "/%s", state_dir, slot);

	return n < PATH_MAX ? 0 : fail(err, ENAMETOOLONG, "'%s' is too long", state_dir);
}

int library_note(const char *state_dir, const char *slot, const char *folder, struct error *err)
{
	_cleanup_buf_ struct buf before = BUF_INIT(NAME_MAX);
	char path[PATH_MAX];
	int r = record_path(state_dir, "", path, err);

	r = r < 0 ? r : folder_make(path, 0755, err);
	r = r < 0 ? r : record_path(state_dir, slot, path, err);
	/*
	 * The kubelet admits no other pod while it waits for this write, so an unchanged record is
	 * not written again.
	 */
	if (r >= 0 && file_read(path, &before, NULL) >= 0 &&
		str_is(buf_str(&before), library_folder_name(folder)))
		return 0;
	return r < 0 ? r : file_replace(path, str_from(library_folder_name(folder)), 0644, err);
}

bool library_is_noted(const char *state_dir, const char *slot)
{
	char path[PATH_MAX];
	struct stat st;

	/* A record that a power failure left empty counts as none. */
	return record_path(state_dir, slot, path, NULL) == 0 && stat(path, &st) == 0 &&
		st.st_size > 0;
}

static int visit_folder(const char *path, int (*visit)(void *data, const char *name), void *data)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	int r = 0;

	if (!folder)
		return errno == ENOENT ? 0 : -errno;
	while (r >= 0 && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			r = visit(data, entry->d_name);
	closedir(folder);
	return r;
}

struct records {
	const char *state_dir;
	library_is_held_fn *is_held;
	void *data;
	struct buf names; /* names of library folders, each between newlines */
};

static int visit_record(void *data, const char *slot)
{
	struct records *records = data;
	char path[PATH_MAX];
	int r = record_path(records->state_dir, slot, path, NULL);

	if (r < 0)
		return r;
	if (!records->is_held(records->data, slot))
		return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	r = file_read(path, &records->names, NULL);
	buf_add_byte(&records->names, '\n');
	return r == -ENOENT ? 0 : r;
}

static bool library_is_recorded(const struct records *records, const char *name)
{
	struct str rest = buf_str(&records->names), line;

	while (str_split(&rest, '\n', &line))
		if (str_is(line, name))
			return true;
	return false;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

struct sweep {
	const struct records *records;
	const char *parent, *current;
	uint32_t n_old;
};

/*
 * Whether the temporary folder belongs to another daemon that still writes it. The folder's suffix
 * is that daemon's pid.
 */
static bool is_being_made(const char *name)
{
	const char *version = strrchr(name, '-'), *dot = version ? strchr(version, '.') : NULL;
	char proc[64];

	if (!dot)
		return false;
	snprintf(proc, sizeof(proc), "/proc/%.20s", dot + 1);
	return access(proc, F_OK) == 0;
}

static int visit_library(void *data, const char *name)
{
	struct sweep *sweep = data;
	char path[PATH_MAX];

	if (!strcmp(name, sweep->current) || is_being_made(name))
		return 0;
	if (library_is_recorded(sweep->records, name)) {
		sweep->n_old++;
		return 0;
	}
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", sweep->parent, name) >= sizeof(path))
		return -ENAMETOOLONG;
	log_info("library %s: no container has it any more: removed", name);
	return nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) ? -errno : 0;
}

int library_sweep(const char *state_dir, const char *folder, library_is_held_fn *is_held,
	void *data, struct error *err)
{
	struct records records = {state_dir, is_held, data, BUF_INIT(LIBRARY_RECORDS_MAX)};
	char path[PATH_MAX], parent[PATH_MAX];
	struct sweep sweep = {&records, parent, library_folder_name(folder), 0};
	int r = record_path(state_dir, "", path, err);

	if (r < 0)
		return r;
	snprintf(parent, sizeof(parent), "%.*s", (int)(library_folder_name(folder) - folder - 1),
		folder);
	r = visit_folder(path, visit_record, &records);
	r = r < 0 ? r : buf_error(&records.names);
	r = r < 0 ? r : visit_folder(parent, visit_library, &sweep);
	buf_done(&records.names);
	return r < 0 ? fail_errno(err, -r, "old libraries in '%s'", parent) : (int)sweep.n_old;
}
