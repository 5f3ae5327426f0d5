/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that compilers call without a body: vprintf, __assertfail, malloc and free. Formats
 * follow C; values are in the buffer that the compiler has filled, each aligned to its size. Any
 * thread.
 */
#include "ptx/ptx-internal.h"

#include <ctype.h>
#include <stdio.h>

#include "base/cleanup.h"

/* The C library works, and takes memory, for each digit of a number that it formats. */
enum { TEXT_MAX = 4096, STRING_MAX = 1024, WIDTH_MAX = 999 };

struct printer {
	struct warp *w;
	const struct insn *in;
	uint32_t lane;
	uint64_t values; /* generic address of the next value */
	char text[TEXT_MAX];
	size_t n;
};

static void printer_add(struct printer *p, const char *text, size_t n)
{
	size_t room = sizeof(p->text) - p->n;

	n = n < room ? n : room;
	memcpy(p->text + p->n, text, n);
	p->n += n;
}

static uint64_t printer_value(struct printer *p, uint32_t bytes)
{
	uint64_t v = 0;
	bool is_host;
	const void *from;

	p->values = (p->values + bytes - 1) & ~(uint64_t)(bytes - 1);
	from = access_lane(p->w, p->in, p->lane, SP_GENERIC, p->values, bytes, false, &is_host);
	if (from)
		memcpy(&v, from, bytes);
	p->values += bytes;
	return v;
}

/* One conversion, without its "*" and length. */
static void printer_convert(struct printer *p, const char *spec, char conversion, bool is_long)
{
	char format[48], out[STRING_MAX + 64], string[STRING_MAX];
	int n = 0;
	uint64_t v;
	double d;

	switch (conversion) {
	case 'd':
	case 'i':
		v = printer_value(p, is_long ? 8 : 4);
		snprintf(format, sizeof(format), "%slld", spec);
		n = snprintf(
			out, sizeof(out), format, is_long ? (long long)v : (long long)(int32_t)v);
		break;
	case 'u':
	case 'x':
	case 'X':
	case 'o':
		v = printer_value(p, is_long ? 8 : 4);
		snprintf(format, sizeof(format), "%sll%c", spec, conversion);
		n = snprintf(out, sizeof(out), format, (unsigned long long)v);
		break;
	case 'c':
		v = printer_value(p, 4);
		snprintf(format, sizeof(format), "%sc", spec);
		n = snprintf(out, sizeof(out), format, (int)v);
		break;
	case 'p':
		v = printer_value(p, 8);
		n = snprintf(out, sizeof(out), "0x%llx", (unsigned long long)v);
		break;
	case 's':
		v = printer_value(p, 8);
		snprintf(format, sizeof(format), "%ss", spec);
		if (!access_text(p->w, p->in, p->lane, v, string, sizeof(string)))
			return;
		n = snprintf(out, sizeof(out), format, string);
		break;
	default:
		v = printer_value(p, 8);
		memcpy(&d, &v, sizeof(d));
		snprintf(format, sizeof(format), "%s%c", spec, conversion);
		n = snprintf(out, sizeof(out), format, d);
		break;
	}
	if (n > 0)
		printer_add(p, out, (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1);
}

/* Takes flags, width and precision of a conversion into spec. Returns where its length begins. */
static const char *printer_spec(struct printer *p, const char *f, char *spec, size_t size)
{
	size_t n = 0;
	bool has_number = false; /* nothing but "." may follow */

	spec[n++] = '%';
	for (; *f && (strchr("-+ #0.", *f) || isdigit((unsigned char)*f) || *f == '*'); f++) {
		bool is_number = *f == '*' || (*f >= '1' && *f <= '9');
		int32_t v = *f - '0';

		if (*f == '*')
			v = (int32_t)printer_value(p, 4) % (WIDTH_MAX + 1);
		else if (is_number)
			for (; isdigit((unsigned char)f[1]); f++)
				v = MIN(v * 10 + (f[1] - '0'), WIDTH_MAX);
		if (n + 12 >= size || (has_number && *f != '.'))
			continue;
		has_number = is_number;
		if (is_number)
			n += (size_t)snprintf(spec + n, size - n, "%d", v);
		else
			spec[n++] = *f;
	}
	spec[n] = '\0';
	return f;
}

static void printer_format(struct printer *p, const char *f)
{
	char spec[40];

	while (*f && p->n < sizeof(p->text)) {
		bool is_long = false;

		if (*f != '%') {
			printer_add(p, f++, 1);
			continue;
		}
		if (f[1] == '%') {
			printer_add(p, f, 1);
			f += 2;
			continue;
		}
		f = printer_spec(p, f + 1, spec, sizeof(spec));
		for (; *f && strchr("hlLqjzt", *f); f++)
			is_long |= *f != 'h';
		if (*f == '\0' || !strchr("diuxXocpsfFeEgGaA", *f))
			return;
		printer_convert(p, spec, *f++, is_long);
	}
}

/* The value of an argument of the call, for one lane. */
static uint64_t print_argument(
	struct warp *w, const struct insn *in, uint32_t k, uint32_t lane, uint32_t bytes)
{
	const struct param *a = &in->x->call->args[k];
	uint64_t v = 0;

	if (k >= in->x->call->n_args)
		return 0;
	if (a->reg != OPERAND_NONE)
		memcpy(&v, REG(w, a->reg) + lane * a->reg_bytes,
			bytes < a->reg_bytes ? bytes : a->reg_bytes);
	else
		memcpy(&v, w->local + lane * w->local_stride + w->frame->local_base + a->offset,
			bytes < a->bytes ? bytes : a->bytes);
	return v;
}

static void print_assert(struct warp *w, const struct insn *in, uint32_t lane)
{
	const struct ptx_device *device = w->worker->job->device;
	char message[STRING_MAX], file[STRING_MAX], function[STRING_MAX], text[TEXT_MAX];
	uint64_t line = print_argument(w, in, 2, lane, 4);
	int n;

	if (!access_text(
		    w, in, lane, print_argument(w, in, 0, lane, 8), message, sizeof(message)) ||
		!access_text(w, in, lane, print_argument(w, in, 1, lane, 8), file, sizeof(file)) ||
		!access_text(
			w, in, lane, print_argument(w, in, 3, lane, 8), function, sizeof(function)))
		return;
	n = snprintf(text, sizeof(text),
		"%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
		(unsigned)line, function, w->block->id[0], w->block->id[1], w->block->id[2],
		w->tid[0][lane], w->tid[1][lane], w->tid[2][lane], message);
	if (n > 0 && device->print)
		device->print(device->user, text,
			(size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static void print_format(struct warp *w, const struct insn *in, uint32_t lane)
{
	const struct ptx_device *device = w->worker->job->device;
	struct printer p = {.w = w, .in = in, .lane = lane};
	char format[TEXT_MAX];

	if (!access_text(w, in, lane, print_argument(w, in, 0, lane, 8), format, sizeof(format)))
		return;
	p.values = print_argument(w, in, 1, lane, 8);
	printer_format(&p, format);
	if (device->print)
		device->print(device->user, p.text, p.n);
}

/* Stores the result of a call, for one lane. */
static void print_result(
	struct warp *w, const struct insn *in, uint32_t lane, const void *value, uint32_t bytes)
{
	const struct param *r = in->x->call->rets;

	if (in->x->call->n_rets != 1)
		return;
	if (r->reg != OPERAND_NONE)
		memcpy(REG(w, r->reg) + lane * r->reg_bytes, value,
			bytes < r->reg_bytes ? bytes : r->reg_bytes);
	else
		memcpy(w->local + lane * w->local_stride + w->frame->local_base + r->offset, value,
			bytes < r->bytes ? bytes : r->bytes);
}

static void heap_call(struct warp *w, const struct insn *in, uint32_t lane, enum builtin builtin)
{
	const struct ptx_device *device = w->worker->job->device;
	uint64_t v = print_argument(w, in, 0, lane, 8);

	w->worker->until_pause -= STEPS_HOST;
	if (builtin == BUILTIN_MALLOC) {
		v = v && device->heap_take ? device->heap_take(device->user, v) : 0;
		print_result(w, in, lane, &v, sizeof(v));
	} else if (v && (!device->heap_give || !device->heap_give(device->user, v))) {
		warp_fault(w, in, PTX_ILLEGAL_ADDRESS, v);
	}
}

void print_call(struct warp *w, const struct insn *in, uint32_t mask, enum builtin builtin)
{
	const struct call_shape *call = in->x->call;

	FOR_LANES(i, mask)
	{
		if (builtin == BUILTIN_MALLOC || builtin == BUILTIN_FREE) {
			heap_call(w, in, i, builtin);
			continue;
		}
		if (builtin == BUILTIN_ASSERT) {
			print_assert(w, in, i);
			warp_fault(w, in, PTX_ASSERT, 0);
			return;
		}
		w->worker->until_pause -= STEPS_PRINT;
		print_format(w, in, i);
		if (call->n_rets == 1 && call->rets[0].reg == OPERAND_NONE)
			memset(w->local + i * w->local_stride + w->frame->local_base +
					call->rets[0].offset,
				0, call->rets[0].bytes);
	}
}
