/* SPDX-License-Identifier: Apache-2.0 */
/* See fatbin.h. */
#include "fatbin.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static void need(int is_right, const char *what)
{
	if (is_right)
		return;
	fprintf(stderr, "fatbin writer: %s\n", what);
	abort();
}

void fatbin_begin(struct fatbin *f)
{
	const uint32_t magic = 0xba55ed50;
	const uint16_t version = 1, size = 16;

	memset(f, 0, sizeof(*f));
	memcpy(f->bytes, &magic, 4);
	memcpy(f->bytes + 4, &version, 2);
	memcpy(f->bytes + 6, &size, 2);
	f->n = size;
}

/* A valid block of LZ4 may consist of literals alone. */
static size_t pack_lz4(uint8_t *to, const uint8_t *bytes, size_t n)
{
	size_t at = 0;

	if (n < 15) {
		to[at++] = (uint8_t)(n << 4);
	} else {
		size_t rest = n - 15;

		to[at++] = 15 << 4;
		for (; rest >= 255; rest -= 255)
			to[at++] = 255;
		to[at++] = (uint8_t)rest;
	}
	memcpy(to + at, bytes, n);
	return at + n;
}

void fatbin_add(struct fatbin *f, const struct fatbin_member *member)
{
	uint32_t header_size = 64 + member->more_header, packed = 0;
	uint16_t kind = (uint16_t)member->kind, version = 0x101;
	uint64_t flags = 0x11u | member->packing | member->suffix, unpacked = 0, size = member->n;
	uint8_t *header = f->bytes + f->n, *payload = header + header_size;

	need(f->n + header_size + 2 * member->n + 1024 < FATBIN_MAX, "the buffer is too small");
	if (member->packing == FATBIN_PLAIN) {
		memcpy(payload, member->bytes, member->n);
	} else {
		size = member->packing == FATBIN_LZ4
			? pack_lz4(payload, member->bytes, member->n)
			: ZSTD_compress(payload, 2 * member->n + 512, member->bytes, member->n, 3);
		need(!ZSTD_isError(size), "ZSTD_compress");
		packed = (uint32_t)size;
		unpacked = member->n;
	}
	size = (size + 7) & ~(uint64_t)7;
	memcpy(header, &kind, 2);
	memcpy(header + 2, &version, 2);
	memcpy(header + 4, &header_size, 4);
	memcpy(header + 8, &size, 8);
	memcpy(header + 16, &packed, 4);
	memcpy(header + 28, &member->arch, 4);
	memcpy(header + 40, &flags, 8);
	memcpy(header + 56, &unpacked, 8);
	f->n += header_size + size;
	size = f->n - 16;
	memcpy(f->bytes + 8, &size, 8);
}

struct fatbin_wrapper fatbin_wrap(const struct fatbin *f, uint32_t version)
{
	return (struct fatbin_wrapper){.magic = 0x466243b1, .version = version, .data = f->bytes};
}

/* ---- cubins ---- */

enum { SECTION_NONE, SECTION_STRINGS, SECTION_SYMBOLS, SECTION_CODE, SECTION_INFO, SECTIONS };

struct cubin {
	uint8_t *bytes;
	size_t n;
	char strings[512];
	size_t strings_bytes;
	Elf64_Shdr section[SECTIONS];
};

static uint32_t add_string(struct cubin *c, const char *prefix, const char *name)
{
	size_t at = c->strings_bytes;
	int n = snprintf(c->strings + at, sizeof(c->strings) - at, "%s%s", prefix, name);

	need(n >= 0 && at + (size_t)n < sizeof(c->strings), "the names are too long");
	c->strings_bytes += (size_t)n + 1;
	return (uint32_t)at;
}

static void put_section(struct cubin *c, int section, const void *bytes, size_t n)
{
	need(c->n + n + 8 < CUBIN_MAX, "the cubin is too large");
	memcpy(c->bytes + c->n, bytes, n);
	c->section[section].sh_offset = c->n;
	c->section[section].sh_size = n;
	c->n = (c->n + n + 7) & ~(size_t)7;
}

/* Attribute 0x17 has the size in its upper 14 bits, 0x45 in its lower 24. */
static size_t put_param(
	uint8_t *to, unsigned attribute, uint16_t ordinal, uint16_t offset, uint32_t bytes)
{
	const uint16_t size = 12;
	const uint32_t word = attribute == 0x17 ? bytes << 18 | 0x1f000 : bytes | 0x05000000;

	memset(to, 0, 16);
	to[0] = 4; /* a value of `size` bytes follows */
	to[1] = (uint8_t)attribute;
	memcpy(to + 2, &size, 2);
	memcpy(to + 8, &ordinal, 2);
	memcpy(to + 10, &offset, 2);
	memcpy(to + 12, &word, 4);
	return 16;
}

size_t cubin_make(uint8_t cubin[CUBIN_MAX], unsigned sm, const char *kernel, unsigned attribute,
	uint32_t bytes)
{
	struct cubin c = {.bytes = cubin, .n = sizeof(Elf64_Ehdr), .strings_bytes = 1};
	Elf64_Sym symbols[2] = {{0}};
	Elf64_Ehdr header = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x41, 8},
		.e_machine = 190,
		.e_version = EV_CURRENT,
		.e_flags = sm << 8,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_STRINGS};
	uint8_t info[32];

	memset(cubin, 0, CUBIN_MAX);
	/* Compilers write the last parameter first. */
	put_param(info, attribute, 1, 8, bytes);
	put_param(info + 16, attribute, 0, 0, 8);
	symbols[1] = (Elf64_Sym){.st_name = add_string(&c, "", kernel),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SECTION_CODE,
		.st_size = 128};
	c.section[SECTION_STRINGS].sh_type = SHT_STRTAB;
	c.section[SECTION_STRINGS].sh_name = add_string(&c, ".strtab", "");
	c.section[SECTION_SYMBOLS].sh_type = SHT_SYMTAB;
	c.section[SECTION_SYMBOLS].sh_name = add_string(&c, ".symtab", "");
	c.section[SECTION_SYMBOLS].sh_link = SECTION_STRINGS;
	c.section[SECTION_SYMBOLS].sh_entsize = sizeof(symbols[0]);
	c.section[SECTION_CODE].sh_type = SHT_PROGBITS;
	c.section[SECTION_CODE].sh_name = add_string(&c, ".text.", kernel);
	c.section[SECTION_INFO].sh_type = SHT_LOPROC;
	c.section[SECTION_INFO].sh_name = add_string(&c, ".nv.info.", kernel);
	put_section(&c, SECTION_STRINGS, c.strings, c.strings_bytes);
	put_section(&c, SECTION_SYMBOLS, symbols, sizeof(symbols));
	put_section(&c, SECTION_CODE, (uint8_t[128]){0}, 128);
	put_section(&c, SECTION_INFO, info, sizeof(info));
	header.e_shoff = c.n;
	memcpy(cubin, &header, sizeof(header));
	memcpy(cubin + c.n, c.section, sizeof(c.section));
	return c.n + sizeof(c.section);
}
