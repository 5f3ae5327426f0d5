/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeats the loader's search: LD_LIBRARY_PATH, /etc/ld.so.cache, the default folders. If an
 * absolute path leads to a file that is not loaded yet, dlopen always opens that file. glibc
 * compares a name with slashes to file names, device and inode, and to sonames only if the name
 * equals one (_dl_map_object, the same from 2.28 to 2.36). So divvy's own SONAME, which equals the
 * driver's, does not interfere. Any thread.
 */
#include "hook/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "hook/elf.h"

void *system_handle_of(const void *address)
{
	const struct system *s = system_get();
	struct link_map *map = NULL;
	Dl_info info;

	if (!s->dladdr1 || !s->dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP))
		return NULL;
	return map;
}

/* ---- paths of libraries ---- */

struct hunt {
	const char *soname;
	struct elf_id own;
	void *handle;
	char *path; /* SYSTEM_PATH bytes */
};

static bool try_path(struct hunt *h, const char *folder, size_t n, const char *name)
{
	const struct system *s = system_get();
	struct elf_id id;
	char *full = h->path;
	int len;

	if (!n)
		len = snprintf(full, SYSTEM_PATH, "%s", name);
	else
		len = snprintf(
			full, SYSTEM_PATH, "%.*s/%s", (int)MIN(n, (size_t)INT_MAX), folder, name);
	if (len <= 0 || (size_t)len >= SYSTEM_PATH || full[0] != '/')
		return false;
	int r = elf_file_id(full, &id);

	if (r < 0 && r != -ENODATA)
		return false;
	if (r == 0 && elf_id_eq(&id, &h->own))
		return false;
	h->handle = s->dlopen ? s->dlopen(full, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!h->handle && s->dlerror)
		(void)s->dlerror();
	/*
	 * If the file is a copy of this library without build-id, or a link to it, dlopen has
	 * returned this library's own handle.
	 */
	if (h->handle && h->handle == system_handle_of((const void *)system_open_real)) {
		s->dlclose(h->handle);
		h->handle = NULL;
	}
	return h->handle;
}

/*
 * The loader's rule for "a:b;c": an empty piece is the working folder. Relative paths are made
 * absolute.
 */
static bool try_list(struct hunt *h, const char *list)
{
	while (list && *list) {
		size_t n = strcspn(list, ":;");

		if (n && list[0] == '/' && try_path(h, list, n, h->soname))
			return true;
		if (!n || list[0] != '/') {
			char here[SYSTEM_PATH / 2], folder[SYSTEM_PATH];
			int len = -1;

			if (getcwd(here, sizeof here))
				len = snprintf(folder, sizeof folder, "%s/%.*s", here,
					(int)MIN(n, (size_t)1024), list);
			if (len > 0 && (size_t)len < sizeof folder &&
				try_path(h, folder, (size_t)len, h->soname))
				return true;
		}
		list += n;
		if (*list)
			list++;
	}
	return false;
}

/*
 * Head of the new format of /etc/ld.so.cache, "glibc-ld.so.cache1.1". The file has this format
 * alone, or after the old format.
 */
struct cache_head {
	char magic[20];
	uint32_t libs;
	uint32_t strings_size;
	uint32_t rest[5];
};

struct cache_entry {
	int32_t flags;
	uint32_t key;
	uint32_t value;
	uint32_t os;
	uint64_t hwcap;
};

#if defined(__x86_64__)
#define CACHE_FLAGS 0x0303 /* ELF_LIBC6 | X8664_LIB64 */
#elif defined(__aarch64__)
#define CACHE_FLAGS 0x0a03 /* ELF_LIBC6 | AARCH64_LIB64 */
#else
#error "which ld.so.cache flags does this architecture have?"
#endif

/* `at` is the start of the new format; string offsets count from there. */
static bool try_cache_at(struct hunt *h, const char *at, size_t n)
{
	struct cache_head head;

	memcpy(&head, at, sizeof head);
	if (head.libs > (n - sizeof head) / sizeof(struct cache_entry))
		return false;
	for (uint32_t i = 0; i < head.libs; i++) {
		struct cache_entry e;

		memcpy(&e, at + sizeof head + i * sizeof e, sizeof e);
		if (e.flags != CACHE_FLAGS || e.key >= n || e.value >= n ||
			!memchr(at + e.key, 0, n - e.key) || !memchr(at + e.value, 0, n - e.value))
			continue;
		if (!strcmp(at + e.key, h->soname) && try_path(h, "", 0, at + e.value))
			return true;
	}
	return false;
}

static bool try_cache(struct hunt *h)
{
	static const char magic[] = "glibc-ld.so.cache1.1";
	_cleanup_close_ int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool found = false;
	size_t n;
	char *p;

	if (fd < 0 || fd_stat(fd, &st) || st.st_size < (off_t)sizeof(struct cache_head))
		return false;
	n = (size_t)st.st_size;
	p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return false;
	const char *at = memmem(p, n, magic, sizeof magic - 1);

	if (at && n - (size_t)(at - p) >= sizeof(struct cache_head))
		found = try_cache_at(h, at, n - (size_t)(at - p));
	munmap(p, n);
	return found;
}

static bool try_setting(struct hunt *h, bool *ret_set)
{
	const char *folder = secure_getenv("DIVVY_DRIVER");
	_cleanup_close_ int fd = -1;
	char text[SYSTEM_PATH];
	ssize_t n;

	*ret_set = true;
	if (folder && *folder)
		return try_path(h, folder, strlen(folder), h->soname);
	fd = open("/etc/divvy/driver", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n > 0) {
		text[n] = '\0';
		/* a folder's name may contain spaces, so only spaces at the end are cut */
		n = (ssize_t)strcspn(text, "\r\n");
		while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
			n--;
		text[n] = '\0';
		if (text[0] == '/')
			return try_path(h, text, strlen(text), h->soname);
	}
	*ret_set = false;
	return false;
}

void *system_open_real(const char *soname, char ret_path[static SYSTEM_PATH])
{
	static const char defaults[] =
#if defined(__x86_64__)
		"/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu:"
#else
		"/usr/lib/aarch64-linux-gnu:/lib/aarch64-linux-gnu:"
#endif
		"/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/nvidia/lib64:"
		"/usr/lib/wsl/lib:/run/opengl-driver/lib";
	struct hunt h = {.soname = soname, .path = ret_path};
	struct elf_object own;
	bool set;

	if (elf_object_find((const void *)system_open_real, NULL, &own))
		h.own = own.id;
	if (try_setting(&h, &set) || set)
		return h.handle;
	if (try_list(&h, secure_getenv("LD_LIBRARY_PATH")) || try_cache(&h) ||
		try_list(&h, defaults))
		return h.handle;
	return NULL;
}
