/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images by their hash: the hash itself, the stored images, and that a worker stores no wrong
 * image.
 */
#include "unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "remote/store.h"
#include "remote/worker.h"

static void assert_hash(const void *p, size_t n, const char *hex)
{
	uint8_t want[SHA256_BYTES], got[SHA256_BYTES];

	assert_int_equal(parse_hex(str_from(hex), want, sizeof(want), NULL), 0);
	sha256(p, n, got);
	assert_memory_equal(got, want, sizeof(got));
}

/* The examples of FIPS 180-4, and each way in which the last block can end. */
static void a_hash_is_sha256(void **state)
{
	static uint8_t many[1000000];

	memset(many, 'a', sizeof(many));
	assert_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	assert_hash(many, sizeof(many),
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	assert_hash(many, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
	assert_hash(many, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

/* Sends a request whose fields are these bytes. */
static CUresult ask(struct serve *s, unsigned op, const void *p, size_t n)
{
	static uint8_t frame[4096];
	struct remote_frame head = {
		.size = (uint32_t)((sizeof(head) + n + 15) & ~(size_t)15), .op = (uint16_t)op};

	memset(frame, 0, sizeof(frame));
	memcpy(frame + sizeof(head), p, n);
	return worker_dispatch(s, &head, frame);
}

static CUresult send_bytes(struct serve *s, const char *text)
{
	uint8_t fields[256] = {0};
	const uint64_t n = strlen(text);

	memcpy(fields, &n, sizeof(n));
	memcpy(fields + sizeof(n), text, n);
	return ask(s, REMOTE_BLOB, fields, sizeof(n) + n);
}

static void a_worker_stores_only_checked_images(void **state)
{
	uint8_t right[SHA256_BYTES], wrong[SHA256_BYTES];
	struct serve s;
	size_t n = 0;
	int fd = store_new();

	assert_true(fd >= 0);
	assert_ok(serve_init(&s));
	sha256("an image", 8, right);
	sha256("another image", 13, wrong);
	/* Without a store, the worker knows and stores no image. */
	assert_int_equal(send_bytes(&s, "an image"), CUDA_SUCCESS);
	assert_int_equal(ask(&s, REMOTE_BLOB_NAMED, right, sizeof(right)), CUDA_SUCCESS);
	assert_int_equal(ask(&s, REMOTE_BLOB_KNOWN, right, sizeof(right)), CUDA_ERROR_NOT_FOUND);
	assert_ok(store_open(fd));
	assert_int_equal(send_bytes(&s, "an image"), CUDA_SUCCESS);
	assert_int_equal(
		ask(&s, REMOTE_BLOB_NAMED, wrong, sizeof(wrong)), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(s.blob_bytes, 0);
	assert_null(store_find(wrong, &n));
	assert_null(store_find(right, &n));
	assert_int_equal(send_bytes(&s, "an "), CUDA_SUCCESS);
	assert_int_equal(send_bytes(&s, "image"), CUDA_SUCCESS);
	assert_int_equal(ask(&s, REMOTE_BLOB_NAMED, right, sizeof(right)), CUDA_SUCCESS);
	assert_memory_equal(store_find(right, &n), "an image", 8);
	assert_int_equal(n, 8);
	/* Half a hash is invalid. */
	assert_int_equal(ask(&s, REMOTE_BLOB_KNOWN, right, 16), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ask(&s, REMOTE_BLOB_KNOWN, right, sizeof(right)), CUDA_SUCCESS);
	assert_int_equal(s.blob_bytes, 8);
	assert_memory_equal(s.blob, "an image", 8);
	serve_done(&s);
	fd_close(fd);
}

static void processes_share_the_store_and_it_has_a_limit(void **state)
{
	uint8_t hash[SHA256_BYTES] = {1};
	int fd = store_new(), status;
	size_t n = 0;
	pid_t pid;

	assert_true(fd >= 0);
	assert_ok(store_open(fd));
	pid = fork();
	if (pid == 0) {
		store_add(hash, "of another", 10);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_memory_equal(store_find(hash, &n), "of another", 10);
	/* A stored image stays as it is. */
	store_add(hash, "something else", 14);
	assert_memory_equal(store_find(hash, &n), "of another", 10);
	assert_int_equal(n, 10);
	hash[1] = 1;
	/* The image does not fit: store_add() reads no byte of it. */
	store_add(hash, "", STORE_BYTES);
	assert_null(store_find(hash, &n));
	store_add(hash, "small", 5);
	assert_int_equal(store_find(hash, &n) != NULL && n == 5, 1);
	fd_close(fd);
}

UNIT_MAIN(UNIT(a_hash_is_sha256), UNIT(a_worker_stores_only_checked_images),
	UNIT(processes_share_the_store_and_it_has_a_limit))
