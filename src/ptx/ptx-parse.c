/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: directives, variables with their initial values, functions and their parameters.
 * Variables in global and constant space have addresses that the caller knows; shared and local
 * memory is laid out here. Pure code, any thread.
 */
#include "ptx/ptx-parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

const struct type_info type_table[T_COUNT] = {
	[T_NONE] = {"", 0, 0},
	[T_PRED] = {"pred", 4, 'p'},
	[T_B8] = {"b8", 1, 'b'},
	[T_U8] = {"u8", 1, 'u'},
	[T_S8] = {"s8", 1, 's'},
	[T_B16] = {"b16", 2, 'b'},
	[T_U16] = {"u16", 2, 'u'},
	[T_S16] = {"s16", 2, 's'},
	[T_F16] = {"f16", 2, 'f'},
	[T_BF16] = {"bf16", 2, 'f'},
	[T_B32] = {"b32", 4, 'b'},
	[T_U32] = {"u32", 4, 'u'},
	[T_S32] = {"s32", 4, 's'},
	[T_F32] = {"f32", 4, 'f'},
	[T_F16X2] = {"f16x2", 4, 'f'},
	[T_BF16X2] = {"bf16x2", 4, 'f'},
	[T_TF32] = {"tf32", 4, 'f'},
	[T_B64] = {"b64", 8, 'b'},
	[T_U64] = {"u64", 8, 'u'},
	[T_S64] = {"s64", 8, 's'},
	[T_F64] = {"f64", 8, 'f'},
	[T_F32X2] = {"f32x2", 8, 'f'},
	[T_B128] = {"b128", 16, 'b'},
	[T_E4M3X2] = {"e4m3x2", 2, 'f'},
	[T_E5M2X2] = {"e5m2x2", 2, 'f'},
	[T_U16X2] = {"u16x2", 4, 'u'},
	[T_S16X2] = {"s16x2", 4, 's'},
};

bool parse_fail(struct parser *p, int code, const char *fmt, ...)
{
	char text[192];
	va_list args;

	if (p->has_failed)
		return false;
	p->has_failed = true;
	p->code = -code;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fail(p->err, code, "line %u: %s", p->line ? p->line : p->lex.token.line, text);
	p->lex.p = p->lex.end; /* nothing more is read */
	lex_next(&p->lex);
	return false;
}

static bool parse_memory(struct parser *p)
{
	return parse_fail(p, ENOMEM, "out of memory");
}

/* ACCOUNT_STEP: bytes that are taken at once. SYMBOL_BYTES: of a symbol in a hash table. */
enum { ACCOUNT_STEP = 1 << 20, SYMBOL_BYTES = 64, PAUSE_STATEMENTS = 4096 };

static uint64_t parse_bytes(const struct parser *p)
{
	const struct ptx *ptx = p->ptx;

	return ptx->arena.total + p->scratch.total + (uint64_t)p->n_symbols * SYMBOL_BYTES +
		p->cap_insns * sizeof(*p->insns) + p->cap_pending * sizeof(*p->pending) +
		ptx->cap_funcs * sizeof(*ptx->funcs) + ptx->cap_patches * sizeof(*ptx->patches);
}

bool parse_account(struct parser *p, uint64_t more)
{
	const struct ptx_loading *l = p->loading;
	uint64_t needed = parse_bytes(p) + more, step;

	if (l->pause && p->until_pause-- == 0) {
		p->until_pause = PAUSE_STATEMENTS;
		if (!l->pause(l->user))
			return parse_fail(p, ECANCELED, "the load was canceled");
	}
	if (!l->memory || needed <= p->taken || p->has_failed)
		return !p->has_failed;
	step = (needed - p->taken + ACCOUNT_STEP - 1) / ACCOUNT_STEP * ACCOUNT_STEP;
	if (!l->memory->take(l->memory->user, step, false))
		return parse_fail(p, ENOMEM, "the module needs more memory than is left for it");
	p->taken += step;
	return true;
}

bool parse_expect(struct parser *p, const char *text)
{
	if (lex_accept(&p->lex, text))
		return true;
	return parse_fail(
		p, EINVAL, "'%s' expected before '%" STR_FMT "'", text, STR_ARG(p->lex.token.text));
}

bool parse_type(struct str name, enum ptx_type *ret_type)
{
	for (enum ptx_type t = T_PRED; t < T_COUNT; t++) {
		if (str_is(name, type_table[t].name)) {
			*ret_type = t;
			return true;
		}
	}
	return false;
}

uint64_t parse_number(struct parser *p)
{
	bool is_negative = lex_accept(&p->lex, "-");
	struct lex_value v;

	if (p->lex.token.kind != LEX_NUMBER || !lex_number(p->lex.token.text, &v) || v.is_float) {
		if (lex_accept(&p->lex, "WARP_SZ"))
			return LANES;
		parse_fail(p, EINVAL, "number expected before '%" STR_FMT "'",
			STR_ARG(p->lex.token.text));
		return 0;
	}
	lex_next(&p->lex);
	return is_negative ? (uint64_t)0 - v.bits : v.bits;
}

/* ---- symbols ---- */

struct symbol *parse_find(struct parser *p, struct str name)
{
	for (uint32_t i = p->depth + 1; i-- > 0;) {
		struct symbol *s;

		HASH_FIND(hh, p->scopes[i], name.p, name.n, s);
		if (s)
			return s;
	}
	return NULL;
}

struct symbol *parse_add(struct parser *p, struct str name, enum symbol_kind kind)
{
	struct symbol *s;

	if (!parse_account(p, sizeof(*s) + SYMBOL_BYTES))
		return NULL;
	s = arena_take(&p->scratch, sizeof(*s));
	if (!s) {
		parse_memory(p);
		return NULL;
	}
	s->name = name;
	s->kind = kind;
	p->n_symbols++;
	HASH_ADD_KEYPTR(hh, p->scopes[p->depth], s->name.p, s->name.n, s);
	if (!s->hh.tbl) {
		parse_memory(p);
		return NULL;
	}
	return s;
}

void parse_scope_open(struct parser *p)
{
	if (p->depth + 1 == SCOPES_MAX)
		parse_fail(p, EINVAL, "more than %d nested blocks", SCOPES_MAX);
	else
		p->scopes[++p->depth] = NULL;
}

void parse_scope_close(struct parser *p)
{
	HASH_CLEAR(hh, p->scopes[p->depth]);
	if (p->depth)
		p->depth--;
}

/* ---- declarations ---- */

enum { DIMENSIONS_MAX = 8 };

struct declaration {
	enum ptx_type type;
	uint32_t vector; /* elements of .v2, .v4, .v8 */
	uint32_t align;
	uint64_t count;
	uint64_t dims[DIMENSIONS_MAX];
	uint32_t n_dims;
	bool is_unsized;
	struct str name;
};

static uint64_t declaration_bytes(const struct declaration *d)
{
	return d->count * type_table[d->type].bytes;
}

static void declaration_words(struct parser *p, struct declaration *d)
{
	bool is_pointer = false;

	while (!p->has_failed && p->lex.token.kind == LEX_WORD && p->lex.token.text.p[0] == '.') {
		struct str word = {p->lex.token.text.p + 1, p->lex.token.text.n - 1};

		lex_next(&p->lex);
		if (str_is(word, "align")) {
			uint64_t align = parse_number(p);

			if (align == 0 || (align & (align - 1)) != 0 || align > 1 << 20)
				parse_fail(p, EINVAL, "alignment is no power of two");
			else if (!is_pointer)
				d->align = (uint32_t)align;
		} else if (str_is(word, "ptr")) {
			is_pointer = true;
		} else if (str_is(word, "v2") || str_is(word, "v4") || str_is(word, "v8")) {
			d->vector = (uint32_t)(word.p[1] - '0');
		} else if (str_is(word, "texref") || str_is(word, "samplerref") ||
			str_is(word, "surfref")) {
			d->type = T_B64;
		} else if (!parse_type(word, &d->type) && lex_is(&p->lex, "(")) {
			while (!lex_is(&p->lex, ")") && p->lex.token.kind != LEX_END)
				lex_next(&p->lex);
			parse_expect(p, ")");
		}
	}
}

/* From the words behind the space to before "=", "," or ";". */
static bool declaration_parse(
	struct parser *p, const struct declaration *last, struct declaration *ret)
{
	*ret = (struct declaration){.count = 1, .vector = 1};
	if (last) {
		ret->type = last->type;
		ret->vector = last->vector;
		ret->align = last->align;
	}
	declaration_words(p, ret);
	if (p->has_failed || p->lex.token.kind != LEX_WORD || ret->type == T_NONE)
		return parse_fail(p, EINVAL, "declaration without type or name at '%" STR_FMT "'",
			STR_ARG(p->lex.token.text));
	if (ret->align == 0)
		ret->align = type_table[ret->type].bytes * ret->vector;
	ret->name = p->lex.token.text;
	lex_next(&p->lex);
	while (lex_accept(&p->lex, "[")) {
		uint64_t n = lex_is(&p->lex, "]") ? 0 : parse_number(p);

		parse_expect(p, "]");
		if (ret->n_dims == DIMENSIONS_MAX ||
			(n != 0 && ret->count > (UINT64_C(1) << 40) / n))
			return parse_fail(
				p, EINVAL, "array '%" STR_FMT "' is too large", STR_ARG(ret->name));
		ret->is_unsized |= n == 0;
		ret->dims[ret->n_dims++] = n;
		ret->count *= n;
	}
	ret->count *= ret->vector;
	return !p->has_failed;
}

/* An index into an array of several dimensions counts whole rows. */
static uint64_t element_bytes(const struct declaration *d)
{
	uint64_t bytes = d->n_dims ? (uint64_t)type_table[d->type].bytes * d->vector : 0;

	for (uint32_t i = 1; i < d->n_dims; i++)
		bytes *= d->dims[i];
	return bytes;
}

int32_t parse_new_reg(struct parser *p, uint32_t bytes)
{
	uint32_t size = bytes == 0 ? 4 : bytes * LANES;
	uint32_t at = (p->func->reg_bytes + 63) & ~63u;

	if (at > REG_BYTES_MAX - size) {
		parse_fail(p, EINVAL, "too many registers");
		return 0;
	}
	p->func->reg_bytes = at + size;
	return (int32_t)at;
}

static uint32_t reg_bytes_of(enum ptx_type type)
{
	return type == T_PRED ? 0 : type_table[type].bytes;
}

/* .reg .b32 %r<10>, %x; */
static void parse_registers(struct parser *p)
{
	struct declaration d = {.vector = 1};

	declaration_words(p, &d);
	do {
		struct str name = p->lex.token.text;
		uint64_t count = 1;
		struct symbol *s;

		if (p->lex.token.kind != LEX_WORD || d.type == T_NONE || d.vector != 1) {
			parse_fail(p, d.vector != 1 ? ENOTSUP : EINVAL,
				"register declaration at '%" STR_FMT "'", STR_ARG(name));
			return;
		}
		lex_next(&p->lex);
		s = parse_add(p, name, SYM_REG);
		if (!s)
			return;
		if (lex_accept(&p->lex, "<")) {
			s->kind = SYM_REGS;
			count = parse_number(p);
			parse_expect(p, ">");
		}
		if (count > 1 << 20) {
			parse_fail(p, EINVAL, "%" PRIu64 " registers are more than %d", count,
				1 << 20);
			return;
		}
		s->type = d.type;
		s->count = (uint32_t)count;
		s->reg = (int32_t)((p->func->reg_bytes + 63) & ~63u);
		for (uint64_t i = 0; i < count; i++)
			if (parse_new_reg(p, reg_bytes_of(d.type)) < s->reg)
				return;
	} while (lex_accept(&p->lex, ","));
	parse_expect(p, ";");
}

static uint32_t take_space(
	struct parser *p, uint32_t *end, const struct declaration *d, uint64_t max)
{
	uint64_t at = ((uint64_t)*end + d->align - 1) & ~(uint64_t)(d->align - 1);

	if (declaration_bytes(d) > max || at + declaration_bytes(d) > max) {
		parse_fail(p, EINVAL, "'%" STR_FMT "' has no room: %" PRIu64 " bytes are the limit",
			STR_ARG(d->name), max);
		return 0;
	}
	*end = (uint32_t)(at + declaration_bytes(d));
	return (uint32_t)at;
}

static void patch_add(struct parser *p, uint64_t address, uint64_t value, uint32_t bytes)
{
	struct ptx *ptx = p->ptx;

	if (ptx->n_patches == ptx->cap_patches) {
		uint32_t cap = ptx->cap_patches ? 2 * ptx->cap_patches : 16;
		struct ptx_patch *more = NULL;

		if (parse_account(p, cap * sizeof(*more)))
			more = realloc(ptx->patches, cap * sizeof(*more));
		if (!more) {
			parse_memory(p);
			return;
		}
		ptx->patches = more;
		ptx->cap_patches = cap;
	}
	ptx->patches[ptx->n_patches++] = (struct ptx_patch){address, value, bytes};
}

/* The address of a symbol in an initial value: sym, generic(sym), mask(sym), each with + number. */
static void parse_symbol_value(struct parser *p, uint64_t to, uint32_t bytes)
{
	bool is_generic = lex_accept(&p->lex, "generic");
	uint64_t value = 0;
	struct symbol *s;

	if (is_generic)
		parse_expect(p, "(");
	s = parse_find(p, p->lex.token.text);
	if (s && s->kind == SYM_FUNC)
		value = SPACE_CODE + 16 * (uint64_t)s->index;
	else if (s && s->kind == SYM_VARIABLE)
		value = s->address + (is_generic && s->space == SP_SHARED ? SPACE_SHARED : 0);
	else
		parse_fail(p, EINVAL, "unknown symbol '%" STR_FMT "'", STR_ARG(p->lex.token.text));
	lex_next(&p->lex);
	if (is_generic)
		parse_expect(p, ")");
	if (lex_accept(&p->lex, "+"))
		value += parse_number(p);
	else if (lex_is(&p->lex, "-"))
		value += parse_number(p);
	if (!p->has_failed)
		patch_add(p, to, value, bytes);
}

/* Only addresses matter here: the loader has set all other values. */
static void parse_initializer(struct parser *p, const struct declaration *d, uint64_t address)
{
	const uint32_t bytes = type_table[d->type].bytes;
	uint64_t starts[DIMENSIONS_MAX + 1], at = 0;
	uint32_t depth = 0;

	do {
		if (lex_accept(&p->lex, "{")) {
			if (depth == DIMENSIONS_MAX) {
				parse_fail(p, EINVAL, "initial value nests too deep");
				return;
			}
			starts[depth++] = at;
		} else if (depth && lex_accept(&p->lex, "}")) {
			uint64_t size = d->count;

			depth--;
			for (uint32_t i = 0; i < depth && i < d->n_dims; i++)
				size = d->dims[i] ? size / d->dims[i] : 0;
			at = starts[depth] + (depth < d->n_dims ? size : 1);
			lex_accept(&p->lex, ",");
		} else if (p->lex.token.kind == LEX_WORD) {
			parse_symbol_value(p, address + at++ * bytes, bytes);
			if (depth)
				lex_accept(&p->lex, ",");
		} else if (p->lex.token.kind == LEX_NUMBER || lex_is(&p->lex, "-")) {
			lex_accept(&p->lex, "-");
			lex_next(&p->lex);
			at++;
			if (depth)
				lex_accept(&p->lex, ",");
		} else {
			parse_fail(p, EINVAL, "initial value at '%" STR_FMT "'",
				STR_ARG(p->lex.token.text));
		}
	} while (depth && !p->has_failed);
}

/* A variable with an address of the module: .global or .const. */
static void place_global(
	struct parser *p, struct symbol *s, const struct declaration *d, bool is_extern)
{
	s->space = SP_GLOBAL;
	if (p->loading->address && p->loading->address(p->loading->user, d->name, &s->address))
		return;
	if (is_extern || !p->loading->address)
		s->address = 0;
	else
		parse_fail(p, EINVAL, "variable '%" STR_FMT "' has no address", STR_ARG(d->name));
}

static void place_shared(
	struct parser *p, struct symbol *s, const struct declaration *d, bool is_extern)
{
	s->space = SP_SHARED;
	if (d->is_unsized || is_extern) {
		s->address = SHARED_DYNAMIC;
		return;
	}
	s->address = take_space(p, &p->ptx->shared_end, d, PTX_SHARED_BYTES_MAX);
}

static void parse_variables(struct parser *p, const char *space, bool is_extern)
{
	struct declaration d, last;
	bool is_first = true;

	do {
		struct symbol *s;

		if (!declaration_parse(p, is_first ? NULL : &last, &d))
			return;
		last = d;
		is_first = false;
		s = parse_add(p, d.name, SYM_VARIABLE);
		if (!s)
			return;
		s->type = d.type;
		s->bytes = declaration_bytes(&d);
		s->element_bytes = element_bytes(&d);
		if (!strcmp(space, ".shared")) {
			place_shared(p, s, &d, is_extern);
		} else if (!strcmp(space, ".local") || !strcmp(space, ".param")) {
			s->space = SP_FRAME;
			s->is_param = space[1] == 'p';
			if (!p->func) {
				parse_fail(p, ENOTSUP, "%s variable outside of a function", space);
				return;
			}
			/* so that a vector of 16 bytes may be accessed at once */
			d.align = s->is_param && d.align < 16 && s->bytes >= 16 ? 16 : d.align;
			s->address = take_space(p, &p->func->local_bytes, &d, LOCAL_BYTES_MAX);
		} else {
			place_global(p, s, &d, is_extern);
		}
		if (lex_accept(&p->lex, "="))
			parse_initializer(p, &d, s->address);
	} while (!p->has_failed && lex_accept(&p->lex, ","));
	parse_expect(p, ";");
}

bool parse_declaration(struct parser *p)
{
	static const char *const spaces[] = {".shared", ".local", ".param", ".global", ".const"};
	bool is_extern = false;

	p->is_weak = false;
	while (lex_is(&p->lex, ".extern") || lex_is(&p->lex, ".visible") ||
		lex_is(&p->lex, ".weak") || lex_is(&p->lex, ".common")) {
		is_extern |= lex_is(&p->lex, ".extern");
		p->is_weak |= lex_is(&p->lex, ".weak");
		lex_next(&p->lex);
	}
	if (p->func && lex_accept(&p->lex, ".reg")) {
		parse_registers(p);
		return true;
	}
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		if (lex_accept(&p->lex, spaces[i])) {
			parse_variables(p, spaces[i], is_extern);
			return true;
		}
	}
	return false;
}

/* ---- functions ---- */

static struct func *func_add(struct parser *p, struct str name, bool is_entry)
{
	struct ptx *ptx = p->ptx;
	struct func *f = NULL;

	if (parse_account(p, sizeof(*f) + name.n))
		f = arena_take(&ptx->arena, sizeof(*f));
	if (f)
		f->name = arena_dup(&ptx->arena, name);
	if (ptx->n_funcs == ptx->cap_funcs) {
		uint32_t cap = ptx->cap_funcs ? 2 * ptx->cap_funcs : 16;
		struct func **more = realloc(ptx->funcs, cap * sizeof(struct func *));

		if (more) {
			ptx->funcs = more;
			ptx->cap_funcs = cap;
		}
	}
	if (!f || !f->name || ptx->n_funcs == ptx->cap_funcs) {
		parse_memory(p);
		return NULL;
	}
	f->is_entry = is_entry;
	ptx->has_functions |= !is_entry;
	ptx->funcs[ptx->n_funcs++] = f;
	return f;
}

enum { PARAMS_MAX = 4096 };

/* A list of parameters up to ")". Kernels: offsets in the launch's parameters. */
static uint32_t parse_params(struct parser *p, struct param **ret_params, bool is_prototype)
{
	struct param *params = NULL;
	uint32_t n = 0, cap = 0;

	if (lex_accept(&p->lex, ")"))
		return 0;
	do {
		bool is_reg = lex_accept(&p->lex, ".reg");
		struct declaration d;
		struct symbol *s = NULL;

		if (!is_reg)
			parse_expect(p, ".param");
		if (!declaration_parse(p, NULL, &d))
			return 0;
		if (n == cap) {
			struct param *more;

			cap = cap ? 2 * cap : 8;
			more = cap <= PARAMS_MAX
				? arena_take_array(&p->ptx->arena, cap, sizeof(*more))
				: NULL;
			if (!more) {
				parse_memory(p);
				return 0;
			}
			if (n)
				memcpy(more, params, n * sizeof(*more));
			params = more;
		}
		if (is_reg && (d.type == T_PRED || d.n_dims || d.vector != 1)) {
			parse_fail(p, ENOTSUP, "parameter '%" STR_FMT "' in registers",
				STR_ARG(d.name));
			return 0;
		}
		params[n] = (struct param){
			.bytes = (uint32_t)declaration_bytes(&d), .reg = OPERAND_NONE};
		if (declaration_bytes(&d) > PTX_PARAM_BYTES_MAX) {
			parse_fail(p, EINVAL, "parameter '%" STR_FMT "' is too large",
				STR_ARG(d.name));
			return 0;
		}
		if (is_prototype) {
			n++;
			continue;
		}
		s = parse_add(p, d.name, is_reg ? SYM_REG : SYM_VARIABLE);
		if (!s)
			return 0;
		s->type = d.type;
		s->count = 1;
		s->bytes = declaration_bytes(&d);
		s->element_bytes = element_bytes(&d);
		s->is_param = true;
		if (is_reg) {
			s->reg = params[n].reg = parse_new_reg(p, reg_bytes_of(d.type));
			params[n].reg_bytes = type_table[d.type].bytes;
		} else if (p->func->is_entry) {
			s->space = SP_PARAM;
			s->address = params[n].offset = take_space(
				p, &p->func->param_bytes, &d, PTX_PARAM_BYTES_MAX);
		} else {
			s->space = SP_FRAME;
			d.align = d.align < 16 && s->bytes >= 16 ? 16 : d.align;
			s->address = params[n].offset = take_space(
				p, &p->func->local_bytes, &d, LOCAL_BYTES_MAX);
		}
		n++;
	} while (lex_accept(&p->lex, ","));
	parse_expect(p, ")");
	*ret_params = params;
	return n;
}

/* (ret) _ (params): the shape of an indirect call */
struct call_shape *parse_prototype(struct parser *p)
{
	struct call_shape *shape = arena_take(&p->ptx->arena, sizeof(*shape));
	struct param *rets = NULL, *args = NULL;

	if (!shape) {
		parse_memory(p);
		return NULL;
	}
	if (lex_accept(&p->lex, "("))
		shape->n_rets = parse_params(p, &rets, true);
	lex_next(&p->lex); /* _ */
	if (lex_accept(&p->lex, "("))
		shape->n_args = parse_params(p, &args, true);
	shape->rets = rets;
	shape->args = args;
	while (!lex_is(&p->lex, ";") && p->lex.token.kind != LEX_END)
		lex_next(&p->lex);
	parse_expect(p, ";");
	return shape;
}

static enum builtin builtin_find(struct str name)
{
	static const struct {
		const char *name;
		enum builtin builtin;
	} known[] = {{"vprintf", BUILTIN_VPRINTF}, {"__assertfail", BUILTIN_ASSERT},
		{"malloc", BUILTIN_MALLOC}, {"free", BUILTIN_FREE}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (str_is(name, known[i].name))
			return known[i].builtin;
	return BUILTIN_NONE;
}

static void parse_cluster(struct parser *p)
{
	do {
		if (parse_number(p) > 1)
			parse_fail(p, ENOTSUP,
				"'.reqnctapercluster' of more than one block is not supported by "
				"the simulated device");
	} while (lex_accept(&p->lex, ","));
}

/* Takes the directives between parameters and body. */
static void parse_func_directives(struct parser *p)
{
	while (!p->has_failed && !lex_is(&p->lex, "{") && !lex_is(&p->lex, ";")) {
		if (p->lex.token.kind == LEX_END)
			parse_fail(p, EINVAL, "function without body");
		if (lex_accept(&p->lex, ".reqnctapercluster"))
			parse_cluster(p);
		else
			lex_next(&p->lex);
	}
}

/* Keeps the translated body in the module's own memory. */
static void func_keep(struct parser *p)
{
	struct func *f = p->func;
	uint8_t *base;

	if (!parse_account(p, (uint64_t)p->n_insns * sizeof(*f->insns) + p->n_const))
		return;
	f->insns = arena_take_array(&p->ptx->arena, p->n_insns + 1, sizeof(*f->insns));
	base = arena_take(&p->ptx->arena, p->n_const + 64);
	if (!f->insns || !base) {
		parse_memory(p);
		return;
	}
	memcpy(f->insns, p->insns, p->n_insns * sizeof(*f->insns));
	f->n_insns = p->n_insns;
	for (uint32_t i = 0; i < f->n_insns; i++)
		f->has_alloca |= f->insns[i].fn == exec_stack;
	f->consts = base + (-(uintptr_t)base & 63) + p->n_const;
	for (struct constant *c = p->constants; c; c = c->hh.next) {
		uint32_t bytes = (uint32_t)c->key[2];

		for (uint32_t i = 0; i < LANES; i++)
			memcpy(f->consts + c->offset + i * bytes, c->key, bytes);
		if (bytes == 0) /* a predicate */
			memcpy(f->consts + c->offset, c->key, 4);
	}
	f->has_body = true;
}

static void parse_body(struct parser *p)
{
	p->n_insns = p->n_pending = p->yielded_at = 0;
	p->n_const = 0;
	p->constants = NULL;
	p->next_is_join = true;
	body_parse(p);
	if (!p->has_failed)
		func_keep(p);
	HASH_CLEAR(hh, p->constants);
	p->line = 0;
}

static void parse_skip_body(struct parser *p)
{
	uint32_t depth = 0;

	do {
		if (p->lex.token.kind == LEX_END) {
			parse_fail(p, EINVAL, "function without end");
			return;
		}
		depth += lex_is(&p->lex, "{");
		depth -= lex_is(&p->lex, "}");
		lex_next(&p->lex);
	} while (depth);
}

/* `frame` has the parameters, which are declared before the function's name is known. */
static void parse_function_in(struct parser *p, struct func *frame)
{
	const bool is_entry = frame->is_entry, is_weak = p->is_weak;
	struct param *rets = NULL, *params = NULL;
	uint32_t n_rets = 0, n_params = 0;
	struct symbol *s;
	struct str name;
	struct func *f;

	if (!is_entry && lex_accept(&p->lex, "("))
		n_rets = parse_params(p, &rets, false);
	name = p->lex.token.text;
	if (p->lex.token.kind != LEX_WORD) {
		parse_fail(p, EINVAL, "function without name");
		return;
	}
	lex_next(&p->lex);
	if (lex_accept(&p->lex, "("))
		n_params = parse_params(p, &params, false);
	parse_func_directives(p);
	if (p->has_failed)
		return;
	HASH_FIND(hh, p->scopes[0], name.p, name.n, s);
	if (s && (s->kind != SYM_FUNC || p->ptx->funcs[s->index]->is_entry != is_entry)) {
		parse_fail(p, EINVAL, "'%" STR_FMT "' is declared twice", STR_ARG(name));
		return;
	}
	if (!s) {
		uint32_t depth = p->depth;

		p->depth = 0;
		s = parse_add(p, name, SYM_FUNC);
		p->depth = depth;
		f = s ? func_add(p, name, is_entry) : NULL;
		if (!f)
			return;
		s->index = p->ptx->n_funcs - 1;
		f->builtin = (uint8_t)builtin_find(name);
		p->ptx->has_print |= f->builtin == BUILTIN_VPRINTF;
		p->ptx->has_heap |= f->builtin == BUILTIN_MALLOC;
	}
	f = p->ptx->funcs[s->index];
	/* Linked modules may have copies of one weak function: the first copy counts. */
	if (f->has_body && is_weak && lex_is(&p->lex, "{")) {
		parse_skip_body(p);
		parse_scope_close(p);
		return;
	}
	if (f->has_body && !lex_is(&p->lex, ";")) {
		parse_fail(p, EINVAL, "'%" STR_FMT "' has two bodies", STR_ARG(name));
		return;
	}
	if (!f->has_body) {
		frame->name = f->name;
		frame->builtin = f->builtin;
		*f = *frame;
		f->params = params;
		f->rets = rets;
		f->n_params = n_params;
		f->n_rets = n_rets;
	}
	p->func = f;
	if (!lex_accept(&p->lex, ";"))
		parse_body(p);
	parse_scope_close(p);
}

static void parse_function(struct parser *p, bool is_entry)
{
	struct func frame = {.is_entry = is_entry};

	parse_scope_open(p);
	/* cppcheck-suppress autoVariables ; the pointer does not outlive the frame */
	p->func = &frame;
	parse_function_in(p, &frame);
	p->func = NULL;
}

/* ---- the module ---- */

static void parse_skip_statement(struct parser *p)
{
	while (!lex_is(&p->lex, ";") && p->lex.token.kind != LEX_END)
		lex_next(&p->lex);
	parse_expect(p, ";");
}

static void parse_skip_section(struct parser *p)
{
	while (!lex_is(&p->lex, "}") && p->lex.token.kind != LEX_END)
		lex_next(&p->lex);
	parse_expect(p, "}");
}

/* .alias a, b; gives the function b a second name. */
static void parse_alias(struct parser *p)
{
	struct str name = p->lex.token.text;
	struct symbol *s, *of;

	lex_next(&p->lex);
	parse_expect(p, ",");
	s = parse_find(p, name);
	of = parse_find(p, p->lex.token.text);
	if (!s || !of || s->kind != SYM_FUNC || of->kind != SYM_FUNC)
		parse_fail(p, EINVAL, ".alias of '%" STR_FMT "', which is no function",
			STR_ARG(p->lex.token.text));
	else
		s->index = of->index;
	parse_skip_statement(p);
}

static void parse_target(struct parser *p)
{
	struct str text = p->lex.token.text;

	if (!str_has_prefix(text, STR("sm_")) && !str_has_prefix(text, STR("compute_")))
		parse_fail(p, EINVAL, ".target '%" STR_FMT "' is no sm_NN", STR_ARG(text));
	lex_next(&p->lex);
	while (lex_accept(&p->lex, ","))
		lex_next(&p->lex);
}

static void parse_directive(struct parser *p)
{
	if (parse_declaration(p))
		return;
	if (lex_accept(&p->lex, ".entry"))
		parse_function(p, true);
	else if (lex_accept(&p->lex, ".func"))
		parse_function(p, false);
	else if (lex_accept(&p->lex, ".alias"))
		parse_alias(p);
	else if (lex_is(&p->lex, ".file") || lex_is(&p->lex, ".loc"))
		lex_skip_line(&p->lex);
	else if (lex_is(&p->lex, ".section"))
		parse_skip_section(p);
	else if (lex_is(&p->lex, ".pragma") || lex_is(&p->lex, ".tex"))
		parse_skip_statement(p);
	else if (lex_accept(&p->lex, ".address_size"))
		p->address_size = (unsigned)parse_number(p);
	else if (lex_accept(&p->lex, ".target"))
		parse_target(p);
	else
		parse_fail(
			p, EINVAL, "unknown directive '%" STR_FMT "'", STR_ARG(p->lex.token.text));
}

static void parse_module(struct parser *p)
{
	if (!lex_accept(&p->lex, ".version")) {
		parse_fail(p, EINVAL, "the text does not begin with .version");
		return;
	}
	lex_next(&p->lex);
	if (lex_accept(&p->lex, ".target"))
		parse_target(p);
	else
		parse_fail(p, EINVAL, "no .target after .version");
	while (!p->has_failed && p->lex.token.kind != LEX_END && parse_account(p, 0))
		parse_directive(p);
	if (!p->has_failed && p->address_size != 64)
		parse_fail(p, EINVAL, ".address_size is not 64");
}

static void check_calls(struct parser *p, const struct func *f)
{
	for (uint32_t i = 0; i < f->n_insns; i++) {
		const struct insn *in = &f->insns[i];
		const struct func *to;

		if (in->control != CTL_CALL || in->x->func < 0)
			continue;
		to = p->ptx->funcs[in->x->func];
		p->line = in->line;
		/* The function may have got other parameters after the call. */
		if (!select_check_call(p, in->x->call, to))
			return;
		if (to->has_body || to->builtin != BUILTIN_NONE)
			continue;
		parse_fail(p, ENOTSUP, "call of '%s', which has no body in the module", to->name);
		return;
	}
}

static int kernel_compare(const void *a, const void *b)
{
	const struct kernel_name *x = a, *y = b;

	return str_compare(x->name, y->name);
}

/* A text may have millions of kernels, which take seconds to sort. */
static int kernel_sort(const void *a, const void *b, void *user)
{
	parse_account(user, 0); /* pauses */
	return kernel_compare(a, b);
}

static void parse_finish(struct parser *p)
{
	struct ptx *ptx = p->ptx;

	if (!parse_account(p, ptx->n_funcs * (sizeof(*ptx->kernels) + sizeof(*ptx->names))))
		return;
	ptx->kernels = arena_take_array(&ptx->arena, ptx->n_funcs + 1, sizeof(*ptx->kernels));
	ptx->names = arena_take_array(&ptx->arena, ptx->n_funcs + 1, sizeof(*ptx->names));
	if (!ptx->kernels || !ptx->names) {
		parse_memory(p);
		return;
	}
	for (uint32_t i = 0; i < ptx->n_funcs && parse_account(p, 0); i++) {
		const struct func *f = ptx->funcs[i];

		check_calls(p, f);
		if (!f->is_entry || !f->has_body)
			continue;
		ptx->names[ptx->n_kernels] = (struct kernel_name){
			str_from(f->name), ptx->n_kernels};
		ptx->kernels[ptx->n_kernels++] = i;
	}
	qsort_r(ptx->names, ptx->n_kernels, sizeof(*ptx->names), kernel_sort, p);
}

/* The module keeps its part of what the parser took, and the rest is given back. */
static void parse_settle(struct parser *p)
{
	const struct ptx_memory *memory = p->loading->memory;
	struct ptx *ptx = p->ptx;

	p->scratch.total = p->n_symbols = p->cap_insns = p->cap_pending = 0;
	ptx->memory = memory;
	ptx->taken = memory ? MIN(parse_bytes(p), p->taken) : 0;
	if (p->taken > ptx->taken)
		memory->give(memory->user, p->taken - ptx->taken);
}

int ptx_load(
	struct str text, const struct ptx_loading *loading, struct ptx **ret_ptx, struct error *err)
{
	static const struct ptx_loading nothing;
	struct ptx *ptx = calloc(1, sizeof(*ptx));
	struct parser *p = calloc(1, sizeof(*p));
	int r;

	if (!ptx || !p || text.n > PTX_TEXT_MAX) {
		free(ptx);
		free(p);
		return fail(err, ENOMEM, "%zu bytes of PTX need more memory than there is", text.n);
	}
	p->ptx = ptx;
	p->err = err;
	p->loading = loading ? loading : &nothing;
	p->address_size = 32;
	ptx->shared_end = SHARED_STATIC;
	lex_init(&p->lex, text);
	parse_module(p);
	if (!p->has_failed)
		parse_finish(p);
	for (uint32_t i = 0; i <= p->depth; i++)
		HASH_CLEAR(hh, p->scopes[i]);
	arena_done(&p->scratch);
	free(p->insns);
	free(p->pending);
	parse_settle(p);
	r = p->has_failed ? p->code : 0;
	free(p);
	if (r < 0)
		ptx_free(ptx);
	else
		*ret_ptx = ptx;
	return r;
}

void ptx_free(struct ptx *ptx)
{
	if (!ptx)
		return;
	if (ptx->taken)
		ptx->memory->give(ptx->memory->user, ptx->taken);
	free(ptx->funcs);
	free(ptx->patches);
	arena_done(&ptx->arena);
	free(ptx);
}

int ptx_find_kernel(const struct ptx *ptx, struct str name)
{
	const struct kernel_name key = {.name = name};
	const struct kernel_name *found = bsearch(
		&key, ptx->names, ptx->n_kernels, sizeof(key), kernel_compare);

	return found ? (int)found->kernel : -ENOENT;
}

uint32_t ptx_kernel_count(const struct ptx *ptx)
{
	return ptx->n_kernels;
}

const char *ptx_kernel_name(const struct ptx *ptx, uint32_t kernel)
{
	return ptx->funcs[ptx->kernels[kernel]]->name;
}

uint32_t ptx_kernel_param_bytes(const struct ptx *ptx, uint32_t kernel)
{
	return ptx->funcs[ptx->kernels[kernel]]->param_bytes;
}

bool ptx_has_print(const struct ptx *ptx)
{
	return ptx->has_print;
}

bool ptx_has_heap(const struct ptx *ptx)
{
	return ptx->has_heap;
}

uint32_t ptx_patch_count(const struct ptx *ptx)
{
	return ptx->n_patches;
}

struct ptx_patch ptx_patch_get(const struct ptx *ptx, uint32_t i)
{
	return ptx->patches[i];
}
