/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the loader's list of objects (dl_iterate_phdr, which libc always has) and reads their
 * symbol tables. Reads build-ids from files without mapping them. Handles malformed files: every
 * offset is checked against the bytes that were read.
 *
 * Objects and symbols may be needed before the program's start code has run: see plain.h. The
 * process may have a dl_iterate_phdr of its own that does not work yet, so the code uses libc's.
 */
#include "hook/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "hook/plain.h"

typedef int visit_fn(struct dl_phdr_info *, size_t, void *);
typedef int iterate_fn(visit_fn *, void *);

/* The loader's list for debuggers: glibc has the first symbol, musl the second. */
extern struct r_debug _r_debug __attribute__((weak));
extern struct r_debug *_dl_debug_addr __attribute__((weak));

struct search {
	const void *address;
	const char *name;
	struct elf_object *object;
};

/* Notes are 4-aligned: {namesz, descsz, type}, name, desc. */
static void id_from_notes(const uint8_t *p, size_t n, struct elf_id *id)
{
	size_t at = 0;

	while (n - at >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) note;
		size_t name, desc;

		plain_copy(&note, p + at, sizeof note);
		at += sizeof note;
		name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		if (name > n - at || desc > n - at - name)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			plain_same(p + at, "GNU", 4) && note.n_descsz <= ELF_BUILD_ID_MAX) {
			id->n = note.n_descsz;
			plain_copy(id->bytes, p + at + name, note.n_descsz);
			return;
		}
		at += name + desc;
	}
}

static bool elf_holds_address(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD &&
			address - (info->dlpi_addr + ph->p_vaddr) < ph->p_memsz)
			return true;
	}
	return false;
}

static int elf_visit_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	struct elf_object *object = search->object;

	if (search->address ? !elf_holds_address(info, (uintptr_t)search->address)
			    : !plain_after(plain_base_name(info->dlpi_name), search->name))
		return 0;
	object->base = info->dlpi_addr;
	object->path = info->dlpi_name;
	object->dynamic = NULL;
	object->id.n = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const void *at = (const void *)(info->dlpi_addr + ph->p_vaddr);

		if (ph->p_type == PT_DYNAMIC)
			object->dynamic = at;
		else if (ph->p_type == PT_NOTE && !object->id.n)
			id_from_notes(at, ph->p_memsz, &object->id);
	}
	return 1;
}

struct tables {
	const ElfW(Sym) * sym;
	const char *str;
	const uint32_t *gnu;
	const uint32_t *sysv;
};

static void tables_read(const struct elf_object *object, struct tables *ret)
{
	plain_clear(ret, sizeof *ret);
	/* cppcheck-suppress ctuuninitvar ; find_iterate sets the fields that are read */
	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
		/*
		 * glibc replaces the offsets in the dynamic section with addresses; other loaders
		 * and the vDSO do not.
		 */
		uintptr_t p = d->d_un.d_ptr < object->base ? object->base + d->d_un.d_ptr
							   : d->d_un.d_ptr;

		if (d->d_tag == DT_SYMTAB)
			ret->sym = (const ElfW(Sym) *)p;
		else if (d->d_tag == DT_STRTAB)
			ret->str = (const char *)p;
		else if (d->d_tag == DT_GNU_HASH)
			ret->gnu = (const uint32_t *)p;
		else if (d->d_tag == DT_HASH)
			ret->sysv = (const uint32_t *)p;
	}
}

static void *symbol_at(
	const struct elf_object *object, const struct tables *t, uint32_t i, const char *name)
{
	const ElfW(Sym) *sym = &t->sym[i];

	if (sym->st_shndx == SHN_UNDEF || !plain_equals(t->str + sym->st_name, name) ||
		ELF64_ST_TYPE(sym->st_info) != STT_FUNC)
		return NULL;
	return (void *)(object->base + sym->st_value);
}

static void *gnu_find(const struct elf_object *object, const struct tables *t, const char *name)
{
	uint32_t n_buckets = t->gnu[0], first = t->gnu[1], n_bloom = t->gnu[2], h = 5381;
	const uint32_t *bucket = t->gnu + 4 + n_bloom * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + n_buckets;
	void *found;

	for (const char *p = name; *p; p++)
		h = h * 33 + (uint8_t)*p;
	for (uint32_t i = bucket[h % n_buckets]; i >= first && i; i++) {
		if ((chain[i - first] | 1) == (h | 1)) {
			found = symbol_at(object, t, i, name);
			if (found)
				return found;
		}
		if (chain[i - first] & 1)
			break;
	}
	return NULL;
}

void *elf_symbol(const struct elf_object *object, const char *name)
{
	struct tables t;
	void *found;

	tables_read(object, &t);
	if (!t.sym || !t.str)
		return NULL;
	if (t.gnu)
		return gnu_find(object, &t, name);
	for (uint32_t i = 0; t.sysv && i < t.sysv[1]; i++) {
		found = symbol_at(object, &t, i, name);
		if (found)
			return found;
	}
	return NULL;
}

/* Names of the C library in glibc's and musl's loaders. */
static const char *const libc_names[] = {"libc.so", "ld-musl-", "libc.musl-"};

static bool is_libc(const char *path)
{
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(libc_names) && !is; i++)
		is = plain_after(plain_base_name(path), libc_names[i]);
	return is;
}

/*
 * Needs no lock of the loader: libc and all objects before it were loaded at the process's start,
 * and are never removed.
 */
static iterate_fn *find_iterate(void)
{
	const struct r_debug *list = &_r_debug ? &_r_debug
		: &_dl_debug_addr              ? _dl_debug_addr
					       : NULL;

	for (const struct link_map *map = list ? list->r_map : NULL; map; map = map->l_next) {
		struct elf_object object;
		void *found;

		if (!map->l_name || !map->l_ld || !is_libc(map->l_name))
			continue;
		object.base = map->l_addr;
		object.dynamic = map->l_ld;
		found = elf_symbol(&object, "dl_iterate_phdr");
		if (found)
			return (iterate_fn *)(uintptr_t)found;
	}
	return dl_iterate_phdr;
}

bool elf_object_find(const void *address, const char *name, struct elf_object *ret_object)
{
	static iterate_fn *_Atomic known;
	iterate_fn *iterate = atomic_load_explicit(&known, memory_order_relaxed);
	struct elf_object object;
	struct search search = {.address = address, .name = name, .object = &object};

	if (!iterate) {
		iterate = find_iterate();
		/* several threads may write the same value */
		atomic_store_explicit(&known, iterate, memory_order_relaxed);
	}
	if (iterate(elf_visit_object, &search) != 1 || !object.dynamic)
		return false;
	plain_copy(ret_object, &object, sizeof object);
	return true;
}

bool elf_libc_find(struct elf_object *ret_object)
{
	bool is_found = false;

	for (size_t i = 0; i < ARRAY_SIZE(libc_names) && !is_found; i++)
		is_found = elf_object_find(NULL, libc_names[i], ret_object);
	return is_found;
}

int elf_file_id(const char *path, struct elf_id *ret_id)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_id id = {0};
	ElfW(Ehdr) eh;

	if (fd < 0)
		return -errno;
	if (pread(fd, &eh, sizeof eh, 0) != sizeof eh || memcmp(eh.e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (eh.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
		eh.e_phentsize != sizeof(ElfW(Phdr)))
		return -ENOEXEC;
#if defined(__x86_64__)
	if (eh.e_machine != EM_X86_64)
		return -ENOEXEC;
#elif defined(__aarch64__)
	if (eh.e_machine != EM_AARCH64)
		return -ENOEXEC;
#endif
	for (unsigned i = 0; i < eh.e_phnum && !id.n; i++) {
		ElfW(Phdr) ph;
		uint8_t notes[1024];
		ssize_t n;

		if (pread(fd, &ph, sizeof ph, (off_t)(eh.e_phoff + i * sizeof ph)) != sizeof ph)
			return -ENOEXEC;
		if (ph.p_type != PT_NOTE)
			continue;
		n = pread(fd, notes, MIN(sizeof notes, (size_t)ph.p_filesz), (off_t)ph.p_offset);
		if (n > 0)
			id_from_notes(notes, (size_t)n, &id);
	}
	if (!id.n)
		return -ENODATA;
	*ret_id = id;
	return 0;
}

bool elf_id_eq(const struct elf_id *a, const struct elf_id *b)
{
	return a->n && a->n == b->n && !memcmp(a->bytes, b->bytes, a->n);
}
