/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, mipmaps, texture and surface objects. An array is device memory with a pitch, and only
 * copies use the array's addresses. The simulator runs no kernels that sample textures, so texture
 * and surface objects only keep their descriptions.
 */
#include "simgpu/cu.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS_MAX = 32 };

struct cu_mipmap {
	CUmipmappedArray handle;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	struct cu_context *context;
	CUcontext context_handle;
	uint64_t base, bytes;
	unsigned n_levels;
	struct cu_array *levels[LEVELS_MAX];
};

unsigned cu_array_element_bytes(CUarray_format format, unsigned channels)
{
	unsigned bytes;

	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8: bytes = 1; break;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF: bytes = 2; break;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT: bytes = 4; break;
	default: return 0;
	}
	return channels == 1 || channels == 2 || channels == 4 ? bytes * channels : 0;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static CUresult check_desc(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
		CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
		CUDA_ARRAY3D_COLOR_ATTACHMENT;

	CU_CHECK(cu_array_element_bytes(d->Format, d->NumChannels) != 0, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(d->Width != 0 && (d->Flags & ~known) == 0, CUDA_ERROR_INVALID_VALUE);
	/* Only a layered 1D array may have depth without height. */
	CU_CHECK(d->Depth == 0 || d->Height != 0 || (d->Flags & CUDA_ARRAY3D_LAYERED) != 0,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(d->Width <= 131072 && d->Height <= 131072 && d->Depth <= 16384,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK((d->Flags & CUDA_ARRAY3D_CUBEMAP) == 0 ||
			(d->Width == d->Height && d->Depth != 0 && d->Depth % 6 == 0),
		CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

static void shape_array(struct cu_array *array)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = &array->desc;

	array->element = cu_array_element_bytes(d->Format, d->NumChannels);
	array->pitch = round_up(d->Width * array->element, CU_TEXTURE_ALIGN);
	array->slice = array->pitch * (d->Height ? d->Height : 1);
	array->bytes = array->slice * (d->Depth ? d->Depth : 1);
}

static CUresult add_storage(struct cu_context *context, uint64_t bytes, uint64_t *ret_base)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_FREE};
	struct simgpu_reply reply;
	struct cu_range *range;

	CU_TRY(cu_memory_alloc(context, SIMGPU_MEM_ARRAY, bytes, ret_base));
	range = cu_range_add(&cu.device_memory, *ret_base, bytes);
	if (!range) {
		request.ptr = *ret_base;
		cu_call(&request, &reply);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->kind = CU_MEM_ARRAY;
	range->context = context;
	range->device = context->device;
	return CUDA_SUCCESS;
}

static void drop_storage(uint64_t base)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_FREE, .ptr = base};
	struct cu_range *range = cu_range_find(&cu.device_memory, base);
	struct simgpu_reply reply;

	if (range)
		cu_range_remove(&cu.device_memory, range);
	cu_call(&request, &reply);
}

static CUresult create_array(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct cu_array *array;
	CUresult r;

	CU_ENTER_CONTEXT(ctx);
	CU_CHECK(ret, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(check_desc(desc));
	CU_TRY(cu_capture_check_unsafe());
	array = calloc(1, sizeof(*array));
	CU_CHECK(array, CUDA_ERROR_OUT_OF_MEMORY);
	array->context = ctx;
	array->desc = *desc;
	shape_array(array);
	r = add_storage(ctx, array->bytes, &array->base);
	if (r != CUDA_SUCCESS) {
		free(array);
		return r;
	}
	array->handle = cu_handle_new(CU_KIND_ARRAY, array);
	cu_list_add(&ctx->arrays, &array->link);
	*ret = array->handle;
	return CUDA_SUCCESS;
}

void cu_array_free(struct cu_array *array)
{
	if (!array->mipmap)
		drop_storage(array->base);
	cu_handle_free(array->handle);
	cu_list_remove(&array->link);
	free(array);
}

CU_EXPORT CUresult cuArray3DCreate_v2(
	CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	CU_CHECK(pAllocateArray, CUDA_ERROR_INVALID_VALUE);
	return create_array(pHandle, pAllocateArray);
}

CU_EXPORT CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;

	CU_CHECK(pAllocateArray, CUDA_ERROR_INVALID_VALUE);
	desc = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = pAllocateArray->Width,
		.Height = pAllocateArray->Height,
		.Format = pAllocateArray->Format,
		.NumChannels = pAllocateArray->NumChannels,
	};
	return create_array(pHandle, &desc);
}

static CUresult array_get(CUarray handle, struct cu_array **ret)
{
	*ret = cu_handle_get(handle, CU_KIND_ARRAY);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult simgpu_cuArrayDestroy(CUarray hArray)
{
	struct cu_array *array;

	CU_TRY(array_get(hArray, &array));
	CU_CHECK(!array->mipmap, CUDA_ERROR_INVALID_HANDLE);
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_context(array->context));
	CU_TRY(array_get(hArray, &array));
	cu_array_free(array);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuArrayGetDescriptor_v2(
	CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, struct cu_array *array)
{
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){
		.Width = array->desc.Width,
		.Height = array->desc.Height,
		.Format = array->desc.Format,
		.NumChannels = array->desc.NumChannels,
	};
	return CUDA_SUCCESS;
}

CUresult simgpu_cuArray3DGetDescriptor_v2(
	CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, struct cu_array *array)
{
	*pArrayDescriptor = array->desc;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, struct cu_array *a, struct cu_device *d)
{
	memset(memoryRequirements, 0, sizeof(*memoryRequirements));
	memoryRequirements->size = a->bytes;
	memoryRequirements->alignment = CU_TEXTURE_ALIGN;
	return CUDA_SUCCESS;
}

/* ---- mipmaps ---- */

static void free_mipmap(struct cu_mipmap *mipmap)
{
	for (unsigned i = 0; i < mipmap->n_levels; i++)
		if (mipmap->levels[i])
			cu_array_free(mipmap->levels[i]);
	cu_handle_free(mipmap->handle);
	free(mipmap);
}

static size_t at_level(size_t n, unsigned level)
{
	return n == 0 ? 0 : n >> level ? n >> level : 1;
}

CUresult simgpu_cuMipmappedArrayCreate(struct cu_context *ctx, CUmipmappedArray *pHandle,
	const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	struct cu_mipmap *mipmap;
	size_t largest;
	CUresult r;

	CU_TRY(check_desc(pMipmappedArrayDesc));
	CU_TRY(cu_capture_check_unsafe());
	largest = pMipmappedArrayDesc->Width;
	if (pMipmappedArrayDesc->Height > largest)
		largest = pMipmappedArrayDesc->Height;
	if (pMipmappedArrayDesc->Depth > largest &&
		(pMipmappedArrayDesc->Flags & CUDA_ARRAY3D_LAYERED) == 0)
		largest = pMipmappedArrayDesc->Depth;
	mipmap = calloc(1, sizeof(*mipmap));
	CU_CHECK(mipmap, CUDA_ERROR_OUT_OF_MEMORY);
	mipmap->desc = *pMipmappedArrayDesc;
	mipmap->context = ctx;
	mipmap->context_handle = ctx->handle;
	/* Clamped to 1 + floor(log2(largest extent)), as documented. */
	mipmap->n_levels = 64 - (unsigned)__builtin_clzll(largest);
	if (numMipmapLevels != 0 && numMipmapLevels < mipmap->n_levels)
		mipmap->n_levels = numMipmapLevels;
	for (unsigned i = 0; i < mipmap->n_levels; i++) {
		struct cu_array *level = calloc(1, sizeof(*level));

		if (!level) {
			free_mipmap(mipmap);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		level->context = ctx;
		level->mipmap = mipmap;
		level->desc = mipmap->desc;
		level->desc.Width = at_level(level->desc.Width, i);
		level->desc.Height = at_level(level->desc.Height, i);
		if ((level->desc.Flags & CUDA_ARRAY3D_LAYERED) == 0)
			level->desc.Depth = at_level(level->desc.Depth, i);
		shape_array(level);
		level->base = mipmap->bytes;
		mipmap->bytes += round_up(level->bytes, CU_SMALL_ALIGN);
		level->handle = cu_handle_new(CU_KIND_ARRAY, level);
		cu_list_add(&ctx->arrays, &level->link);
		mipmap->levels[i] = level;
	}
	r = add_storage(ctx, mipmap->bytes, &mipmap->base);
	if (r != CUDA_SUCCESS) {
		free_mipmap(mipmap);
		return r;
	}
	for (unsigned i = 0; i < mipmap->n_levels; i++)
		mipmap->levels[i]->base += mipmap->base;
	mipmap->handle = cu_handle_new(CU_KIND_MIPMAP, mipmap);
	*pHandle = mipmap->handle;
	return CUDA_SUCCESS;
}

static CUresult mipmap_get(CUmipmappedArray handle, struct cu_mipmap **ret)
{
	*ret = cu_handle_get(handle, CU_KIND_MIPMAP);
	CU_CHECK(*ret && cu_context_get((*ret)->context_handle), CUDA_ERROR_INVALID_HANDLE);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMipmappedArrayGetLevel(
	CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
	struct cu_mipmap *mipmap;

	CU_TRY(mipmap_get(hMipmappedArray, &mipmap));
	CU_CHECK(level < mipmap->n_levels, CUDA_ERROR_INVALID_VALUE);
	*pLevelArray = mipmap->levels[level]->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct cu_mipmap *mipmap;

	CU_TRY(mipmap_get(hMipmappedArray, &mipmap));
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_context(mipmap->context));
	CU_TRY(mipmap_get(hMipmappedArray, &mipmap));
	drop_storage(mipmap->base);
	free_mipmap(mipmap);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUmipmappedArray mipmap,
	CUdevice device)
{
	struct cu_mipmap *m;
	struct cu_device *d;

	CU_TRY(mipmap_get(mipmap, &m));
	CU_TRY(cu_device_get(device, &d));
	memset(memoryRequirements, 0, sizeof(*memoryRequirements));
	memoryRequirements->size = m->bytes;
	memoryRequirements->alignment = CU_TEXTURE_ALIGN;
	return CUDA_SUCCESS;
}

/* ---- texture and surface objects ---- */

struct object {
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
};

static CUresult check_resource(const CUDA_RESOURCE_DESC *d, bool surface)
{
	CU_CHECK(d->flags == 0, CUDA_ERROR_INVALID_VALUE);
	switch ((int)d->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		CU_CHECK(cu_handle_get(d->res.array.hArray, CU_KIND_ARRAY),
			CUDA_ERROR_INVALID_VALUE);
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		CU_CHECK(!surface && cu_handle_get(d->res.mipmap.hMipmappedArray, CU_KIND_MIPMAP),
			CUDA_ERROR_INVALID_VALUE);
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_LINEAR:
		CU_CHECK(!surface && d->res.linear.sizeInBytes != 0, CUDA_ERROR_INVALID_VALUE);
		return cu_check_device_range(d->res.linear.devPtr, d->res.linear.sizeInBytes);
	case CU_RESOURCE_TYPE_PITCH2D:
		CU_CHECK(!surface && d->res.pitch2D.height != 0 &&
				d->res.pitch2D.pitchInBytes % 32 == 0,
			CUDA_ERROR_INVALID_VALUE);
		return cu_check_device_range(d->res.pitch2D.devPtr,
			d->res.pitch2D.pitchInBytes * (d->res.pitch2D.height - 1) + 1);
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult new_object(enum cu_kind kind, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view,
	unsigned long long *ret)
{
	struct object *object;

	CU_TRY(check_resource(resource, kind == CU_KIND_SURFACE));
	object = calloc(1, sizeof(*object));
	CU_CHECK(object, CUDA_ERROR_OUT_OF_MEMORY);
	object->resource = *resource;
	if (texture)
		object->texture = *texture;
	if (view)
		object->view = *view;
	object->has_view = view != NULL;
	*ret = (uintptr_t)cu_handle_new(kind, object);
	return CUDA_SUCCESS;
}

static CUresult object_get(unsigned long long handle, enum cu_kind kind, struct object **ret)
{
	*ret = cu_handle_get((void *)(uintptr_t)handle, kind);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult destroy_object(unsigned long long handle, enum cu_kind kind)
{
	struct object *object;

	CU_TRY(object_get(handle, kind, &object));
	cu_handle_free((void *)(uintptr_t)handle);
	free(object);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuTexObjectCreate(struct cu_context *ctx, CUtexObject *pTexObject,
	const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc,
	const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	return new_object(CU_KIND_TEXTURE, pResDesc, pTexDesc, pResViewDesc, pTexObject);
}

CUresult simgpu_cuTexObjectDestroy(CUtexObject texObject)
{
	return destroy_object(texObject, CU_KIND_TEXTURE);
}

CUresult simgpu_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	struct object *object;

	CU_TRY(object_get(texObject, CU_KIND_TEXTURE, &object));
	*pResDesc = object->resource;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	struct object *object;

	CU_TRY(object_get(texObject, CU_KIND_TEXTURE, &object));
	*pTexDesc = object->texture;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuTexObjectGetResourceViewDesc(
	CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)
{
	struct object *object;

	CU_TRY(object_get(texObject, CU_KIND_TEXTURE, &object));
	CU_CHECK(object->has_view, CUDA_ERROR_INVALID_VALUE);
	*pResViewDesc = object->view;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuSurfObjectCreate(
	struct cu_context *ctx, CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	return new_object(CU_KIND_SURFACE, pResDesc, NULL, NULL, pSurfObject);
}

CUresult simgpu_cuSurfObjectDestroy(CUsurfObject surfObject)
{
	return destroy_object(surfObject, CU_KIND_SURFACE);
}

CUresult simgpu_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	struct object *object;

	CU_TRY(object_get(surfObject, CU_KIND_SURFACE, &object));
	*pResDesc = object->resource;
	return CUDA_SUCCESS;
}
