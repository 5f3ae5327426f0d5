/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor takes no more memory than its caller allows: for a module, for the blocks of a job,
 * and for the functions that a kernel calls. It gives back all of it.
 */
#include "ptx-machine.h"

#include <stdatomic.h>

#include "base/cleanup.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

/* ---- an allowance ---- */

static struct {
	uint64_t used, most, limit, spare_limit;
	unsigned spare; /* requests for memory that the executor can do without */
} allowance;

static bool take(void *user, uint64_t bytes, bool is_spare)
{
	allowance.spare += is_spare;
	if (bytes > (is_spare ? allowance.spare_limit : allowance.limit) ||
		allowance.used > (is_spare ? allowance.spare_limit : allowance.limit) - bytes)
		return false;
	allowance.used += bytes;
	allowance.most = MAX(allowance.most, allowance.used);
	return true;
}

static void give(void *user, uint64_t bytes)
{
	assert_true(bytes <= allowance.used);
	allowance.used -= bytes;
}

static const struct ptx_memory bounded = {.take = take, .give = give};

static void allow(uint64_t limit)
{
	memset(&allowance, 0, sizeof(allowance));
	allowance.limit = allowance.spare_limit = limit;
	machine_init();
	machine.device.memory = &bounded;
}

static int load(const char *text, struct ptx **ret_ptx, struct error *err)
{
	return ptx_load(str_from(text), &(struct ptx_loading){.memory = &bounded}, ret_ptx, err);
}

/* ---- modules ---- */

/* Returns a text of at least `bytes` bytes, made of many of the same piece; the caller frees it. */
static char *repeat(const char *head, const char *piece, const char *tail, size_t bytes)
{
	size_t n = strlen(piece), count = bytes / n + 1;
	char *text = malloc(strlen(head) + count * n + strlen(tail) + 1), *p;

	assert_non_null(text);
	p = stpcpy(text, head);
	for (size_t i = 0; i < count; i++)
		p = stpcpy(p, piece);
	stpcpy(p, tail);
	return text;
}

static void test_a_module_takes_what_it_is_allowed(void **state)
{
	/* what grows: instructions, symbols, patches, lists of parameters, constants */
	static const struct {
		const char *head, *piece, *tail;
	} cases[] = {
		{HEAD ".entry k() { .reg .b32 %r;\n", "add.u32 %r, %r, 1;\n", "ret; }\n"},
		{HEAD ".global .u64 a[4194304] = {0", ",a", "};\n"},
		{HEAD ".entry k() { .reg .pred %p;\n", "{ .reg .b32 %r<9>; }\n", "ret; }\n"},
		{HEAD "", ".func f(.param .b32 a, .param .b32 b);\n", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *text = repeat(
			cases[i].head, cases[i].piece, cases[i].tail, 4 << 20);
		struct error err = {0};
		struct ptx *ptx = NULL;
		int r;

		allow(2 << 20);
		r = load(text, &ptx, &err);
		if (r != -ENOMEM || !strstr(err.msg, "memory"))
			fail_msg("case %zu: %d %s", i, r, err.msg);
		assert_int_equal(allowance.used, 0);
		allow(UINT64_C(1) << 33);
		ptx = machine_load(text);
		assert_true(allowance.used <= allowance.most);
		ptx_free(ptx);
		assert_int_equal(allowance.used, 0);
	}
}

static unsigned pauses;

static bool pause_until(void *user)
{
	return pauses-- > 0;
}

static void test_a_load_ends_when_its_caller_wants_so(void **state)
{
	_cleanup_free_ char *text = repeat(
		HEAD ".entry k() { .reg .b32 %r;\n", "add.u32 %r, %r, 1;\n", "ret; }\n", 4 << 20);
	struct error err = {0};
	struct ptx *ptx = NULL;

	allow(UINT64_C(1) << 33);
	pauses = 3;
	assert_int_equal(ptx_load(str_from(text),
				 &(struct ptx_loading){.memory = &bounded, .pause = pause_until},
				 &ptx, &err),
		-ECANCELED);
	assert_null(ptx);
	assert_int_equal(allowance.used, 0);
}

/* ---- jobs ---- */

#define LOCAL \
	HEAD ".entry k() { .local .b8 big[524288]; .reg .b64 %a;\n" \
	     "mov.u64 %a, big; st.local.u32 [%a+524284], 1; ret; }\n"

static void test_a_block_beyond_the_memory_fails(void **state)
{
	struct ptx *ptx;

	allow(64 << 20);
	ptx = machine_load(LOCAL);
	/* 1024 threads with 512 KiB each */
	assert_int_equal(machine_run(ptx, 1, 1024, 0, NULL, 0).fault, PTX_OUT_OF_MEMORY);
	assert_int_equal(machine_run(ptx, 100, 64, 0, NULL, 0).fault, PTX_OK);
	assert_true(allowance.most <= 64 << 20);
	ptx_free(ptx);
	assert_int_equal(allowance.used, 0);
}

static void test_calls_take_of_the_memory(void **state)
{
	struct ptx *ptx;

	/* 1000 calls of a function with 64 KiB of registers for a warp */
	allow(16 << 20);
	ptx = machine_load(
		HEAD ".func deep(.param .b32 n) { .reg .b64 %r<256>; .reg .b32 %n; .reg .pred %p;\n"
		     "ld.param.u32 %n, [n]; setp.eq.u32 %p, %n, 0; @%p ret; sub.u32 %n, %n, 1;\n"
		     "{ .param .b32 m; st.param.b32 [m], %n; call deep, (m); } ret; }\n"
		     ".entry k(.param .u32 n) { .reg .b32 %n; ld.param.u32 %n, [n];\n"
		     "{ .param .b32 m; st.param.b32 [m], %n; call deep, (m); } ret; }\n");
	assert_int_equal(machine_run(ptx, 1, 32, 0, &(uint32_t){1000}, 4).fault, PTX_OUT_OF_MEMORY);
	assert_int_equal(machine_run(ptx, 4, 32, 0, &(uint32_t){100}, 4).fault, PTX_OK);
	assert_true(allowance.most <= 16 << 20);
	ptx_free(ptx);
	assert_int_equal(allowance.used, 0);
}

static void test_further_blocks_are_no_need(void **state)
{
	struct ptx *ptx;
	uint64_t memory = (uint64_t)(uintptr_t)machine.memory;

	/* The first blocks take many turns. */
	allow(64 << 20);
	allowance.spare_limit = 0;
	ptx = machine_load(
		HEAD ".entry k(.param .u64 p) { .reg .b64 %a; .reg .b32 %i; .reg .pred %p;\n"
		     "ld.param.u64 %a, [p]; mov.u32 %i, 0;\n"
		     "L: nanosleep.u32 1; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 1000; @%p bra L;\n"
		     "red.global.add.u32 [%a], 1; ret; }\n");
	assert_int_equal(machine_run(ptx, 8, 1, 0, &memory, 8).fault, PTX_OK);
	assert_int_equal(*(uint32_t *)machine.memory, 8);
	assert_true(allowance.spare > 0);
	ptx_free(ptx);
	assert_int_equal(allowance.used, 0);
}

UNIT_MAIN(UNIT(test_a_module_takes_what_it_is_allowed),
	UNIT(test_a_load_ends_when_its_caller_wants_so), UNIT(test_a_block_beyond_the_memory_fails),
	UNIT(test_calls_take_of_the_memory), UNIT(test_further_blocks_are_no_need))
