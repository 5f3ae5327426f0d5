/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container of parsed modules, and the choice of a parser by an image's first bytes.
 * Pure code, any thread.
 */
#include "simgpu/cu-image.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The capacity is n rounded up to a power of two, so no field stores it. */
static void *image_grow_array(void *array, size_t n, size_t size, size_t max)
{
	if (n >= max)
		return NULL;
	if ((n & (n - 1)) != 0)
		return array;
	return realloc(array, (n == 0 ? 1 : n * 2) * size);
}

static char *image_copy_name(const char *name, size_t n)
{
	if (n == 0 || n > IMAGE_NAME_MAX)
		return NULL;
	return strndup(name, n);
}

struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t n)
{
	struct image_kernel *kernels = image_grow_array(
		image->kernels, image->n_kernels, sizeof(*kernels), IMAGE_KERNELS_MAX);
	struct image_kernel *kernel;

	if (!kernels)
		return NULL;
	image->kernels = kernels;
	kernel = &kernels[image->n_kernels];
	*kernel = (struct image_kernel){.name = image_copy_name(name, n)};
	if (!kernel->name)
		return NULL;
	image->n_kernels++;
	return kernel;
}

struct image_global *image_add_global(struct image *image, const char *name, size_t n)
{
	struct image_global *globals = image_grow_array(
		image->globals, image->n_globals, sizeof(*globals), IMAGE_GLOBALS_MAX);
	struct image_global *global;

	if (!globals)
		return NULL;
	image->globals = globals;
	global = &globals[image->n_globals];
	*global = (struct image_global){.name = image_copy_name(name, n), .align = 1};
	if (!global->name)
		return NULL;
	image->n_globals++;
	return global;
}

int image_add_param(struct image_kernel *kernel, uint32_t offset, uint32_t size)
{
	struct image_param *params = image_grow_array(
		kernel->params, kernel->n_params, sizeof(*params), IMAGE_PARAMS_MAX);

	if (!params)
		return -1;
	kernel->params = params;
	if (size > IMAGE_PARAM_BYTES_MAX || offset > IMAGE_PARAM_BYTES_MAX - size)
		return -1;
	params[kernel->n_params++] = (struct image_param){offset, size};
	if (offset + size > kernel->param_bytes)
		kernel->param_bytes = offset + size;
	return 0;
}

void image_done(struct image *image)
{
	for (size_t i = 0; i < image->n_kernels; i++) {
		free(image->kernels[i].name);
		free(image->kernels[i].params);
	}
	for (size_t i = 0; i < image->n_globals; i++) {
		free(image->globals[i].name);
		free(image->globals[i].init);
	}
	free(image->kernels);
	free(image->sorted);
	free(image->globals);
	free(image->text);
	*image = (struct image){0};
}

static int compare_names(const void *a, const void *b, void *image)
{
	const struct image_kernel *kernels = ((const struct image *)image)->kernels;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = strcmp(kernels[x].name, kernels[y].name);

	return order ? order : (x > y) - (x < y);
}

int image_sort_kernels(struct image *image)
{
	image->sorted = malloc((image->n_kernels + 1) * sizeof(*image->sorted));
	if (!image->sorted)
		return -1;
	for (uint32_t i = 0; i < image->n_kernels; i++)
		image->sorted[i] = i;
	if (image->n_kernels)
		qsort_r(image->sorted, image->n_kernels, sizeof(*image->sorted), compare_names,
			image);
	return 0;
}

/* Of kernels with the same name, the first. */
int image_find_kernel(const struct image *image, const char *name)
{
	size_t low = 0, high = image->n_kernels;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(image->kernels[image->sorted[middle]].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == image->n_kernels || strcmp(image->kernels[image->sorted[low]].name, name) != 0)
		return -1;
	return (int)image->sorted[low];
}

int image_runs_on(unsigned arch, char suffix, unsigned device_sm)
{
	if (suffix == 'a')
		return arch == device_sm;
	return arch <= device_sm && (suffix != 'f' || arch / 10 == device_sm / 10);
}

void image_log_set(struct image_log *log, uint32_t line, const char *format, ...)
{
	va_list ap;

	if (!log)
		return;
	log->line = line;
	va_start(ap, format);
	vsnprintf(log->text, sizeof(log->text), format, ap);
	va_end(ap);
}

static size_t image_elf_bytes(const uint8_t *bytes)
{
	Elf64_Ehdr header;
	size_t n;

	memcpy(&header, bytes, sizeof(header));
	if (header.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	n = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
	if (header.e_phoff + (size_t)header.e_phnum * header.e_phentsize > n)
		n = header.e_phoff + (size_t)header.e_phnum * header.e_phentsize;
	return n;
}

size_t image_size(const void *bytes)
{
	uint32_t magic;

	memcpy(&magic, bytes, sizeof(magic));
	if (magic == 0x466243b1) /* the wrapper that nvcc puts around a fatbin */
		return 24;
	if (magic == 0xba55ed50) {
		uint16_t header_size;
		uint64_t payload;

		memcpy(&header_size, (const char *)bytes + 6, sizeof(header_size));
		memcpy(&payload, (const char *)bytes + 8, sizeof(payload));
		return header_size + payload;
	}
	if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return image_elf_bytes(bytes);
	return strlen(bytes);
}

int image_is_whole(const uint8_t *bytes, size_t n)
{
	uint32_t magic;

	memcpy(&magic, bytes, sizeof(magic));
	if (magic == 0x466243b1)
		return 0;
	if (magic == 0xba55ed50)
		return image_fatbin_is_whole(bytes, n);
	if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return n >= sizeof(Elf64_Ehdr) && image_elf_bytes(bytes) <= n;
	return 1;
}

enum image_status image_read(
	const void *bytes, unsigned device_sm, struct image_log *log, struct image *ret_image)
{
	const char *first = bytes;
	uint32_t magic;

	/* Reads byte by byte, because the image may be an empty string at the end of a page. */
	for (int i = 0; i < 4; i++)
		if (first[i] == '\0')
			return i == 0 ? IMAGE_BAD_BINARY : IMAGE_BAD_PTX;
	memcpy(&magic, bytes, sizeof(magic));
	if (magic == 0x466243b1 || magic == 0xba55ed50)
		return image_read_fatbin(bytes, device_sm, log, ret_image);
	if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return image_read_elf(bytes, image_elf_bytes(bytes), device_sm, log, ret_image);
	return image_read_ptx(first, strlen(first), device_sm, log, ret_image);
}
