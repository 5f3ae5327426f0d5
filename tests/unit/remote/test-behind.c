/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that the worker records behind the program's streams. The worker queries no event of an
 * ended context, queries none while a context ends, and destroys each event.
 */
#include "unit.h"

#include <string.h>

#include "remote/worker.h"

#define CONTEXT(i) ((CUcontext)(uintptr_t)(0x100 + (i)))
#define STREAM(i) ((CUstream)(uintptr_t)(0x1000 + (i)))

/* A driver with one stream in each context; a stream may be busy, and a context dead. */
static struct {
	unsigned events, queries, pushed;
	bool is_dead[4], is_busy, is_active;
} fake;

static CUcontext context_of_event(CUevent event)
{
	return CONTEXT((uintptr_t)event % 16);
}

static CUresult fake_stream_get_ctx(CUstream stream, CUcontext *ret)
{
	*ret = CONTEXT((uintptr_t)stream - 0x1000);
	return CUDA_SUCCESS;
}

static CUresult fake_push(CUcontext context)
{
	fake.pushed = (unsigned)((uintptr_t)context - 0x100);
	return CUDA_SUCCESS;
}

static CUresult fake_pop(CUcontext *ret)
{
	*ret = NULL;
	return CUDA_SUCCESS;
}

static CUresult fake_get_current(CUcontext *ret)
{
	*ret = CONTEXT(fake.pushed);
	return CUDA_SUCCESS;
}

static CUresult fake_event_create(CUevent *ret, unsigned int flags)
{
	fake.events++;
	*ret = (CUevent)(uintptr_t)(0x2000 + fake.pushed);
	return CUDA_SUCCESS;
}

static CUresult fake_event_record(CUevent event, CUstream stream)
{
	return CUDA_SUCCESS;
}

static void is_of_a_living_context(CUevent event)
{
	assert_false(fake.is_dead[(uintptr_t)context_of_event(event) - 0x100]);
}

static CUresult fake_event_query(CUevent event)
{
	is_of_a_living_context(event);
	fake.queries++;
	return fake.is_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult fake_event_destroy(CUevent event)
{
	is_of_a_living_context(event);
	fake.events--;
	return CUDA_SUCCESS;
}

static CUresult fake_ctx_destroy(CUcontext context)
{
	fake.is_dead[(uintptr_t)context - 0x100] = true;
	return CUDA_SUCCESS;
}

static CUresult fake_retain(CUcontext *ret, CUdevice device)
{
	*ret = CONTEXT(device);
	return CUDA_SUCCESS;
}

static CUresult fake_release(CUdevice device)
{
	fake.is_dead[device] = !fake.is_active;
	return CUDA_SUCCESS;
}

static CUresult fake_get_state(CUdevice device, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = fake.is_active;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	memset(&fake, 0, sizeof(fake));
	driver = (struct driver){
		.cuStreamGetCtx = fake_stream_get_ctx,
		.cuCtxPushCurrent_v2 = fake_push,
		.cuCtxPopCurrent_v2 = fake_pop,
		.cuCtxGetCurrent = fake_get_current,
		.cuEventCreate = fake_event_create,
		.cuEventRecord = fake_event_record,
		.cuEventQuery = fake_event_query,
		.cuEventDestroy_v2 = fake_event_destroy,
		.cuCtxDestroy_v2 = fake_ctx_destroy,
		.cuDevicePrimaryCtxRetain = fake_retain,
		.cuDevicePrimaryCtxRelease_v2 = fake_release,
		.cuDevicePrimaryCtxReset_v2 = fake_release,
		.cuDevicePrimaryCtxGetState = fake_get_state,
	};
	return 0;
}

static void completed_events_are_destroyed(void **state)
{
	struct behind b = behind_stream(STREAM(1)), c = behind_stream(STREAM(2));

	fake.is_busy = true;
	assert_false(behind_is_over(&b));
	fake.is_busy = false;
	assert_true(behind_is_over(&b) && behind_is_over(&b));
	behind_forget(&c);
	assert_int_equal(fake.events, 0);
	assert_int_equal(fake.queries, 2);
}

static void no_event_is_queried_while_a_context_ends(void **state)
{
	struct behind b = behind_stream(STREAM(1));

	end_begin();
	assert_false(look_begin());
	assert_false(behind_is_over(&b));
	end_begin();
	end_done();
	assert_false(behind_is_over(&b));
	end_done();
	assert_int_equal(fake.queries, 0);
	assert_true(behind_is_over(&b));
}

static void no_event_of_an_ended_context_is_queried(void **state)
{
	struct behind b = behind_stream(STREAM(1)), c = behind_stream(STREAM(1)),
		      other = behind_stream(STREAM(2)), again;

	fake.is_busy = true;
	end_begin();
	assert_int_equal(context_destroy(CONTEXT(1)), CUDA_SUCCESS);
	end_done();
	assert_true(behind_is_over(&b));
	assert_int_equal(fake.queries, 0);
	behind_forget(&c);
	assert_int_equal(fake.events, 3);
	assert_false(behind_is_over(&other));
	/* A new context with the same address is another context. */
	fake.is_dead[1] = false;
	again = behind_stream(STREAM(1));
	assert_false(behind_is_over(&again));
	assert_int_equal(fake.queries, 2);
}

static void a_primary_context_ends_with_its_last_reference(void **state)
{
	struct behind b, c;
	CUcontext context;

	assert_int_equal(primary_retain(&context, 3), CUDA_SUCCESS);
	fake.pushed = 3;
	b = behind_stream(NULL);
	c = behind_stream(NULL);
	fake.is_active = fake.is_busy = true;
	assert_int_equal(primary_release(3), CUDA_SUCCESS);
	assert_false(behind_is_over(&b));
	fake.is_active = false;
	assert_int_equal(primary_release(3), CUDA_SUCCESS);
	assert_true(behind_is_over(&b));
	fake.is_dead[3] = false;
	b = behind_stream(NULL);
	assert_int_equal(primary_reset(3), CUDA_SUCCESS);
	assert_true(behind_is_over(&b) && behind_is_over(&c));
	assert_int_equal(fake.queries, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(completed_events_are_destroyed, begin),
		cmocka_unit_test_setup(no_event_is_queried_while_a_context_ends, begin),
		cmocka_unit_test_setup(no_event_of_an_ended_context_is_queried, begin),
		cmocka_unit_test_setup(a_primary_context_ends_with_its_last_reference, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
