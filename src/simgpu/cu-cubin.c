/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and variables of ELF cubins, and the members of fatbin containers.
 *
 * A cubin's kernels are the function symbols of sections named ".text.<kernel>". A kernel's
 * parameter layout is the KPARAM_INFO records of ".nv.info.<kernel>". Static shared memory is the
 * size of ".nv.shared.<kernel>". The code chooses a fatbin's member as the driver does. The code
 * prefers a cubin of the device's major architecture and at most its minor one, and else takes the
 * newest PTX that the device runs. The code checks all offsets against the file's size. Pure code,
 * any thread.
 */
#include "simgpu/cu-image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	MACHINE_CUDA = 190,
	EIATTR_KPARAM_INFO = 0x17,
	EIFMT_SVAL = 4,
	FATBIN_PTX = 1,
	FATBIN_ELF = 2,
	FATBIN_COMPRESSED_LZ4 = 0x2000,
	FATBIN_COMPRESSED_ZSTD = 0x8000,
	FATBIN_MEMBER_MAX = 1 << 30,
};

struct elf {
	const uint8_t *bytes;
	size_t n;
	Elf64_Ehdr header;
};

static bool take_section(const struct elf *elf, size_t i, Elf64_Shdr *ret)
{
	if (i >= elf->header.e_shnum)
		return false;
	memcpy(ret, elf->bytes + elf->header.e_shoff + i * sizeof(*ret), sizeof(*ret));
	if (ret->sh_type == SHT_NOBITS)
		return true;
	return ret->sh_offset <= elf->n && ret->sh_size <= elf->n - ret->sh_offset;
}

/* Returns a string of a string table, or NULL if the string does not end inside the table. */
static const char *take_string(const struct elf *elf, const Elf64_Shdr *table, size_t offset)
{
	const char *start;

	if (table->sh_type == SHT_NOBITS || offset >= table->sh_size)
		return NULL;
	start = (const char *)elf->bytes + table->sh_offset + offset;
	return memchr(start, '\0', table->sh_size - offset) ? start : NULL;
}

static int compare_params(const void *a, const void *b)
{
	const struct image_param *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int cubin_read_info(const uint8_t *p, size_t n, struct image_kernel *kernel)
{
	while (n >= 4) {
		uint8_t format = p[0], attribute = p[1];
		uint16_t size;
		size_t step = 4;

		memcpy(&size, p + 2, sizeof(size));
		if (format == EIFMT_SVAL)
			step += size;
		if (step > n)
			return -1;
		if (format == EIFMT_SVAL && attribute == EIATTR_KPARAM_INFO && size >= 12) {
			uint16_t offset;
			uint32_t packed;

			memcpy(&offset, p + 4 + 6, sizeof(offset));
			memcpy(&packed, p + 4 + 8, sizeof(packed));
			if (image_add_param(kernel, offset, packed >> 18) < 0)
				return -1;
		}
		p += step;
		n -= step;
	}
	if (kernel->n_params > 1)
		qsort(kernel->params, kernel->n_params, sizeof(*kernel->params), compare_params);
	return 0;
}

static int read_kernel_sections(
	const struct elf *elf, const Elf64_Shdr *names, struct image_kernel *kernel)
{
	for (size_t i = 0; i < elf->header.e_shnum; i++) {
		Elf64_Shdr section;
		const char *name;

		if (!take_section(elf, i, &section))
			return -1;
		name = take_string(elf, names, section.sh_name);
		if (!name)
			continue;
		if (strncmp(name, ".nv.info.", 9) == 0 && strcmp(name + 9, kernel->name) == 0 &&
			section.sh_type != SHT_NOBITS) {
			if (cubin_read_info(
				    elf->bytes + section.sh_offset, section.sh_size, kernel) < 0)
				return -1;
		} else if (strncmp(name, ".nv.shared.", 11) == 0 &&
			strcmp(name + 11, kernel->name) == 0) {
			kernel->shared_bytes = (uint32_t)section.sh_size;
		}
	}
	return 0;
}

static int read_symbol(const struct elf *elf, const Elf64_Shdr *names, const char *name,
	const Elf64_Sym *symbol, struct image *image)
{
	Elf64_Shdr section;
	const char *section_name;

	if (symbol->st_shndx == SHN_UNDEF || !take_section(elf, symbol->st_shndx, &section))
		return 0;
	section_name = take_string(elf, names, section.sh_name);
	if (!section_name || name[0] == '\0')
		return 0;
	if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
		ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
		strncmp(section_name, ".text.", 6) == 0 && strcmp(section_name + 6, name) == 0) {
		struct image_kernel *kernel = image_add_kernel(image, name, strlen(name));

		return kernel ? read_kernel_sections(elf, names, kernel) : -1;
	}
	if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size != 0 &&
		(strncmp(section_name, ".nv.global", 10) == 0 ||
			strncmp(section_name, ".nv.constant3", 13) == 0)) {
		struct image_global *global = image_add_global(image, name, strlen(name));

		if (!global)
			return -1;
		global->size = symbol->st_size;
		global->align = section.sh_addralign ? section.sh_addralign : 1;
		global->is_const = section_name[4] == 'c';
		if (section.sh_type == SHT_NOBITS)
			return 0;
		if (symbol->st_value > section.sh_size ||
			symbol->st_size > section.sh_size - symbol->st_value)
			return -1;
		global->init = malloc(symbol->st_size);
		if (!global->init)
			return -1;
		memcpy(global->init, elf->bytes + section.sh_offset + symbol->st_value,
			symbol->st_size);
	}
	return 0;
}

static int read_symbols(const struct elf *elf, struct image *image)
{
	Elf64_Shdr names, table, strings;

	if (!take_section(elf, elf->header.e_shstrndx, &names))
		return -1;
	for (size_t i = 0; i < elf->header.e_shnum; i++) {
		if (!take_section(elf, i, &table))
			return -1;
		if (table.sh_type != SHT_SYMTAB)
			continue;
		if (!take_section(elf, table.sh_link, &strings))
			return -1;
		for (size_t j = 0; j < table.sh_size / sizeof(Elf64_Sym); j++) {
			Elf64_Sym symbol;
			const char *name;

			memcpy(&symbol, elf->bytes + table.sh_offset + j * sizeof(symbol),
				sizeof(symbol));
			name = take_string(elf, &strings, symbol.st_name);
			if (!name || read_symbol(elf, &names, name, &symbol, image) < 0)
				return -1;
		}
	}
	return 0;
}

/* The architecture stands in e_flags: the low byte for old ABIs, bits 8..15 since CUDA 13. */
static unsigned elf_sm(const Elf64_Ehdr *header)
{
	if (header->e_ident[EI_ABIVERSION] >= 8)
		return (header->e_flags >> 8) & 0xff;
	return header->e_flags & 0xff;
}

enum image_status image_read_elf(
	const uint8_t *bytes, size_t n, unsigned device_sm, struct image *ret_image)
{
	struct elf elf = {.bytes = bytes, .n = n};
	struct image image = {0};

	if (n < sizeof(elf.header))
		return IMAGE_BAD_BINARY;
	memcpy(&elf.header, bytes, sizeof(elf.header));
	if (elf.header.e_machine != MACHINE_CUDA || elf.header.e_shentsize != sizeof(Elf64_Shdr) ||
		elf.header.e_shoff > n ||
		elf.header.e_shnum > (n - elf.header.e_shoff) / sizeof(Elf64_Shdr))
		return IMAGE_BAD_BINARY;
	image.target_sm = elf_sm(&elf.header);
	if (image.target_sm / 10 != device_sm / 10 || image.target_sm > device_sm)
		return IMAGE_NO_BINARY;
	if (read_symbols(&elf, &image) < 0) {
		image_done(&image);
		return IMAGE_BAD_BINARY;
	}
	*ret_image = image;
	return IMAGE_OK;
}

/* LZ4 block format; returns the bytes written, or -1 for damaged input or too little room. */
static ptrdiff_t unpack_lz4(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	size_t i = 0, o = 0;

	while (i < n) {
		uint8_t token = in[i++];
		size_t literals = token >> 4, match = token & 15, back;

		for (uint8_t more = 255; literals >= 15 && more == 255; literals += more) {
			if (i >= n)
				return -1;
			more = in[i++];
		}
		if (literals > n - i || literals > room - o)
			return -1;
		memcpy(out + o, in + i, literals);
		i += literals;
		o += literals;
		if (i == n)
			break;
		if (n - i < 2)
			return -1;
		back = in[i] | (size_t)in[i + 1] << 8;
		i += 2;
		for (uint8_t more = 255; match >= 15 && more == 255; match += more) {
			if (i >= n)
				return -1;
			more = in[i++];
		}
		match += 4;
		if (back == 0 || back > o || match > room - o)
			return -1;
		for (; match != 0; match--, o++)
			out[o] = out[o - back];
	}
	return (ptrdiff_t)o;
}

struct member {
	uint16_t kind;
	uint16_t version;
	uint32_t header_size;
	uint64_t size;
	uint32_t compressed_size;
	uint32_t options;
	uint16_t minor, major;
	uint32_t arch;
	uint32_t name_offset, name_size;
	uint64_t flags;
	uint64_t zero;
	uint64_t unpacked_size;
};

static enum image_status read_member(const struct member *member, const uint8_t *payload,
	unsigned device_sm, struct image *ret_image)
{
	uint8_t *unpacked = NULL;
	size_t n = member->size;
	enum image_status status;

	if (member->flags & FATBIN_COMPRESSED_ZSTD)
		return IMAGE_NO_BINARY;
	if (member->flags & FATBIN_COMPRESSED_LZ4) {
		ptrdiff_t got;

		if (member->unpacked_size > FATBIN_MEMBER_MAX ||
			member->compressed_size > member->size)
			return IMAGE_BAD_BINARY;
		unpacked = malloc(member->unpacked_size + 1);
		if (!unpacked)
			return IMAGE_NO_MEMORY;
		got = unpack_lz4(payload, member->compressed_size, unpacked, member->unpacked_size);
		if (got < 0) {
			free(unpacked);
			return IMAGE_BAD_BINARY;
		}
		n = (size_t)got;
		payload = unpacked;
	}
	if (member->kind == FATBIN_ELF) {
		status = image_read_elf(payload, n, device_sm, ret_image);
	} else {
		size_t length = strnlen((const char *)payload, n);

		status = image_read_ptx((const char *)payload, length, ret_image);
	}
	free(unpacked);
	return status;
}

enum image_status image_read_fatbin(
	const uint8_t *header, unsigned device_sm, struct image *ret_image)
{
	struct member best = {0};
	const uint8_t *best_payload = NULL, *p, *end;
	uint32_t magic;
	uint16_t header_size;
	uint64_t payload_size;

	memcpy(&magic, header, sizeof(magic));
	if (magic == 0x466243b1) {
		uint64_t address;

		memcpy(&address, header + 8, sizeof(address));
		header = (const uint8_t *)(uintptr_t)address;
		if (!header)
			return IMAGE_BAD_BINARY;
		memcpy(&magic, header, sizeof(magic));
	}
	if (magic != 0xba55ed50)
		return IMAGE_BAD_BINARY;
	memcpy(&header_size, header + 6, sizeof(header_size));
	memcpy(&payload_size, header + 8, sizeof(payload_size));
	p = header + header_size;
	end = p + payload_size;
	while ((size_t)(end - p) >= sizeof(struct member)) {
		struct member member;
		bool usable;

		memcpy(&member, p, sizeof(member));
		if (member.header_size < sizeof(member) || member.header_size > (size_t)(end - p) ||
			member.size > (size_t)(end - p) - member.header_size)
			return IMAGE_BAD_BINARY;
		usable = member.arch <= device_sm &&
			(member.kind == FATBIN_PTX ||
				(member.kind == FATBIN_ELF && member.arch / 10 == device_sm / 10));
		if (usable &&
			(!best_payload || member.kind > best.kind ||
				(member.kind == best.kind && member.arch > best.arch))) {
			best = member;
			best_payload = p + member.header_size;
		}
		p += member.header_size + member.size;
	}
	return best_payload ? read_member(&best, best_payload, device_sm, ret_image)
			    : IMAGE_NO_BINARY;
}
