/* SPDX-License-Identifier: Apache-2.0 */
/* Reads fields of requests, and looks up handles and addresses: see worker.h. Any lane's thread. */
#include <errno.h>
#include <stdlib.h>

#include "remote/worker.h"

/* ---- fields ---- */

static void take_fail(struct serve *s, CUresult error)
{
	if (!s->error)
		s->error = error;
}

const void *take(struct serve *s, size_t n)
{
	const void *p = s->in;

	if (n > (size_t)(s->in_end - s->in) || FIELD(n) > (size_t)(s->in_end - s->in)) {
		take_fail(s, CUDA_ERROR_INVALID_VALUE);
		return NULL;
	}
	s->in += FIELD(n);
	s->data += FIELD(n);
	return p;
}

uint64_t take_u64(struct serve *s)
{
	const void *p = take(s, sizeof(uint64_t));
	uint64_t value = 0;

	if (p)
		memcpy(&value, p, sizeof(value));
	return value;
}

const char *take_string(struct serve *s)
{
	const size_t left = (size_t)(s->in_end - s->in);
	const char *text = (const char *)s->in;
	const size_t n = strnlen(text, left);

	if (n == left || !take(s, n + 1)) {
		take_fail(s, CUDA_ERROR_INVALID_VALUE);
		return NULL;
	}
	return text;
}

void *take_array(struct serve *s, uint64_t n, size_t size)
{
	if (n > REMOTE_FRAME_MAX / size) {
		take_fail(s, CUDA_ERROR_INVALID_VALUE);
		return NULL;
	}
	/* The request is the worker's own copy, so its pointers may be replaced in place. */
	return (void *)(uintptr_t)take(s, n * size);
}

void *give_array(struct serve *s, uint64_t n, size_t size)
{
	uint8_t *p = s->room;

	if (n > REMOTE_FRAME_MAX / size || FIELD(n * size) > (size_t)(s->room_end - s->room)) {
		take_fail(s, CUDA_ERROR_INVALID_VALUE);
		return NULL;
	}
	s->room += FIELD(n * size);
	memset(p, 0, n * size);
	return p;
}

void give(struct serve *s, const void *p, size_t n)
{
	if (s->n + FIELD(n) > REMOTE_FRAME_MAX)
		return;
	if (n)
		memcpy(s->answer + s->n, p, n);
	memset(s->answer + s->n + n, 0, FIELD(n) - n);
	s->n += FIELD(n);
}

void give_string(struct serve *s, const char *text)
{
	give(s, text ? text : "", text ? strnlen(text, REMOTE_TEXT_MAX) + 1 : 1);
}

/* ---- a hash table of words ---- */

#define HANDLES_MAX (1u << 22)

struct slot {
	uint64_t key, value; /* key 0: free */
};

struct words {
	struct slot *slot;
	size_t n, room; /* room: a power of two; at most half of the slots are in use */
};

static size_t words_place(const struct words *w, uint64_t key)
{
	return (size_t)(key * 0x9e3779b97f4a7c15ull >> 20) & (w->room - 1);
}

static struct slot *words_find_slot(const struct words *w, uint64_t key)
{
	if (!w->room)
		return NULL;
	for (size_t i = words_place(w, key);; i = (i + 1) & (w->room - 1)) {
		if (w->slot[i].key == key)
			return &w->slot[i];
		if (!w->slot[i].key)
			return NULL;
	}
}

static void put_new(struct words *w, uint64_t key, uint64_t value)
{
	size_t i = words_place(w, key);

	while (w->slot[i].key)
		i = (i + 1) & (w->room - 1);
	w->slot[i] = (struct slot){key, value};
	w->n++;
}

static int words_put(struct words *w, uint64_t key, uint64_t value)
{
	struct slot *there = words_find_slot(w, key);

	if (there) {
		there->value = value;
		return 0;
	}
	if (2 * w->n >= w->room) {
		struct words more = {.room = w->room ? 2 * w->room : 256};

		more.slot = more.room > HANDLES_MAX ? NULL : calloc(more.room, sizeof(*more.slot));
		if (!more.slot)
			return -ENOMEM;
		for (size_t i = 0; i < w->room; i++)
			if (w->slot[i].key)
				put_new(&more, w->slot[i].key, w->slot[i].value);
		free(w->slot);
		*w = more;
	}
	put_new(w, key, value);
	return 0;
}

static void words_remove(struct words *w, uint64_t key)
{
	struct slot *there = words_find_slot(w, key);
	size_t hole, i;

	if (!there)
		return;
	hole = i = (size_t)(there - w->slot);
	for (;;) {
		size_t home;

		i = (i + 1) & (w->room - 1);
		if (!w->slot[i].key)
			break;
		home = words_place(w, w->slot[i].key);
		/* Moves an entry into the hole if a search for the entry passes the hole. */
		if (((i - home) & (w->room - 1)) >= ((i - hole) & (w->room - 1))) {
			w->slot[hole] = w->slot[i];
			hole = i;
		}
	}
	w->slot[hole] = (struct slot){0, 0};
	w->n--;
}

/* ---- handles ---- */

/*
 * An object that the driver derived from another object ends with that object: for example, a node
 * with its graph.
 */
struct object {
	uint64_t handle, real;
	uint64_t named; /* handles.clock when the object was last named */
	uint64_t more;  /* references besides the first */
	/* the object from which this one was derived; the first object derived from this one */
	struct object *of, *parts;
	struct object *next, **link; /* in the list of parts of `of` */
};

static struct {
	pthread_mutex_t lock;
	struct words object;      /* struct object by its handle */
	struct words name[KINDS]; /* for each kind, struct object by the driver's handle */
	uint64_t clock;           /* number of names given */
	uint64_t next;
} handles = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const CUresult errors[KINDS] = KIND_ERRORS;

/*
 * For each kind, the kinds of objects from which the driver derives such an object. If a request
 * names objects of several of these kinds, the kind that comes first in the list counts.
 */
static const enum kind origins[KINDS][4] = {
	[KIND_CUmodule] = {KIND_CUlibrary, KIND_CUkernel, KIND_CUfunction},
	[KIND_CUfunction] = {KIND_CUmodule, KIND_CUkernel},
	[KIND_CUkernel] = {KIND_CUlibrary},
	[KIND_CUarray] = {KIND_CUmipmappedArray, KIND_CUarray},
	[KIND_CUgraph] = {KIND_CUgraphNode},
	[KIND_CUgraphNode] = {KIND_CUgraph, KIND_CUgraphNode},
};

static bool is_of_kind(uint64_t handle, enum kind kind)
{
	return handle >> 40 == handle_make(kind, 0) >> 40;
}

static enum kind object_kind(const struct object *o)
{
	return (enum kind)(o->handle >> 40 & 0xff);
}

/* The caller of the functions up to handle_real() holds the lock. */

static struct object *object_find(const struct words *w, uint64_t key)
{
	const struct slot *there = key ? words_find_slot(w, key) : NULL;

	return there ? (struct object *)(uintptr_t)there->value : NULL;
}

static struct object *object_new(enum kind kind, uint64_t handle, uint64_t real)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	*o = (struct object){.handle = handle, .real = real, .named = ++handles.clock};
	if (words_put(&handles.object, handle, (uintptr_t)o) < 0 ||
		words_put(&handles.name[kind], real, (uintptr_t)o) < 0) {
		words_remove(&handles.object, handle);
		free(o);
		return NULL;
	}
	return o;
}

static void object_leave(struct object *o)
{
	if (!o->of)
		return;
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	o->of = NULL;
}

static void object_join(struct object *o, struct object *of)
{
	/*
	 * A request about a graph node may return the graph that contains the node. That graph must
	 * not become a part of its own node.
	 */
	for (const struct object *up = of; up; up = up->of)
		if (up == o)
			return;
	object_leave(o);
	o->of = of;
	o->next = of->parts;
	o->link = &of->parts;
	if (o->next)
		o->next->link = &o->next;
	of->parts = o;
}

static void object_free(struct object *o)
{
	/* The driver may have given the same handle to another object by now. */
	if (object_find(&handles.name[object_kind(o)], o->real) == o)
		words_remove(&handles.name[object_kind(o)], o->real);
	words_remove(&handles.object, o->handle);
	object_leave(o);
	free(o);
}

/*
 * Ends an object and its parts, innermost first. An object that got its name later than `since`
 * stays: it is a new object, to which the driver has given the handle of an ended one.
 */
static void object_end(struct object *whole, uint64_t since)
{
	for (struct object *o = whole, *then; o; o = then) {
		then = o->parts;
		if (then && then->named > since) {
			object_leave(then);
			then = o;
		} else if (!then) {
			then = o == whole ? NULL : o->of;
			object_free(o);
		}
	}
}

static struct object *object_origin(const struct serve *s, enum kind kind)
{
	for (const enum kind *k = origins[kind]; *k; k++) {
		struct object *o = object_find(&handles.object, s->given[*k]);

		/*
		 * If the request names a graph node and the driver returns another node, both are
		 * in the same graph. So the new node comes from that graph and not from the named
		 * node.
		 */
		if (o)
			return kind == KIND_CUgraphNode && *k == kind ? o->of : o;
	}
	return NULL;
}

static struct object *object_name(const struct serve *s, enum kind kind, uint64_t real)
{
	struct object *o = object_find(&handles.name[kind], real), *of = object_origin(s, kind);
	uint64_t handle;

	if (o) {
		o->named = ++handles.clock;
	} else {
		do
			handle = handle_make(kind, handles.next++ & (HANDLE_CLIENT - 1));
		while (object_find(&handles.object, handle));
		o = object_new(kind, handle, real);
	}
	/*
	 * The object that had this driver's handle may have ended without the worker's knowledge,
	 * and the driver may have given the handle to a new object. So the object moves to its new
	 * origin.
	 */
	if (o && of && o->of != of)
		object_join(o, of);
	return o;
}

/* The functions from here on take the lock. */

uint64_t handle_real(struct serve *s, enum kind kind, uint64_t handle)
{
	const struct object *o = NULL;
	uint64_t real = 0;

	if (kind == KIND_CUstream) {
		s->stream = handle;
		s->has_stream = true;
	}
	if (!handle)
		return 0;
	if (kind == KIND_CUstream &&
		(handle == (uintptr_t)CU_STREAM_LEGACY ||
			handle == (uintptr_t)CU_STREAM_PER_THREAD))
		return handle;
	pthread_mutex_lock(&handles.lock);
	/* A kernel stands for its function in the current context. */
	if (is_of_kind(handle, kind) ||
		(kind == KIND_CUfunction && is_of_kind(handle, KIND_CUkernel)))
		o = object_find(&handles.object, handle);
	if (o) {
		real = o->real;
		if (!s->given[object_kind(o)])
			s->given[object_kind(o)] = handle;
	}
	s->since = handles.clock;
	pthread_mutex_unlock(&handles.lock);
	if (!real)
		take_fail(s, errors[kind]);
	return real;
}

uint64_t handle_name(struct serve *s, enum kind kind, uint64_t real)
{
	const struct object *o;
	uint64_t handle;

	if (!real)
		return 0;
	if (kind == KIND_CUstream &&
		(real == (uintptr_t)CU_STREAM_LEGACY || real == (uintptr_t)CU_STREAM_PER_THREAD))
		return real;
	pthread_mutex_lock(&handles.lock);
	o = object_name(s, kind, real);
	handle = o ? o->handle : 0;
	pthread_mutex_unlock(&handles.lock);
	return handle;
}

uint64_t handle_again(struct serve *s, enum kind kind, uint64_t real)
{
	struct object *o;
	uint64_t handle;

	pthread_mutex_lock(&handles.lock);
	o = object_find(&handles.name[kind], real);
	if (o)
		o->more++;
	o = object_name(s, kind, real);
	handle = o ? o->handle : 0;
	pthread_mutex_unlock(&handles.lock);
	return handle;
}

/* The driver's handles of all kinds are 64-bit words, so `p` may point to handles of any kind. */
bool handles_real_(struct serve *s, enum kind kind, void *p, uint64_t n)
{
	uint64_t *handle = p;

	for (uint64_t i = 0; i < n && !s->error; i++)
		handle[i] = handle_real(s, kind, handle[i]);
	return !s->error;
}

void handles_named(struct serve *s, enum kind kind, void *p, uint64_t n)
{
	uint64_t *real = p;

	for (uint64_t i = 0; i < n; i++)
		real[i] = handle_name(s, kind, real[i]);
}

void handle_put(struct serve *s, enum kind kind, uint64_t handle, uint64_t real)
{
	struct object *before;

	if (!is_of_kind(handle, kind) || !(handle & HANDLE_CLIENT))
		return;
	pthread_mutex_lock(&handles.lock);
	before = object_find(&handles.object, handle);
	if (before)
		object_end(before, handles.clock);
	object_new(kind, handle, real);
	pthread_mutex_unlock(&handles.lock);
}

void handle_destroyed(struct serve *s, enum kind kind, uint64_t handle)
{
	struct object *o;

	pthread_mutex_lock(&handles.lock);
	o = object_find(&handles.object, handle);
	if (o && o->more)
		o->more--;
	/*
	 * If the object got its name after the request's look-up, it is a new object with the same
	 * handle: see object_end().
	 */
	else if (o && o->named <= s->since)
		object_end(o, s->since);
	pthread_mutex_unlock(&handles.lock);
}

size_t handles_count(enum kind kind)
{
	size_t n;

	pthread_mutex_lock(&handles.lock);
	n = handles.name[kind].n;
	pthread_mutex_unlock(&handles.lock);
	return n;
}

uint64_t *handles_all(enum kind kind, size_t *ret_n)
{
	const struct words *w = &handles.name[kind];
	uint64_t *all;

	*ret_n = 0;
	pthread_mutex_lock(&handles.lock);
	all = w->n ? malloc(w->n * sizeof(*all)) : NULL;
	for (size_t i = 0; all && i < w->room; i++)
		if (w->slot[i].key)
			all[(*ret_n)++] = w->slot[i].key;
	pthread_mutex_unlock(&handles.lock);
	return all;
}

/* ---- addresses ---- */

static struct ranges addresses = RANGES_INIT;

CUdeviceptr take_address(struct serve *s)
{
	const CUdeviceptr address = take_u64(s);

	if (address && !address_is_ours(address))
		take_fail(s, CUDA_ERROR_INVALID_VALUE);
	return address;
}

void address_given(CUdeviceptr address, uint64_t bytes, enum range_note note)
{
	ranges_add(&addresses, address, bytes ? bytes : 1, note);
}

void address_of_graph(CUdeviceptr address)
{
	ranges_note(&addresses, address, RANGE_OF_GRAPH);
}

void address_of_stream(CUdeviceptr address, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
		status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
		address_of_graph(address);
}

struct range address_freed(CUdeviceptr address)
{
	struct range range = {.size = 0};

	ranges_remove_but(&addresses, address, RANGE_OF_GRAPH, &range);
	return range;
}

void address_back(const struct range *had)
{
	if (had->size)
		ranges_add(&addresses, had->base, had->size, had->note);
}

bool address_is_ours(CUdeviceptr address)
{
	return ranges_find(&addresses, address, NULL);
}

bool address_reaches(CUdeviceptr address, uint64_t bytes)
{
	return ranges_cover(&addresses, address, bytes);
}

/* False for memory that ended without a call: the driver does not know its address any more. */
static bool is_still_there(const struct range *range, void *argument)
{
	const bool is_all = *(const bool *)argument;
	CUmemorytype type = CU_MEMORYTYPE_HOST;

	if (range->note == RANGE_RESERVED || (!is_all && range->note != RANGE_OF_MODULE))
		return true;
	return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, range->base) ==
		CUDA_SUCCESS &&
		type == CU_MEMORYTYPE_DEVICE;
}

void addresses_settle(bool is_all)
{
	ranges_sift(&addresses, is_still_there, &is_all);
}

/* ---- structures ---- */

bool copy_reaches(const struct copy_place *p, uint64_t width, uint64_t height, uint64_t depth)
{
	return ranges_cover_copy(&addresses, p, width, height, depth);
}

/*
 * For the source or destination of a copy: replaces the array's handle, or checks the device
 * address.
 */
static bool fix_place(struct serve *s, CUmemorytype type, CUarray *array,
	const struct copy_place *place, const size_t extent[3])
{
	switch (type) {
	case CU_MEMORYTYPE_ARRAY:
		*array = (CUarray)(uintptr_t)handle_real(s, KIND_CUarray, (uintptr_t)*array);
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		if (!copy_reaches(place, extent[0], extent[1], extent[2]))
			take_fail(s, CUDA_ERROR_INVALID_VALUE);
		break;
	case CU_MEMORYTYPE_HOST: take_fail(s, CUDA_ERROR_NOT_SUPPORTED); break;
	default: take_fail(s, CUDA_ERROR_INVALID_VALUE);
	}
	return !s->error;
}

#define FIX_PLACE(s, p, end) \
	fix_place(s, (p)->end##MemoryType, &(p)->end##Array, \
		&(struct copy_place){(p)->end##Device, (p)->end##XInBytes, (p)->end##Y, \
			(p)->end##Z, (p)->end##Pitch, (p)->end##Height}, \
		(const size_t[]){(p)->WidthInBytes, (p)->Height, (p)->Depth})

bool fix_CUDA_MEMCPY3D(struct serve *s, CUDA_MEMCPY3D *p)
{
	p->srcHost = p->dstHost = p->reserved0 = p->reserved1 = NULL;
	return FIX_PLACE(s, p, src) && FIX_PLACE(s, p, dst);
}

bool fix_CUDA_MEMCPY3D_PEER(struct serve *s, CUDA_MEMCPY3D_PEER *p)
{
	p->srcHost = p->dstHost = NULL;
	p->srcContext = (CUcontext)(uintptr_t)handle_real(
		s, KIND_CUcontext, (uintptr_t)p->srcContext);
	p->dstContext = (CUcontext)(uintptr_t)handle_real(
		s, KIND_CUcontext, (uintptr_t)p->dstContext);
	return FIX_PLACE(s, p, src) && FIX_PLACE(s, p, dst);
}

bool fix_CUDA_RESOURCE_DESC(struct serve *s, CUDA_RESOURCE_DESC *p)
{
	switch (p->resType) {
	case CU_RESOURCE_TYPE_ARRAY: return handles_real(s, KIND_CUarray, &p->res.array.hArray, 1);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return handles_real(s, KIND_CUmipmappedArray, &p->res.mipmap.hMipmappedArray, 1);
	case CU_RESOURCE_TYPE_LINEAR:
		if (!address_reaches(p->res.linear.devPtr, p->res.linear.sizeInBytes))
			take_fail(s, CUDA_ERROR_INVALID_VALUE);
		break;
	case CU_RESOURCE_TYPE_PITCH2D:
		if (!address_reaches(p->res.pitch2D.devPtr,
			    reach_times(p->res.pitch2D.pitchInBytes, p->res.pitch2D.height)))
			take_fail(s, CUDA_ERROR_INVALID_VALUE);
		break;
	default: take_fail(s, CUDA_ERROR_INVALID_VALUE);
	}
	return !s->error;
}

void unfix_CUDA_RESOURCE_DESC(struct serve *s, CUDA_RESOURCE_DESC *p)
{
	if (p->resType == CU_RESOURCE_TYPE_ARRAY)
		handles_named(s, KIND_CUarray, &p->res.array.hArray, 1);
	else if (p->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		handles_named(s, KIND_CUmipmappedArray, &p->res.mipmap.hMipmappedArray, 1);
}

bool fix_CUDA_MEMSET_NODE_PARAMS(struct serve *s, CUDA_MEMSET_NODE_PARAMS *p)
{
	if (!address_reaches(
		    p->dst, reach_rows(p->pitch, reach_times(p->width, p->elementSize), p->height)))
		take_fail(s, CUDA_ERROR_INVALID_VALUE);
	return !s->error;
}

bool fix_CUDA_GRAPH_INSTANTIATE_PARAMS(struct serve *s, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	p->hErrNode_out = NULL;
	return handles_real(s, KIND_CUstream, &p->hUploadStream, 1);
}

void unfix_CUDA_GRAPH_INSTANTIATE_PARAMS(struct serve *s, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	handles_named(s, KIND_CUgraphNode, &p->hErrNode_out, 1);
	handles_named(s, KIND_CUstream, &p->hUploadStream, 1);
}

void unfix_CUgraphExecUpdateResultInfo(struct serve *s, CUgraphExecUpdateResultInfo *p)
{
	handles_named(s, KIND_CUgraphNode, &p->errorNode, 1);
	handles_named(s, KIND_CUgraphNode, &p->errorFromNode, 1);
}

void unfix_CUDA_MEMCPY3D(struct serve *s, CUDA_MEMCPY3D *p)
{
	p->srcHost = p->dstHost = NULL;
	handles_named(s, KIND_CUarray, &p->srcArray, 1);
	handles_named(s, KIND_CUarray, &p->dstArray, 1);
}

/* The server's host memory is not part of a grant. */
bool is_of_host(const CUmemLocation *location)
{
	if (!location)
		return false;
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
		location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
		location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

bool fix_CUmemAllocationProp(struct serve *s, CUmemAllocationProp *p)
{
	p->win32HandleMetaData = NULL;
	if (p->requestedHandleTypes || is_of_host(&p->location))
		take_fail(s, CUDA_ERROR_NOT_SUPPORTED);
	return !s->error;
}

void unfix_CUmemAllocationProp(struct serve *s, CUmemAllocationProp *p)
{
	p->win32HandleMetaData = NULL;
}

bool fix_CUmemPoolProps(struct serve *s, CUmemPoolProps *p)
{
	p->win32SecurityAttributes = NULL;
	if (p->handleTypes || is_of_host(&p->location))
		take_fail(s, CUDA_ERROR_NOT_SUPPORTED);
	return !s->error;
}

bool fix_CUstreamBatchMemOpParams(struct serve *s, CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		if (!address_reaches(p->waitValue.address, 4))
			take_fail(s, CUDA_ERROR_INVALID_VALUE);
		break;
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		if (!address_reaches(p->waitValue.address, 8))
			take_fail(s, CUDA_ERROR_INVALID_VALUE);
		break;
	default: break;
	}
	return !s->error;
}
