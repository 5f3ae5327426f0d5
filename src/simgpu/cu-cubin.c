/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and variables of ELF cubins, and the members of fat binaries.
 *
 * A cubin's kernels are the function symbols of sections named ".text.<kernel>". A kernel's
 * parameter layout is the KPARAM_INFO records of ".nv.info.<kernel>". Static shared memory is the
 * size of ".nv.shared.<kernel>".
 *
 * A fat binary is a container of PTX and cubins for several architectures. Each member may be
 * compressed with LZ4 or Zstandard. A compiler puts a wrapper around the container, with its
 * address. From a fat binary that has both, image_read_fatbin() reads the PTX, because a simulated
 * device can read only PTX. A real driver does the same if CUDA_FORCE_PTX_JIT is set. If the device
 * runs none of the PTX, or the PTX is faulty, the function reads the cubin of the device's major
 * architecture and at most its minor one.
 *
 * The code checks all offsets against the file's or the container's size. Pure code, any thread.
 */
#include "simgpu/cu-image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
	MACHINE_CUDA = 190,
	EIATTR_KPARAM_INFO = 0x17,
	/* For kernels with more than 4 KiB of parameters. */
	EIATTR_KPARAM_INFO_WIDE = 0x45,
	EIFMT_SVAL = 4,
};

/* PTX states no larger alignment. With it, no sum of aligned sizes overflows. */
#define ELF_ALIGN_MAX (UINT64_C(1) << 31)

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
		if (format == EIFMT_SVAL && size >= 12 &&
			(attribute == EIATTR_KPARAM_INFO || attribute == EIATTR_KPARAM_INFO_WIDE)) {
			uint16_t offset;
			uint32_t packed;

			memcpy(&offset, p + 4 + 6, sizeof(offset));
			memcpy(&packed, p + 4 + 8, sizeof(packed));
			packed = attribute == EIATTR_KPARAM_INFO ? packed >> 18 : packed & 0xffffff;
			if (image_add_param(kernel, offset, packed) < 0)
				return -1;
		}
		p += step;
		n -= step;
	}
	if (kernel->n_params > 1)
		qsort(kernel->params, kernel->n_params, sizeof(*kernel->params), compare_params);
	return 0;
}

/* A section that belongs to the kernel in its name: parameters, or static shared memory. */
static int read_section(const struct elf *elf, const Elf64_Shdr *section, const char *name,
	const struct image *image)
{
	static const char info[] = ".nv.info.", shared[] = ".nv.shared.";
	const bool is_info = strncmp(name, info, sizeof(info) - 1) == 0;
	int kernel;

	if (!is_info && strncmp(name, shared, sizeof(shared) - 1) != 0)
		return 0;
	kernel = image_find_kernel(image, name + (is_info ? sizeof(info) : sizeof(shared)) - 1);
	if (kernel < 0)
		return 0;
	if (!is_info) {
		image->kernels[kernel].shared_bytes = section->sh_size > UINT32_MAX
			? UINT32_MAX
			: (uint32_t)section->sh_size;
		return 0;
	}
	if (section->sh_type == SHT_NOBITS)
		return 0;
	return cubin_read_info(
		elf->bytes + section->sh_offset, section->sh_size, &image->kernels[kernel]);
}

/* The sections of all kernels, in one pass. */
static int read_sections(const struct elf *elf, struct image *image)
{
	Elf64_Shdr names;

	if (!take_section(elf, elf->header.e_shstrndx, &names) || image_sort_kernels(image) < 0)
		return -1;
	for (size_t i = 0; i < elf->header.e_shnum; i++) {
		Elf64_Shdr section;
		const char *name;

		if (!take_section(elf, i, &section))
			return -1;
		name = take_string(elf, &names, section.sh_name);
		if (name && read_section(elf, &section, name, image) < 0)
			return -1;
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
		return image_add_kernel(image, name, strlen(name)) ? 0 : -1;
	}
	if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size != 0 &&
		(strncmp(section_name, ".nv.global", 10) == 0 ||
			strncmp(section_name, ".nv.constant3", 13) == 0)) {
		struct image_global *global = image_add_global(image, name, strlen(name));

		if (!global)
			return -1;
		global->size = symbol->st_size;
		global->align = section.sh_addralign ? section.sh_addralign : 1;
		if (global->align > ELF_ALIGN_MAX || (global->align & (global->align - 1)) != 0)
			return -1;
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

enum image_status image_read_elf(const uint8_t *bytes, size_t n, unsigned device_sm,
	struct image_log *log, struct image *ret_image)
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
	if (image.target_sm / 10 != device_sm / 10 || image.target_sm > device_sm) {
		image_log_set(log, 0, "machine code for sm_%u does not run on sm_%u",
			image.target_sm, device_sm);
		return IMAGE_NO_BINARY;
	}
	if (read_symbols(&elf, &image) < 0 || read_sections(&elf, &image) < 0) {
		image_done(&image);
		return IMAGE_BAD_BINARY;
	}
	*ret_image = image;
	return IMAGE_OK;
}

/* ---- fat binaries ---- */

enum {
	FATBIN_PTX = 1,
	FATBIN_ELF = 2,
	FATBIN_COMPRESSED_LZ4 = 0x2000,
	FATBIN_COMPRESSED_ZSTD = 0x8000,
	FATBIN_ARCH_ALONE = 0x100000,  /* sm_90a */
	FATBIN_ARCH_FAMILY = 0x200000, /* sm_100f */
	FATBIN_MEMBER_MAX = 1 << 30,
	FATBIN_HEADER = 16,
};

#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
/* No container is so large, and no sum of such sizes overflows. */
#define FATBIN_BYTES_MAX (UINT64_C(1) << 40)

struct member {
	uint16_t kind;
	uint16_t version;
	uint32_t header_size;
	uint64_t size; /* with padding */
	uint32_t compressed_size;
	uint32_t options;
	uint16_t minor, major;
	uint32_t arch;
	uint32_t name_offset, name_size;
	uint64_t flags;
	uint64_t zero;
	uint64_t unpacked_size;
};
_Static_assert(sizeof(struct member) == 64, "the layout that compilers write");

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

static ptrdiff_t unpack_zstd(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	size_t got = ZSTD_decompress(out, room, in, n);

	return ZSTD_isError(got) ? -1 : (ptrdiff_t)got;
}

static enum image_status unpack(const struct member *member, const uint8_t *payload,
	struct image_log *log, struct image_member *ret)
{
	ptrdiff_t got;

	if (!(member->flags & (FATBIN_COMPRESSED_LZ4 | FATBIN_COMPRESSED_ZSTD))) {
		ret->bytes = payload;
		ret->n = member->size;
		return IMAGE_OK;
	}
	if (member->unpacked_size > FATBIN_MEMBER_MAX || member->compressed_size > member->size) {
		image_log_set(log, 0, "a compressed part of the fat binary has no valid size");
		return IMAGE_BAD_BINARY;
	}
	ret->unpacked = malloc(member->unpacked_size + 1);
	if (!ret->unpacked)
		return IMAGE_NO_MEMORY;
	got = (member->flags & FATBIN_COMPRESSED_ZSTD ? unpack_zstd : unpack_lz4)(
		payload, member->compressed_size, ret->unpacked, member->unpacked_size);
	if (got < 0) {
		image_log_set(log, 0, "a compressed part of the fat binary is damaged");
		image_member_done(ret);
		return IMAGE_BAD_BINARY;
	}
	ret->bytes = ret->unpacked;
	ret->n = (size_t)got;
	return IMAGE_OK;
}

static bool is_usable(const struct member *member, unsigned device_sm)
{
	char suffix = member->flags & FATBIN_ARCH_ALONE ? 'a'
		: member->flags & FATBIN_ARCH_FAMILY    ? 'f'
							: '\0';

	if (member->kind == FATBIN_ELF && member->arch / 10 != device_sm / 10)
		return false;
	return image_runs_on(member->arch, suffix, device_sm);
}

/* Finds the container. NULL: these are no bytes of a fat binary. */
static const uint8_t *take_container(const uint8_t *header)
{
	uint32_t magic;

	memcpy(&magic, header, sizeof(magic));
	if (magic == FATBIN_WRAPPER) {
		uint64_t address;

		memcpy(&address, header + 8, sizeof(address));
		header = (const uint8_t *)(uintptr_t)address;
		if (!header)
			return NULL;
		memcpy(&magic, header, sizeof(magic));
	}
	return magic == FATBIN_MAGIC ? header : NULL;
}

int image_fatbin_is_whole(const uint8_t *bytes, size_t n)
{
	uint16_t header_size;
	uint64_t payload_size;
	uint32_t magic;

	if (n < FATBIN_HEADER)
		return false;
	memcpy(&magic, bytes, sizeof(magic));
	memcpy(&header_size, bytes + 6, sizeof(header_size));
	memcpy(&payload_size, bytes + 8, sizeof(payload_size));
	return magic == FATBIN_MAGIC && payload_size <= FATBIN_BYTES_MAX &&
		header_size + payload_size <= n;
}

enum image_status image_take_member(const uint8_t *header, unsigned device_sm, int is_ptx,
	struct image_log *log, struct image_member *ret)
{
	const uint8_t *best_payload = NULL, *p = take_container(header), *end;
	struct member best = {0};
	uint16_t header_size;
	uint64_t payload_size;

	if (!p)
		return IMAGE_BAD_BINARY;
	memcpy(&header_size, p + 6, sizeof(header_size));
	memcpy(&payload_size, p + 8, sizeof(payload_size));
	if (payload_size > FATBIN_BYTES_MAX)
		return IMAGE_BAD_BINARY;
	p += header_size;
	end = p + payload_size;
	while ((size_t)(end - p) >= sizeof(struct member)) {
		struct member member;

		memcpy(&member, p, sizeof(member));
		if (member.header_size < sizeof(member) || member.header_size > (size_t)(end - p) ||
			member.size > (size_t)(end - p) - member.header_size) {
			image_log_set(log, 0, "a part of the fat binary ends behind its end");
			return IMAGE_BAD_BINARY;
		}
		if (member.kind == (is_ptx ? FATBIN_PTX : FATBIN_ELF) &&
			is_usable(&member, device_sm) &&
			(!best_payload || member.arch > best.arch)) {
			best = member;
			best_payload = p + member.header_size;
		}
		p += member.header_size + member.size;
	}
	if (!best_payload) {
		image_log_set(
			log, 0, "the fat binary has no PTX or machine code for sm_%u", device_sm);
		return IMAGE_NO_BINARY;
	}
	*ret = (struct image_member){.is_ptx = is_ptx};
	return unpack(&best, best_payload, log, ret);
}

void image_member_done(struct image_member *member)
{
	free(member->unpacked);
	*member = (struct image_member){0};
}

enum image_status image_read_fatbin(
	const uint8_t *header, unsigned device_sm, struct image_log *log, struct image *ret_image)
{
	struct image_member member;
	enum image_status status, second;

	status = image_take_member(header, device_sm, 1, log, &member);
	if (status == IMAGE_OK) {
		const char *text = (const char *)member.bytes;

		status = image_read_ptx(text, strnlen(text, member.n), device_sm, log, ret_image);
		image_member_done(&member);
	}
	if (status == IMAGE_OK || status == IMAGE_NO_MEMORY)
		return status;
	second = image_take_member(
		header, device_sm, 0, status == IMAGE_NO_BINARY ? log : NULL, &member);
	if (second == IMAGE_NO_BINARY)
		return status;
	if (second == IMAGE_OK) {
		second = image_read_elf(member.bytes, member.n, device_sm, log, ret_image);
		image_member_done(&member);
	}
	/* The program gets code, so the fault of the PTX is no failure. */
	if (second == IMAGE_OK && log)
		*log = (struct image_log){0};
	return second;
}
