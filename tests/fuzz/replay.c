/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without a fuzzer: on every file of a folder, and on copies of each file with
 * bytes changed, removed and doubled. Each run makes the same copies. usage: replay CORPUS
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/rand.h"
#include "fuzz.h"

#define INPUT_MAX_BYTES 65536
#define CHANGED_COPIES 2000

/*
 * Runs the target on a heap copy of exactly the input's size, so that a sanitizer reports a read
 * beyond the end.
 */
static void run(struct str input)
{
	_cleanup_free_ char *copy = str_dup(input);

	if (copy)
		LLVMFuzzerTestOneInput((const uint8_t *)copy, input.n);
}

static void change(struct buf *b, struct rand *rand)
{
	size_t at = rand_below(rand, b->n);
	size_t n = rand_below(rand, MIN(b->n - at, (size_t)8)) + 1;

	switch (rand_below(rand, 4)) {
	case 0: b->p[at] = (char)rand_u64(rand); break;
	case 1: b->p[at] = (char)(b->p[at] ^ 1 << rand_below(rand, 8)); break;
	case 2:
		memmove(b->p + at, b->p + at + n, b->n - at - n);
		b->n -= n;
		break;
	case 3:
		if (buf_reserve(b, n) == 0) {
			memmove(b->p + at + n, b->p + at, b->n - at);
			b->n += n;
		}
		break;
	}
}

static int run_file(const char *path, struct rand *rand)
{
	_cleanup_buf_ struct buf input = BUF_INIT(INPUT_MAX_BYTES);
	_cleanup_buf_ struct buf changed = BUF_INIT(2 * INPUT_MAX_BYTES);
	struct error err;
	uint64_t left;
	int i;

	if (file_read(path, &input, &err) < 0) {
		fprintf(stderr, "replay: %s\n", err.msg);
		return -1;
	}
	run(buf_str(&input));
	for (i = 0; i < CHANGED_COPIES; i++) {
		buf_clear(&changed);
		buf_add(&changed, buf_str(&input));
		for (left = 1 + rand_below(rand, 4); left && changed.n; left--)
			change(&changed, rand);
		run(buf_str(&changed));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct rand rand = rand_seeded(1);
	struct dirent *entry;
	char path[4096];
	int files = 0;
	DIR *dir;

	dir = argc == 2 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr, "replay: cannot open the corpus; usage: replay CORPUS\n");
		return 1;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		if (run_file(path, &rand) < 0)
			return 1;
		files++;
	}
	closedir(dir);
	printf("%d inputs, %d changed copies of each\n", files, CHANGED_COPIES);
	return files ? 0 : 1;
}
