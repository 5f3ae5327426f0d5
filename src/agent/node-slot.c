/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/node-slot.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define LIBRARY_MAX (64u << 20)
#define HOOK_CUDA "libdivvy-cuda.so"
#define HOOK_NVML "libdivvy-nvml.so"

void slot_edits_fill(const struct slot_plan *plan, struct slot_edits *ret)
{
	size_t n = 0, n_env = 0;

	snprintf(ret->preload, sizeof(ret->preload), "%s/" SLOT_PRELOAD, plan->library);
	ret->mounts[n++] = (struct plugin_mount){SLOT_RUNTIME, plan->folder, true};
	ret->mounts[n++] = (struct plugin_mount){SLOT_LIBRARY, plan->library, true};
	ret->mounts[n++] = (struct plugin_mount){"/etc/ld.so.preload", ret->preload, true};
	/* A hint: what a pod sets itself wins, which is its own loss. */
	ret->env[n_env++] = (struct plugin_pair){"DIVVY_ABSENT", "closed"};
	if (plan->sim) {
		ret->mounts[n++] = (struct plugin_mount){SLOT_SIM, plan->sim, true};
		ret->env[n_env++] = (struct plugin_pair){"DIVVY_SIM", SLOT_SIM};
		ret->env[n_env++] = (struct plugin_pair){"DIVVY_DRIVER", SLOT_LIBRARY "/driver"};
	}
	ret->edits = (struct plugin_edits){
		.env = ret->env, .n_env = n_env, .mounts = ret->mounts, .n_mounts = n};
}

/* ---- libraries ---- */

struct library {
	const char *name; /* below the folder */
	struct buf text;
};

static int folder_of_self(char ret[static PATH_MAX])
{
	const ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return -ENOENT;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

/* Where divvy is built or installed, or where DIVVY_HOOKS says. */
static int read_hook(struct library *library, struct error *err)
{
	static const char *const beside[] = {
		"../hook", "../lib/divvy", "../" DIVVY_LIBDIR "/divvy", "../../lib/divvy"};
	const char *set = getenv("DIVVY_HOOKS");
	char self[PATH_MAX], path[PATH_MAX + 256];

	if (set && *set) {
		snprintf(path, sizeof(path), "%s/%s", set, library->name);
		return file_read(path, &library->text, err);
	}
	if (folder_of_self(self) < 0)
		return fail(err, ENOENT, "cannot find out where divvyd itself is");
	for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", self, beside[i], library->name);
		if (access(path, R_OK) == 0)
			return file_read(path, &library->text, err);
	}
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

/* All files, or none: into a folder of another name first. */
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
	if (r >= 0) {
		snprintf(path, sizeof(path), "%s/" SLOT_PRELOAD, making);
		r = file_replace(path,
			STR(SLOT_LIBRARY "/" HOOK_CUDA "\n" SLOT_LIBRARY "/" HOOK_NVML "\n"), 0644,
			err);
	}
	if (r >= 0 && rename(making, folder) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		r = fail_errno(err, errno, "rename '%s'", making);
	return r;
}

int library_install(const char *state_dir, const char *driver, char ret_folder[static PATH_MAX],
	struct error *err)
{
	struct library library[] = {
		{HOOK_CUDA, BUF_INIT(LIBRARY_MAX)},
		{HOOK_NVML, BUF_INIT(LIBRARY_MAX)},
		{"driver/libcuda.so.1", BUF_INIT(LIBRARY_MAX)},
		{"driver/libnvidia-ml.so.1", BUF_INIT(LIBRARY_MAX)},
	};
	char parent[PATH_MAX], folder[PATH_MAX];
	uint64_t hash = 0;
	struct stat st;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(library); i++) {
		if (i >= 2 && !driver)
			continue;
		r = i < 2 ? read_hook(&library[i], err) : read_driver(driver, &library[i], err);
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
