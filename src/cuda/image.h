/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the device memory that a program image will take, as far as the image is readable. An
 * image is PTX text, a cubin (ELF), or a fatbin that contains them. Pure. Accepts any bytes within
 * the size that the image itself states.
 */
#ifndef CUDA_IMAGE_H
#define CUDA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_size {
	uint64_t code; /* code and constants; at most the size of the image */
	/* Variables; for a fatbin, `code` and `data` are those of its largest alternative. */
	uint64_t data;
	/*
	 * Part of the image is compressed or of an unknown kind, so the image may need more memory.
	 */
	bool opaque;
};

/* Measures an image in any form that cuModuleLoadData accepts. The image states its own size. */
void image_measure(const void *image, struct image_size *ret_size);

/* As image_measure(), for an image of at most n bytes in a file, which 64 zeros or more follow. */
void image_measure_file(const void *image, size_t n, struct image_size *ret_size);

/*
 * Sum of the .global and .const variables of a PTX text of n bytes; a NUL may end the text earlier.
 */
uint64_t image_ptx_bytes(const char *text, size_t n);

/*
 * Size of an image as the image states it, with PTX's terminator. *ret_image is its beginning,
 * after the wrapper that compilers put around a fatbin. 0: no known kind of image, or a size beyond
 * 64 bits.
 */
uint64_t image_bytes(const void *image, const void **ret_image);

#endif
