/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads PTX text at module level: .version, .target, .address_size, kernels with their
 * parameters, and variables with their initial values. The reader skips bodies except for balanced
 * braces, declarations in .shared and .local space, and the names of variables and functions. The
 * reader refuses any other text and never guesses.
 *
 * The layout of parameters follows the PTX ISA. Each parameter starts at the next multiple of its
 * alignment, which is its type's size unless .align sets another. Pure code, any thread.
 */
#include "simgpu/cu-devrt.h"
#include "simgpu/cu-footprint.h"
#include "simgpu/cu-image.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_PUNCT, TOKEN_BAD };

struct token {
	enum token_kind kind;
	const char *p;
	size_t n;
};

struct reader {
	const char *start, *p, *end;
	struct token token;
	struct image *image;
	struct image_log *log;
	struct footprints *footprints;
	unsigned address_size;
	char suffix; /* of .target: 'a' in sm_90a */
	uint32_t target_line;
	bool failed;
	/* Bits of cu_devrt[]: a function of the text is declared, or has a body in the module. */
	unsigned needs_devrt, has_devrt;
};

static bool is_word(int c)
{
	return isalnum(c) || c == '_' || c == '$' || c == '.' || c == '%' || c == '@';
}

static uint32_t ptx_line(const struct reader *r)
{
	uint32_t line = 1;

	for (const char *p = r->start; p < r->token.p; p++)
		line += *p == '\n';
	return line;
}

/* Only the first failure is logged: the others follow from it. */
static void ptx_fail(struct reader *r)
{
	const struct token *t = &r->token;

	if (!r->failed && t->kind == TOKEN_END)
		image_log_set(r->log, ptx_line(r), "the text ends too early");
	else if (!r->failed && t->kind == TOKEN_BAD)
		image_log_set(r->log, ptx_line(r), "unreadable text");
	else if (!r->failed)
		image_log_set(r->log, ptx_line(r), "'%.*s' is not expected here",
			(int)(t->n < 60 ? t->n : 60), t->p);
	r->failed = true;
}

static void skip_blank(struct reader *r)
{
	while (r->p < r->end) {
		if (isspace((unsigned char)*r->p)) {
			r->p++;
		} else if (r->end - r->p >= 2 && r->p[0] == '/' && r->p[1] == '/') {
			while (r->p < r->end && *r->p != '\n')
				r->p++;
		} else if (r->end - r->p >= 2 && r->p[0] == '/' && r->p[1] == '*') {
			r->p += 2;
			while (r->end - r->p >= 2 && !(r->p[0] == '*' && r->p[1] == '/'))
				r->p++;
			r->p = r->end - r->p >= 2 ? r->p + 2 : r->end;
		} else {
			return;
		}
	}
}

static void ptx_next_token(struct reader *r)
{
	const char *start;
	unsigned char c;

	skip_blank(r);
	start = r->p;
	if (r->p == r->end) {
		r->token = (struct token){TOKEN_END, start, 0};
		return;
	}
	c = (unsigned char)*r->p++;
	if (c == '"') {
		while (r->p < r->end && *r->p != '"' && *r->p != '\n')
			r->p++;
		r->token = (struct token){TOKEN_STRING, start + 1, (size_t)(r->p - start - 1)};
		if (r->p == r->end || *r->p != '"')
			r->token.kind = TOKEN_BAD;
		else
			r->p++;
		return;
	}
	if (is_word(c)) {
		while (r->p < r->end && is_word((unsigned char)*r->p))
			r->p++;
		r->token = (struct token){
			isdigit(c) ? TOKEN_NUMBER : TOKEN_WORD, start, (size_t)(r->p - start)};
		return;
	}
	r->token = (struct token){c >= 0x80 || c < 0x20 ? TOKEN_BAD : TOKEN_PUNCT, start, 1};
}

static bool ptx_is_token(const struct reader *r, const char *text)
{
	return r->token.kind != TOKEN_END && r->token.n == strlen(text) &&
		memcmp(r->token.p, text, r->token.n) == 0 && r->token.kind != TOKEN_STRING;
}

static bool ptx_accept(struct reader *r, const char *text)
{
	if (!ptx_is_token(r, text))
		return false;
	ptx_next_token(r);
	return true;
}

static void ptx_expect(struct reader *r, const char *text)
{
	if (!ptx_accept(r, text))
		ptx_fail(r);
}

/* Integers in PTX: decimal, 0x, 0 octal, 0b, with an optional U suffix. */
static uint64_t take_number(struct reader *r)
{
	char text[72];
	char *end;
	uint64_t value;
	bool negative = ptx_accept(r, "-");

	if (r->token.kind != TOKEN_NUMBER || r->token.n >= sizeof(text)) {
		ptx_fail(r);
		return 0;
	}
	memcpy(text, r->token.p, r->token.n);
	text[r->token.n] = '\0';
	if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B'))
		value = strtoull(text + 2, &end, 2);
	else
		value = strtoull(text, &end, 0);
	if (*end == 'U')
		end++;
	if (*end != '\0')
		ptx_fail(r);
	ptx_next_token(r);
	return negative ? (uint64_t)0 - value : value;
}

/* Returns the bytes of a fundamental type such as ".u32", or 0 for any other token. */
static unsigned type_size(const struct token *t)
{
	static const struct {
		const char *name;
		unsigned size;
	} types[] = {
		{".b8", 1},
		{".u8", 1},
		{".s8", 1},
		{".pred", 1},
		{".b16", 2},
		{".u16", 2},
		{".s16", 2},
		{".f16", 2},
		{".bf16", 2},
		{".b32", 4},
		{".u32", 4},
		{".s32", 4},
		{".f32", 4},
		{".f16x2", 4},
		{".b64", 8},
		{".u64", 8},
		{".s64", 8},
		{".f64", 8},
		{".b128", 16},
		{".texref", 8},
		{".samplerref", 8},
		{".surfref", 8},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (t->n == strlen(types[i].name) && memcmp(t->p, types[i].name, t->n) == 0)
			return types[i].size;
	return 0;
}

enum { DIMENSIONS_MAX = 8 };

struct declaration {
	unsigned element; /* bytes of the type */
	unsigned align;
	uint64_t count; /* elements; 0 for an unsized array */
	bool is_float;
	bool is_managed;
	uint64_t dims[DIMENSIONS_MAX];
	unsigned n_dims;
	struct token name;
};

static void skip_parentheses(struct reader *r)
{
	while (!ptx_is_token(r, ")") && r->token.kind != TOKEN_END)
		ptx_next_token(r);
	ptx_expect(r, ")");
}

/* Reads the part before the name. The alignment after .ptr belongs to the pointer's target. */
static void take_type(struct reader *r, struct declaration *d, unsigned *ret_vector)
{
	bool pointer = false;

	while (!r->failed && r->token.kind == TOKEN_WORD && r->token.p[0] == '.') {
		unsigned size = type_size(&r->token);

		if (ptx_accept(r, ".align")) {
			unsigned align = (unsigned)take_number(r);

			if (align == 0 || (align & (align - 1)) != 0)
				ptx_fail(r);
			if (!pointer)
				d->align = align;
			continue;
		}
		pointer = pointer || ptx_is_token(r, ".ptr");
		if (ptx_is_token(r, ".v2"))
			*ret_vector = 2;
		else if (ptx_is_token(r, ".v4"))
			*ret_vector = 4;
		else if (size != 0) {
			d->element = size;
			d->is_float = r->token.p[1] == 'f';
		}
		/* State spaces, .attribute and similar words do not change the layout. */
		ptx_next_token(r);
		if (ptx_is_token(r, "(")) {
			while (!ptx_is_token(r, ")") && r->token.kind != TOKEN_END) {
				d->is_managed = d->is_managed || ptx_is_token(r, ".managed");
				ptx_next_token(r);
			}
			ptx_expect(r, ")");
		}
	}
	if (d->align == 0)
		d->align = d->element * *ret_vector;
}

/*
 * Reads a declaration such as ".align 8 .v2 .b8 name[16][2]", from the word after the state space
 * up to "=", "," or ";". After a comma the type may be missing; then the type of @last applies.
 */
static void take_declaration(
	struct reader *r, const struct declaration *last, struct declaration *ret)
{
	unsigned vector = 1;

	*ret = (struct declaration){.count = 1};
	take_type(r, ret, &vector);
	if (last && ret->element == 0) {
		ret->element = last->element;
		ret->align = last->align;
		ret->is_float = last->is_float;
		ret->is_managed = last->is_managed;
	}
	if (r->token.kind != TOKEN_WORD || ret->element == 0) {
		ptx_fail(r);
		return;
	}
	ret->name = r->token;
	ptx_next_token(r);
	while (ptx_accept(r, "[")) {
		uint64_t n = ptx_is_token(r, "]") ? 0 : take_number(r);

		ptx_expect(r, "]");
		if (ret->n_dims == DIMENSIONS_MAX ||
			(n != 0 && ret->count > ((uint64_t)1 << 40) / n)) {
			ptx_fail(r);
			return;
		}
		ret->dims[ret->n_dims++] = n;
		ret->count *= n;
	}
	ret->count *= vector;
}

static void take_params(struct reader *r, size_t kernel)
{
	uint32_t offset = 0;

	if (ptx_accept(r, ")"))
		return;
	do {
		struct declaration d;

		ptx_expect(r, ".param");
		take_declaration(r, NULL, &d);
		if (r->failed || d.count * d.element > IMAGE_PARAM_BYTES_MAX) {
			ptx_fail(r);
			return;
		}
		offset = (offset + d.align - 1) & ~(uint32_t)(d.align - 1);
		if (image_add_param(&r->image->kernels[kernel], offset,
			    (uint32_t)(d.count * d.element)) < 0) {
			ptx_fail(r);
			return;
		}
		offset += (uint32_t)(d.count * d.element);
	} while (ptx_accept(r, ","));
	ptx_expect(r, ")");
}

/* Reads a declaration of a body. */
static void take_local(struct reader *r, bool is_shared)
{
	struct declaration d;

	ptx_next_token(r);
	take_declaration(r, NULL, &d);
	(is_shared ? footprints_declare_shared : footprints_declare_local)(
		r->footprints, d.count * d.element, d.align);
}

/* Skips a body or a section, from its first brace on. */
static void skip_body(struct reader *r)
{
	unsigned depth = 0;

	do {
		const struct token t = r->token;

		if (t.kind == TOKEN_END || t.kind == TOKEN_BAD) {
			ptx_fail(r);
			return;
		}
		if (ptx_is_token(r, ".shared") || ptx_is_token(r, ".local")) {
			take_local(r, t.n == strlen(".shared"));
			continue;
		}
		if (ptx_is_token(r, "{"))
			depth++;
		else if (ptx_is_token(r, "}"))
			depth--;
		else if (t.kind == TOKEN_WORD && footprints_mention(r->footprints, t.p, t.n) < 0)
			ptx_fail(r);
		ptx_next_token(r);
	} while (depth != 0 && !r->failed);
}

/* Reads the body of a function or kernel with this name. */
static void take_body(struct reader *r, const struct token *name)
{
	if (footprints_begin_function(r->footprints, name->p, name->n) < 0)
		ptx_fail(r);
	else
		skip_body(r);
	footprints_end_function(r->footprints);
}

static uint32_t take_threads(struct reader *r)
{
	uint64_t threads = take_number(r);

	while (ptx_accept(r, ","))
		threads *= take_number(r);
	return threads > 1024 ? 1024 : (uint32_t)threads;
}

static void take_entry(struct reader *r)
{
	const struct token name = r->token;
	struct image_kernel *kernel;
	size_t index;

	if (r->token.kind != TOKEN_WORD) {
		ptx_fail(r);
		return;
	}
	kernel = image_add_kernel(r->image, r->token.p, r->token.n);
	if (!kernel) {
		ptx_fail(r);
		return;
	}
	index = r->image->n_kernels - 1;
	ptx_next_token(r);
	if (ptx_accept(r, "("))
		take_params(r, index);
	while (!r->failed && !ptx_is_token(r, "{") && !ptx_is_token(r, ";")) {
		if (ptx_accept(r, ".maxntid") || ptx_accept(r, ".reqntid"))
			kernel->max_threads = take_threads(r);
		else if (r->token.kind == TOKEN_END)
			ptx_fail(r);
		else
			ptx_next_token(r);
	}
	if (!r->failed && !ptx_accept(r, ";"))
		take_body(r, &name);
}

/* The bit of the text in cu_devrt[] that has the function of this name; 0: none. */
static unsigned devrt_of(const struct reader *r)
{
	for (unsigned i = 0; i < CU_DEVRT_TEXTS; i++)
		for (size_t j = 0; j < ARRAY_SIZE(cu_devrt[i].functions); j++)
			if (ptx_is_token(r, cu_devrt[i].functions[j]))
				return 1u << i;
	return 0;
}

/* A function's result precedes its name, in parentheses. */
static void take_function(struct reader *r)
{
	struct token name;
	unsigned devrt;

	if (ptx_is_token(r, "("))
		skip_parentheses(r);
	name = r->token;
	devrt = devrt_of(r);
	while (!r->failed && !ptx_is_token(r, "{") && !ptx_is_token(r, ";")) {
		if (r->token.kind == TOKEN_END)
			ptx_fail(r);
		ptx_next_token(r);
	}
	if (r->failed)
		return;
	if (ptx_accept(r, ";")) {
		r->needs_devrt |= devrt;
		return;
	}
	r->has_devrt |= devrt;
	take_body(r, &name);
}

/* One initial value: an integer, 0f/0d hexadecimal or decimal float, or a symbol (as zero). */
static void take_value(struct reader *r, const struct declaration *d, uint8_t *to)
{
	uint64_t bits = 0;
	bool negative = ptx_accept(r, "-");
	const struct token t = r->token;

	if (t.kind == TOKEN_WORD) {
		/*
		 * Addresses of other symbols read as zero, because the simulator never follows
		 * them.
		 */
		ptx_next_token(r);
		if (ptx_accept(r, "(")) {
			ptx_next_token(r);
			ptx_expect(r, ")");
		}
		if (ptx_accept(r, "+"))
			take_number(r);
		return;
	}
	if (t.kind == TOKEN_NUMBER && t.n > 2 && t.p[0] == '0' && strchr("fFdD", t.p[1])) {
		char text[24] = {0};

		memcpy(text, t.p + 2, t.n - 2 < sizeof(text) - 1 ? t.n - 2 : sizeof(text) - 1);
		bits = strtoull(text, NULL, 16);
		ptx_next_token(r);
	} else if (d->is_float && t.kind == TOKEN_NUMBER) {
		char text[48] = {0};
		double value;

		memcpy(text, t.p, t.n < sizeof(text) - 1 ? t.n : sizeof(text) - 1);
		value = strtod(text, NULL) * (negative ? -1 : 1);
		if (d->element == 4) {
			float single = (float)value;

			memcpy(&bits, &single, sizeof(single));
		} else {
			memcpy(&bits, &value, sizeof(value));
		}
		ptx_next_token(r);
	} else {
		bits = take_number(r);
		if (negative)
			bits = (uint64_t)0 - bits;
	}
	if (to)
		memcpy(to, &bits, d->element < sizeof(bits) ? d->element : sizeof(bits));
}

/* Returns the number of elements of a list at this depth; the outermost list has depth 0. */
static uint64_t list_elements(const struct declaration *d, unsigned depth)
{
	uint64_t n = d->count;

	for (unsigned i = 0; i < depth && i < d->n_dims; i++)
		n = d->dims[i] ? n / d->dims[i] : 0;
	return depth < d->n_dims ? n : 1;
}

/* A list may have too few values; the rest is zero, as in C. */
static void take_values(struct reader *r, const struct declaration *d, struct image_global *global)
{
	uint64_t start[DIMENSIONS_MAX], i = 0;
	unsigned depth = 0;

	global->init = global->size ? calloc(1, global->size) : NULL;
	if (!global->init) {
		ptx_fail(r);
		return;
	}
	do {
		if (ptx_accept(r, "{")) {
			if (depth == DIMENSIONS_MAX) {
				ptx_fail(r);
				return;
			}
			start[depth++] = i;
		} else if (depth != 0 && ptx_accept(r, "}")) {
			depth--;
			if (i - start[depth] > list_elements(d, depth))
				ptx_fail(r);
			i = start[depth] + list_elements(d, depth);
			if (depth != 0)
				ptx_accept(r, ",");
		} else if (i >= d->count) {
			ptx_fail(r);
		} else {
			take_value(r, d, global->init + i++ * d->element);
			if (depth != 0)
				ptx_accept(r, ",");
		}
	} while (depth != 0 && !r->failed);
}

static void take_variable(struct reader *r, bool is_const, bool is_extern)
{
	struct declaration d, last;
	bool first = true;

	do {
		struct image_global *global;

		take_declaration(r, first ? NULL : &last, &d);
		last = d;
		first = false;
		if (r->failed)
			return;
		if (is_extern)
			continue;
		global = image_add_global(r->image, d.name.p, d.name.n);
		if (!global) {
			ptx_fail(r);
			return;
		}
		global->size = d.count * d.element;
		global->align = d.align;
		global->is_const = is_const;
		global->is_managed = d.is_managed;
		if (ptx_accept(r, "="))
			take_values(r, &d, global);
	} while (!r->failed && ptx_accept(r, ","));
	ptx_expect(r, ";");
}

/* Shared variables of the module. An external one without a size is the dynamic shared memory. */
static void take_shared(struct reader *r)
{
	struct declaration d, last;
	bool first = true;

	do {
		take_declaration(r, first ? NULL : &last, &d);
		last = d;
		first = false;
		if (!r->failed &&
			footprints_add_variable(
				r->footprints, d.name.p, d.name.n, d.count * d.element) < 0)
			ptx_fail(r);
	} while (!r->failed && ptx_accept(r, ","));
	ptx_expect(r, ";");
}

static void take_version(struct reader *r)
{
	const struct token t = r->token;
	unsigned major = 0, minor = 0;
	size_t i = 0;

	if (t.kind != TOKEN_NUMBER) {
		ptx_fail(r);
		return;
	}
	for (; i < t.n && isdigit((unsigned char)t.p[i]); i++)
		major = major * 10 + (unsigned)(t.p[i] - '0');
	if (i == t.n || t.p[i++] != '.')
		ptx_fail(r);
	for (; i < t.n && isdigit((unsigned char)t.p[i]); i++)
		minor = minor * 10 + (unsigned)(t.p[i] - '0');
	r->image->ptx_version = major * 10 + minor;
	ptx_next_token(r);
}

static void take_target(struct reader *r)
{
	unsigned sm = 0;
	size_t i;

	if (r->token.kind != TOKEN_WORD || r->token.n < 4 || memcmp(r->token.p, "sm_", 3) != 0) {
		ptx_fail(r);
		return;
	}
	for (i = 3; i < r->token.n && isdigit((unsigned char)r->token.p[i]); i++)
		sm = sm * 10 + (unsigned)(r->token.p[i] - '0');
	if (i == 3 || r->token.n - i > 1) {
		ptx_fail(r);
		return;
	}
	r->image->target_sm = sm;
	r->suffix = i < r->token.n ? r->token.p[i] : '\0';
	r->target_line = ptx_line(r);
	ptx_next_token(r);
	while (ptx_accept(r, ","))
		ptx_next_token(r);
}

static void skip_section(struct reader *r)
{
	while (!ptx_is_token(r, "{") && r->token.kind != TOKEN_END)
		ptx_next_token(r);
	skip_body(r);
}

static void skip_statement(struct reader *r)
{
	while (!ptx_is_token(r, ";") && r->token.kind != TOKEN_END)
		ptx_next_token(r);
	ptx_expect(r, ";");
}

/* .file and .loc extend to the end of their line. */
static void skip_line(struct reader *r)
{
	while (r->p < r->end && *r->p != '\n')
		r->p++;
	ptx_next_token(r);
}

static void take_directive(struct reader *r)
{
	bool is_extern = false;

	for (;;) {
		if (ptx_accept(r, ".extern"))
			is_extern = true;
		else if (!ptx_accept(r, ".visible") && !ptx_accept(r, ".weak") &&
			!ptx_accept(r, ".common"))
			break;
	}
	if (ptx_accept(r, ".entry"))
		take_entry(r);
	else if (ptx_accept(r, ".func"))
		take_function(r);
	else if (ptx_accept(r, ".global"))
		take_variable(r, false, is_extern);
	else if (ptx_accept(r, ".const"))
		take_variable(r, true, is_extern);
	else if (ptx_accept(r, ".shared"))
		take_shared(r);
	else if (ptx_is_token(r, ".tex") || ptx_is_token(r, ".alias") ||
		ptx_is_token(r, ".pragma") || ptx_is_token(r, ".calltargets"))
		skip_statement(r);
	else if (ptx_is_token(r, ".file") || ptx_is_token(r, ".loc"))
		skip_line(r);
	else if (ptx_is_token(r, ".section"))
		skip_section(r);
	else if (ptx_accept(r, ".address_size"))
		r->address_size = (unsigned)take_number(r);
	else if (ptx_accept(r, ".target"))
		take_target(r);
	else
		ptx_fail(r);
}

/* A newer text may have a syntax that this reader does not know: the body is read afterwards. */
static enum image_status take_header(struct reader *r, unsigned device_sm)
{
	uint32_t line;

	ptx_next_token(r);
	if (!ptx_accept(r, ".version")) {
		image_log_set(r->log, ptx_line(r), "a module begins with .version");
		return IMAGE_BAD_BINARY;
	}
	line = ptx_line(r);
	take_version(r);
	if (r->failed)
		return IMAGE_BAD_PTX;
	if (r->image->ptx_version > IMAGE_PTX_NEWEST) {
		image_log_set(r->log, line,
			"Unsupported .version %u.%u; the newest that this driver reads is %u.%u",
			r->image->ptx_version / 10, r->image->ptx_version % 10,
			IMAGE_PTX_NEWEST / 10, IMAGE_PTX_NEWEST % 10);
		return IMAGE_UNSUPPORTED_PTX;
	}
	ptx_expect(r, ".target");
	if (!r->failed)
		take_target(r);
	if (r->failed)
		return IMAGE_BAD_PTX;
	if (!image_runs_on(r->image->target_sm, r->suffix, device_sm)) {
		image_log_set(r->log, r->target_line,
			".target sm_%u%.1s does not run on this device, sm_%u", r->image->target_sm,
			&r->suffix, device_sm);
		return IMAGE_NO_BINARY;
	}
	return IMAGE_OK;
}

static uint32_t at_most_32_bits(uint64_t n)
{
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Reads a text that the module needs and lacks; the caller joins their texts. */
static void take_devrt(struct reader *r, const char *text)
{
	r->start = r->p = text;
	r->end = text + strlen(text);
	ptx_next_token(r);
	while (!r->failed && r->token.kind != TOKEN_END)
		take_directive(r);
}

static void take_directives(struct reader *r)
{
	unsigned needed;

	while (!r->failed && r->token.kind != TOKEN_END)
		take_directive(r);
	needed = r->needs_devrt & ~r->has_devrt;
	for (unsigned i = 0; i < CU_DEVRT_TEXTS; i++)
		if (!r->failed && (needed & 1u << i))
			take_devrt(r, cu_devrt[i].text);
	r->needs_devrt = needed;
	for (size_t i = 0; i < r->image->n_kernels; i++) {
		struct image_kernel *kernel = &r->image->kernels[i];
		struct footprint sum = footprints_sum(
			r->footprints, kernel->name, strlen(kernel->name));

		kernel->shared_bytes = at_most_32_bits(sum.shared_bytes);
		kernel->local_bytes = at_most_32_bits(sum.local_bytes);
	}
}

/* The module's text, and behind it the texts of cu_devrt[] that `devrt` has the bits of. */
static bool join_text(struct image *image, const char *text, size_t n, unsigned devrt)
{
	size_t size = n, at = n;

	for (unsigned i = 0; i < CU_DEVRT_TEXTS; i++)
		if (devrt & 1u << i)
			size += strlen(cu_devrt[i].text);
	image->text = malloc(size + 1);
	if (!image->text)
		return false;
	memcpy(image->text, text, n);
	for (unsigned i = 0; i < CU_DEVRT_TEXTS; i++)
		if (devrt & 1u << i) {
			memcpy(image->text + at, cu_devrt[i].text, strlen(cu_devrt[i].text));
			at += strlen(cu_devrt[i].text);
		}
	image->text[at] = '\0';
	image->text_bytes = at;
	return true;
}

enum image_status image_read_ptx(const char *text, size_t n, unsigned device_sm,
	struct image_log *log, struct image *ret_image)
{
	struct image image = {.is_ptx = 1};
	struct reader r = {.start = text,
		.p = text,
		.end = text + n,
		.image = &image,
		.log = log,
		.address_size = 32};
	enum image_status status = take_header(&r, device_sm);

	if (status != IMAGE_OK)
		return status;
	r.footprints = footprints_new();
	if (!r.footprints) {
		image_done(&image);
		return IMAGE_NO_MEMORY;
	}
	take_directives(&r);
	footprints_free(r.footprints);
	if (!r.failed && r.address_size != 64)
		image_log_set(log, ptx_line(&r),
			".address_size %u: this driver has 64-bit addresses", r.address_size);
	if (r.failed || r.address_size != 64) {
		image_done(&image);
		return IMAGE_BAD_PTX;
	}
	if (!join_text(&image, text, n, r.needs_devrt) || image_sort_kernels(&image) < 0) {
		image_done(&image);
		return IMAGE_NO_MEMORY;
	}
	*ret_image = image;
	return IMAGE_OK;
}
