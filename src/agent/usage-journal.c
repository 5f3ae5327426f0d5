/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usage journal: see usage-journal.h. The file has its full length from the start and consists
 * of holes. A slot's blocks are allocated before its first write, because a write to a hole on a
 * full file system would raise SIGBUS.
 */
#include "agent/usage-journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/tenant.h"
#include "base/fd.h"

#define USAGE_JOURNAL_MAGIC 0x796c6174u /* "taly" */
#define USAGE_JOURNAL_ABI 1u
#define SLOT_BYTES 256u
/* Ended tenants keep their slots for the seconds until reports are written. */
#define SLOTS (2u * TENANTS_MAX)

union slot {
	struct usage_journal_slot tenant;
	struct {
		uint32_t magic, abi;
		_Atomic uint32_t n; /* slots with disk blocks; further ones are not read */
	} head;                     /* only in slot 0 */
	uint8_t bytes[SLOT_BYTES];
};
_Static_assert(sizeof(union slot) == SLOT_BYTES, "a tenant fits its slot");

struct usage_journal {
	int fd;
	struct map map;
	union slot *slots; /* slots 1 and up */
};

static int give_blocks(const struct usage_journal *t, uint32_t n)
{
	return -posix_fallocate(t->fd, 0, (off_t)(n + 1) * SLOT_BYTES);
}

static int map_file(struct usage_journal *t, const char *path)
{
	const off_t size = (off_t)SLOTS * SLOT_BYTES;
	union slot *head;
	uint32_t n = 0;
	int r;

	t->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (t->fd < 0 || ftruncate(t->fd, size) < 0)
		return -errno;
	r = give_blocks(t, 0);
	if (r >= 0)
		r = map_fd(t->fd, (size_t)size, PROT_READ | PROT_WRITE, &t->map);
	if (r < 0)
		return r;
	t->slots = head = t->map.p;
	if (head->head.magic == USAGE_JOURNAL_MAGIC && head->head.abi == USAGE_JOURNAL_ABI)
		n = MIN(head->head.n, SLOTS - 1);
	else /* new, or of another version: no slot is read */
		head->head.n = 0;
	head->head.abi = USAGE_JOURNAL_ABI;
	head->head.magic = USAGE_JOURNAL_MAGIC;
	return give_blocks(t, n);
}

int usage_journal_open(
	const char *runtime_dir, struct usage_journal **ret_journal, struct error *err)
{
	struct usage_journal *t = calloc(1, sizeof(*t));
	char path[PATH_MAX];
	int r;

	if (!t)
		return fail(err, ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "%s/tally", runtime_dir);
	r = map_file(t, path);
	if (r < 0) {
		usage_journal_close(t);
		return fail_errno(err, -r, "map '%s'", path);
	}
	*ret_journal = t;
	return 0;
}

void usage_journal_close(struct usage_journal *t)
{
	if (!t)
		return;
	map_done(&t->map);
	fd_close(t->fd);
	free(t);
}

struct usage_journal_slot *usage_journal_take_slot(struct usage_journal *t)
{
	const uint32_t n = t ? t->slots[0].head.n : SLOTS;
	uint32_t i = 1;

	while (i <= n && i < SLOTS && t->slots[i].tenant.id)
		i++;
	if (i >= SLOTS || (i > n && give_blocks(t, i) < 0))
		return NULL;
	memset(&t->slots[i], 0, sizeof(t->slots[i]));
	t->slots[0].head.n = MAX(n, i);
	return &t->slots[i].tenant;
}

void usage_journal_give_slot(struct usage_journal_slot *slot)
{
	if (slot)
		slot->id = 0;
}

struct usage_journal_slot *usage_journal_next_slot(
	struct usage_journal *t, const struct usage_journal_slot *slot)
{
	uint32_t i = slot ? (uint32_t)((const union slot *)(const void *)slot - t->slots) : 0;

	while (t && ++i < SLOTS && i <= t->slots[0].head.n)
		if (t->slots[i].tenant.id)
			return &t->slots[i].tenant;
	return NULL;
}
