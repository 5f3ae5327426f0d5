/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures program images. NVIDIA's PTX ISA documents PTX. Cubins are ELF files with sections of
 * documented names. The heads of a fatbin are known from public programs that read them (magic
 * numbers below). An image that the code cannot read counts as opaque, and the caller then uses
 * numbers that the device reports. Pure functions; any thread.
 */
#include "cuda/image.h"

#include <elf.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_PTX 1
#define FATBIN_ELF 2
#define FATBIN_COMPRESSED (UINT64_C(0x2000) | UINT64_C(0x8000))
#define PTX_MAX (UINT64_C(1) << 31)

struct wrapper { /* the argument of __cudaRegisterFatBinary and cuModuleLoadFatBinary */
	uint32_t magic;
	uint32_t version;
	const void *data;
	const void *unused;
};

struct fatbin_head {
	uint32_t magic;
	uint16_t version;
	uint16_t head_size;
	uint64_t size; /* bytes after the head */
};

struct fatbin_entry {
	uint16_t kind;
	uint16_t version;
	uint32_t head_size;
	uint64_t size; /* bytes after this head */
	uint32_t compressed_size;
	uint32_t options;
	uint16_t minor, major;
	uint32_t architecture;
	uint32_t name_offset, name_size;
	uint64_t flags;
	uint64_t reserved;
	uint64_t plain_size;
};

/* ---- PTX ---- */

static bool image_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool image_is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '_' || c == '$' || c == '%' || c == '.';
}

/* Returns one word (directive, name or number) or one other character, and skips comments. */
static const char *image_next_word(const char *p, const char *end, const char **ret_end)
{
	for (;;) {
		while (p < end && image_is_space(*p))
			p++;
		if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
			while (p < end && *p != '\n')
				p++;
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '*') {
			for (p += 2; end - p >= 2 && !(p[0] == '*' && p[1] == '/'); p++)
				;
			p = end - p >= 2 ? p + 2 : end;
		} else {
			break;
		}
	}
	*ret_end = p;
	if (p < end && image_is_name(*p)) {
		while (*ret_end < end && image_is_name(**ret_end))
			(*ret_end)++;
	} else if (p < end) {
		(*ret_end)++;
	}
	return p;
}

static bool image_is_word(const char *p, const char *end, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(end - p) == n && !memcmp(p, text, n);
}

/* Bytes of a type such as ".b8", ".f64", ".u32"; 0: no type. */
static uint64_t type_bytes(const char *p, const char *end)
{
	uint64_t bits = 0;

	if (end - p < 3 || p[0] != '.' || !strchr("bsuf", p[1]))
		return 0;
	for (p += 2; p < end; p++) {
		if (*p < '0' || *p > '9' || bits > 1000)
			return 0;
		bits = bits * 10 + (uint64_t)(*p - '0');
	}
	return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

static uint64_t image_read_number(const char *p, const char *end)
{
	uint64_t base = 10, value = 0;

	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
		base = 16;
		p += 2;
	}
	for (; p < end; p++) {
		uint64_t digit = *p >= '0' && *p <= '9'        ? (uint64_t)(*p - '0')
			: base == 16 && *p >= 'a' && *p <= 'f' ? (uint64_t)(*p - 'a' + 10)
			: base == 16 && *p >= 'A' && *p <= 'F' ? (uint64_t)(*p - 'A' + 10)
							       : 16;

		if (digit >= base)
			break;
		value = value * base + digit;
	}
	return value;
}

/* Reads a declaration after .global to its end: type, vector, [dimensions]. */
static uint64_t variable_bytes(const char **p, const char *end)
{
	uint64_t type = 0, count = 1, vector = 1, bytes;
	const char *next;

	for (;;) {
		const char *w = image_next_word(*p, end, &next);

		*p = next;
		if (w == next || *w == ';' || *w == '=' || *w == ')' || *w == '{')
			break;
		if (type_bytes(w, next)) {
			type = type_bytes(w, next);
		} else if (image_is_word(w, next, ".align")) {
			image_next_word(*p, end, p);
		} else if (image_is_word(w, next, ".v2") || image_is_word(w, next, ".v4")) {
			vector = (uint64_t)(w[2] - '0');
		} else if (*w == '[') {
			w = image_next_word(*p, end, &next);
			*p = next;
			if (*w != ']' &&
				__builtin_mul_overflow(count, image_read_number(w, next), &count))
				return UINT64_MAX;
		}
	}
	if (__builtin_mul_overflow(type * vector, count, &bytes))
		return UINT64_MAX;
	return bytes;
}

uint64_t image_ptx_bytes(const char *text, size_t n)
{
	const char *p = text, *end = text + n, *next;
	uint64_t sum = 0, depth = 0;
	bool param = false;

	end = memchr(text, 0, n) ? memchr(text, 0, n) : end;
	while (p < end) {
		const char *w = image_next_word(p, end, &next);

		p = next;
		if (w == next)
			break;
		if (*w == '(' || *w == '{')
			depth++;
		else if ((*w == ')' || *w == '}') && depth)
			depth--;
		/* inside parentheses `.ptr .global` states where a parameter points */
		if (image_is_word(w, next, ".ptr"))
			param = true;
		else if ((image_is_word(w, next, ".global") || image_is_word(w, next, ".const")) &&
			!param) {
			if (__builtin_add_overflow(sum, variable_bytes(&p, end), &sum))
				return UINT64_MAX;
		} else {
			param = false;
		}
	}
	return sum;
}

/* ---- cubin ---- */

static void elf_measure(const uint8_t *p, uint64_t n, struct image_size *size)
{
	Elf64_Ehdr eh;

	if (n < sizeof eh)
		return;
	memcpy(&eh, p, sizeof eh);
	size->code = n;
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_shentsize != sizeof(Elf64_Shdr) ||
		eh.e_shoff > n || eh.e_shnum > (n - eh.e_shoff) / sizeof(Elf64_Shdr)) {
		size->opaque = true;
		return;
	}
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		Elf64_Shdr sh;

		memcpy(&sh, p + eh.e_shoff + i * sizeof sh, sizeof sh);
		/* shared and local memory take no device memory of the module */
		if ((sh.sh_flags & SHF_ALLOC) && (sh.sh_flags & SHF_WRITE) &&
			sh.sh_size < UINT64_MAX / 65536)
			size->data += sh.sh_size;
	}
}

/* A cubin ends with its last section or with its tables. 0: its size overflows. */
static uint64_t image_elf_size(const uint8_t *p)
{
	uint64_t sections, segments;
	Elf64_Ehdr eh;

	memcpy(&eh, p, sizeof eh);
	if (eh.e_ident[EI_CLASS] != ELFCLASS64)
		return sizeof eh;
	if (__builtin_add_overflow(eh.e_shoff, (uint64_t)eh.e_shnum * eh.e_shentsize, &sections) ||
		__builtin_add_overflow(
			eh.e_phoff, (uint64_t)eh.e_phnum * eh.e_phentsize, &segments))
		return 0;
	return sections > segments ? sections : segments;
}

/* ---- fatbin ---- */

static void image_add_fatbin(const uint8_t *p, struct image_size *size)
{
	struct fatbin_head head;
	uint64_t at;

	memcpy(&head, p, sizeof head);
	at = head.head_size;
	while (at < head.head_size + head.size) {
		struct image_size one = {0};
		struct fatbin_entry e;
		const uint8_t *body;

		if (head.head_size + head.size - at < sizeof e)
			break;
		memcpy(&e, p + at, sizeof e);
		if (e.head_size < 48 || e.head_size > head.head_size + head.size - at ||
			e.size > head.head_size + head.size - at - e.head_size) {
			size->opaque = true;
			break;
		}
		body = p + at + e.head_size;
		if (e.head_size >= sizeof e && (e.flags & FATBIN_COMPRESSED)) {
			one = (struct image_size){.code = e.plain_size, .opaque = true};
		} else if (e.kind == FATBIN_ELF) {
			elf_measure(body, e.size, &one);
		} else if (e.kind == FATBIN_PTX) {
			one.code = e.size;
			one.data = image_ptx_bytes((const char *)body, e.size);
		} else {
			one = (struct image_size){.code = e.size, .opaque = true};
		}
		size->code = one.code > size->code ? one.code : size->code;
		size->data = one.data > size->data ? one.data : size->data;
		size->opaque |= one.opaque;
		at += e.head_size + e.size;
	}
}

/* Skips the wrapper if there is one; NULL if it points to nothing. */
static const uint8_t *image_unwrap(const uint8_t *p, uint32_t *ret_magic)
{
	struct wrapper w;

	memcpy(ret_magic, p, sizeof *ret_magic);
	if (*ret_magic != WRAPPER_MAGIC)
		return p;
	memcpy(&w, p, sizeof w);
	if (w.data)
		memcpy(ret_magic, w.data, sizeof *ret_magic);
	return w.data;
}

/* PTX may be shorter than a magic number, so the first byte decides. */
static bool image_is_text(const uint8_t *p)
{
	return p[0] != 0xb1 && p[0] != 0x50 && p[0] != 0x7f;
}

void image_measure(const void *image, struct image_size *ret_size)
{
	const uint8_t *p = image;
	uint32_t magic;

	*ret_size = (struct image_size){0};
	if (!p)
		return;
	if (image_is_text(p)) {
		ret_size->code = strnlen(image, PTX_MAX);
		ret_size->data = image_ptx_bytes(image, ret_size->code);
		return;
	}
	p = image_unwrap(p, &magic);
	if (!p)
		return;
	if (magic == FATBIN_MAGIC)
		image_add_fatbin(p, ret_size);
	else if (!memcmp(&magic, ELFMAG, SELFMAG))
		elf_measure(p, image_elf_size(p), ret_size);
	else
		ret_size->opaque = true;
}

void image_measure_file(const void *image, size_t n, struct image_size *ret_size)
{
	const void *begin;
	uint32_t magic;

	memcpy(&magic, image, sizeof magic);
	/* In a file, the address that a wrapper contains points to nothing. */
	if (magic == WRAPPER_MAGIC || (!image_is_text(image) && image_bytes(image, &begin) > n))
		*ret_size = (struct image_size){.opaque = true};
	else
		image_measure(image, ret_size);
}

uint64_t image_bytes(const void *image, const void **ret_image)
{
	const uint8_t *p = image;
	struct fatbin_head head;
	uint64_t bytes;
	uint32_t magic;

	*ret_image = image;
	if (image_is_text(p))
		return strnlen(image, PTX_MAX) + 1;
	p = image_unwrap(p, &magic);
	*ret_image = p;
	if (p && magic == FATBIN_MAGIC) {
		memcpy(&head, p, sizeof head);
		return __builtin_add_overflow(head.head_size, head.size, &bytes) ? 0 : bytes;
	}
	return p && !memcmp(&magic, ELFMAG, SELFMAG) ? image_elf_size(p) : 0;
}
