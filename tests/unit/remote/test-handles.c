/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a worker gives to the driver's objects: how long each stands for which. */
#include "unit.h"

#include "remote/worker.h"

/* Each is a request of its own: what it names, then what the driver gives for it. */

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
	handle_gone(&s, kind, handle);
	assert_int_equal(real(kind, handle), 0);
}

static void what_was_given_of_an_object_ends_with_it(void **state)
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
	/* With a node goes its graph, and not what stands beside it. */
	end(KIND_CUgraphNode, node);
	assert_int_equal(real(KIND_CUgraph, child), 0);
	assert_int_equal(real(KIND_CUgraphNode, deep), 0);
	assert_int_equal(real(KIND_CUgraphNode, beside), 0x106);
	end(KIND_CUgraph, graph);
	assert_int_equal(real(KIND_CUgraphNode, beside), 0);
}

static void who_tells_of_its_whole_is_no_whole_of_it(void **state)
{
	const uint64_t graph = given(KIND_CUgraph, 0x200, 0, 0),
		       node = given(KIND_CUgraphNode, 0x201, KIND_CUgraph, graph);

	assert_int_equal(given(KIND_CUgraph, 0x200, KIND_CUgraphNode, node), graph);
	end(KIND_CUgraphNode, node);
	assert_int_equal(real(KIND_CUgraph, graph), 0x200);
	end(KIND_CUgraph, graph);
}

static void a_word_that_comes_again_is_another_object(void **state)
{
	uint64_t first = given(KIND_CUgraph, 0x300, 0, 0), again;
	const uint64_t other = given(KIND_CUgraph, 0x301, 0, 0),
		       node = given(KIND_CUgraphNode, 0x302, KIND_CUgraph, first);

	end(KIND_CUgraph, first);
	again = given(KIND_CUgraphNode, 0x302, KIND_CUgraph, other);
	assert_int_not_equal(again, node);
	/* It ended without our knowing, and the word is that of a node elsewhere. */
	first = given(KIND_CUgraph, 0x300, 0, 0);
	assert_int_equal(given(KIND_CUgraphNode, 0x302, KIND_CUgraph, first), again);
	end(KIND_CUgraph, other);
	assert_int_equal(real(KIND_CUgraphNode, again), 0x302);
	end(KIND_CUgraph, first);
	assert_int_equal(real(KIND_CUgraphNode, again), 0);
}

static void a_word_that_comes_again_meanwhile_stays(void **state)
{
	const uint64_t graph = given(KIND_CUgraph, 0x400, 0, 0),
		       node = given(KIND_CUgraphNode, 0x401, KIND_CUgraph, graph),
		       old = given(KIND_CUgraphNode, 0x402, KIND_CUgraph, graph);
	struct serve s = {0};

	handle_real(&s, KIND_CUgraph, graph);
	/* The driver has ended it, and another thread is given the node's word before we know. */
	assert_int_equal(given(KIND_CUgraphNode, 0x401, 0, 0), node);
	handle_gone(&s, KIND_CUgraph, graph);
	assert_int_equal(real(KIND_CUgraph, graph), 0);
	assert_int_equal(real(KIND_CUgraphNode, old), 0);
	assert_int_equal(real(KIND_CUgraphNode, node), 0x401);
	/* ... or the graph's own. */
	handle_real(&s, KIND_CUgraphNode, node);
	assert_int_equal(given(KIND_CUgraphNode, 0x401, 0, 0), node);
	handle_gone(&s, KIND_CUgraphNode, node);
	assert_int_equal(real(KIND_CUgraphNode, node), 0x401);
	end(KIND_CUgraphNode, node);
}

static void references_are_counted(void **state)
{
	struct serve s = {0};
	const uint64_t context = handle_again(&s, KIND_CUcontext, 0x500);

	assert_int_equal(handle_again(&s, KIND_CUcontext, 0x500), context);
	handle_real(&s, KIND_CUcontext, context);
	handle_gone(&s, KIND_CUcontext, context);
	assert_int_equal(real(KIND_CUcontext, context), 0x500);
	end(KIND_CUcontext, context);
}

static void a_program_may_name_by_itself(void **state)
{
	const uint64_t first = handle_make(KIND_CUevent, HANDLE_CLIENT | 1),
		       second = handle_make(KIND_CUevent, HANDLE_CLIENT | 2);
	struct serve s = {0};

	handle_put(&s, KIND_CUevent, first, 0x600);
	handle_put(&s, KIND_CUevent, second, 0x600);
	end(KIND_CUevent, first);
	assert_int_equal(given(KIND_CUevent, 0x600, 0, 0), second);
	/* Twice the same is the later one. */
	handle_put(&s, KIND_CUevent, second, 0x601);
	assert_int_equal(real(KIND_CUevent, second), 0x601);
	assert_int_not_equal(given(KIND_CUevent, 0x600, 0, 0), second);
	end(KIND_CUevent, second);
}

UNIT_MAIN(UNIT(what_was_given_of_an_object_ends_with_it),
	UNIT(who_tells_of_its_whole_is_no_whole_of_it),
	UNIT(a_word_that_comes_again_is_another_object),
	UNIT(a_word_that_comes_again_meanwhile_stays), UNIT(references_are_counted),
	UNIT(a_program_may_name_by_itself))
