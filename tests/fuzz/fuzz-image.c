/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module image from a program, also from a program on another machine: PTX, a cubin or a fat
 * binary, whose members may be compressed. The readers must stay inside the image, and the layout
 * that they return must be consistent.
 */
#include <string.h>

#include "fuzz.h"
#include "simgpu/cu-image.h"

static void check(const struct image *image)
{
	for (size_t i = 0; i < image->n_kernels; i++) {
		const struct image_kernel *kernel = &image->kernels[i];

		FUZZ_CHECK(kernel->name[0] != '\0' && kernel->param_bytes <= IMAGE_PARAM_BYTES_MAX);
		for (uint32_t j = 0; j < kernel->n_params; j++)
			FUZZ_CHECK(kernel->params[j].offset + kernel->params[j].size <=
				kernel->param_bytes);
	}
	for (size_t i = 0; i < image->n_globals; i++) {
		const uint64_t align = image->globals[i].align;

		FUZZ_CHECK(image->globals[i].name[0] != '\0');
		/* The driver adds up sizes at multiples of these. */
		FUZZ_CHECK(align && align <= UINT64_C(1) << 31 && !(align & (align - 1)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const unsigned devices[] = {75, 90, 100};

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		struct image_log log = {0};
		enum image_status status;
		struct image image;

		if (n >= 4 && !memcmp(data, "\177ELF", 4))
			status = image_read_elf(data, n, devices[i], &log, &image);
		else if (image_fatbin_is_whole(data, n))
			status = image_read_fatbin(data, devices[i], &log, &image);
		else
			status = image_read_ptx((const char *)data, strnlen((const char *)data, n),
				devices[i], &log, &image);
		FUZZ_CHECK(memchr(log.text, '\0', sizeof(log.text)));
		if (status != IMAGE_OK)
			continue;
		check(&image);
		image_done(&image);
	}
	return 0;
}
