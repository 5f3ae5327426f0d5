/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file maps a program or library and reads its section headers, its build-id note, its dynamic
 * symbols and the names of the libraries that it needs. elf_read_bytes() reads every header, note
 * and symbol: it checks the bounds and copies the bytes. A damaged section counts as missing and
 * does not make elf_file_open() fail. elf_file_open() accepts symbols only if their string table
 * ends with a 0 byte, so every name ends inside the file.
 */
#include "cli/elf-file.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

/*
 * Copies the bytes, because a file guarantees no alignment. Returns false beyond the end of the
 * file.
 */
static bool elf_read_bytes(const struct elf_file *f, uint64_t at, void *ret, size_t n)
{
	if (at > f->map.n || n > f->map.n - at)
		return false;
	memcpy(ret, (const char *)f->map.p + at, n);
	return true;
}

static void read_note(struct elf_file *f, uint64_t at, uint64_t size)
{
	const uint64_t end = at + size;
	uint8_t id[15];
	Elf64_Nhdr note;

	while (at < end && elf_read_bytes(f, at, &note, sizeof(note))) {
		const uint64_t name = at + sizeof(note), text = name + ((note.n_namesz + 3u) & ~3u);

		if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz >= 8 &&
			elf_read_bytes(f, text, id,
				note.n_descsz < sizeof(id) ? note.n_descsz : sizeof(id))) {
			f->build_id = format_hex(
				id, note.n_descsz < sizeof(id) ? note.n_descsz : sizeof(id));
			return;
		}
		at = text + ((note.n_descsz + 3u) & ~3u);
	}
}

static bool elf_has_text(const struct elf_file *f, uint64_t at, const char *text)
{
	char found[32];
	const size_t n = strlen(text) + 1;

	return n <= sizeof(found) && elf_read_bytes(f, at, found, n) && !memcmp(found, text, n);
}

static bool elf_section(
	const struct elf_file *f, const Elf64_Ehdr *head, unsigned i, Elf64_Shdr *ret)
{
	return i < head->e_shnum &&
		elf_read_bytes(f, head->e_shoff + (uint64_t)i * sizeof(*ret), ret, sizeof(*ret));
}

static void read_needed(struct elf_file *f, const Elf64_Ehdr *head, const Elf64_Shdr *section)
{
	static const char stem[] = "libcudart.so";
	Elf64_Shdr strings;
	Elf64_Dyn entry;

	if (!elf_section(f, head, section->sh_link, &strings))
		return;
	for (uint64_t at = 0; at + sizeof(entry) <= section->sh_size; at += sizeof(entry)) {
		char name[sizeof(f->cudart)];

		if (!elf_read_bytes(f, section->sh_offset + at, &entry, sizeof(entry)) ||
			entry.d_tag == DT_NULL)
			return;
		if (entry.d_tag != DT_NEEDED ||
			!elf_read_bytes(
				f, strings.sh_offset + entry.d_un.d_val, name, sizeof(name) - 1))
			continue;
		name[sizeof(name) - 1] = '\0';
		if (!strncmp(name, stem, sizeof(stem) - 1))
			memcpy(f->cudart, name, sizeof(name));
	}
}

static void read_section(struct elf_file *f, const Elf64_Ehdr *head, const Elf64_Shdr *section)
{
	Elf64_Shdr strings;

	if (elf_section(f, head, head->e_shstrndx, &strings) &&
		elf_has_text(f, strings.sh_offset + section->sh_name, ".nv_fatbin"))
		f->has_fatbin = true;
	if (section->sh_type == SHT_DYNAMIC)
		read_needed(f, head, section);
	if (section->sh_type == SHT_NOTE)
		read_note(f, section->sh_offset, section->sh_size);
	if (section->sh_type != SHT_DYNSYM || !elf_section(f, head, section->sh_link, &strings))
		return;
	if (section->sh_offset > f->map.n || section->sh_size > f->map.n - section->sh_offset ||
		strings.sh_offset > f->map.n || strings.sh_size > f->map.n - strings.sh_offset ||
		!strings.sh_size)
		return;
	f->symbols_at = section->sh_offset;
	f->n_symbols = section->sh_size / sizeof(Elf64_Sym);
	f->strings = (const char *)f->map.p + strings.sh_offset;
	f->strings_size = strings.sh_size;
	/* A final 0 byte ensures that every name ends inside the table. */
	if (f->strings[f->strings_size - 1] != '\0')
		f->n_symbols = 0;
}

int elf_file_open(const char *path, struct elf_file *ret_file, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(elf_file_done) struct elf_file f = {.map = MAP_NONE};
	Elf64_Ehdr head;
	int64_t size;
	int r;

	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	size = fd_size(fd);
	if (size <= 0)
		return fail(err, ENOEXEC, "'%s' is empty", path);
	r = map_fd(fd, (size_t)size, PROT_READ, &f.map);
	if (r < 0)
		return fail_errno(err, -r, "map '%s'", path);
	if (!elf_read_bytes(&f, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr))
		return fail(err, ENOEXEC, "'%s' is not a 64-bit ELF file", path);
	for (unsigned i = 0; i < head.e_shnum; i++) {
		Elf64_Shdr section;

		if (!elf_section(&f, &head, i, &section))
			break;
		read_section(&f, &head, &section);
	}
	*ret_file = f;
	f.map = MAP_NONE;
	return 0;
}

void elf_file_done(struct elf_file *f)
{
	map_done(&f->map);
}

const char *elf_file_function(const struct elf_file *f, size_t i)
{
	Elf64_Sym symbol;

	if (!elf_read_bytes(f, f->symbols_at + i * sizeof(symbol), &symbol, sizeof(symbol)) ||
		symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
		ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || symbol.st_name >= f->strings_size)
		return NULL;
	return f->strings + symbol.st_name;
}

bool elf_file_exports(const struct elf_file *f, const char *name)
{
	for (size_t i = 0; i < f->n_symbols; i++) {
		const char *function = elf_file_function(f, i);

		if (function && !strcmp(function, name))
			return true;
	}
	return false;
}
