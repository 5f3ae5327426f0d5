/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes each file as a header block of 512 bytes, its data, and zeros up to the next
 * block. Numbers in a header are octal text, and two blocks of zeros end the archive. tar_add()
 * leaves no partial file in the archive, and leaves room for the end. tar_add() checks the room
 * before it writes, because a buffer that was too small once refuses all later text.
 */
#include "cli/tar.h"

#include <errno.h>
#include <stdio.h>

#define BLOCK 512u
#define END (2 * BLOCK)

/* All fields are text. Numbers are octal, with a 0 byte at the end. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], padding[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static int add_zeros(struct buf *out, size_t n)
{
	static const char zeros[BLOCK];

	return buf_add(out, (struct str){zeros, n});
}

/* The checksum adds all bytes, with the checksum field itself as spaces. */
static void tar_set_checksum(struct header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	unsigned sum = 0;

	memset(h->checksum, ' ', sizeof(h->checksum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += p[i];
	snprintf(h->checksum, sizeof(h->checksum), "%06o", sum & 0777777u);
}

int tar_add(struct buf *out, const char *name, struct str data, uint64_t mtime_s, struct error *err)
{
	struct header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
	const size_t n = strlen(name), before = out->n, rest = (BLOCK - data.n % BLOCK) % BLOCK;

	if (!n || name[0] == '/')
		return fail(err, EINVAL, "'%.80s': expected the path of a file within the archive",
			name);
	if (n >= TAR_NAME_MAX)
		return fail(err, ENAMETOOLONG,
			"name '%.80s...' has %zu bytes; fewer than %u are allowed", name, n,
			TAR_NAME_MAX);
	if (data.n > TAR_FILE_MAX)
		return fail(err, EFBIG, "'%s' has %zu bytes; at most %u are allowed", name, data.n,
			TAR_FILE_MAX);
	if (out->max - out->n < BLOCK + data.n + rest + END)
		return fail(err, EMSGSIZE, "'%s' makes the archive larger than %zu bytes", name,
			out->max);
	memcpy(h.name, name, n);
	snprintf(h.mode, sizeof(h.mode), "%07o", 0600u);
	snprintf(h.uid, sizeof(h.uid), "%07o", 0u);
	snprintf(h.gid, sizeof(h.gid), "%07o", 0u);
	snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)data.n);
	snprintf(
		h.mtime, sizeof(h.mtime), "%011llo", (unsigned long long)mtime_s & 077777777777ull);
	tar_set_checksum(&h);
	buf_add(out, (struct str){(const char *)&h, sizeof(h)});
	buf_add(out, data);
	add_zeros(out, rest);
	if (buf_error(out) < 0) {
		buf_truncate(out, before);
		return fail(err, -buf_error(out), "out of memory for '%s'", name);
	}
	return 0;
}

int tar_end(struct buf *out)
{
	add_zeros(out, BLOCK);
	return add_zeros(out, BLOCK);
}
