/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module images: layouts by the PTX ISA, members of fat binaries, and refusal of damaged images.
 * The test also reads every prefix of a good image, and copies of a small image with one byte
 * changed. Any answer is right for these, but no read may leave the image (sanitizers check this).
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fatbin.h"

#include "simgpu/cu-image.h"

static const char head[] = ".version 7.0\n.target sm_70\n.address_size 64\n";

static enum image_status read_text(const char *body, struct image *image)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s%s", head, body);
	return image_read(text, 90, NULL, image);
}

static void layouts(void)
{
	struct image image;
	float single;
	double wide;

	tap_ok(read_text(".visible .entry k(.param .u8 a, .param .align 8 .b8 s[12], "
			 ".param .u64 .ptr .global .align 4 p, .param .f32 f)\n"
			 ".maxntid 128, 2, 1\n{ .shared .align 16 .b8 t[100]; { ret; } }\n"
			 ".func g(.param .u32 x) { ret; }\n.entry empty() { ret; }\n",
		       &image) == IMAGE_OK,
		"kernels and a function");
	tap_ok(image.n_kernels == 2 && image.kernels[0].n_params == 4,
		"the image has two kernels, of which the first has four parameters");
	tap_ok(image.kernels[0].params[1].offset == 8 && image.kernels[0].params[1].size == 12 &&
			image.kernels[0].params[2].offset == 24 &&
			image.kernels[0].params[3].offset == 32 &&
			image.kernels[0].param_bytes == 36,
		"parameters at multiples of their alignment");
	tap_ok(image.kernels[0].max_threads == 256 && image.kernels[0].shared_bytes == 100,
		"block limit and shared memory");
	tap_ok(image.kernels[1].param_bytes == 0,
		"a kernel without parameters needs no parameter bytes");
	image_done(&image);

	tap_ok(read_text(".global .align 4 .u32 a = 7;\n.const .f32 f = 0f3F800000, g = 2.5;\n"
			 ".global .f64 d[2] = {0d3FF0000000000000, -1.5};\n"
			 ".global .s16 n[2][3] = {{1, -2}, {3}};\n.extern .global .u32 e;\n"
			 ".visible .global .u64 p = generic(a)+4;\n.global .b8 z[16];\n",
		       &image) == IMAGE_OK,
		"variables");
	tap_ok(image.n_globals == 7, "external variables do not count: %zu", image.n_globals);
	memcpy(&single, image.globals[2].init, 4);
	memcpy(&wide, image.globals[3].init + 8, 8);
	tap_ok(image.globals[0].init[0] == 7 && single == 2.5f && wide == -1.5,
		"variables have their initial values");
	tap_ok(image.globals[4].size == 12 && image.globals[4].init[2] == 0xfe &&
			image.globals[4].init[4] == 0 && image.globals[4].init[6] == 3,
		"each inner list fills its own row");
	tap_ok(!image.globals[6].init && image.globals[6].size == 16, "zeros need no bytes");
	image_done(&image);
}

/* A kernel uses what it names, and what the functions use that it names. */
static void footprints(void)
{
	struct image image;

	tap_ok(read_text(
		       ".shared .align 4 .b8 a[400], b[8];\n.extern .shared .align 16 .b8 d[];\n"
		       ".func deep() { .local .align 8 .b8 x[64]; ld.shared.u32 %r1, [b]; call loop; ret; }\n"
		       ".func (.param .b32 r) loop() { .shared .b32 own; st.shared.u32 [a], 0; call deep; ret; }\n"
		       ".entry first() { .local .align 16 .b8 x[100]; .local .b64 y;\n"
		       " mov.u32 %r1, a; mov.u32 %r2, a; ret; }\n"
		       ".entry second() { mov.u32 %r1, d; call loop; ret; }\n"
		       ".entry third() { ret; }\n.section .debug { .b64 a, loop }\n",
		       &image) == IMAGE_OK,
		"shared variables of the module, and functions that call each other");
	tap_ok(image.kernels[0].shared_bytes == 400 && image.kernels[0].local_bytes == 112,
		"a variable that a kernel names twice counts once: %u, %u",
		image.kernels[0].shared_bytes, image.kernels[0].local_bytes);
	tap_ok(image.kernels[1].shared_bytes == 412 && image.kernels[1].local_bytes == 64,
		"all memory that called functions use counts: %u, %u",
		image.kernels[1].shared_bytes, image.kernels[1].local_bytes);
	tap_ok(image.kernels[2].shared_bytes == 0 && image.kernels[2].local_bytes == 0,
		"a kernel that names nothing uses nothing, and debug information is no use");
	image_done(&image);
}

static void refused(void)
{
	static const struct {
		const char *body;
		enum image_status status;
	} cases[] = {
		{".entry k(.param .u33 x) { ret; }\n", IMAGE_BAD_PTX},
		{".entry k(.param .u32 x { ret; }\n", IMAGE_BAD_PTX},
		{".entry k() { ret;\n", IMAGE_BAD_PTX},
		{".entry k(.param .b8 x[32765]) { ret; }\n", IMAGE_BAD_PTX},
		{".entry k(.param .align 3 .b8 x[4]) { ret; }\n", IMAGE_BAD_PTX},
		{".global .u32 a = {1, 2};\n", IMAGE_BAD_PTX},
		{".global .u32 a = 12x;\n", IMAGE_BAD_PTX},
		{".nonsense;\n", IMAGE_BAD_PTX},
		{"\"unfinished\n", IMAGE_BAD_PTX},
	};
	struct image image;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum image_status got = read_text(cases[i].body, &image);

		tap_ok(got == cases[i].status, "%.40s: %d", cases[i].body, (int)got);
		if (got == IMAGE_OK)
			image_done(&image);
	}
	tap_ok(image_read("", 90, NULL, &image) == IMAGE_BAD_BINARY, "an empty text is refused");
	tap_ok(image_read(".version 7.0\n.target sm_70\n.address_size 32\n", 90, NULL, &image) ==
			IMAGE_BAD_PTX,
		"32-bit addresses are refused");
}

/* Each copy has exactly the size of its text, so that a sanitizer sees a read beyond its end. */
static void damaged(void)
{
	const char *whole = kernels_text();
	size_t n = strlen(whole), read = 0;
	struct image image;

	for (size_t length = 0; length < n; length += 1 + n / 4000) {
		char *part = malloc(length + 1);

		memcpy(part, whole, length);
		part[length] = '\0';
		if (image_read_ptx(part, length, 90, NULL, &image) == IMAGE_OK)
			image_done(&image);
		free(part);
		read++;
	}
	tap_ok(read > 1000, "%zu prefixes of an image are read", read);
	n = n < 2500 ? n : 2500;
	for (size_t at = 0; at < n; at++) {
		char *copy = malloc(n);

		memcpy(copy, whole, n);
		copy[at] = (char)(copy[at] ^ (1 << at % 8));
		if (image_read_ptx(copy, n, 90, NULL, &image) == IMAGE_OK)
			image_done(&image);
		free(copy);
	}
	tap_ok(true, "images with each of %zu bytes changed are read", n);
}

/* Reads a cubin once for each of the 64 bytes of its header, with this byte inverted. */
static void damaged_elf(void)
{
	struct image image;
	size_t n = 1024;

	for (size_t at = 0; at < 64; at++) {
		uint8_t *elf = calloc(1, n);

		memcpy(elf, "\177ELF\2\1\1", 7);
		elf[18] = 190;         /* e_machine: CUDA */
		elf[40] = 128;         /* offset of the section headers */
		elf[58] = 64;          /* size of a section header */
		elf[60] = 8;           /* number of section headers */
		elf[48] = 90;          /* sm_90 */
		elf[128 + 64 + 4] = 2; /* section 1 is a symbol table */
		elf[128 + 64 + 32] = 96;
		elf[at] ^= 0xff;
		if (image_read_elf(elf, n, 90, NULL, &image) == IMAGE_OK)
			image_done(&image);
		free(elf);
	}
	tap_ok(true, "cubins with a damaged header are read");
}

/* ---- cubins and fat binaries ---- */

static uint8_t cubin[CUBIN_MAX];
static struct fatbin fat;

/* PTX for an architecture; its kernel's name tells which text was read. */
static const char *text_for(const char *sm, const char *kernel)
{
	static char texts[8][256];
	static unsigned next;
	char *text = texts[next++ % 8];

	snprintf(text, sizeof(texts[0]),
		".version 8.8\n.target sm_%s\n.address_size 64\n"
		".visible .entry %s(.param .u64 p) { ret; }\n",
		sm, kernel);
	return text;
}

static void add_text(
	unsigned arch, enum fatbin_suffix suffix, enum fatbin_packing packing, const char *text)
{
	fatbin_add(&fat,
		&(struct fatbin_member){.kind = FATBIN_PTX,
			.arch = arch,
			.suffix = suffix,
			.packing = packing,
			.more_header = 16,
			.bytes = text,
			.n = strlen(text) + 1});
}

static void add_cubin(unsigned arch, enum fatbin_packing packing, const char *kernel)
{
	size_t n = cubin_make(cubin, arch, kernel, 0x17, 24);

	fatbin_add(&fat,
		&(struct fatbin_member){.kind = FATBIN_ELF,
			.arch = arch,
			.packing = packing,
			.bytes = cubin,
			.n = n});
}

/* Which kernel a device finds; "" if the image is refused. */
static const char *kernel_for(const void *bytes, unsigned device_sm, enum image_status *ret_status)
{
	static char name[64];
	struct image image;

	name[0] = '\0';
	*ret_status = image_read(bytes, device_sm, NULL, &image);
	if (*ret_status != IMAGE_OK)
		return name;
	if (image.n_kernels == 1)
		snprintf(name, sizeof(name), "%s", image.kernels[0].name);
	image_done(&image);
	return name;
}

static void cubins(void)
{
	static const uint32_t sizes[] = {1, 4096, 32756};
	static const unsigned attributes[] = {0x17, 0x45};
	struct image image;

	for (size_t i = 0; i < 2 * 3; i++) {
		unsigned attribute = attributes[i / 3];
		uint32_t bytes = sizes[i % 3];

		/* 0x17 has 14 bits for the size. */
		if (attribute == 0x17 && bytes > 4096)
			continue;
		cubin_make(cubin, 100, "k", attribute, bytes);
		if (image_read(cubin, 100, NULL, &image) != IMAGE_OK) {
			tap_ok(false, "parameters by attribute 0x%x", attribute);
			continue;
		}
		tap_ok(image.n_kernels == 1 && image.kernels[0].n_params == 2 &&
				image.kernels[0].params[0].offset == 0 &&
				image.kernels[0].params[0].size == 8 &&
				image.kernels[0].params[1].offset == 8 &&
				image.kernels[0].params[1].size == bytes &&
				image.kernels[0].param_bytes == 8 + bytes,
			"%u bytes of parameters by attribute 0x%x", 8 + bytes, attribute);
		image_done(&image);
	}
	cubin_make(cubin, 90, "k", 0x45, 32757);
	tap_ok(image_read(cubin, 90, NULL, &image) == IMAGE_BAD_BINARY,
		"a kernel has at most 32764 bytes of parameters");
}

/* Makes the kernel of a cubin a variable, whose section states an alignment. */
static size_t variable_make(uint64_t align)
{
	enum { SYMBOLS = 2, CODE = 3 };
	size_t n = cubin_make(cubin, 90, "kernel", 0x17, 8);
	Elf64_Shdr section;
	Elf64_Ehdr header;
	uint64_t symbols;
	char *name;

	memcpy(&header, cubin, sizeof(header));
	memcpy(&section, cubin + header.e_shoff + SYMBOLS * sizeof(section), sizeof(section));
	symbols = section.sh_offset;
	cubin[symbols + sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_info)] = ELF64_ST_INFO(
		STB_GLOBAL, STT_OBJECT);
	name = memmem(cubin, n, ".text.kernel", 12);
	memcpy(name, ".nv.global", 11);
	memcpy(cubin + header.e_shoff + CODE * sizeof(section) + offsetof(Elf64_Shdr, sh_addralign),
		&align, sizeof(align));
	return n;
}

static void variables(void)
{
	static const uint64_t good[] = {0, 1, 256, UINT64_C(1) << 31};
	static const uint64_t bad[] = {3, 257, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
	struct image image;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		bool is_read = image_read_elf(cubin, variable_make(good[i]), 90, NULL, &image) ==
			IMAGE_OK;

		tap_ok(is_read && image.n_globals == 1 && image.globals[0].size == 128 &&
				image.globals[0].align == (good[i] ? good[i] : 1),
			"a variable at a multiple of %llu", (unsigned long long)good[i]);
		if (is_read)
			image_done(&image);
	}
	/* The driver adds up aligned sizes, and writes the values at the sums. */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		bool is_read = image_read_elf(cubin, variable_make(bad[i]), 90, NULL, &image) ==
			IMAGE_OK;

		tap_ok(!is_read, "no variable at a multiple of %llu", (unsigned long long)bad[i]);
		if (is_read)
			image_done(&image);
	}
}

static void packings(void)
{
	static const struct {
		enum fatbin_packing packing;
		const char *name;
	} cases[] = {{FATBIN_PLAIN, "plain"}, {FATBIN_LZ4, "LZ4"}, {FATBIN_ZSTD, "Zstandard"}};

	for (size_t i = 0; i < 2 * 3; i++) {
		const char *name = cases[i / 2].name, *kind = i % 2 ? "machine code" : "PTX";
		struct fatbin_wrapper one, two;
		enum image_status status;
		bool is_found;

		fatbin_begin(&fat);
		if (i % 2)
			add_cubin(90, cases[i / 2].packing, "found");
		else
			add_text(90, FATBIN_ANY, cases[i / 2].packing, text_for("90", "found"));
		one = fatbin_wrap(&fat, 1);
		two = fatbin_wrap(&fat, 2);
		is_found = strcmp(kernel_for(fat.bytes, 90, &status), "found") == 0;
		tap_ok(is_found, "%s, %s: status %d", name, kind, (int)status);
		is_found = strcmp(kernel_for(&one, 90, &status), "found") == 0 &&
			strcmp(kernel_for(&two, 90, &status), "found") == 0;
		tap_ok(is_found, "%s, %s, in a wrapper: status %d", name, kind, (int)status);
	}
}

static void choice(void)
{
	static const struct {
		unsigned device_sm;
		const char *kernel;
	} cases[] = {
		{70, ""},
		{75, "ptx75"},
		{80, "ptx80"},
		{86, "ptx80"},
		{89, "ptx80"},
		{90, "ptx90a"},
		{100, "ptx100f"},
		{103, "ptx100f"},
		{120, "ptx80"},
	};
	enum image_status status;

	fatbin_begin(&fat);
	add_cubin(86, FATBIN_ZSTD, "sass86");
	add_text(75, FATBIN_ANY, FATBIN_ZSTD, text_for("75", "ptx75"));
	add_text(80, FATBIN_ANY, FATBIN_LZ4, text_for("80", "ptx80"));
	add_text(90, FATBIN_ALONE, FATBIN_PLAIN, text_for("90a", "ptx90a"));
	add_text(100, FATBIN_FAMILY, FATBIN_PLAIN, text_for("100f", "ptx100f"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *got = kernel_for(fat.bytes, cases[i].device_sm, &status);

		tap_ok(strcmp(got, cases[i].kernel) == 0 && (*got || status == IMAGE_NO_BINARY),
			"sm_%u takes '%s': '%s'", cases[i].device_sm, cases[i].kernel, got);
	}

	fatbin_begin(&fat);
	add_cubin(80, FATBIN_PLAIN, "sass80");
	add_cubin(86, FATBIN_PLAIN, "sass86");
	add_text(90, FATBIN_ANY, FATBIN_PLAIN, "nothing that a JIT compiler reads");
	add_text(120, FATBIN_ANY, FATBIN_PLAIN, text_for("120", "ptx120"));
	tap_ok(strcmp(kernel_for(fat.bytes, 89, &status), "sass86") == 0 &&
			strcmp(kernel_for(fat.bytes, 80, &status), "sass80") == 0,
		"machine code runs on devices of the same major number that are not older");
	tap_ok(*kernel_for(fat.bytes, 75, &status) == '\0' && status == IMAGE_NO_BINARY,
		"a device older than all members finds none");
	tap_ok(*kernel_for(fat.bytes, 90, &status) == '\0' && status == IMAGE_BAD_BINARY,
		"a faulty text without machine code beside it is refused");
	add_cubin(90, FATBIN_ZSTD, "sass90");
	tap_ok(strcmp(kernel_for(fat.bytes, 90, &status), "sass90") == 0,
		"machine code replaces a text that cannot be read");
}

static void logs(void)
{
	static const struct {
		const char *text;
		unsigned device_sm;
		enum image_status status;
		uint32_t line;
		const char *part;
	} cases[] = {
		{".version 8.0\n.target sm_70\n.address_size 64\n.entry k() { ret; }\n\n.entri l()\n",
			90, IMAGE_BAD_PTX, 6, "'.entri'"},
		{".version 8.0\n.target sm_70\n.address_size 64\n.entry k() {\n  ret;\n", 90,
			IMAGE_BAD_PTX, 6, "ends too early"},
		{"//\n.version 9.9\n.target sm_70\nnew syntax\n", 90, IMAGE_UNSUPPORTED_PTX, 2,
			"Unsupported .version 9.9"},
		{".version 8.0\n.target sm_90\n.address_size 64\n", 80, IMAGE_NO_BINARY, 2,
			"sm_90"},
		{".version 8.0\n.target sm_90a\n.address_size 64\n", 100, IMAGE_NO_BINARY, 2,
			"sm_90a"},
		{".version 8.8\n.target sm_100f\n.address_size 64\n", 120, IMAGE_NO_BINARY, 2,
			"sm_100f"},
		{".version 8.8\n.target sm_\n", 90, IMAGE_BAD_PTX, 2, "'sm_'"},
		{".version 8.0\n.target sm_70\n.address_size 32\n", 90, IMAGE_BAD_PTX, 4, "64-bit"},
		{"no module", 90, IMAGE_BAD_BINARY, 1, ".version"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct image_log log = {0};
		struct image image;
		enum image_status status = image_read(
			cases[i].text, cases[i].device_sm, &log, &image);

		tap_ok(status == cases[i].status && log.line == cases[i].line &&
				strstr(log.text, cases[i].part),
			"status %d, line %u, %s", (int)status, log.line, log.text);
		if (status == IMAGE_OK)
			image_done(&image);
	}
}

static void no_log_of_a_success(void)
{
	struct image_log log = {0};
	struct image image;
	bool is_read;

	fatbin_begin(&fat);
	add_text(90, FATBIN_ANY, FATBIN_PLAIN, ".version 8.0\n.target sm_90\n.nonsense\n");
	add_cubin(90, FATBIN_PLAIN, "k");
	is_read = image_read(fat.bytes, 90, &log, &image) == IMAGE_OK;
	tap_ok(is_read && !image.is_ptx && log.text[0] == '\0' && log.line == 0,
		"machine code replaces faulty PTX without a message");
	if (is_read)
		image_done(&image);
}

static size_t count_refused(void (*damage)(uint8_t *bytes, size_t at), size_t from, size_t to)
{
	size_t refused = 0;

	for (size_t at = from; at < to; at++) {
		uint8_t *copy = malloc(fat.n);
		struct image image;

		memcpy(copy, fat.bytes, fat.n);
		damage(copy, at);
		if (image_read(copy, 90, NULL, &image) == IMAGE_OK)
			image_done(&image);
		else
			refused++;
		free(copy);
	}
	return refused;
}

static void invert(uint8_t *bytes, size_t at)
{
	bytes[at] = (uint8_t)~bytes[at];
}

static void set_unpacked(uint8_t *bytes, size_t size)
{
	uint64_t n = size;

	memcpy(bytes + 16 + 56, &n, sizeof(n));
}

static void damaged_fatbin(void)
{
	static const enum fatbin_packing packings[] = {FATBIN_LZ4, FATBIN_ZSTD};
	const uint64_t endless = UINT64_MAX - 15;
	enum image_status status;

	for (size_t i = 0; i < 2; i++) {
		const char *text = text_for("90", "k");
		size_t n = strlen(text) + 1;

		fatbin_begin(&fat);
		add_text(90, FATBIN_ANY, packings[i], text);
		/* The container's own size comes first, and no reader can check it. */
		count_refused(invert, 16, fat.n);
		tap_ok(true, "fat binaries with a changed byte are read");
		tap_ok(count_refused(set_unpacked, 0, n) == n,
			"a member that does not fit its stated size is refused");
		tap_ok(count_refused(set_unpacked, ((size_t)1 << 30) + 1, ((size_t)1 << 30) + 3) ==
				2,
			"a member of more than 1 GiB is refused");
	}
	fatbin_begin(&fat);
	add_text(90, FATBIN_ANY, FATBIN_PLAIN, text_for("90", "k"));
	tap_ok(image_fatbin_is_whole(fat.bytes, fat.n) &&
			!image_fatbin_is_whole(fat.bytes, fat.n - 1) &&
			!image_fatbin_is_whole(fat.bytes, 15),
		"a container states its size");
	memcpy(fat.bytes + 8, &endless, sizeof(endless));
	kernel_for(fat.bytes, 90, &status);
	tap_ok(status == IMAGE_BAD_BINARY && !image_fatbin_is_whole(fat.bytes, fat.n),
		"a container whose size overflows is refused");
}

int main(void)
{
	tap_begin();
	part_run("layouts", layouts);
	part_run("memory of functions", footprints);
	part_run("refused", refused);
	part_run("damaged text", damaged);
	part_run("damaged ELF", damaged_elf);
	part_run("cubins", cubins);
	part_run("variables of cubins", variables);
	part_run("packings", packings);
	part_run("choice", choice);
	part_run("logs", logs);
	part_run("no log of a success", no_log_of_a_success);
	part_run("damaged fat binaries", damaged_fatbin);
	tap_end();
	return tap_failures() != 0;
}
