/* SPDX-License-Identifier: Apache-2.0 */
#include "kubelet/unpack.h"

#include "kubelet/deviceplugin.pb-c.h"
#include "kubelet/podresources.pb-c.h"
#include "unit.h"

static void a_packed_message_is_unpacked(void **state)
{
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	_cleanup_message_ V1beta1__RegisterRequest *back = NULL;
	_cleanup_buf_ struct buf bytes = {0};

	options.pre_start_required = 1;
	request.version = (char[]){"v1beta1"};
	request.endpoint = (char[]){"a.sock"};
	request.options = &options;
	assert_ok(pack(&request.base, &bytes));
	/* Written by hand: field 1 "v1beta1", field 2 "a.sock", field 4 { field 1: true } */
	assert_true(str_eq(buf_str(&bytes),
		STR("\x0a\x07v1beta1\x12\x06"
		    "a.sock\x22\x02\x08\x01")));
	back = unpack(&v1beta1__register_request__descriptor, buf_str(&bytes));
	assert_non_null(back);
	assert_string_equal(back->version, "v1beta1");
	assert_string_equal(back->endpoint, "a.sock");
	assert_string_equal(back->resource_name, "");
	assert_true(back->options->pre_start_required);
}

static void no_bytes_are_an_empty_message(void **state)
{
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	_cleanup_message_ V1beta1__Empty *back = unpack(&v1beta1__empty__descriptor, STR_NONE);
	_cleanup_buf_ struct buf bytes = {0};

	assert_non_null(back);
	assert_ok(pack(&empty.base, &bytes));
	assert_int_equal(bytes.n, 0);
}

static void garbage_is_no_message(void **state)
{
	static const struct str bad[] = {{"\x0a", 1},
		{"\x0a\x05"
		 "ab",
			4},
		{"\xff\xff\xff\xff", 4}, {"\x0b\x00", 2}};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_null(unpack(&v1beta1__register_request__descriptor, bad[i]));
}

/* The decoder skips unknown fields, as newer kubelets may send them. */
static void newer_fields_are_skipped(void **state)
{
	_cleanup_message_ Podres__ListResponse *list = unpack(
		&podres__list_response__descriptor, STR("\x0a\x07\x0a\x01p\x22\x02xx"));

	assert_non_null(list);
	assert_int_equal(list->n_pod_resources, 1);
	assert_string_equal(list->pod_resources[0]->name, "p");
}

static void a_message_that_unpacks_too_large_is_refused(void **state)
{
	_cleanup_buf_ struct buf bytes = BUF_INIT(16u << 20);
	_cleanup_message_ Podres__ListResponse *few = NULL;

	/* Each empty pod has two bytes in the message and about a hundred in memory. */
	for (size_t i = 0; i < 1000; i++)
		buf_add(&bytes, STR("\x0a\x00"));
	few = unpack(&podres__list_response__descriptor, buf_str(&bytes));
	assert_non_null(few);
	assert_int_equal(few->n_pod_resources, 1000);
	for (size_t i = 0; i < 2000000; i++)
		buf_add(&bytes, STR("\x0a\x00"));
	assert_ok(buf_error(&bytes));
	assert_null(unpack(&podres__list_response__descriptor, buf_str(&bytes)));
}

UNIT_MAIN(UNIT(a_packed_message_is_unpacked), UNIT(no_bytes_are_an_empty_message),
	UNIT(garbage_is_no_message), UNIT(newer_fields_are_skipped),
	UNIT(a_message_that_unpacks_too_large_is_refused))
