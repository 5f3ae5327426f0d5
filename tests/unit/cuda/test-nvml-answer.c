/* SPDX-License-Identifier: Apache-2.0 */
/* Texts written into a caller's array, and the forms of bus ids that programs use. */
#include "cuda/nvml-answer.h"

#include "unit.h"

static void a_text_is_copied_whole_or_refused(void **state)
{
	char text[4] = "xxx";

	assert_int_equal(nvml_text_give("abcd", text, sizeof text), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_string_equal(text, "xxx");
	assert_int_equal(nvml_text_give("abc", text, sizeof text), NVML_SUCCESS);
	assert_string_equal(text, "abc");
	assert_int_equal(nvml_text_give("", text, 0), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(nvml_text_give("abc", NULL, sizeof text), NVML_ERROR_INVALID_ARGUMENT);
}

static void a_bus_id_may_lack_its_domain(void **state)
{
	static const char *const texts[] = {"2:1b:0a.0", "0002:1B:0A.0", "00000002:1b:0a.0"};
	struct nvml_bus_id id;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		assert_int_equal(nvml_bus_id_parse(texts[i], &id), NVML_SUCCESS);
		assert_int_equal(id.domain, 2);
		assert_int_equal(id.bus, 0x1b);
		assert_int_equal(id.slot, 0xa);
	}
	assert_int_equal(nvml_bus_id_parse("1b:0a.0", &id), NVML_SUCCESS);
	assert_int_equal(id.domain, 0);
	assert_int_equal(id.bus, 0x1b);
	assert_int_equal(id.slot, 0xa);
	assert_int_equal(nvml_bus_id_parse("1b", &id), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvml_bus_id_parse("", &id), NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t check(nvmlMemory_v2_t *memory)
{
	NVML_CHECK_VERSION(memory, Memory, 2);
	return NVML_SUCCESS;
}

static void a_struct_names_its_size_and_version(void **state)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};

	assert_int_equal(check(&memory), NVML_SUCCESS);
	memory.version++;
	assert_int_equal(check(&memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	assert_int_equal(check(NULL), NVML_ERROR_INVALID_ARGUMENT);
}

UNIT_MAIN(UNIT(a_text_is_copied_whole_or_refused), UNIT(a_bus_id_may_lack_its_domain),
	UNIT(a_struct_names_its_size_and_version))
