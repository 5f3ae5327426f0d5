/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interposes dlopen and dlsym. Both end in a jump to the real function with the caller's return
 * address in place, because from this address the loader finds the caller's RUNPATH, namespace and
 * RTLD_NEXT.
 *   dlopen   a name or a path of the driver or of NVML becomes the path of divvy's library
 *   dlsym    on the handle of one of divvy's libraries, a name that the library does not export is
 *            looked up in the driver's library
 *
 * The start code of a sanitizer or a wrapper calls dlopen and dlsym before its own functions work.
 * So before the jump, nothing here calls libc (plain.h), not even for errno's address, unless the
 * name is the driver's.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda-names.h"
#include "cuda/nvml-types.h"
#include "hook/elf.h"
#include "hook/hook-link.h"
#include "hook/hook.h"
#include "hook/plain.h"
#include "hook/system.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* Called by the assembly below. */
const char *interpose_name(const char *file) HIDDEN;
void *interpose_symbol(void *handle, const char *name) HIDDEN;
void *interpose_dlopen(void) HIDDEN;
void *interpose_dlsym(void) HIDDEN;

/* Static, because a path that the real dlopen gets must outlive the jump. */
static char own_cuda[SYSTEM_PATH], own_nvml[SYSTEM_PATH];
static _Atomic int own_known; /* 1: CUDA library known; 2: NVML library too; -1: neither */

static int know_own(void)
{
	static const char *const beside[] = {"libdivvy-nvml.so", "libnvidia-ml.so.1"};
	int known = atomic_load_explicit(&own_known, memory_order_acquire);
	char path[SYSTEM_PATH], nvml[SYSTEM_PATH];
	struct elf_object own;
	char *slash;

	if (known)
		return known;
	if (!elf_object_find((const void *)know_own, NULL, &own) || !own.path ||
		own.path[0] != '/' || strlen(own.path) >= sizeof path) {
		atomic_store(&own_known, -1);
		return -1;
	}
	memcpy(path, own.path, strlen(own.path) + 1);
	known = 1;
	slash = strrchr(path, '/');
	for (size_t i = 0; i < sizeof beside / sizeof beside[0] && known == 1; i++) {
		int n = snprintf(
			nvml, sizeof nvml, "%.*s/%s", (int)(slash - path), path, beside[i]);

		/*
		 * A library named libnvidia-ml.so.1 is divvy's only if both of divvy's libraries
		 * are mounted under the driver's names.
		 */
		if (n > 0 && (size_t)n < sizeof nvml && !access(nvml, R_OK) &&
			(i == 0 || !strcmp(slash, "/libcuda.so.1")))
			known = 2;
	}
	/* two threads may write the same bytes */
	memcpy(own_cuda, path, sizeof path);
	memcpy(own_nvml, nvml, sizeof nvml);
	atomic_store_explicit(&own_known, known, memory_order_release);
	return known;
}

/* "libcuda.so", "libcuda.so.1", "libcuda.so.535.104.05": the stem, then nothing or a version. */
static bool is_library(const char *name, const char *stem)
{
	const char *rest = plain_after(name, stem);

	if (!rest || !*rest)
		return rest;
	if (rest[0] != '.' || rest[1] < '0' || rest[1] > '9')
		return false;
	while (*rest == '.' || (*rest >= '0' && *rest <= '9'))
		rest++;
	return !*rest;
}

const char *interpose_name(const char *file)
{
	const char *name = file ? plain_base_name(file) : "";
	bool is_cuda = is_library(name, "libcuda.so");
	int saved;

	if (!is_cuda && !is_library(name, "libnvidia-ml.so"))
		return file;
	saved = errno;
	if (is_cuda && know_own() >= 1)
		file = own_cuda;
	else if (!is_cuda && know_own() >= 2)
		file = own_nvml;
	errno = saved;
	return file;
}

static void *interpose_cuda_symbol(void *handle, const char *name)
{
	static void *_Atomic own;
	void *mine = atomic_load_explicit(&own, memory_order_relaxed);

	if (!mine) {
		mine = system_handle_of((const void *)know_own);
		atomic_store_explicit(&own, mine, memory_order_relaxed);
	}
	return handle == mine && !cuda_name_by_abi(name) ? hook_driver_symbol(name) : NULL;
}

/* The table of libdivvy-nvml.so; NULL: handle is another library's. */
static const struct link_nvml_table *interpose_nvml_table(void *handle)
{
	const struct system *s = system_get();
	const struct link_nvml_table *table = NULL;
	nvmlReturn_t (*ask)(const void **, const void *);
	void *mine, *symbol;

	if (know_own() < 2 || !s->dlopen || !s->dlsym || !s->dlclose)
		return NULL;
	mine = s->dlopen(own_nvml, RTLD_NOW | RTLD_NOLOAD);
	if (!mine)
		return NULL;
	symbol = mine == handle ? s->dlsym(mine, "nvmlInternalGetExportTable") : NULL;
	s->dlclose(mine);
	if (!symbol)
		return NULL;
	memcpy(&ask, &symbol, sizeof ask);
	if (ask((const void **)&table, LINK_ID) != NVML_SUCCESS || !table ||
		table->size != sizeof *table)
		return NULL;
	return table;
}

static void *interpose_nvml_symbol(void *handle, const char *name)
{
	const struct system *s = system_get();
	const struct link_nvml_table *table = interpose_nvml_table(handle);

	if (!table || s->dlsym(handle, name))
		return NULL;
	return table->symbol(name);
}

/* Returns the symbol, or NULL if the real dlsym must answer. */
void *interpose_symbol(void *handle, const char *name)
{
	void *found = NULL;
	int saved;

	/* skips RTLD_DEFAULT and RTLD_NEXT, and names that are not the driver's */
	if (!handle || handle == RTLD_NEXT || !name ||
		!(plain_after(name, "cu") || plain_after(name, "nvml")))
		return NULL;
	saved = errno;
	found = name[0] == 'c' ? interpose_cuda_symbol(handle, name)
			       : interpose_nvml_symbol(handle, name);
	errno = saved;
	return found;
}

static void *interpose_nothing(void)
{
	return NULL;
}

void *interpose_dlopen(void)
{
	const struct system *s = system_get();

	return s->dlopen ? (void *)s->dlopen : (void *)interpose_nothing;
}

void *interpose_dlsym(void)
{
	const struct system *s = system_get();

	return s->dlsym ? (void *)s->dlsym : (void *)interpose_nothing;
}

/*
 * Symbol versions for older and newer programs: the versions that glibc gives these names on this
 * architecture (2.2.5 and 2.34 on x86-64). Objects without versions match either.
 */
#if defined(__x86_64__)
/* clang-format off */
__asm__(
	".pushsection .text\n"
	".type hook_dlopen,@function\n"
	"hook_dlopen:\n"
	"	pushq %rsi\n	subq $16, %rsp\n"
	"	call interpose_name\n"
	"	movq %rax, (%rsp)\n"
	"	call interpose_dlopen\n"
	"	movq %rax, %r11\n	movq (%rsp), %rdi\n"
	"	addq $16, %rsp\n	popq %rsi\n"
	"	jmp *%r11\n"
	".size hook_dlopen,.-hook_dlopen\n"
	".type hook_dlsym,@function\n"
	"hook_dlsym:\n"
	"	pushq %rdi\n	pushq %rsi\n	subq $8, %rsp\n"
	"	call interpose_symbol\n"
	"	testq %rax, %rax\n	jne 1f\n"
	"	call interpose_dlsym\n"
	"	movq %rax, %r11\n"
	"	addq $8, %rsp\n	popq %rsi\n	popq %rdi\n"
	"	jmp *%r11\n"
	"1:	addq $24, %rsp\n	ret\n"
	".size hook_dlsym,.-hook_dlsym\n"
	".globl dlopen_old, dlopen_new, dlsym_old, dlsym_new\n"
	".set dlopen_old, hook_dlopen\n.set dlopen_new, hook_dlopen\n"
	".set dlsym_old, hook_dlsym\n.set dlsym_new, hook_dlsym\n"
	".symver dlopen_old, dlopen@GLIBC_2.2.5, remove\n"
	".symver dlopen_new, dlopen@@GLIBC_2.34, remove\n"
	".symver dlsym_old, dlsym@GLIBC_2.2.5, remove\n"
	".symver dlsym_new, dlsym@@GLIBC_2.34, remove\n"
	".popsection\n");
/* clang-format on */
#elif defined(__aarch64__)
/* clang-format off */
__asm__(
	".pushsection .text\n"
	".type hook_dlopen,%function\n"
	"hook_dlopen:\n"
	"	stp x29, x30, [sp, #-32]!\n	mov x29, sp\n	str x1, [sp, #16]\n"
	"	bl interpose_name\n"
	"	str x0, [sp, #24]\n"
	"	bl interpose_dlopen\n"
	"	mov x16, x0\n	ldr x0, [sp, #24]\n	ldr x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n	br x16\n"
	".size hook_dlopen,.-hook_dlopen\n"
	".type hook_dlsym,%function\n"
	"hook_dlsym:\n"
	"	stp x29, x30, [sp, #-32]!\n	mov x29, sp\n	stp x0, x1, [sp, #16]\n"
	"	bl interpose_symbol\n"
	"	cbnz x0, 1f\n"
	"	bl interpose_dlsym\n"
	"	mov x16, x0\n	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n	br x16\n"
	"1:	ldp x29, x30, [sp], #32\n	ret\n"
	".size hook_dlsym,.-hook_dlsym\n"
	".globl dlopen_old, dlopen_new, dlsym_old, dlsym_new\n"
	".set dlopen_old, hook_dlopen\n.set dlopen_new, hook_dlopen\n"
	".set dlsym_old, hook_dlsym\n.set dlsym_new, hook_dlsym\n"
	".symver dlopen_old, dlopen@GLIBC_2.17, remove\n"
	".symver dlopen_new, dlopen@@GLIBC_2.34, remove\n"
	".symver dlsym_old, dlsym@GLIBC_2.17, remove\n"
	".symver dlsym_new, dlsym@@GLIBC_2.34, remove\n"
	".popsection\n");
/* clang-format on */
#endif
