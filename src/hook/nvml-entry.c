/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports of libdivvy-nvml.so, and the real library behind them, like entry.c for the driver.
 * The library is opened at the first call and stays open after a fork. Any thread; threads that
 * resolve a slot at the same time store the same value.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda/nvml-proto.h"
#include "hook/entry.h"
#include "hook/hook-nvml.h"
#include "hook/system.h"

#define NVML_OTHER(type, ...) NVML(__VA_ARGS__)
/* ENTRY_<column `hook` of nvml.def>(name). The export of a FILTER function is in C. */
#define ENTRY_PASS(name) ENTRY_SLOT(name) ENTRY_JUMP(name, ".globl")
#define ENTRY_FILTER(name) ENTRY_SLOT(name)

__asm__(ENTRY_HEAD
#define NVML(name, hook, ...) ENTRY_##hook(name)
#include "cuda/nvml.def"
#undef NVML
);

struct names {
#define NVML(name, ...) char name[sizeof #name];
#include "cuda/nvml.def"
#undef NVML
};

static const struct names names = {
#define NVML(name, ...) #name,
#include "cuda/nvml.def"
#undef NVML
};

static const uint16_t name_at[] = {
#define NVML(name, ...) offsetof(struct names, name),
#include "cuda/nvml.def"
#undef NVML
};
_Static_assert(sizeof(struct names) < UINT16_MAX, "offsets are 16 bits");

#undef NVML_OTHER

static void *_Atomic library;
static _Atomic int library_state; /* 0: not searched yet; 1: found; -1: none */

static void *real_library(void)
{
	char path[SYSTEM_PATH];
	void *handle, *nothing = NULL;

	if (atomic_load_explicit(&library_state, memory_order_acquire))
		return atomic_load(&library);
	handle = system_open_real("libnvidia-ml.so.1", path);
	if (handle && !atomic_compare_exchange_strong(&library, &nothing, handle))
		handle = nothing;
	atomic_store_explicit(&library_state, handle ? 1 : -1, memory_order_release);
	return handle;
}

static nvmlReturn_t nvml_entry_missing(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static nvmlReturn_t no_library(void)
{
	return NVML_ERROR_LIBRARY_NOT_FOUND;
}

static const char *no_text(nvmlReturn_t result)
{
	return result == NVML_ERROR_LIBRARY_NOT_FOUND
		? "NVML Shared Library couldn't be found or loaded"
		: "Unknown Error";
}

void *nvml_real_symbol(const char *name)
{
	void *handle = real_library();

	return handle ? system_get()->dlsym(handle, name) : NULL;
}

void *hook_resolve(uint32_t index)
{
	const char *name = (const char *)&names + name_at[index];
	int saved = errno;
	void *target = nvml_real_symbol(name);

	if (!target && !strcmp(name, "nvmlErrorString"))
		target = (void *)no_text;
	if (!target)
		target = real_library() ? (void *)nvml_entry_missing : (void *)no_library;
	atomic_store_explicit(&hook_slots[index], target, memory_order_release);
	errno = saved;
	return target;
}
