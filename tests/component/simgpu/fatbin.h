/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes small cubins and fat binaries for tests, as compilers lay them out. A writer has a fixed
 * buffer and ends the test if the buffer is too small.
 */
#ifndef TESTS_COMPONENT_SIMGPU_FATBIN_H
#define TESTS_COMPONENT_SIMGPU_FATBIN_H

#include <stddef.h>
#include <stdint.h>

enum { FATBIN_MAX = 64 * 1024, CUBIN_MAX = 4096 };

enum fatbin_kind { FATBIN_PTX = 1, FATBIN_ELF = 2 };
enum fatbin_packing { FATBIN_PLAIN = 0, FATBIN_LZ4 = 0x2000, FATBIN_ZSTD = 0x8000 };
/* Flags of a member: code for one architecture alone, or for its family. */
enum fatbin_suffix { FATBIN_ANY = 0, FATBIN_ALONE = 0x100000, FATBIN_FAMILY = 0x200000 };

struct fatbin {
	_Alignas(8) uint8_t bytes[FATBIN_MAX];
	size_t n;
};

struct fatbin_member {
	enum fatbin_kind kind;
	unsigned arch;
	enum fatbin_suffix suffix;
	enum fatbin_packing packing;
	unsigned more_header; /* bytes that the header has behind its known fields */
	const void *bytes;
	size_t n;
};

/* Compilers put a wrapper with the address of the container into a program. */
struct fatbin_wrapper {
	uint32_t magic, version;
	const void *data, *more;
};

void fatbin_begin(struct fatbin *f);
void fatbin_add(struct fatbin *f, const struct fatbin_member *member);
struct fatbin_wrapper fatbin_wrap(const struct fatbin *f, uint32_t version);

/*
 * A cubin for sm_@sm with one kernel. @attribute, 0x17 or 0x45, describes the kernel's two
 * parameters: 8 bytes at offset 0, @bytes at offset 8. Returns the cubin's size.
 */
size_t cubin_make(uint8_t cubin[CUBIN_MAX], unsigned sm, const char *kernel, unsigned attribute,
	uint32_t bytes);

#endif
