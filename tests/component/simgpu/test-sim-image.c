/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module images: layouts by the PTX ISA, and refusal of damaged images. The test also reads every
 * prefix of a good image, and copies of a small image with one byte changed. Any answer is right
 * for these, but no read may leave the image (sanitizers check this).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#include "simgpu/cu-image.h"

static const char head[] = ".version 7.0\n.target sm_70\n.address_size 64\n";

static enum image_status read_text(const char *body, struct image *image)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s%s", head, body);
	return image_read(text, 90, image);
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
	tap_ok(image_read("", 90, &image) == IMAGE_BAD_BINARY, "an empty text is refused");
	tap_ok(image_read(".version 7.0\n.target sm_70\n.address_size 32\n", 90, &image) ==
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
		if (image_read_ptx(part, length, &image) == IMAGE_OK)
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
		if (image_read_ptx(copy, n, &image) == IMAGE_OK)
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
		if (image_read_elf(elf, n, 90, &image) == IMAGE_OK)
			image_done(&image);
		free(elf);
	}
	tap_ok(true, "cubins with a damaged header are read");
}

int main(void)
{
	tap_begin();
	part_run("layouts", layouts);
	part_run("refused", refused);
	part_run("damaged text", damaged);
	part_run("damaged ELF", damaged_elf);
	tap_end();
	return tap_failures() != 0;
}
