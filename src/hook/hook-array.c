/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and mipmapped arrays. This library does not know their addresses, so it charges each array
 * in whole blocks. Sparse and deferred arrays take memory only when the program maps memory into
 * them (vmm.c). Any thread.
 */
#include "hook/hook.h"
#include "hook/hook-memory.h"

/*
 * Size of one channel of an element, in half bytes, because some formats pack two elements into one
 * byte.
 */
static uint64_t format_halves(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8: return 2;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF: return 4;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT: return 8;
	case CU_AD_FORMAT_BC1_UNORM:
	case CU_AD_FORMAT_BC1_UNORM_SRGB:
	case CU_AD_FORMAT_BC4_UNORM:
	case CU_AD_FORMAT_BC4_SNORM: return 1;
	case CU_AD_FORMAT_BC2_UNORM:
	case CU_AD_FORMAT_BC2_UNORM_SRGB:
	case CU_AD_FORMAT_BC3_UNORM:
	case CU_AD_FORMAT_BC3_UNORM_SRGB:
	case CU_AD_FORMAT_BC5_UNORM:
	case CU_AD_FORMAT_BC5_SNORM:
	case CU_AD_FORMAT_BC6H_UF16:
	case CU_AD_FORMAT_BC6H_SF16:
	case CU_AD_FORMAT_BC7_UNORM:
	case CU_AD_FORMAT_BC7_UNORM_SRGB: return 2;
	case CU_AD_FORMAT_UNORM_INT8X1:
	case CU_AD_FORMAT_SNORM_INT8X1: return 2;
	case CU_AD_FORMAT_UNORM_INT8X2:
	case CU_AD_FORMAT_SNORM_INT8X2:
	case CU_AD_FORMAT_UNORM_INT16X1:
	case CU_AD_FORMAT_SNORM_INT16X1: return 4;
	case CU_AD_FORMAT_UNORM_INT8X4:
	case CU_AD_FORMAT_SNORM_INT8X4:
	case CU_AD_FORMAT_UNORM_INT16X2:
	case CU_AD_FORMAT_SNORM_INT16X2: return 8;
	case CU_AD_FORMAT_UNORM_INT16X4:
	case CU_AD_FORMAT_SNORM_INT16X4: return 16;
	default: return 8; /* planar and packed video formats take less */
	}
}

static bool is_whole_element(CUarray_format format)
{
	/* block-compressed and normalised formats name all their channels */
	return (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB) ||
		(format >= CU_AD_FORMAT_UNORM_INT8X1 && format <= CU_AD_FORMAT_SNORM_INT16X4);
}

/* UINT64_MAX if the size does not fit 64 bits; the driver would refuse that size too. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, size_t w, size_t h, size_t depth)
{
	uint64_t bytes = format_halves(desc->Format);

	if (!is_whole_element(desc->Format))
		bytes *= desc->NumChannels ? desc->NumChannels : 1;
	if (__builtin_mul_overflow(bytes, (uint64_t)(w ? w : 1), &bytes) ||
		__builtin_mul_overflow(bytes, (uint64_t)(h ? h : 1), &bytes) ||
		__builtin_mul_overflow(bytes, (uint64_t)(depth ? depth : 1), &bytes))
		return UINT64_MAX;
	return bytes / 2 + 1;
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
	bool layered = desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	size_t w = desc->Width, h = desc->Height, depth = desc->Depth;
	uint64_t sum = 0;

	if (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int i = 0; i < levels && i < 32; i++) {
		if (__builtin_add_overflow(sum, level_bytes(desc, w, h, depth), &sum))
			return UINT64_MAX;
		w = w > 1 ? w / 2 : w;
		h = h > 1 ? h / 2 : h;
		if (!layered)
			depth = depth > 1 ? depth / 2 : depth;
	}
	return sum;
}

struct making {
	struct device *device;
	struct memory_record record;
};

static int array_making_begin(struct making *m, enum memory_kind kind, uint64_t bytes)
{
	CUcontext context = NULL;

	*m = (struct making){.device = memory_device(&context)};
	if (!m->device)
		return 0;
	m->record = (struct memory_record){
		.kind = (uint8_t)kind,
		.pages = memory_pages(bytes),
		.device = (uint8_t)m->device->index,
		.context = context,
	};
	return memory_charge(m->device, m->record.pages);
}

static CUresult array_making_end(struct making *m, CUresult r, const void *handle)
{
	if (!m->device)
		return r;
	m->record.key = (uintptr_t)handle;
	/*
	 * if the table cannot grow, the charge stays until the context ends: a charge is never too
	 * low
	 */
	if (r != CUDA_SUCCESS)
		memory_uncharge(m->device, m->record.pages);
	else
		memory_put(&m->record);
	return r;
}

#define MAKES(name, kind, bytes, params, args) \
	EXPORT CUresult name params \
	{ \
		struct making m; \
		CUresult r; \
\
		if (array_making_begin(&m, kind, bytes)) \
			return memory_refusal(); \
		r = REAL(name) args; \
		return array_making_end(&m, r, r == CUDA_SUCCESS ? *pHandle : NULL); \
	}

#define WIDE(desc, depth, flags) \
	((desc) ? array_bytes(&(CUDA_ARRAY3D_DESCRIPTOR){(desc)->Width, (desc)->Height, (depth), \
				      (desc)->Format, (desc)->NumChannels, (flags)}, \
			  1) \
		: 0)

MAKES(cuArrayCreate, MEMORY_ARRAY, WIDE(pAllocateArray, 0, 0),
	(CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray),
	(pHandle, pAllocateArray))
MAKES(cuArrayCreate_v2, MEMORY_ARRAY, WIDE(pAllocateArray, 0, 0),
	(CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray), (pHandle, pAllocateArray))
MAKES(cuArray3DCreate, MEMORY_ARRAY,
	WIDE(pAllocateArray, pAllocateArray->Depth, pAllocateArray->Flags),
	(CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray),
	(pHandle, pAllocateArray))
MAKES(cuArray3DCreate_v2, MEMORY_ARRAY, pAllocateArray ? array_bytes(pAllocateArray, 1) : 0,
	(CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray),
	(pHandle, pAllocateArray))
MAKES(cuMipmappedArrayCreate, MEMORY_MIPMAP,
	pMipmappedArrayDesc ? array_bytes(pMipmappedArrayDesc, numMipmapLevels) : 0,
	(CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
		unsigned int numMipmapLevels),
	(pHandle, pMipmappedArrayDesc, numMipmapLevels))

EXPORT CUresult cuArrayDestroy(CUarray hArray)
{
	struct memory_record record;
	bool known = memory_take(MEMORY_ARRAY, (uintptr_t)hArray, &record);

	return memory_ended(REAL(cuArrayDestroy)(hArray), known, &record);
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct memory_record record;
	bool known = memory_take(MEMORY_MIPMAP, (uintptr_t)hMipmappedArray, &record);

	return memory_ended(REAL(cuMipmappedArrayDestroy)(hMipmappedArray), known, &record);
}
