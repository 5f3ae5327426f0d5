/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that state more bytes than they have. A page without access follows each image, so that a
 * read beyond its end ends the test.
 */
#include "unit.h"

#include <elf.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/image.h"

enum { PAGE = 4096, HEAD = 16, ENTRY = 64 };

static uint8_t *pages;

static int map_pages(void **state)
{
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) < 0;
}

static int unmap_pages(void **state)
{
	return munmap(pages, 2 * PAGE);
}

/* Zeroed bytes that end where the page ends. */
static uint8_t *at_end(size_t n)
{
	memset(pages, 0, PAGE);
	return pages + PAGE - n;
}

static void put(uint8_t *to, uint64_t value, size_t bytes)
{
	memcpy(to, &value, bytes);
}

/* A container with one member, whose header states `head_size` and `size`. */
static uint8_t *fatbin_at_end(uint64_t container, uint32_t head_size, uint64_t size)
{
	uint8_t *p = at_end(HEAD + ENTRY + 128);

	put(p, 0xba55ed50, 4);
	put(p + 6, HEAD, 2);
	put(p + 8, container, 8);
	put(p + HEAD, 2, 2);
	put(p + HEAD + 4, head_size, 4);
	put(p + HEAD + 8, size, 8);
	return p;
}

static uint8_t *cubin_at_end(size_t n, uint64_t sections_at, uint64_t segments_at)
{
	uint8_t *p = at_end(n);
	Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
		.e_shoff = sections_at,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 4,
		.e_phoff = segments_at,
		.e_phentsize = 64,
		.e_phnum = 4};

	memcpy(p, &head, sizeof(head));
	return p;
}

static void a_member_beyond_its_container_is_not_read(void **state)
{
	static const struct {
		uint32_t head_size;
		uint64_t size;
	} cases[] = {{ENTRY, 129}, {ENTRY + 1, 128}, {ENTRY + 129, 128}, {UINT32_MAX, 128},
		{ENTRY, UINT64_MAX}};
	struct image_size size;

	image_measure(fatbin_at_end(ENTRY + 128, ENTRY, 128), &size);
	assert_int_equal(size.code, 128);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		image_measure(fatbin_at_end(ENTRY + 128, cases[i].head_size, cases[i].size), &size);
		assert_int_equal(size.code, 0);
		assert_true(size.opaque);
	}
}

static void a_file_is_read_to_its_end_only(void **state)
{
	const uint64_t far = (uint64_t)1 << 32;
	struct image_size size;
	uint8_t *p;

	p = fatbin_at_end(ENTRY + 128, ENTRY, 128);
	image_measure_file(p, HEAD + ENTRY + 128, &size);
	assert_int_equal(size.code, 128);
	image_measure_file(fatbin_at_end(far, ENTRY, 128), HEAD + ENTRY + 128, &size);
	assert_true(size.code == 0 && size.opaque);
	image_measure_file(cubin_at_end(1024, far, 0), 1024, &size);
	assert_true(size.code == 0 && size.opaque);
	p = at_end(24);
	put(p, 0x466243b1, 4);
	put(p + 8, 8, 8);
	image_measure_file(p, 24, &size);
	assert_true(size.code == 0 && size.opaque);
}

static void a_size_beyond_64_bits_is_none(void **state)
{
	const void *begin;

	assert_int_equal(image_bytes(cubin_at_end(1024, 64, 512), &begin), 768);
	assert_int_equal(image_bytes(cubin_at_end(1024, UINT64_MAX - 63, 64), &begin), 0);
	assert_int_equal(image_bytes(cubin_at_end(1024, 64, UINT64_MAX - 63), &begin), 0);
	assert_int_equal(image_bytes(fatbin_at_end(UINT64_MAX - 15, ENTRY, 0), &begin), 0);
	assert_int_equal(image_bytes(fatbin_at_end(UINT64_MAX - 16, ENTRY, 0), &begin), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT(a_member_beyond_its_container_is_not_read),
		UNIT(a_file_is_read_to_its_end_only),
		UNIT(a_size_beyond_64_bits_is_none),
	};

	return cmocka_run_group_tests(tests, map_pages, unmap_pages);
}
