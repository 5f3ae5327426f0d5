/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants whose kernels the engine computes do not disturb one another. A tenant takes no more of
 * the engine's memory than its part, neither its code nor its kernels keep others from the
 * processors, and memory that never answers holds up its owner alone. Each client of this test is a
 * tenant.
 */
#include "engine-client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "unit.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif

/* ASan's engine also keeps freed memory, and shadows of all memory. */
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define OWN_MIB 2048
#else
#define OWN_MIB 64 /* what the engine uses for itself, generously */
#endif

enum { COMPUTE_MIB = 256 /* what the engine may use for kernels */, STREAMS = 8 };

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

static void setup(void)
{
	client_setup("1xH200-8Gi", "context_mib=1,compute_mib=256,kernel_msteps=100000");
}

/* ---- code ---- */

static void add(int fd, const void *p, size_t n)
{
	static const char zeros[8];

	assert_true(fd_write_all(fd, p, n) >= 0);
	assert_true(fd_write_all(fd, zeros, -n & 7) >= 0);
}

/* The file of a module with the kernel "k"; the caller owns it. */
static int code_file(const char *text)
{
	const struct simgpu_code_head head = {.kernels = 1, .text_bytes = strlen(text)};
	const struct simgpu_code_name name = {.bytes = 1};
	int fd = memfd_new("test-code", 0);

	assert_true(fd >= 0);
	add(fd, &head, sizeof(head));
	add(fd, &name, sizeof(name));
	add(fd, "k", 1);
	add(fd, text, strlen(text));
	assert_true(memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) >= 0);
	return fd;
}

/* The file of a module that names many variables or kernels; the caller owns it. */
static int names_file(uint32_t variables, uint32_t kernels)
{
	static const struct simgpu_code_name names[1024];
	static const char text[] = HEAD;
	const struct simgpu_code_head head = {
		.variables = variables, .kernels = kernels, .text_bytes = strlen(text)};
	int fd = memfd_new("test-code", 0);

	assert_true(fd >= 0);
	assert_int_equal((variables + kernels) % 1024, 0);
	add(fd, &head, sizeof(head));
	for (uint32_t i = 0; i < variables + kernels; i += 1024)
		add(fd, names, sizeof(names));
	add(fd, text, strlen(text));
	assert_true(memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) >= 0);
	return fd;
}

static uint64_t new_module(struct client *c)
{
	struct simgpu_reply a;

	assert_int_equal(
		client_call(c, CALL(.type = SIMGPU_MSG_MODULE_LOAD, .arg = {4096}), -1, &a, NULL),
		0);
	return a.id;
}

static uint32_t load_file(struct client *c, int fd, uint64_t *ret_module)
{
	*ret_module = new_module(c);
	return client_call(
		c, CALL(.type = SIMGPU_MSG_MODULE_CODE, .id = *ret_module), fd, NULL, NULL);
}

static uint32_t load(struct client *c, const char *text, uint64_t *ret_module)
{
	_cleanup_close_ int fd = code_file(text);

	return load_file(c, fd, ret_module);
}

static uint64_t load_ok(struct client *c, const char *text)
{
	uint64_t module;

	assert_int_equal(load(c, text, &module), 0);
	return module;
}

static void launch(struct client *c, uint32_t stream, uint64_t module, uint32_t blocks,
	uint32_t threads, const void *params, uint32_t bytes)
{
	struct simgpu_entry e = {.kind = SIMGPU_OP_KERNEL, .stream = stream};

	e.kernel = (struct simgpu_op_kernel){.kernel = SIMGPU_KERNEL_OTHER,
		.blocks = blocks,
		.threads = threads,
		.blocks_per_sm = 1,
		.param_bytes = bytes,
		.code = module,
		.grid = {blocks, 1, 1},
		.block = {threads, 1, 1}};
	client_put(c, &e, params, bytes);
}

static void begin(struct client *c)
{
	client_connect(c);
	client_context(c, 0, 0, STREAMS);
}

/* Managed memory, which the test reads directly. */
static volatile uint32_t *shared_words(struct client *c, uint64_t *ret_ptr)
{
	struct simgpu_reply a;
	int fd = -1;
	void *p;

	assert_int_equal(client_call(c,
				 CALL(.type = SIMGPU_MSG_MEM_ALLOC, .kind = SIMGPU_MEM_MANAGED,
					 .arg = {4096}),
				 -1, &a, &fd),
		0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	*ret_ptr = a.ptr;
	return p;
}

static const char add_one[] = HEAD
	".visible .entry k(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p];\n"
	"red.global.add.u32 [%a], 1; ret; }\n";

/* A client whose kernels are right: 4 blocks with 64 threads add 1 each. */
static void works(struct client *c, uint64_t module, volatile uint32_t *words, uint64_t ptr)
{
	words[0] = 0;
	launch(c, 0, module, 4, 64, &ptr, 8);
	assert_int_equal(client_sync(c, 0), 0);
	assert_int_equal(words[0], 256);
}

/* ---- memory ---- */

static uint64_t engine_kib(struct client *c, const char *key)
{
	_cleanup_fclose_ FILE *f = NULL;
	struct simgpu_reply a;
	char path[64], line[256];
	uint64_t v = 0;

	assert_int_equal(client_call(c, CALL(.type = SIMGPU_MSG_STATUS), -1, &a, NULL), 0);
	snprintf(path, sizeof(path), "/proc/%llu/status", (unsigned long long)a.arg[0]);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtoull(line + strlen(key) + 1, NULL, 10);
	assert_true(v != 0);
	return v;
}

/* Kernels that want all memory there is. */
static const char much_local[] = HEAD
	".visible .entry k() { .local .b8 big[524288]; .reg .b64 %a, %b; .reg .pred %p;\n"
	"mov.u64 %a, big; add.u64 %b, %a, 524288;\n"
	"L: st.local.u64 [%a], %a; add.u64 %a, %a, 1024; setp.lt.u64 %p, %a, %b; @%p bra L;\n"
	"M: nanosleep.u32 1; bra M; }\n";
static const char deep_calls[] = HEAD
	".func deep() { .reg .b64 %r<512>; mov.u64 %r1, 1; call deep; add.u64 %r2, %r1, 1; ret; }\n"
	".visible .entry k() { call deep; ret; }\n";
static const char large_shared[] = HEAD
	".shared .b8 s[100000000]; .visible .entry k() { .reg .b64 %a; .reg .pred %p;\n"
	"mov.u64 %a, s; st.shared.u32 [s+99999996], 1; M: bra M; }\n";

static void takes_too_much(const char *text, uint32_t blocks, uint32_t threads)
{
	struct client c;

	begin(&c);
	for (uint32_t i = 0; i < STREAMS; i++)
		launch(&c, i, load_ok(&c, text), blocks, threads, NULL, 0);
	assert_int_equal(client_sync(&c, 0), 2); /* CUDA_ERROR_OUT_OF_MEMORY */
	client_close(&c);
}

/* Returns a text whose kernel is large; the caller frees it. */
static char *large_text(size_t bytes)
{
	static const char first[] = HEAD ".visible .entry k() { .reg .b32 %r;\n",
			  piece[] = "add.u32 %r, %r, 1;\n";
	char *text = malloc(bytes + sizeof(first) + sizeof(piece) + 8), *p;

	assert_non_null(text);
	p = stpcpy(text, first);
	while ((size_t)(p - text) < bytes)
		p = stpcpy(p, piece);
	stpcpy(p, "ret; }\n");
	return text;
}

/* Loads modules until the engine refuses one. */
static void loads_too_much(void)
{
	_cleanup_free_ char *text = large_text(1 << 20);
	struct client c;
	uint64_t module;
	uint32_t status, n = 0;

	begin(&c);
	do
		status = load(&c, text, &module);
	while (status == 0 && n++ < 1000);
	assert_int_equal(status, 2); /* CUDA_ERROR_OUT_OF_MEMORY */
	/* what was loaded remains */
	launch(&c, 0, module - 1, 1, 1, NULL, 0);
	assert_int_equal(client_sync(&c, 0), 0);
	client_close(&c);
}

static void test_a_tenant_takes_a_part_of_the_memory(void **state)
{
	struct client good;
	volatile uint32_t *words;
	uint64_t module, ptr;

	setup();
	begin(&good);
	words = shared_words(&good, &ptr);
	module = load_ok(&good, add_one);
	works(&good, module, words, ptr);
	takes_too_much(much_local, 64, 64);
	takes_too_much(deep_calls, 8, 256);
	takes_too_much(large_shared, 8, 32);
	loads_too_much();
	works(&good, module, words, ptr);
	assert_true(engine_kib(&good, "VmHWM:") < (COMPUTE_MIB + OWN_MIB) * 1024);
	client_close(&good);
	client_teardown();
}

static void test_a_tenant_leaves_memory_for_others(void **state)
{
	struct client bad[3], good;
	volatile uint32_t *words;
	uint64_t module, ptr;

	setup();
	/* endless kernels that hold as many blocks as they get */
	for (int i = 0; i < 3; i++) {
		begin(&bad[i]);
		for (uint32_t k = 0; k < STREAMS; k++)
			launch(&bad[i], k, load_ok(&bad[i], much_local), 64, 32, NULL, 0);
	}
	begin(&good);
	words = shared_words(&good, &ptr);
	module = load_ok(&good, add_one);
	for (int i = 0; i < 20; i++)
		works(&good, module, words, ptr);
	for (int i = 0; i < 3; i++)
		client_close(&bad[i]);
	works(&good, module, words, ptr);
	client_close(&good);
	client_teardown();
}

static void new_context(struct client *c, uint32_t context)
{
	struct simgpu_entry e = {.kind = SIMGPU_OP_STREAM_CREATE,
		.context = context,
		.stream = context,
		.stream_new = {.flags = SIMGPU_STREAM_LEGACY}};

	assert_int_equal(client_call(c, CALL(.type = SIMGPU_MSG_CTX_CREATE, .context = context), -1,
				 NULL, NULL),
		0);
	client_put(c, &e, NULL, 0);
}

/* Launches a kernel that prints a text in the program's memory, in a context of its own. */
static void print_in(struct client *c, uint32_t context)
{
	static const char prints[] = HEAD
		".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
		".visible .entry k(.param .u64 f) { .reg .b64 %a; ld.param.u64 %a, [f];\n"
		"{ .param .b64 x; .param .b64 y; .param .b32 z; st.param.b64 [x], %a;\n"
		"st.param.b64 [y], %a; call (z), vprintf, (x, y); } ret; }\n";
	static char text[4000];
	const uint64_t ptr = (uint64_t)(uintptr_t)text;
	_cleanup_close_ int fd = code_file(prints);
	struct simgpu_entry e = {.kind = SIMGPU_OP_KERNEL, .stream = context, .context = context};
	struct simgpu_reply a;

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(
		client_call(c,
			CALL(.type = SIMGPU_MSG_MODULE_LOAD, .context = context, .arg = {4096}), -1,
			&a, NULL),
		0);
	assert_int_equal(
		client_call(c, CALL(.type = SIMGPU_MSG_MODULE_CODE, .context = context, .id = a.id),
			fd, NULL, NULL),
		0);
	e.kernel = (struct simgpu_op_kernel){.kernel = SIMGPU_KERNEL_OTHER,
		.blocks = 1,
		.blocks_per_sm = 1,
		.param_bytes = 8,
		.code = a.id,
		.grid = {1, 1, 1},
		.block = {256, 1, 1}};
	client_put(c, &e, &ptr, 8);
	client_sync(c, context);
}

static void test_printed_text_counts(void **state)
{
	enum { CLIENTS = 12, MIB = 64 };
	static struct client c[CLIENTS];
	struct client good;

	client_setup("1xH200-8Gi", "context_mib=1,compute_mib=64");
	begin(&good);
	/* 96 contexts fill their buffers for text, which have 1 MiB each */
	for (uint32_t i = 0; i < CLIENTS; i++) {
		client_connect(&c[i]);
		for (uint32_t k = 0; k < SIMGPU_MAX_CONTEXTS && k < 8; k++) {
			new_context(&c[i], k);
			print_in(&c[i], k);
		}
	}
	assert_true(engine_kib(&good, "VmHWM:") < (MIB + OWN_MIB) * 1024);
	for (uint32_t i = 0; i < CLIENTS; i++)
		client_close(&c[i]);
	client_close(&good);
	client_teardown();
}

static void test_names_count(void **state)
{
	enum { NAMES = 1 << 20, LOADS_MAX = 64 };
	_cleanup_close_ int variables = names_file(NAMES, 0), kernels = names_file(0, NAMES);
	struct client c;
	uint64_t module;
	uint32_t status, n = 0;

	client_setup("1xH200-8Gi", "context_mib=1,compute_mib=64");
	begin(&c);
	assert_int_equal(load_file(&c, variables, &module), 2); /* CUDA_ERROR_OUT_OF_MEMORY */
	do
		status = load_file(&c, kernels, &module);
	while (status == 0 && n++ < LOADS_MAX);
	assert_int_equal(status, 2);
	assert_true(n > 0);
	/* The end of the modules gives the memory back. */
	client_close(&c);
	begin(&c);
	assert_int_equal(load_file(&c, kernels, &module), 0);
	client_close(&c);
	client_teardown();
}

static void test_memory_of_a_program_is_not_copied_whole(void **state)
{
	const uint64_t bytes = UINT64_C(400) << 20;
	struct simgpu_entry e = {.kind = SIMGPU_OP_MEMSET};
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct client c;

	assert_true(p != MAP_FAILED);
	setup();
	begin(&c);
	e.memset = (struct simgpu_op_memset){.ptr = (uint64_t)(uintptr_t)p,
		.width = bytes / 4,
		.height = 1,
		.value = 0x01020304,
		.elem_bytes = 4};
	client_put(&c, &e, NULL, 0);
	assert_int_equal(client_sync(&c, 0), 0);
	assert_int_equal(p[0], 4);
	assert_int_equal(p[bytes - 1], 1);
	assert_true(engine_kib(&c, "VmHWM:") < (COMPUTE_MIB + OWN_MIB) * 1024);
	client_close(&c);
	client_teardown();
	munmap(p, bytes);
}

/* ---- processors ---- */

static void test_a_translation_does_not_hold_up_others(void **state)
{
	_cleanup_free_ char *text = large_text(24 << 20);
	_cleanup_close_ int fd = code_file(text);
	struct simgpu_request q = {.type = SIMGPU_MSG_MODULE_CODE, .seq = 1000};
	struct client slow, good;
	struct simgpu_reply a;
	volatile uint32_t *words;
	uint64_t module, ptr;

	client_setup("1xTest-1Gi", "context_mib=1,compute_mib=16384");
	begin(&slow);
	begin(&good);
	words = shared_words(&good, &ptr);
	module = load_ok(&good, add_one);
	q.id = new_module(&slow);
	assert_int_equal(fd_send(slow.sock, &q, sizeof(q), &fd, 1, 0), sizeof(q));
	for (int i = 0; i < 3; i++)
		works(&good, module, words, ptr);
	load_ok(&good, add_one);
	/* All this was done while the large module is being translated. */
	assert_int_equal(recv(slow.sock, &a, sizeof(a), MSG_DONTWAIT | MSG_PEEK), -1);
	assert_int_equal(recv(slow.sock, &a, sizeof(a), 0), sizeof(a));
	assert_int_equal(a.status, 0);
	assert_int_equal(a.seq, 1000);

	/* The end of the client ends its translation. */
	q.id = new_module(&slow);
	assert_int_equal(fd_send(slow.sock, &q, sizeof(q), &fd, 1, 0), sizeof(q));
	client_close(&slow);
	works(&good, module, words, ptr);
	client_close(&good);
	client_teardown();
}

/* Counts rounds of 4096 steps until the second word is not 0. */
static const char counts[] = HEAD
	".visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .b32 %i, %s; .reg .pred %p;\n"
	"ld.param.u64 %a, [p];\n"
	"L: mov.u32 %i, 0;\n"
	"M: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 1365; @%p bra M;\n"
	"red.global.add.u32 [%a], 1; ld.volatile.global.u32 %s, [%a+4];\n"
	"setp.eq.u32 %p, %s, 0; @%p bra L; ret; }\n";

static void test_processors_are_shared_between_tenants(void **state)
{
	enum { ROUNDS = 30000 };
	struct client many, one;
	volatile uint32_t *of_many, *of_one;
	uint64_t many_ptr, one_ptr, module, spent, own;

	setup();
	begin(&many);
	begin(&one);
	of_many = shared_words(&many, &many_ptr);
	of_one = shared_words(&one, &one_ptr);
	module = load_ok(&many, counts);
	for (uint32_t i = 0; i < STREAMS; i++)
		launch(&many, i, module, 16, 32, &many_ptr, 8);
	while (of_many[0] < 100)
		usleep(1000);
	launch(&one, 0, load_ok(&one, counts), 16, 32, &one_ptr, 8);
	while (of_one[0] == 0)
		usleep(1000);
	/* A delay of this thread between two reads makes the other tenant's part smaller. */
	own = of_one[0];
	spent = of_many[0];
	while (of_one[0] < ROUNDS)
		usleep(1000);
	spent = of_many[0] - spent;
	own = of_one[0] - own;
	of_many[1] = of_one[1] = 1;
	assert_int_equal(client_sync(&one, 0), 0);
	for (uint32_t i = 0; i < STREAMS; i++)
		assert_int_equal(client_sync(&many, i), 0);
	print_message(
		"# %llu rounds beside %llu\n", (unsigned long long)spent, (unsigned long long)own);
	/* 8 kernels of one tenant get as much as 1 of the other, not 8 times as much */
	assert_true(spent < 2 * own);
	client_close(&many);
	client_close(&one);
	client_teardown();
}

/* ---- memory that never answers ---- */

/* A page whose reader waits for ever; NULL: this machine has no such pages. */
static void *silent_page(int *ret_fd)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || p == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0)
		return NULL;
	range.range.start = (uint64_t)(uintptr_t)p;
	range.range.len = 4096;
	if (ioctl(fd, UFFDIO_REGISTER, &range) < 0)
		return NULL;
	*ret_fd = fd;
	return p;
}

static void test_silent_memory_holds_up_its_owner_alone(void **state)
{
	/* as many threads as wait: one each, in more kernels than there are processors */
	struct client bad[2], good;
	volatile uint32_t *words;
	uint64_t module, ptr, silent;
	struct pollfd fault = {.events = POLLIN};
	void *page = silent_page(&fault.fd);

	if (!page) {
		print_message("# userfaultfd is not available\n");
		skip();
	}
	setup();
	begin(&good);
	words = shared_words(&good, &ptr);
	module = load_ok(&good, add_one);
	silent = (uint64_t)(uintptr_t)page;
	for (int i = 0; i < 2; i++) {
		begin(&bad[i]);
		for (uint32_t k = 0; k < STREAMS; k++)
			launch(&bad[i], k, load_ok(&bad[i], add_one), 8, 32, &silent, 8);
	}
	assert_int_equal(poll(&fault, 1, -1), 1);
	for (int i = 0; i < 20; i++)
		works(&good, module, words, ptr);
	client_alloc(&good, 1 << 20);
	/* The owner ends, but its threads do not. */
	client_close(&bad[0]);
	works(&good, module, words, ptr);
	client_alloc(&good, 1 << 20);
	/* Then the memory answers. */
	munmap(page, 4096);
	close(fault.fd);
	works(&good, module, words, ptr);
	client_close(&bad[1]);
	works(&good, module, words, ptr);
	client_close(&good);
	client_teardown();
}

static void test_the_engine_ends_beside_silent_memory(void **state)
{
	struct client bad;
	struct pollfd fault = {.events = POLLIN};
	void *page = silent_page(&fault.fd);
	uint64_t silent = (uint64_t)(uintptr_t)page;

	if (!page)
		skip();
	setup();
	begin(&bad);
	launch(&bad, 0, load_ok(&bad, add_one), 8, 32, &silent, 8);
	assert_int_equal(poll(&fault, 1, -1), 1);
	client_teardown();
	client_close(&bad);
	munmap(page, 4096);
	close(fault.fd);
}

UNIT_MAIN(UNIT(test_a_tenant_takes_a_part_of_the_memory),
	UNIT(test_a_tenant_leaves_memory_for_others), UNIT(test_printed_text_counts),
	UNIT(test_names_count), UNIT(test_memory_of_a_program_is_not_copied_whole),
	UNIT(test_a_translation_does_not_hold_up_others),
	UNIT(test_processors_are_shared_between_tenants),
	UNIT(test_silent_memory_holds_up_its_owner_alone),
	UNIT(test_the_engine_ends_beside_silent_memory))
