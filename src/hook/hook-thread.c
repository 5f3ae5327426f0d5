/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's line in the shared pages: the thread takes a line at its first submission and gives it
 * back when it ends. A thread has the same line on all devices of the process. The 128th thread and
 * all later threads share the last line. They change its counters atomically and always take the
 * slow path.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/hook.h"

/*
 * libc runs fn(arg) at the thread's end, and keeps the library of `dso` loaded until then. glibc
 * has this function since 2.18. In musl, which lacks it, threads keep their lines.
 */
extern int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *dso) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void line_claim(struct hook *h, uint32_t index, uint32_t tid)
{
	for (uint32_t i = 0; i < h->devices; i++) {
		struct page_up *up = h->device[i].up;
		uint32_t lines = atomic_load_explicit(&up->lines, memory_order_relaxed);

		atomic_store_explicit(&up->line[index].tid, tid, memory_order_relaxed);
		/*
		 * The daemon scans the lines below `lines`: it must see this line before the first
		 * submission.
		 */
		while (lines <= index &&
			!atomic_compare_exchange_weak(&up->lines, &lines, index + 1))
			;
	}
}

static void line_release(void *arg)
{
	struct thread *t = &hook_thread;
	struct hook *h = hook_registered();

	if (h && t->index && t->index < THREAD_SHARED && t->pid == h->pid) {
		uint32_t i = t->index - 1;

		line_claim(h, i, 0);
		atomic_fetch_and(&h->lines[i / 64], ~(UINT64_C(1) << i % 64));
	}
	t->index = 0;
	t->last = &hook_no_stream;
	t->device = THREAD_NO_DEVICE;
	t->registered_exit = 0;
}

static uint32_t line_take(struct hook *h)
{
	for (uint32_t w = 0; w < PAGE_LINES / 64; w++) {
		uint64_t used = atomic_load(&h->lines[w]);

		/* the last line is for threads that find no other line */
		while (used != UINT64_MAX) {
			uint32_t bit = (uint32_t)__builtin_ctzll(~used);

			if (w * 64 + bit == PAGE_LINES - 1)
				break;
			if (atomic_compare_exchange_weak(
				    &h->lines[w], &used, used | UINT64_C(1) << bit))
				return w * 64 + bit + 1;
		}
	}
	return THREAD_SHARED;
}

struct thread *thread_get(void)
{
	struct thread *t = &hook_thread;
	struct hook *h = hook_registered();
	uint32_t at_exit;

	if (!h)
		return NULL;
	if (likely(t->index && t->pid == h->pid))
		return t;
	at_exit = t->registered_exit;
	*t = (struct thread){.last = &hook_no_stream, .device = THREAD_NO_DEVICE, .pid = h->pid};
	t->index = line_take(h);
	line_claim(h, t->index - 1, (uint32_t)syscall(SYS_gettid));
	if (!at_exit && __cxa_thread_atexit_impl)
		__cxa_thread_atexit_impl(line_release, NULL, &__dso_handle);
	t->registered_exit = 1;
	return t;
}

void thread_use(struct thread *t, struct device *d)
{
	uint32_t every, left;

	if (t->device == d)
		return;
	/*
	 * Stores the thread's countdown for the old device, because a thread may alternate between
	 * devices at each call.
	 */
	if (t->device != THREAD_NO_DEVICE)
		t->device->countdown[t->index - 1] = t->countdown;
	every = atomic_load_explicit(&d->every, memory_order_relaxed);
	left = d->countdown[t->index - 1];
	t->device = d;
	t->line = &d->up->line[t->index - 1];
	t->gate = (const _Atomic uint32_t *)&d->down->gate;
	t->countdown = left && left < every ? left : every;
}

void thread_forget_context(void)
{
	struct thread *t = &hook_thread;

	t->context = NULL;
	t->last = &hook_no_stream;
}
