/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays, and texture and surface objects: the runtime's formats and structs in the driver's. */
#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

/* ---- formats ---- */

/* Formats of normalised numbers have the same order in both APIs. */
#define NORMALISED (CU_AD_FORMAT_UNORM_INT8X1 - cudaChannelFormatKindUnsignedNormalized8X1)

static CUarray_format plain_format(enum cudaChannelFormatKind kind, int bits)
{
	if (kind == cudaChannelFormatKindFloat)
		return bits == 32 ? CU_AD_FORMAT_FLOAT : bits == 16 ? CU_AD_FORMAT_HALF : 0;
	if (kind == cudaChannelFormatKindSigned)
		return bits == 8     ? CU_AD_FORMAT_SIGNED_INT8
			: bits == 16 ? CU_AD_FORMAT_SIGNED_INT16
			: bits == 32 ? CU_AD_FORMAT_SIGNED_INT32
				     : 0;
	if (kind == cudaChannelFormatKindUnsigned)
		return bits == 8     ? CU_AD_FORMAT_UNSIGNED_INT8
			: bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
			: bits == 32 ? CU_AD_FORMAT_UNSIGNED_INT32
				     : 0;
	return 0;
}

cudaError_t rt_format(
	const struct cudaChannelFormatDesc *desc, CUarray_format *ret_format, unsigned int *ret_n)
{
	const int bits[4] = {desc->x, desc->y, desc->z, desc->w};
	CUarray_format format;
	unsigned int n = 0;

	while (n < 4 && bits[n])
		n++;
	for (unsigned int i = 0; i < 4; i++)
		RT_CHECK(bits[i] == (i < n ? bits[0] : 0), cudaErrorInvalidChannelDescriptor);
	if (desc->f >= cudaChannelFormatKindUnsignedNormalized8X1 &&
		desc->f <= cudaChannelFormatKindSignedNormalized16X4)
		format = (CUarray_format)((int)desc->f + NORMALISED);
	else
		format = plain_format(desc->f, bits[0]);
	RT_CHECK(format && (n == 1 || n == 2 || n == 4), cudaErrorInvalidChannelDescriptor);
	*ret_format = format;
	*ret_n = n;
	return cudaSuccess;
}

static int bits_of(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8: return 8;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF: return 16;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT: return 32;
	default: break;
	}
	if (format < CU_AD_FORMAT_UNORM_INT8X1 || format > CU_AD_FORMAT_SNORM_INT16X4)
		return 0;
	/* three of 8 bits, three of 16, twice */
	return (format - CU_AD_FORMAT_UNORM_INT8X1) / 3 % 2 ? 16 : 8;
}

cudaError_t rt_format_back(CUarray_format format, unsigned int n, struct cudaChannelFormatDesc *ret)
{
	const int bits = bits_of(format);
	enum cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;

	RT_CHECK(bits, cudaErrorInvalidChannelDescriptor);
	if (format >= CU_AD_FORMAT_UNORM_INT8X1)
		kind = (enum cudaChannelFormatKind)((int)format - NORMALISED);
	else if (format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT)
		kind = cudaChannelFormatKindFloat;
	else if (format >= CU_AD_FORMAT_SIGNED_INT8)
		kind = cudaChannelFormatKindSigned;
	*ret = (struct cudaChannelFormatDesc){.x = bits,
		.y = n > 1 ? bits : 0,
		.z = n > 2 ? bits : 0,
		.w = n > 3 ? bits : 0,
		.f = kind};
	return cudaSuccess;
}

cudaError_t rt_element_bytes(CUarray array, size_t *ret_bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;
	int bits;

	RT_DRIVE(cuArray3DGetDescriptor_v2(&desc, array));
	bits = bits_of(desc.Format);
	RT_CHECK(bits, cudaErrorInvalidChannelDescriptor);
	*ret_bytes = (size_t)bits / 8 * desc.NumChannels;
	return cudaSuccess;
}

RT_EXPORT struct cudaChannelFormatDesc cudaCreateChannelDesc(
	int x, int y, int z, int w, enum cudaChannelFormatKind f);

RT_EXPORT struct cudaChannelFormatDesc cudaCreateChannelDesc(
	int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
	return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

/* ---- arrays ---- */

static cudaError_t array_desc(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
	unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR *ret)
{
	RT_CHECK(desc, cudaErrorInvalidValue);
	*ret = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = extent.width,
		.Height = extent.height,
		.Depth = extent.depth,
		.Flags = flags, /* the same bits in both APIs */
	};
	return rt_format(desc, &ret->Format, &ret->NumChannels);
}

cudaError_t rt_cudaMalloc3DArray(CUarray *array, const struct cudaChannelFormatDesc *desc,
	struct cudaExtent extent, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	RT_CHECK(array, cudaErrorInvalidValue);
	RT_TRY(array_desc(desc, extent, flags, &d));
	RT_DRIVE(cuArray3DCreate_v2(array, &d));
	return cudaSuccess;
}

cudaError_t rt_cudaMallocArray(CUarray *array, const struct cudaChannelFormatDesc *desc,
	size_t width, size_t height, unsigned int flags)
{
	return rt_cudaMalloc3DArray(
		array, desc, (struct cudaExtent){.width = width, .height = height}, flags);
}

cudaError_t rt_cudaMallocMipmappedArray(CUmipmappedArray *mipmappedArray,
	const struct cudaChannelFormatDesc *desc, struct cudaExtent extent, unsigned int numLevels,
	unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	RT_CHECK(mipmappedArray, cudaErrorInvalidValue);
	RT_TRY(array_desc(desc, extent, flags, &d));
	RT_DRIVE(cuMipmappedArrayCreate(mipmappedArray, &d, numLevels));
	return cudaSuccess;
}

cudaError_t rt_cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
	unsigned int *flags, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	RT_DRIVE(cuArray3DGetDescriptor_v2(&d, array));
	if (desc)
		RT_TRY(rt_format_back(d.Format, d.NumChannels, desc));
	if (extent)
		*extent = (struct cudaExtent){d.Width, d.Height, d.Depth};
	if (flags)
		*flags = d.Flags;
	return cudaSuccess;
}

cudaError_t rt_cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, CUarray array)
{
	RT_CHECK(desc, cudaErrorInvalidValue);
	return rt_cudaArrayGetInfo(desc, NULL, NULL, array);
}

/* ---- texture and surface objects ---- */

static cudaError_t resource_desc(const struct cudaResourceDesc *r, CUDA_RESOURCE_DESC *ret)
{
	RT_CHECK(r, cudaErrorInvalidValue);
	*ret = (CUDA_RESOURCE_DESC){.resType = r->resType};
	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY: ret->res.array.hArray = r->res.array.array; return cudaSuccess;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		ret->res.mipmap.hMipmappedArray = r->res.mipmap.mipmap;
		return cudaSuccess;
	case CU_RESOURCE_TYPE_LINEAR:
		ret->res.linear.devPtr = RT_PTR(r->res.linear.devPtr);
		ret->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
		return rt_format(
			&r->res.linear.desc, &ret->res.linear.format, &ret->res.linear.numChannels);
	case CU_RESOURCE_TYPE_PITCH2D:
		ret->res.pitch2D.devPtr = RT_PTR(r->res.pitch2D.devPtr);
		ret->res.pitch2D.width = r->res.pitch2D.width;
		ret->res.pitch2D.height = r->res.pitch2D.height;
		ret->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
		return rt_format(&r->res.pitch2D.desc, &ret->res.pitch2D.format,
			&ret->res.pitch2D.numChannels);
	default: return cudaErrorInvalidValue;
	}
}

/* The driver reads integers as integers only with a flag; the runtime does it by default. */
static void texture_desc(const struct cudaTextureDesc *t, CUDA_TEXTURE_DESC *ret)
{
	*ret = (CUDA_TEXTURE_DESC){
		.addressMode = {t->addressMode[0], t->addressMode[1], t->addressMode[2]},
		.filterMode = t->filterMode,
		.maxAnisotropy = t->maxAnisotropy,
		.mipmapFilterMode = t->mipmapFilterMode,
		.mipmapLevelBias = t->mipmapLevelBias,
		.minMipmapLevelClamp = t->minMipmapLevelClamp,
		.maxMipmapLevelClamp = t->maxMipmapLevelClamp,
		.borderColor = {t->borderColor[0], t->borderColor[1], t->borderColor[2],
			t->borderColor[3]},
	};
	ret->flags = (t->readMode ? 0u : CU_TRSF_READ_AS_INTEGER) |
		(t->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
		(t->sRGB ? CU_TRSF_SRGB : 0u) |
		(t->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
		(t->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0u);
}

cudaError_t rt_cudaCreateTextureObject(CUtexObject *pTexObject,
	const struct cudaResourceDesc *pResDesc, const struct cudaTextureDesc *pTexDesc,
	const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;

	RT_CHECK(pTexObject && pTexDesc, cudaErrorInvalidValue);
	RT_TRY(resource_desc(pResDesc, &resource));
	texture_desc(pTexDesc, &texture);
	RT_DRIVE(cuTexObjectCreate(pTexObject, &resource, &texture, pResViewDesc));
	return cudaSuccess;
}

cudaError_t rt_cudaCreateSurfaceObject(
	CUsurfObject *pSurfObject, const struct cudaResourceDesc *pResDesc)
{
	CUDA_RESOURCE_DESC resource;

	RT_CHECK(pSurfObject, cudaErrorInvalidValue);
	RT_TRY(resource_desc(pResDesc, &resource));
	RT_DRIVE(cuSurfObjectCreate(pSurfObject, &resource));
	return cudaSuccess;
}

static cudaError_t resource_desc_back(const CUDA_RESOURCE_DESC *r, struct cudaResourceDesc *ret)
{
	*ret = (struct cudaResourceDesc){.resType = r->resType};
	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY: ret->res.array.array = r->res.array.hArray; return cudaSuccess;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		ret->res.mipmap.mipmap = r->res.mipmap.hMipmappedArray;
		return cudaSuccess;
	case CU_RESOURCE_TYPE_LINEAR:
		ret->res.linear.devPtr = (void *)(uintptr_t)r->res.linear.devPtr;
		ret->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
		return rt_format_back(
			r->res.linear.format, r->res.linear.numChannels, &ret->res.linear.desc);
	case CU_RESOURCE_TYPE_PITCH2D:
		ret->res.pitch2D.devPtr = (void *)(uintptr_t)r->res.pitch2D.devPtr;
		ret->res.pitch2D.width = r->res.pitch2D.width;
		ret->res.pitch2D.height = r->res.pitch2D.height;
		ret->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
		return rt_format_back(
			r->res.pitch2D.format, r->res.pitch2D.numChannels, &ret->res.pitch2D.desc);
	default: return cudaErrorUnknown;
	}
}

cudaError_t rt_cudaGetTextureObjectResourceDesc(
	struct cudaResourceDesc *pResDesc, CUtexObject texObject)
{
	CUDA_RESOURCE_DESC resource;

	RT_CHECK(pResDesc, cudaErrorInvalidValue);
	RT_DRIVE(cuTexObjectGetResourceDesc(&resource, texObject));
	return resource_desc_back(&resource, pResDesc);
}

cudaError_t rt_cudaGetSurfaceObjectResourceDesc(
	struct cudaResourceDesc *pResDesc, CUsurfObject surfObject)
{
	CUDA_RESOURCE_DESC resource;

	RT_CHECK(pResDesc, cudaErrorInvalidValue);
	RT_DRIVE(cuSurfObjectGetResourceDesc(&resource, surfObject));
	return resource_desc_back(&resource, pResDesc);
}

cudaError_t rt_cudaGetTextureObjectTextureDesc(
	struct cudaTextureDesc *pTexDesc, CUtexObject texObject)
{
	CUDA_TEXTURE_DESC t;

	RT_CHECK(pTexDesc, cudaErrorInvalidValue);
	RT_DRIVE(cuTexObjectGetTextureDesc(&t, texObject));
	*pTexDesc = (struct cudaTextureDesc){
		.addressMode = {t.addressMode[0], t.addressMode[1], t.addressMode[2]},
		.filterMode = t.filterMode,
		.readMode = !(t.flags & CU_TRSF_READ_AS_INTEGER),
		.sRGB = !!(t.flags & CU_TRSF_SRGB),
		.borderColor = {t.borderColor[0], t.borderColor[1], t.borderColor[2],
			t.borderColor[3]},
		.normalizedCoords = !!(t.flags & CU_TRSF_NORMALIZED_COORDINATES),
		.maxAnisotropy = t.maxAnisotropy,
		.mipmapFilterMode = t.mipmapFilterMode,
		.mipmapLevelBias = t.mipmapLevelBias,
		.minMipmapLevelClamp = t.minMipmapLevelClamp,
		.maxMipmapLevelClamp = t.maxMipmapLevelClamp,
		.disableTrilinearOptimization = !!(
			t.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION),
		.seamlessCubemap = !!(t.flags & CU_TRSF_SEAMLESS_CUBEMAP),
	};
	return cudaSuccess;
}
