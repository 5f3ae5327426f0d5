/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of boxes between host and device memory, compared bit for bit: one row at each position,
 * long rows, and random boxes whose rows memcpy copies as a reference.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/rand.h"

enum { ROW = 5, PITCH = 64, ROWS = 4, SLICES = 3 };

/* Both ends of the copy of one row of a box. */
struct row_at {
	uint8_t *host; /* the row's bytes */
	CUdeviceptr device;
	size_t x, y, z;
};

static CUDA_MEMCPY3D describe_row(const struct row_at *at, bool is_in)
{
	CUDA_MEMCPY3D c = {.WidthInBytes = ROW, .Height = 1, .Depth = 1};

	if (is_in) {
		c.srcMemoryType = CU_MEMORYTYPE_HOST;
		c.srcHost = at->host;
		c.srcPitch = PITCH;
		c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		c.dstDevice = at->device;
		c.dstPitch = PITCH;
		c.dstHeight = ROWS;
		c.dstXInBytes = at->x;
		c.dstY = at->y;
		c.dstZ = at->z;
	} else {
		c.dstMemoryType = CU_MEMORYTYPE_HOST;
		c.dstHost = at->host;
		c.dstPitch = PITCH;
		c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		c.srcDevice = at->device;
		c.srcPitch = PITCH;
		c.srcHeight = ROWS;
		c.srcXInBytes = at->x;
		c.srcY = at->y;
		c.srcZ = at->z;
	}
	return c;
}

enum how { AT_ONCE, IN_STREAM, CAPTURED, HOWS };

static void copy_box(const CUDA_MEMCPY3D *c, enum how how, CUstream stream)
{
	CUgraphExec exec;
	CUgraph graph;

	if (how == AT_ONCE) {
		NEED(drv.cuMemcpy3D_v2(c));
		return;
	}
	if (how == CAPTURED)
		NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuMemcpy3DAsync_v2(c, stream));
	if (how == CAPTURED) {
		NEED(drv.cuStreamEndCapture(stream, &graph));
		NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
		NEED(drv.cuGraphLaunch(exec, stream));
	}
	NEED(drv.cuStreamSynchronize(stream));
	if (how == CAPTURED) {
		OK(drv.cuGraphExecDestroy(exec));
		OK(drv.cuGraphDestroy(graph));
	}
}

/*
 * Copies a row out of a box or into it. Returns true if the row is right and no other byte changed.
 */
static bool is_row_copied(struct row_at *at, enum how how, bool is_in, CUstream stream)
{
	static uint8_t box[SLICES * ROWS * PITCH], now[sizeof(box)];
	uint8_t *row = &box[(at->z * ROWS + at->y) * PITCH + at->x];
	const CUDA_MEMCPY3D c = describe_row(at, is_in);

	for (size_t i = 0; i < sizeof(box); i++)
		box[i] = (uint8_t)(i * 31 + 7);
	NEED(drv.cuMemcpyHtoD_v2(at->device, box, sizeof(box)));
	for (int i = 0; i < ROW; i++)
		at->host[i] = (uint8_t)(200 + i);
	copy_box(&c, how, stream);
	if (is_in)
		memcpy(row, at->host, ROW);
	NEED(drv.cuMemcpyDtoH_v2(now, at->device, sizeof(now)));
	return memcmp(now, box, sizeof(box)) == 0 && memcmp(at->host, row, ROW) == 0;
}

static void one_row(void)
{
	CUcontext context = begin_context();
	struct row_at at = {.device = device_memory(SLICES * ROWS * PITCH), .x = 3};
	CUstream stream = new_stream();
	static uint8_t pageable[PITCH];
	uint8_t *pinned;

	NEED(drv.cuMemHostAlloc((void **)&pinned, PITCH, 0));
	for (int n = 0; n < 2 * HOWS * 2; n++) {
		const enum how how = (enum how)(n / 2 % HOWS);
		bool is_in = n % 2, right = true;

		at.host = n / (2 * HOWS) ? pinned : pageable;
		for (at.z = 0; at.z < SLICES; at.z++)
			for (at.y = 0; at.y < ROWS; at.y++)
				right = is_row_copied(&at, how, is_in, stream) && right;
		tap_ok(right, "each row of a box, %s %s memory, %s", is_in ? "from" : "to",
			at.host == pinned ? "page-locked" : "any",
			how == AT_ONCE            ? "at once"
				: how == CAPTURED ? "captured"
						  : "in a stream");
	}
	OK(drv.cuMemFreeHost(pinned));
	OK(drv.cuCtxDestroy_v2(context));
}

static void long_rows(void)
{
	enum { WIDE = 300 << 10, WIDE_PITCH = 320 << 10, N_WIDE = 3 };

	CUcontext context = begin_context();
	uint8_t *from = malloc((size_t)N_WIDE * WIDE_PITCH), *to = calloc(N_WIDE, WIDE_PITCH);
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = WIDE_PITCH,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device_memory((size_t)N_WIDE * WIDE_PITCH),
		.dstPitch = WIDE_PITCH,
		.WidthInBytes = WIDE,
		.Height = N_WIDE};
	bool right = true;

	for (size_t i = 0; i < (size_t)N_WIDE * WIDE_PITCH; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
	NEED(drv.cuMemcpy2D_v2(&c));
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = c.dstDevice,
		.srcPitch = WIDE_PITCH,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = WIDE_PITCH,
		.WidthInBytes = WIDE,
		.Height = N_WIDE};
	NEED(drv.cuMemcpy2D_v2(&c));
	for (size_t i = 0; i < N_WIDE; i++)
		right = right && memcmp(to + i * WIDE_PITCH, from + i * WIDE_PITCH, WIDE) == 0;
	tap_ok(right, "rows of 300 KiB");
	free(from);
	free(to);
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- random boxes ---- */

enum { SIZE = 64 << 10, STEPS = 60, SEEDS = 12 };
enum place { PAGEABLE, PINNED, DEVICE, OTHER_DEVICE, PLACES };

/* Memory of each place, and its expected contents. */
static uint8_t *host[PLACES], *right[PLACES];
static CUdeviceptr device[PLACES];

/* One end of a copy: a place, and the box's position and pitches there. */
struct end {
	enum place place;
	size_t x, y, z, pitch, rows;
};

struct box {
	struct end from, to;
	size_t width, height, depth;
};

/* Half of the sizes are 1, because the library handles this size separately. */
static size_t draw_size(struct rand *rand, size_t most)
{
	return rand_below(rand, 2) ? 1 : 1 + rand_below(rand, most);
}

static struct end draw_end(struct rand *rand, const struct box *box)
{
	struct end end = {.place = (enum place)rand_below(rand, PLACES),
		.x = rand_below(rand, 2) * rand_below(rand, 40),
		.y = rand_below(rand, 2) * rand_below(rand, 4),
		.z = rand_below(rand, 2) * rand_below(rand, 3)};

	end.pitch = end.x + box->width + rand_below(rand, 30);
	end.rows = end.y + box->height + rand_below(rand, 3);
	return end;
}

/* A box has at most 300 bytes by 7 rows by 4 slices, so its last byte is within SIZE. */
static struct box draw_box(struct rand *rand)
{
	struct box box = {.width = draw_size(rand, 300),
		.height = draw_size(rand, 7),
		.depth = draw_size(rand, 4)};

	box.from = draw_end(rand, &box);
	do
		box.to = draw_end(rand, &box);
	while (box.to.place == box.from.place);
	return box;
}

static size_t offset_of(const struct end *end, size_t y, size_t z)
{
	return ((end->z + z) * end->rows + end->y + y) * end->pitch + end->x;
}

static void copy_right(const struct box *box)
{
	for (size_t z = 0; z < box->depth; z++)
		for (size_t y = 0; y < box->height; y++)
			memcpy(right[box->to.place] + offset_of(&box->to, y, z),
				right[box->from.place] + offset_of(&box->from, y, z), box->width);
}

static bool is_host(const struct end *end)
{
	return end->place < DEVICE;
}

static CUDA_MEMCPY3D describe(const struct box *box)
{
	const struct end *from = &box->from, *to = &box->to;

	return (CUDA_MEMCPY3D){
		.srcXInBytes = from->x,
		.srcY = from->y,
		.srcZ = from->z,
		.srcMemoryType = is_host(from) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.srcHost = host[from->place],
		.srcDevice = device[from->place],
		.srcPitch = from->pitch,
		.srcHeight = from->rows,
		.dstXInBytes = to->x,
		.dstY = to->y,
		.dstZ = to->z,
		.dstMemoryType = is_host(to) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstHost = host[to->place],
		.dstDevice = device[to->place],
		.dstPitch = to->pitch,
		.dstHeight = to->rows,
		.WidthInBytes = box->width,
		.Height = box->height,
		.Depth = box->depth,
	};
}

static bool are_right(void)
{
	static uint8_t now[SIZE];
	bool are = true;

	for (enum place i = 0; i < PLACES; i++) {
		if (device[i])
			NEED(drv.cuMemcpyDtoH_v2(now, device[i], SIZE));
		are = are && memcmp(device[i] ? now : host[i], right[i], SIZE) == 0;
	}
	return are;
}

static void begin_places(struct rand *rand)
{
	host[PAGEABLE] = malloc(SIZE);
	NEED(drv.cuMemHostAlloc((void **)&host[PINNED], SIZE, 0));
	device[DEVICE] = device_memory(SIZE);
	device[OTHER_DEVICE] = device_memory(SIZE);
	for (enum place i = 0; i < PLACES; i++) {
		right[i] = malloc(SIZE);
		for (size_t k = 0; k < SIZE; k++)
			right[i][k] = (uint8_t)rand_u64(rand);
		if (device[i])
			NEED(drv.cuMemcpyHtoD_v2(device[i], right[i], SIZE));
		else
			memcpy(host[i], right[i], SIZE);
	}
}

static void random_boxes(void)
{
	CUcontext context = begin_context();
	struct rand rand = rand_seeded(3);
	CUstream stream = new_stream();

	begin_places(&rand);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		rand = rand_seeded(seed);
		for (int step = 0; step < STEPS; step++) {
			const struct box box = draw_box(&rand);
			const CUDA_MEMCPY3D c = describe(&box);

			copy_right(&box);
			/* A remote client cannot capture a copy from host to host. */
			copy_box(&c,
				(enum how)rand_below(&rand,
					is_host(&box.from) && is_host(&box.to) ? CAPTURED : HOWS),
				stream);
		}
		tap_ok(are_right(), "%d boxes between any two places, seed %d", STEPS, (int)seed);
	}
	OK(drv.cuCtxDestroy_v2(context));
}

int main(void)
{
	tap_begin();
	machine_begin("1xH200-8Gi", "context_create_us=0");
	if (!driver_open())
		return 1;
	part_run("boxes of one row", one_row);
	part_run("long rows", long_rows);
	part_run("boxes at random", random_boxes);
	machine_end();
	tap_end();
	return tap_failures() != 0;
}
