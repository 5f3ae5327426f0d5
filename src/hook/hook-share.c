/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See hook-share.h. A tag must travel with each exported descriptor, and must also work for the
 * driver's files, which share one inode. The tag is a lock of the open file description
 * (F_OFD_SETLK) on a range that encodes number and size. A process that has the descriptor reads
 * the tag in /proc/self/fdinfo. An epoll set shows when all copies of a descriptor are closed,
 * because the kernel then removes the description from the set.
 *
 * share_lock orders the changes of each number. A thread may hold share_lock while it waits for the
 * daemon's answer, but not over a driver call, and takes it after deferred_lock. The helper thread
 * receives the answers, so it must never wait for share_lock.
 */
#include "hook/hook-share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "hook/hook-memory.h"
#include "hook/system.h"

#define FD_HIGH 500
#define ID_MASK ((UINT64_C(1) << 62) - 1) /* a lock's range must end below 2^63 */
#define TEXT_BYTES 4096
#define LINE_BYTES 256 /* bytes; a line of fdinfo has about 100 */

/* ---- numbers ---- */

static uint64_t share_hash_id(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t share_id_new(void)
{
	uint64_t id = 0;

	if (syscall(SYS_getrandom, &id, sizeof id, 1 /* GRND_NONBLOCK */) != sizeof id)
		id = share_hash_id(clock_now_ns() ^ (uint64_t)getpid() << 40);
	return (id & ID_MASK) | 1;
}

uint64_t share_id_of(const void *handle)
{
	uint64_t id = 0, part;

	for (size_t i = 0; i < 64; i += sizeof part) {
		memcpy(&part, (const char *)handle + i, sizeof part);
		id = share_hash_id(id * 31 + part + i);
	}
	return (id & ID_MASK) | 1;
}

/* ---- the charge ---- */

/* Charges the memory to this process's slot, because no daemon counts shared memory. */
static int hold_here(struct device *d, struct memory_record *record, enum share_charge charge)
{
	record->flags |= MEMORY_LOCAL;
	if (charge == SHARE_NEW)
		return memory_charge_once(d, record->pages);
	if (charge == SHARE_ANYWAY)
		memory_charge_anyway(d, record->pages);
	return 0;
}

/* Called for this process's first hold on the memory. */
static int hold_first(
	struct hook *h, struct device *d, struct memory_record *record, enum share_charge charge)
{
	int r = session_share(h, MSG_MEM_SHARE, d, record->key, record->pages * PAGE_MEM_UNIT,
		charge == SHARE_NEW ? 0 : MSG_SHARE_HELD, true);

	if (r == -ENOMEM)
		return r;
	if (r)
		r = hold_here(d, record, charge);
	else if (charge == SHARE_CHARGED)
		memory_hand_over(d, record->pages);
	if (!r)
		memory_put(record); /* if the table cannot grow, the charge stays */
	return r;
}

static int share_hold_charge(
	struct hook *h, struct device *d, struct memory_record *fresh, enum share_charge charge)
{
	struct memory_record record;
	int r = 0;

	lock_take(&h->share_lock);
	if (!memory_change(MEMORY_SHARE, fresh->key, 1, 0, 0, &record))
		r = hold_first(h, d, fresh, charge);
	else if (charge == SHARE_CHARGED)
		memory_uncharge(d, fresh->pages);
	lock_drop(&h->share_lock);
	return r;
}

int share_hold(struct device *d, uint64_t id, uint64_t pages, enum share_charge charge)
{
	struct hook *h = hook_registered();
	struct memory_record fresh = {
		.kind = MEMORY_SHARE,
		.key = id,
		.pages = pages,
		.refs = 1,
	};
	int saved = errno, r;

	if (!h || !pages)
		return 0;
	fresh.device = (uint8_t)d->index;
	session_helper_start(h);
	/*
	 * memory_make_room() also releases shared memory under share_lock, so this thread must not
	 * hold the lock
	 */
	r = share_hold_charge(h, d, &fresh, charge);
	if (r == -ENOMEM && memory_make_room(d, MEMORY_ENDED))
		r = share_hold_charge(h, d, &fresh, charge);
	if (r == -ENOMEM && memory_make_room(d, MEMORY_WAIT))
		r = share_hold_charge(h, d, &fresh, charge);
	if (r == -ENOMEM)
		atomic_fetch_add_explicit(&d->up->denied, 1, memory_order_relaxed);
	errno = saved;
	return r;
}

/* The caller holds share_lock. */
static void share_drop_charge(struct hook *h, struct device *d, uint64_t id, bool waits)
{
	struct memory_record record;

	if (!memory_change(MEMORY_SHARE, id, -1, 0, 0, &record) || record.refs ||
		!memory_take(MEMORY_SHARE, id, &record))
		return;
	if (record.flags & MEMORY_LOCAL)
		memory_uncharge(d, record.pages);
	else if (session_share(h, MSG_MEM_UNSHARE, d, id, 0, 0, waits) == -EAGAIN)
		session_share(h, MSG_MEM_UNSHARE, d, id, 0, 0, false);
}

void share_drop(struct device *d, uint64_t id)
{
	struct hook *h = hook_registered();
	int saved = errno;

	if (!h)
		return;
	lock_take(&h->share_lock);
	share_drop_charge(h, d, id, true);
	lock_drop(&h->share_lock);
	errno = saved;
}

uint64_t share_size(uint64_t id)
{
	struct memory_record record;

	return memory_get(MEMORY_SHARE, id, &record) ? record.pages : 0;
}

struct sum {
	const struct device *device;
	uint64_t pages;
};

static void share_add_record(struct memory_record *record, void *arg)
{
	struct sum *sum = arg;

	/* MEMORY_LOCAL: the memory is charged in the process's slot already. */
	if (record->device == sum->device->index && !(record->flags & MEMORY_LOCAL))
		sum->pages += record->pages;
}

uint64_t share_pages(const struct device *d)
{
	struct sum sum = {.device = d};

	memory_each(MEMORY_SHARE, share_add_record, &sum);
	return sum.pages;
}

struct again {
	struct hook *h;
	/* by device: pages that are charged to this process's slot from now on */
	uint64_t pages[MSG_DEVICES];
};

static void share_report_again(struct memory_record *record, void *arg)
{
	struct again *again = arg;
	struct device *d = &again->h->device[record->device];

	if (record->flags & MEMORY_LOCAL)
		return;
	if (session_share(again->h, MSG_MEM_SHARE, d, record->key, record->pages * PAGE_MEM_UNIT,
		    MSG_SHARE_HELD, false)) {
		record->flags |= MEMORY_LOCAL;
		again->pages[record->device] += record->pages;
	}
}

void share_again(struct hook *h)
{
	struct again again = {.h = h};

	memory_each(MEMORY_SHARE, share_report_again, &again);
	for (uint32_t i = 0; i < h->devices; i++)
		memory_charge_anyway(&h->device[i], again.pages[i]);
}

/* ---- descriptors ---- */

int share_raise_fd(int fd)
{
	int high = fd < 0 ? fd : fd_control(fd, F_DUPFD_CLOEXEC, FD_HIGH);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

static int open_info(int fd)
{
	char path[40];

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/*
 * Calls fn for each line of a file of fdinfo until fn returns false. Returns false if the file
 * could not be read to its end.
 */
static bool each_line(int fd, bool (*fn)(char *line, void *arg), void *arg)
{
	char text[TEXT_BYTES + 1];
	size_t n = 0;
	ssize_t got = fd < 0 ? -1 : 1;
	bool goes_on = fd >= 0;

	while (goes_on && (got = read(fd, text + n, TEXT_BYTES - n)) > 0) {
		char *line = text, *end;

		n += (size_t)got;
		text[n] = '\0';
		while (goes_on && (end = memchr(line, '\n', (size_t)(text + n - line)))) {
			*end = '\0';
			goes_on = fn(line, arg);
			line = end + 1;
		}
		n -= (size_t)(line - text);
		if (n >= TEXT_BYTES - LINE_BYTES)
			n = 0; /* drops a line that is longer than any line of fdinfo */
		memmove(text, line, n);
	}
	if (fd >= 0)
		close(fd);
	return got >= 0;
}

struct tag {
	uint64_t id, pages;
};

/* "lock: 1: OFDLCK  ADVISORY  READ -1 00:0f:1234 START END" */
static bool read_tag(char *line, void *arg)
{
	struct tag *tag = arg;
	char *last = strrchr(line, ' '), *first, *end;
	uint64_t from, to;

	if (strncmp(line, "lock:", 5) || !strstr(line, "OFDLCK") || !last)
		return true;
	to = strtoull(last + 1, &end, 10);
	if (end == last + 1 || *end)
		return true;
	*last = '\0';
	first = strrchr(line, ' ');
	from = first ? strtoull(first + 1, NULL, 10) : 0;
	if (!from || from > ID_MASK || to < from)
		return true;
	*tag = (struct tag){from, to - from + 1};
	return false;
}

bool share_read(int fd, uint64_t *ret_id, uint64_t *ret_pages)
{
	struct tag tag = {0};
	int saved = errno;

	each_line(open_info(fd), read_tag, &tag);
	errno = saved;
	if (!tag.id)
		return false;
	*ret_id = tag.id;
	*ret_pages = tag.pages;
	return true;
}

static void write_tag(int fd, uint64_t id, uint64_t pages)
{
	int access = fd_control(fd, F_GETFL, 0) & O_ACCMODE;
	struct flock lock = {
		.l_type = access == O_WRONLY ? F_WRLCK : F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)id,
		.l_len = (off_t)pages,
	};

	fd_control(fd, F_OFD_SETLK, (long)(uintptr_t)&lock);
}

/* ---- the open descriptors ---- */

/*
 * Programs close unknown descriptors and reuse their numbers. So the epoll set of exported
 * descriptors contains a mark that no program's own set has. If the mark is missing, the descriptor
 * is not this library's set any more.
 */
static int share_open_set(struct hook *h)
{
	struct epoll_event ev = {.events = 0};
	int set, mark;

	if (h->share_set >= 0 && h->share_mark)
		return h->share_set;
	set = share_raise_fd(epoll_create1(EPOLL_CLOEXEC));
	mark = share_raise_fd(eventfd(0, EFD_CLOEXEC));
	ev.data.u64 = share_id_new() & ~UINT64_C(1); /* keys of exports are odd */
	if (set < 0 || mark < 0 || epoll_ctl(set, EPOLL_CTL_ADD, mark, &ev)) {
		if (set >= 0)
			close(set);
		if (mark >= 0)
			close(mark);
		return -1;
	}
	h->share_set = set;
	h->share_mark = ev.data.u64;
	return set;
}

/*
 * A descriptor that cannot be watched counts as open until the process ends. The caller holds
 * share_lock.
 */
static void share_watch_fd(struct hook *h, struct device *d, uint64_t id, int fd)
{
	struct epoll_event ev = {.events = 0};
	struct memory_record record = {
		.kind = MEMORY_EXPORT,
		.key = share_id_new(),
		.device = (uint8_t)d->index,
		.share = id,
	};
	int set = share_open_set(h);

	ev.data.u64 = record.key;
	if (set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) && memory_put(&record))
		atomic_fetch_add(&h->share_exports, 1);
}

void share_export(struct device *d, uint64_t id, uint64_t pages, int fd)
{
	struct hook *h = hook_registered();
	struct memory_record record;
	int saved = errno;

	if (!h)
		return;
	lock_take(&h->share_lock);
	write_tag(fd, id, pages);
	if (memory_change(MEMORY_SHARE, id, 1, 0, 0, &record))
		share_watch_fd(h, d, id, fd);
	lock_drop(&h->share_lock);
	errno = saved;
}

struct look {
	struct hook *h;
	uint64_t round;
	bool is_marked;
};

static bool note_open(char *line, void *arg)
{
	struct look *look = arg;
	char *at = strstr(line, "data:");
	uint64_t key = at ? strtoull(at + 5, NULL, 16) : 0;

	if (strncmp(line, "tfd:", 4) || !key)
		return true;
	if (key == look->h->share_mark)
		look->is_marked = true;
	else
		memory_stamp(MEMORY_EXPORT, key, look->round);
	return true;
}

static bool is_closed(const struct memory_record *record, const void *round)
{
	return record->kind == MEMORY_EXPORT && record->bytes != *(const uint64_t *)round;
}

/* The caller holds share_lock. */
static bool share_settle_charges(struct hook *h, bool waits)
{
	struct look look = {.h = h, .round = ++h->share_round};
	struct memory_record record;
	bool given = false;

	if (!each_line(open_info(h->share_set), note_open, &look) || !look.is_marked) {
		/*
		 * The program has closed the epoll set and may have reused its descriptor number.
		 * So all exported descriptors count as open until the process ends.
		 */
		h->share_mark = 0;
		atomic_store(&h->share_exports, 0);
		while (memory_take_if(is_closed, &look.round, &record))
			;
		return false;
	}
	while (memory_take_if(is_closed, &look.round, &record)) {
		atomic_fetch_sub(&h->share_exports, 1);
		share_drop_charge(h, &h->device[record.device], record.share, waits);
		given = true;
	}
	return given;
}

static bool try_settle(struct hook *h, bool waits)
{
	int saved = errno;
	bool given;

	if (!h || !atomic_load(&h->share_exports) || !lock_try(&h->share_lock))
		return false;
	given = share_settle_charges(h, waits);
	lock_drop(&h->share_lock);
	errno = saved;
	return given;
}

bool share_settle(void)
{
	return try_settle(hook_registered(), true);
}

void share_look(struct hook *h)
{
	try_settle(h, false);
}
