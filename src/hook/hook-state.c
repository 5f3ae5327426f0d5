/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the process's state, and writes the library's only messages to the program's user. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"
#include "hook/hook.h"
#include "wire/diagnostic.h"

/* linux/mman.h has this constant since Linux 4.14; older headers lack it. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct hook *_Atomic hook_state;

struct stream hook_no_stream = {
	.handle = ~(uintptr_t)0,
	.device = (struct device *)~(uintptr_t)63,
};

__thread struct thread hook_thread __attribute__((tls_model("initial-exec"))) = {
	.last = &hook_no_stream,
	.device = THREAD_NO_DEVICE,
};

void *hook_map(size_t n)
{
	int saved = errno;
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		p = NULL;
	else
		madvise(p, n, MADV_WIPEONFORK);
	errno = saved;
	return p;
}

struct hook *hook_get(void)
{
	struct hook *none = NULL, *h = atomic_load_explicit(&hook_state, memory_order_acquire);

	if (h)
		return h;
	h = hook_map(sizeof *h);
	if (!h)
		return NULL;
	if (!atomic_compare_exchange_strong(&hook_state, &none, h)) {
		munmap(h, sizeof *h);
		h = none;
	}
	return h;
}

static _Atomic(diagnostic_listener *) listening;

diagnostic_listen divvy_words_listen __attribute__((visibility("default")));
void divvy_words_listen(diagnostic_listener *listener)
{
	atomic_store(&listening, listener);
}

__attribute__((format(printf, 2, 0))) static void hook_print_message(
	enum diagnostic_kind kind, const char *format, va_list ap)
{
	static const char prefix[] = "divvy: ";
	const char *before = kind == DIAGNOSTIC_NO_GPU ? DIAGNOSTIC_NO_GPU_TEXT : "";
	diagnostic_listener *listener = atomic_load(&listening);
	const size_t at = sizeof prefix - 1 + strlen(before);
	char line[400];
	int saved = errno;
	size_t n;
	NOT_CANCELLED;

	memcpy(line, prefix, sizeof prefix - 1);
	memcpy(line + sizeof prefix - 1, before, strlen(before));
	vsnprintf(line + at, sizeof line - at - 1, format, ap);
	n = at + strlen(line + at);
	line[n] = '\n';
	if (write(STDERR_FILENO, line, n + 1) < 0)
		errno = saved; /* without a reader of stderr the message is lost */
	line[n] = '\0';
	if (listener)
		listener(line + at, kind);
	errno = saved;
}

void hook_complain(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	hook_print_message(DIAGNOSTIC_NOTE, format, ap);
	va_end(ap);
}

void hook_complain_no_gpu(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	hook_print_message(DIAGNOSTIC_NO_GPU, format, ap);
	va_end(ap);
}

void hook_complain_at_end(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	hook_print_message(DIAGNOSTIC_END, format, ap);
	va_end(ap);
}
