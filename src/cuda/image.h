/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much device memory a program image will take, as far as it can be read: PTX text, cubin
 * (ELF), or a fatbin of them. Pure, total on any bytes within the size that the image itself
 * claims.
 */
#ifndef CUDA_IMAGE_H
#define CUDA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_size {
	uint64_t code; /* with constants; as large as the image, at most */
	uint64_t data; /* variables; both of a fatbin's largest alternative */
	bool opaque;   /* some of it is compressed or of an unknown kind: more may come */
};

/* An image as cuModuleLoadData takes it: its size stands in it. */
void image_measure(const void *image, struct image_size *ret_size);

/* PTX of n bytes (a terminator ends it before); the sum of its .global and .const variables. */
uint64_t image_ptx_bytes(const char *text, size_t n);

/*
 * How long it is, by what stands in it, with PTX's terminator; *ret_image is where it begins,
 * behind the wrapper that compilers put around a fatbin. 0: no kind of image.
 */
uint64_t image_bytes(const void *image, const void **ret_image);

#endif
