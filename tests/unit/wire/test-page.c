/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of the shared pages. page.h itself asserts the offsets. These tests check that no two
 * writers share a cache line, that packed words are read back, and that docs/shared-memory.md is
 * right.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "wire/page.h"

#define PLACE(type, member) \
	{ \
#type "." #member, offsetof(struct type, member) \
	}

static const struct {
	const char *name;
	size_t offset;
} places[] = {
	PLACE(page_down, magic),
	PLACE(page_down, abi),
	PLACE(page_down, device),
	PLACE(page_down, size),
	PLACE(page_down, process),
	PLACE(page_down, uuid),
	PLACE(page_down, daemon_epoch),
	PLACE(page_down, gate),
	PLACE(page_down, flags),
	PLACE(page_down, window_us),
	PLACE(page_down, grant),
	PLACE(page_down, flush),
	PLACE(page_down, quota_bytes),
	PLACE(page_down, context_bytes),
	PLACE(page_down, device_bytes),
	PLACE(page_up, magic),
	PLACE(page_up, pid),
	PLACE(page_up, start_time),
	PLACE(page_up, want),
	PLACE(page_up, slots),
	PLACE(page_up, lines),
	PLACE(page_up, flush_seen),
	PLACE(page_up, flushed),
	PLACE(page_up, segment_ns),
	PLACE(page_up, longest_ns),
	PLACE(page_up, queued_ns),
	PLACE(page_up, queued_at_ns),
	PLACE(page_up, contexts),
	PLACE(page_up, captures),
	PLACE(page_up, memory),
	PLACE(page_up, markers),
	PLACE(page_up, blocked_ns),
	PLACE(page_up, spread_ns),
	PLACE(page_up, denied),
	PLACE(page_up, done),
	PLACE(page_up, issued),
	PLACE(page_up, line),
	PLACE(page_line, in_launch),
	PLACE(page_line, tid),
	PLACE(page_line, submitted),
	PLACE(page_memory, settled),
	PLACE(page_memory, intent_pages),
	PLACE(page_memory, intent_seq),
	PLACE(page_tenant, magic),
	PLACE(page_tenant, word),
	PLACE(page_tenant, applied),
};

/* docs/shared-memory.md has each field as "| 72 | window_us |" under the heading of its struct. */
static void docs_have_the_right_offsets(void **state)
{
	const char *source = getenv("DIVVY_SOURCE");
	char path[512], line[256], section[64] = "";
	bool found[ARRAY_SIZE(places)] = {false};
	FILE *file;

	if (!source)
		skip();
	snprintf(path, sizeof(path), "%s/docs/shared-memory.md", source);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		char member[64];
		size_t offset;

		if (sscanf(line, "## struct %63s", member) == 1)
			snprintf(section, sizeof(section), "%s", member);
		if (sscanf(line, "| %zu | `%63[^`]`", &offset, member) != 2)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
			char name[160];

			snprintf(name, sizeof(name), "%s.%s", section, member);
			if (strcmp(name, places[i].name))
				continue;
			if (offset != places[i].offset)
				fail_msg("%s is at %zu, docs say %zu", name, places[i].offset,
					offset);
			found[i] = true;
		}
	}
	fclose(file);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!found[i])
			fail_msg("%s is not in docs/shared-memory.md", places[i].name);
}

static void one_writer_per_line(void **state)
{
	assert_int_equal(offsetof(struct page_down, gate) % PAGE_LINE, 0);
	assert_int_equal(offsetof(struct page_up, want) % PAGE_LINE, 0);
	assert_int_equal(offsetof(struct page_up, memory) % PAGE_LINE, 0);
	assert_int_equal(offsetof(struct page_tenant, word) % PAGE_LINE, 0);
	assert_true(offsetof(struct page_tenant, applied) - offsetof(struct page_tenant, word) >=
		PAGE_LINE);
	assert_int_equal(sizeof(struct page_line), PAGE_LINE);
	/*
	 * The device writes `done`, whose page is registered with the driver and holds nothing
	 * else.
	 */
	assert_int_equal(offsetof(struct page_up, done) % 4096, 0);
	assert_int_equal(offsetof(struct page_up, issued) - offsetof(struct page_up, done), 4096);
}

static void packed_words_are_read_back(void **state)
{
	struct rand rand = rand_seeded(3);

	for (int i = 0; i < 10000; i++) {
		uint64_t pages = rand_below(&rand, UINT64_C(1) << 36);
		uint32_t process = (uint32_t)rand_below(&rand, PAGE_PROCESSES);
		uint32_t seq = (uint32_t)rand_below(&rand, PAGE_WORD_SEQ_MASK + 1);
		uint64_t word = page_word(pages, process, seq);
		uint64_t settled = page_settled(pages, seq);

		assert_true(page_word_pages(word) == pages);
		assert_int_equal(page_word_process(word), process);
		assert_int_equal(page_word_seq(word), seq);
		assert_true(page_settled_pages(settled) == pages);
		assert_int_equal(page_settled_seq(settled), seq);
	}
}

UNIT_MAIN(UNIT(docs_have_the_right_offsets), UNIT(one_writer_per_line),
	UNIT(packed_words_are_read_back))
