/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads /proc/locks and keeps the start offsets of all ranges that open file descriptions
 * have locked, sorted. Requests that still wait for a lock are skipped. /proc/locks may have at
 * most LOCKS_MAX bytes. No state; any thread.
 */
#include "base/open-locks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/fd.h"

#define LOCKS_MAX (16u << 20) /* bytes of /proc/locks */

/*
 * Parses a line such as "7: OFDLCK ADVISORY READ -1 00:0f:1234 START END". A request that still
 * waits for its lock has "->" before OFDLCK, and is skipped.
 */
static bool open_locks_parse_line(struct str line, uint64_t *ret_start)
{
	char text[128];
	uint64_t start, end;

	if (str_copy(text, sizeof(text), line) < 0 ||
		sscanf(text, "%*[0-9]: OFDLCK %*s %*s %*d %*s %" SCNu64 " %" SCNu64, &start,
			&end) != 2)
		return false;
	*ret_start = start;
	return true;
}

static int open_locks_compare(const void *a, const void *b)
{
	const uint64_t *p = a, *q = b;

	return (*p > *q) - (*p < *q);
}

int open_locks_parse(struct str text, struct open_locks *ret)
{
	struct open_locks found = {0};
	struct str rest = text, line;
	uint32_t room = 0;
	uint64_t start;

	while (str_split(&rest, '\n', &line)) {
		if (!open_locks_parse_line(line, &start))
			continue;
		if (array_grow(&found.starts, &room, found.n + 1, sizeof(start)) < 0) {
			open_locks_done(&found);
			return -ENOMEM;
		}
		found.starts[found.n++] = start;
	}
	if (found.n)
		qsort(found.starts, found.n, sizeof(*found.starts), open_locks_compare);
	*ret = found;
	return 0;
}

int open_locks_read(struct open_locks *ret)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LOCKS_MAX);
	int r = file_read("/proc/locks", &text, NULL);

	return r < 0 ? r : open_locks_parse(buf_str(&text), ret);
}

bool open_locks_has(const struct open_locks *locks, uint64_t start)
{
	return locks->n &&
		bsearch(&start, locks->starts, locks->n, sizeof(*locks->starts),
			open_locks_compare);
}

void open_locks_done(struct open_locks *locks)
{
	free(locks->starts);
	*locks = (struct open_locks){0};
}
