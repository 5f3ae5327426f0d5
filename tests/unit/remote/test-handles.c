/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that a worker gives to the driver's objects, and how long a name stands for its object.
 */
#include "unit.h"

#include "remote/worker.h"

/*
 * Each function is a request of its own: given() names one object, and the driver returns another.
 */

static uint64_t given(enum kind kind, uint64_t real, enum kind of_kind, uint64_t of)
{
	struct serve s = {0};

	handle_real(&s, of_kind, of);
	return handle_name(&s, kind, real);
}

static uint64_t real(enum kind kind, uint64_t handle)
{
	struct serve s = {0};

	return handle_real(&s, kind, handle);
}

static void end(enum kind kind, uint64_t handle)
{
	struct serve s = {0};

	assert_true(handle_real(&s, kind, handle));
	handle_destroyed(&s, kind, handle);
	assert_int_equal(real(kind, handle), 0);
}

static void names_of_an_objects_parts_end_with_it(void **state)
{
	const uint64_t library = given(KIND_CUlibrary, 0x100, 0, 0),
		       kernel = given(KIND_CUkernel, 0x101, KIND_CUlibrary, library),
		       function = given(KIND_CUfunction, 0x102, KIND_CUkernel, kernel),
		       module = given(KIND_CUmodule, 0x103, KIND_CUfunction, function),
		       graph = given(KIND_CUgraph, 0x104, 0, 0),
		       node = given(KIND_CUgraphNode, 0x105, KIND_CUgraph, graph),
		       beside = given(KIND_CUgraphNode, 0x106, KIND_CUgraphNode, node),
		       child = given(KIND_CUgraph, 0x107, KIND_CUgraphNode, node),
		       deep = given(KIND_CUgraphNode, 0x108, KIND_CUgraph, child);

	end(KIND_CUlibrary, library);
	assert_int_equal(real(KIND_CUkernel, kernel), 0);
	assert_int_equal(real(KIND_CUfunction, function), 0);
	assert_int_equal(real(KIND_CUmodule, module), 0);
	assert_int_equal(real(KIND_CUgraphNode, deep), 0x108);
	/* The node ends together with its child graph, but not with the node beside it. */
	end(KIND_CUgraphNode, node);
	assert_int_equal(real(KIND_CUgraph, child), 0);
	assert_int_equal(real(KIND_CUgraphNode, deep), 0);
	assert_int_equal(real(KIND_CUgraphNode, beside), 0x106);
	end(KIND_CUgraph, graph);
	assert_int_equal(real(KIND_CUgraphNode, beside), 0);
}

static void a_part_that_returns_its_whole_is_not_its_parent(void **state)
{
	const uint64_t graph = given(KIND_CUgraph, 0x200, 0, 0),
		       node = given(KIND_CUgraphNode, 0x201, KIND_CUgraph, graph);

	assert_int_equal(given(KIND_CUgraph, 0x200, KIND_CUgraphNode, node), graph);
	end(KIND_CUgraphNode, node);
	assert_int_equal(real(KIND_CUgraph, graph), 0x200);
	end(KIND_CUgraph, graph);
}

static void a_reused_handle_is_another_object(void **state)
{
	uint64_t first = given(KIND_CUgraph, 0x300, 0, 0), again;
	const uint64_t other = given(KIND_CUgraph, 0x301, 0, 0),
		       node = given(KIND_CUgraphNode, 0x302, KIND_CUgraph, first);

	end(KIND_CUgraph, first);
	again = given(KIND_CUgraphNode, 0x302, KIND_CUgraph, other);
	assert_int_not_equal(again, node);
	/*
	 * The node ended without the worker's knowledge, and the driver reuses its handle for a
	 * node of another graph.
	 */
	first = given(KIND_CUgraph, 0x300, 0, 0);
	assert_int_equal(given(KIND_CUgraphNode, 0x302, KIND_CUgraph, first), again);
	end(KIND_CUgraph, other);
	assert_int_equal(real(KIND_CUgraphNode, again), 0x302);
	end(KIND_CUgraph, first);
	assert_int_equal(real(KIND_CUgraphNode, again), 0);
}

static void a_handle_that_is_reused_during_the_end_stays(void **state)
{
	const uint64_t graph = given(KIND_CUgraph, 0x400, 0, 0),
		       node = given(KIND_CUgraphNode, 0x401, KIND_CUgraph, graph),
		       old = given(KIND_CUgraphNode, 0x402, KIND_CUgraph, graph);
	struct serve s = {0};

	handle_real(&s, KIND_CUgraph, graph);
	/*
	 * The driver ends the graph, and gives the node's handle to another thread before
	 * handle_destroyed().
	 */
	assert_int_equal(given(KIND_CUgraphNode, 0x401, 0, 0), node);
	handle_destroyed(&s, KIND_CUgraph, graph);
	assert_int_equal(real(KIND_CUgraph, graph), 0);
	assert_int_equal(real(KIND_CUgraphNode, old), 0);
	assert_int_equal(real(KIND_CUgraphNode, node), 0x401);
	/*
	 * The driver gives the handle of the ended object itself to another thread before
	 * handle_destroyed().
	 */
	handle_real(&s, KIND_CUgraphNode, node);
	assert_int_equal(given(KIND_CUgraphNode, 0x401, 0, 0), node);
	handle_destroyed(&s, KIND_CUgraphNode, node);
	assert_int_equal(real(KIND_CUgraphNode, node), 0x401);
	end(KIND_CUgraphNode, node);
}

static void references_are_counted(void **state)
{
	struct serve s = {0};
	const uint64_t context = handle_again(&s, KIND_CUcontext, 0x500);

	assert_int_equal(handle_again(&s, KIND_CUcontext, 0x500), context);
	handle_real(&s, KIND_CUcontext, context);
	handle_destroyed(&s, KIND_CUcontext, context);
	assert_int_equal(real(KIND_CUcontext, context), 0x500);
	end(KIND_CUcontext, context);
}

static void a_program_may_choose_names(void **state)
{
	const uint64_t first = handle_make(KIND_CUevent, HANDLE_CLIENT | 1),
		       second = handle_make(KIND_CUevent, HANDLE_CLIENT | 2);
	struct serve s = {0};

	handle_put(&s, KIND_CUevent, first, 0x600);
	handle_put(&s, KIND_CUevent, second, 0x600);
	end(KIND_CUevent, first);
	assert_int_equal(given(KIND_CUevent, 0x600, 0, 0), second);
	/* If two objects get the same name, the later object has it. */
	handle_put(&s, KIND_CUevent, second, 0x601);
	assert_int_equal(real(KIND_CUevent, second), 0x601);
	assert_int_not_equal(given(KIND_CUevent, 0x600, 0, 0), second);
	end(KIND_CUevent, second);
}

UNIT_MAIN(UNIT(names_of_an_objects_parts_end_with_it),
	UNIT(a_part_that_returns_its_whole_is_not_its_parent),
	UNIT(a_reused_handle_is_another_object), UNIT(a_handle_that_is_reused_during_the_end_stays),
	UNIT(references_are_counted), UNIT(a_program_may_choose_names))
